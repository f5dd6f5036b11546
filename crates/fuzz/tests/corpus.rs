//! Every kept input, and inputs near them, without a fuzzer: what failed once stays mended.

use proptest::prelude::*;
use std::path::Path;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 8] = [
    ("captures", polypath_fuzz::captures),
    ("packets", polypath_fuzz::packets),
    ("path-mtu", polypath_fuzz::path_mtu),
    ("peers", polypath_fuzz::peers),
    ("scenarios", polypath_fuzz::scenarios),
    ("tunnel", polypath_fuzz::tunnel),
    ("tunnel-files", polypath_fuzz::tunnel_files),
    ("tunnel-paths", polypath_fuzz::tunnel_paths),
];

/// The kept inputs of a target by name, in the order of their names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut found: Vec<_> = std::fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a folder of files").path())
        .map(|file| (file.display().to_string(), std::fs::read(&file).expect("a file")))
        .collect();
    found.sort();
    found
}

/// `tools/fuzz` takes its targets from their files, and this test from the list above.
#[test]
fn every_target_is_tried() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let files = std::fs::read_dir(folder).expect("the targets are there").map(|entry| entry.expect("a folder of files").path());
    let mut named: Vec<String> = files.map(|file| file.file_stem().expect("a name").to_string_lossy().replace('_', "-")).collect();
    named.sort();
    assert_eq!(named, TARGETS.map(|(name, _)| name));
}

#[test]
fn kept_inputs_do_no_harm() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(inputs.len() >= 10, "{name}: the corpus is there");
        for (file, bytes) in inputs {
            println!("{file}");
            target(&bytes);
        }
    }
}

proptest! {
    #[test]
    fn inputs_near_kept_ones_do_no_harm(
        number in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        for (name, target) in TARGETS {
            let inputs = corpus(name);
            let mut bytes = inputs[number.index(inputs.len())].1.clone();
            for (place, value) in &changes {
                if !bytes.is_empty() {
                    let at = place.index(bytes.len());
                    bytes[at] = *value;
                }
            }
            target(&bytes);
            bytes.truncate(cut.index(bytes.len() + 1));
            target(&bytes);
        }
    }
}
