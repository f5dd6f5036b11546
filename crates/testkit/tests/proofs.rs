//! Where the table of kernels names a script as the source of a value, the script decides it: with
//! another kernel's value it fails.

use polypath_testkit::{Script, ours, parse, run};
use polypath_transport::stack::{LINUX_6_1_192, LINUX_6_12_117, Row, STACKS, Stack, rows};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Columns whose kernels play the scripts.
const PLAYED: [&Stack; 2] = [&LINUX_6_1_192, &LINUX_6_12_117];

fn scripts() -> BTreeMap<String, Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let files = std::fs::read_dir(folder).expect("the folder of scripts is there").map(|entry| entry.expect("it can be read").path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "pkt"))
        .map(|file| {
            let name = format!("tests/scripts/{}", file.file_name().expect("a file has a name").to_string_lossy());
            let script = parse(&name, &std::fs::read_to_string(&file).expect("it can be read")).expect("it is a script");
            (name, script)
        })
        .collect()
}

/// Another kernel's value of a property, in words, and the kernel `stack` with it.
fn otherwise(stack: &Stack, row: &Row) -> (String, &'static Stack) {
    let own = STACKS.iter().position(|other| other.name == stack.name).expect("it is a column");
    let other = row.values.iter().position(|value| *value != row.values[own]).expect("no property is alike everywhere");
    (row.values[other].clone(), Box::leak(Box::new(stack.with_value_of(STACKS[other], row.name))))
}

/// A line that Linux obeys too does not hold with these properties for the kernel of this name. A
/// kernel that never was may break an assertion, which proves nothing.
fn decides(script: &Script, kernel: &str, stack: &'static Stack) -> bool {
    let played = catch_unwind(AssertUnwindSafe(|| run(script, kernel, |head| ours::Host::with_stack(head, stack))));
    let Ok(Err(fault)) = played else { return false };
    script.lines.iter().any(|line| line.number == fault.line && line.engine.is_none())
}

#[test]
fn a_script_that_is_named_as_a_source_decides_the_value() {
    let scripts = scripts();
    let mut named = 0;
    for row in rows() {
        for stack in PLAYED {
            let column = STACKS.iter().position(|other| other.name == stack.name).expect("it is a column");
            let words = row.sources[column].split(|c: char| c.is_whitespace() || c == ',' || c == ';');
            for name in words.filter(|word| word.starts_with("tests/scripts/")) {
                let script = scripts.get(name).unwrap_or_else(|| panic!("{}: there is no {name}", row.name));
                assert!(script.head.kernels.iter().any(|kernel| kernel == stack.name), "{name} is not about {}", stack.name);
                let (value, altered) = otherwise(stack, &row);
                assert!(decides(script, stack.name, altered), "{}, {}: {name} passes with `{value}` too", row.name, stack.name);
                named += 1;
            }
        }
    }
    assert!(named > 0, "the table names scripts");
}

/// `cargo test -p polypath-testkit --test proofs -- --ignored --nocapture` prints which scripts
/// decide which value.
#[test]
#[ignore = "a list for who writes the table"]
fn scripts_by_property() {
    let scripts = scripts();
    for row in rows() {
        for stack in PLAYED {
            let (value, altered) = otherwise(stack, &row);
            let about = scripts.iter().filter(|(_, script)| script.head.kernels.iter().any(|kernel| kernel == stack.name));
            let names: Vec<&str> =
                about.filter(|(_, script)| decides(script, stack.name, altered)).map(|(name, _)| name.as_str()).collect();
            println!("{} of {}, not `{value}`: {}", row.name, stack.name, names.join(", "));
        }
    }
}
