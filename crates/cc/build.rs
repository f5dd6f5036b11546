//! Compiles every file of cc/algs and writes the registry from their names, so that adding a file
//! adds an algorithm.
//!
//! The layout of the Rust mirrors is asserted by the C compiler: a field that differs in place or
//! size stops the build.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

mod compile;

#[expect(dead_code, reason = "the build needs the layouts alone")]
#[expect(unreachable_pub, reason = "public in the library, which is where this module belongs")]
#[path = "src/mirror.rs"]
mod mirror;

fn main() {
    let root = compile::root("algs");
    let out = PathBuf::from(compile::variable("OUT_DIR"));
    let (sources, names) = compile::sources(&root.join("algs"));
    fs::write(out.join("registry.rs"), registry(&names)).expect("OUT_DIR is writable");
    let layout = out.join("layout.c");
    fs::write(&layout, layout_asserts()).expect("OUT_DIR is writable");
    fs::write(out.join("abi.rs"), abi(&root.join("include"))).expect("OUT_DIR is writable");
    compile::compile(&root, &sources, &layout, "polypath_cc");
}

fn registry(names: &[String]) -> String {
    let mut text = String::from(
        "// SAFETY: each is an immutable table that PP_CC_REGISTER or PP_CC_ABOUT defines in the file of that name.\nunsafe extern \"C\" {\n",
    );
    for name in names {
        writeln!(text, "    safe static pp_cc_{name}: Ops;\n    safe static pp_about_{name}: About;").expect("writing to a string");
    }
    writeln!(text, "}}\n\nstatic REGISTRY: [(&Ops, &About); {}] = [", names.len()).expect("writing to a string");
    for name in names {
        writeln!(text, "    (&pp_cc_{name}, &pp_about_{name}),").expect("writing to a string");
    }
    text.push_str("];\n");
    text
}

/// What an object that is compiled later must agree with: the layouts, and every word of the
/// headers.
fn abi(include: &Path) -> String {
    let asserts = layout_asserts();
    let mut headers: Vec<PathBuf> =
        fs::read_dir(include).expect("cc/include exists").map(|entry| entry.expect("a readable folder").path()).collect();
    headers.sort();
    let texts = headers.iter().map(|path| fs::read(path).expect("headers are readable"));
    // FNV-1a: the standard library's hashers may change between compilers.
    let abi = std::iter::once(asserts.clone().into_bytes())
        .chain(texts)
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let source = format!("{asserts}extern const __u64 pp_abi;\nconst __u64 pp_abi = {abi:#x};\n");
    format!(
        "/// C text to compile into an object: it asserts the layouts, and says what it was compiled for.\n\
         pub const ABI_SOURCE: &str = {source:?};\nconst ABI: u64 = {abi:#x};\n"
    )
}

fn layout_asserts() -> String {
    let mut text = String::from("#include \"pp_cc.h\"\n");
    for (name, bit) in mirror::compat::ALL {
        writeln!(text, "_Static_assert(PP_COMPAT_{name} == {bit}, \"crates/cc/src/mirror.rs and enum pp_compat differ at {name}\");")
            .expect("writing to a string");
    }
    for (name, size, fields) in mirror::LAYOUTS {
        // This program's layouts of what holds pointers are the target's where both have pointers
        // of one size.
        let has_pointers = mirror::WITH_POINTERS.contains(name);
        if has_pointers {
            writeln!(text, "#if __SIZEOF_POINTER__ == {}", size_of::<usize>()).expect("writing to a string");
        }
        writeln!(text, "_Static_assert(sizeof(struct {name}) == {size}, \"crates/cc/src/mirror.rs and struct {name} differ in size\");")
            .expect("writing to a string");
        for (field, offset, size) in *fields {
            // A trailing underscore lets a mirror name a C field that is a keyword in Rust.
            let field = field.trim_end_matches('_');
            writeln!(
                text,
                "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset} && sizeof(((struct {name} *)0)->{field}) == {size}, \
                 \"crates/cc/src/mirror.rs and struct {name} differ at {field}\");"
            )
            .expect("writing to a string");
        }
        if has_pointers {
            text.push_str("#endif\n");
        }
    }
    text
}
