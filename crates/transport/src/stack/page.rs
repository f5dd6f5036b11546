//! The table as a page for people: `docs/reference/kernels.md`.

use super::{Row, STACKS, rows};

const HEAD: &str = "\
# How Linux kernels differ in TCP and Multipath TCP

Two Linux kernels of different releases do not send the same packets, even with the same settings on the same network: one grows its receive buffer
sooner, another waits less before it repeats a lost segment, a third shares a connection's data among its paths in another way. Where such a difference
decides a result, a measurement on one kernel says little about another.

This page lists the differences that Polypath's simulator models. The simulator has endpoints of its own, written after what Linux does; each host of a
study can be any of the kernels below (`kernel:` of a node, see [the study file](../guide/study-file.md)). A row is one property. Its value
for each kernel comes with its source: a change of the kernel by its title, a clause of an RFC, or a folder below `specs/notes` of this repository with
the job that showed it on that kernel. \"Taken for\" and \"not measured\" mean what they say: nobody has looked yet. What no row names
is modelled alike for all of them, and [the limitations](../limitations.md) say what is not modelled at all.

`cargo run -p polypath-transport --example kernels` writes this page from the table in `crates/transport/src/stack/table.rs`; the simulator reads the
same table.
";

/// The page.
pub fn page() -> String {
    let rows = rows();
    let mut text = String::from(HEAD);
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line("\n## The kernels\n\n| in a study | kernel |\n|---|---|".into());
    for stack in STACKS {
        line(format!("| `{}` | {} |", stack.name, stack.about));
    }
    line("\n## From one to the next\n".into());
    for at in 1..STACKS.len() {
        let differing: Vec<String> = rows.iter().filter(|row| row.values[at] != row.values[at - 1]).map(linked).collect();
        let count = differing.len();
        line(format!("- **{} to {}**, {count} properties: {}.", STACKS[at - 1].about, STACKS[at].about, differing.join(", ")));
    }
    let mut section = "";
    for row in &rows {
        if row.section != section {
            section = row.section;
            line(format!("\n## {section}"));
        }
        line(format!("\n### `{}`\n\n{}\n\n| kernel | value | source |\n|---|---|---|", row.name, row.meaning));
        for (at, stack) in STACKS.into_iter().enumerate() {
            line(format!("| {} | {} | {} |", stack.name, row.values[at], row.sources[at]));
        }
    }
    text
}

fn linked(row: &Row) -> String {
    format!("[`{0}`](#{0})", row.name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_the_docs_is_that_of_the_table() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kernels.md");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            kept == super::page(),
            "docs/reference/kernels.md is stale: cargo run -p polypath-transport --example kernels > docs/reference/kernels.md"
        );
    }
}
