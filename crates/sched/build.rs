//! Compiles every file of cc/sched and writes the registry from their names, so that adding a file
//! adds a scheduler. Beside them it compiles where the fields of their structures lie, which a test
//! compares with what Rust sees.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

#[path = "../cc/compile.rs"]
mod compile;

#[expect(dead_code, reason = "the build needs the fields' names alone")]
#[path = "src/fields.rs"]
mod fields;

fn main() {
    let root = compile::root("sched");
    let out = PathBuf::from(compile::variable("OUT_DIR"));
    let (sources, names) = compile::sources(&root.join("sched"));
    fs::write(out.join("registry.rs"), registry(&names)).expect("OUT_DIR is writable");
    let native = out.join("native.c");
    fs::write(&native, native_side()).expect("OUT_DIR is writable");
    compile::compile(&root, &sources, &native, "polypath_sched");
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
