//! Compiles every file of cc/sched and writes the registry from their names, so that adding a file
//! adds a scheduler. Beside them it compiles where the fields of their structures lie, which a test
//! compares with what Rust sees.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[expect(dead_code, reason = "the build needs the fields' names alone")]
#[path = "src/fields.rs"]
mod fields;

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts in the environment")]
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

fn main() {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../cc");
    let out = PathBuf::from(variable("OUT_DIR"));
    for watched in ["sched", "include"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let sources = schedulers(&root.join("sched"));
    let names: Vec<String> =
        sources.iter().map(|path| path.file_stem().expect("a .c file has a stem").to_string_lossy().into_owned()).collect();
    fs::write(out.join("registry.rs"), registry(&names)).expect("OUT_DIR is writable");
    let native = out.join("native.c");
    fs::write(&native, native_side()).expect("OUT_DIR is writable");
    cc::Build::new()
        .include(root.join("include"))
        .files(&sources)
        .file(&native)
        .std("gnu11")
        .opt_level(2)
        .extra_warnings(true)
        // As in crates/cc/build.rs.
        .warnings_into_errors(variable("PROFILE") == "debug")
        .flag_if_supported("-Wmissing-prototypes")
        .flag_if_supported("-Wvla")
        .compile("polypath_sched");
}

/// The schedulers' files, sorted so that every build lists them in one order.
fn schedulers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot list {}: {e}", folder.display()));
    let mut sources: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "c"))
        .collect();
    sources.sort();
    sources
}

fn registry(names: &[String]) -> String {
    let mut text = String::from(
        "// SAFETY: each is an immutable table that PP_SCHED_REGISTER or PP_SCHED_ABOUT defines in the file of that name.\nunsafe extern \"C\" {\n",
    );
    for name in names {
        writeln!(text, "    safe static pp_sched_{name}: Ops;\n    safe static pp_sched_about_{name}: About;")
            .expect("writing to a string");
    }
    let count = names.len();
    writeln!(text, "}}\n\nconst NAMES: [&str; {count}] = {names:?};\nstatic REGISTRY: [(&Ops, &About); {count}] = [")
        .expect("writing to a string");
    for name in names {
        writeln!(text, "    (&pp_sched_{name}, &pp_sched_about_{name}),").expect("writing to a string");
    }
    text.push_str("];\n");
    text
}

/// The rules that the simulator has from the schedulers' headers, and the layouts.
fn native_side() -> String {
    let mut text = String::from(
        "#include \"pp_choose.h\"\n\
         __u32 pp_sched_reinjection(const struct pp_path_view *paths, __u32 len, __u32 tried);\n\
         __u32 pp_sched_reinjection(const struct pp_path_view *paths, __u32 len, __u32 tried)\n{\n\treturn pp_best(paths, len, tried);\n}\n\n\
         __u64 pp_sched_share(const struct pp_path_view *path);\n\
         __u64 pp_sched_share(const struct pp_path_view *path)\n{\n\treturn pp_takes_data(path) ? pp_share(path) : 0;\n}\n\n\
         extern const __u32 pp_sched_layout[];\nconst __u32 pp_sched_layout[] = {\n",
    );
    for (name, fields) in fields::FIELDS {
        writeln!(text, "\tsizeof(struct {name}),").expect("writing to a string");
        for field in *fields {
            writeln!(text, "\t__builtin_offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field}),")
                .expect("writing to a string");
        }
    }
    text.push_str("};\n");
    text
}
