//! Runs cc/vectors/*.json: scripted hooks, and the exact windows that must come out.

use std::path::{Path, PathBuf};

use polypath_cc as cc;
use polypath_vectors::{self as script, Case, File};

#[test]
fn every_vector_gives_exactly_its_windows() {
    let mut seen = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("vectors are readable");
        let file: File = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let algorithm = cc::find(&file.algorithm).unwrap_or_else(|| panic!("{}: no algorithm {:?}", path.display(), file.algorithm));
        assert_eq!(path.file_stem().and_then(|s| s.to_str()), Some(algorithm.name()));
        for case in &file.cases {
            run(algorithm, case);
        }
        seen.push(algorithm);
    }
    for algorithm in cc::all() {
        assert!(seen.contains(&algorithm), "cc/vectors has no file for {algorithm:?}");
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cc/vectors");
    let mut files: Vec<PathBuf> = folder.read_dir().expect("cc/vectors exists").map(|e| e.expect("a readable folder").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.sort();
    files
}

fn run(algorithm: cc::Algorithm, case: &Case) {
    let place = |step: usize| format!("{} '{}' step {}", algorithm.name(), case.name, step + 1);
    let mut flow = script::first_flow(case);
    let siblings = case.siblings.as_ref().map(script::view);
    let siblings = siblings.as_ref();
    let mut controller = algorithm.start();
    controller.init(&mut flow, siblings);
    let mut sample = cc::Sample::default();
    for (index, step) in case.steps.iter().enumerate() {
        let mut result = 0;
        script::change(&mut sample, &step.sample);
        for _ in 0..step.times {
            flow.now_ns += step.advance_us * 1000;
            for (field, value) in &step.set {
                script::slot(&mut flow, field).set(*value);
            }
            if let Some(hook) = &step.hook {
                result = script::call(&mut controller, &mut flow, siblings, &sample, hook, step.value);
            }
        }
        for (field, want) in &step.expect {
            let got = if field == "result" { result } else { script::slot(&mut flow, field).get() };
            assert_eq!(got, *want, "{}: {field}", place(index));
        }
    }
}
