//! The table as a page for people: `docs/reference/kernels.md`.

use super::{Row, STACKS, rows};

const HEAD: &str = "\
# How Linux kernels differ in TCP and Multipath TCP

Kernels of different releases do not send the same packets, even with the same settings on the same network.
These are the differences that the simulator models: each host of a study can be any of these kernels ([`kernel`](../guide/study-file.md#the-kernel)).
What no row names is modelled alike for all of them; what is not modelled at all is in [Limitations](../limitations.md).

- A value in **bold** is not that of the column before it.
- A dash: this kernel has nothing of the kind, and the simulator does otherwise.
- The evidence is a change of the kernel by its release and title, a function of its public sources, a script of packets that was played on it, or a note with a measurement.
  Where 7.3 has none of its own, the scripts and its public sources say that it does as 6.12.
";

const TAIL: &str = "
`cargo run -p polypath-transport --example kernels` writes this page from `crates/transport/src/stack/table.rs`, the table that the simulator reads.
";

/// Folders of what is evidence, with the end that its names have there.
const LINKED: [(&str, &str); 3] = [("specs/notes/", ""), ("tests/scripts/", ".pkt"), ("docs/findings/", ".md")];

/// What begins a source and tells nothing beside what follows it.
const SAID: [&str; 8] =
    ["and ", "measured: ", "on the wire: ", "its public sources: ", "its ", "as before ", "came with ", "a stable update by "];

/// The page.
pub fn page() -> String {
    let rows = rows();
    let mut text = String::from(HEAD);
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line("\n| in a study | kernel | properties unlike the one before |\n|---|---|---:|".into());
    for (at, stack) in STACKS.into_iter().enumerate() {
        let differing = rows.iter().filter(|row| at > 0 && row.values[at] != row.values[at - 1]).count();
        line(format!("| `{}` | {} | {} |", stack.name, stack.about, if at > 0 { differing.to_string() } else { "–".into() }));
    }
    let mut section = "";
    for row in &rows {
        if row.section != section {
            section = row.section;
            let names = STACKS.map(|stack| stack.name).join(" | ");
            let columns = STACKS.map(|_| "---").join("|");
            line(format!("\n## {section}\n\n| property | {names} | evidence |\n|---|{columns}|---|"));
        }
        line(format!("| `{}`: {} | {} | {} |", row.name, row.meaning, values(row).join(" | "), evidence(row)));
    }
    text.push_str(TAIL);
    text
}

/// The kernel has no such thing, so the simulator's value for it is a choice.
fn is_choice(source: &str) -> bool {
    source.starts_with("a choice: it has no") || source.starts_with("it has no such")
}

fn is_as_before(source: &str) -> bool {
    source.starts_with("as 6.12: ")
}

fn values(row: &Row) -> Vec<String> {
    let mut chosen = false;
    let mut cells = Vec::new();
    for (at, value) in row.values.iter().enumerate() {
        chosen = is_choice(row.sources[at]) || (chosen && is_as_before(row.sources[at]));
        cells.push(match at.checked_sub(1).map(|before| &row.values[before]) {
            _ if chosen => "–".into(),
            Some(before) if before == value && value.len() > 20 => "the same".into(),
            Some(before) if before != value => format!("**{value}**"),
            _ => value.clone(),
        });
    }
    cells
}

/// Every piece of the sources once, in the order of the kernels.
fn evidence(row: &Row) -> String {
    let mut said: Vec<String> = Vec::new();
    for (stack, source) in STACKS.into_iter().zip(&row.sources) {
        if is_choice(source) || is_as_before(source) {
            continue;
        }
        for piece in pieces(source) {
            let piece = match bare(piece) {
                "measured" | "on the wire" => continue,
                "public sources" if row.sources.iter().any(|source| LINKED.iter().any(|(folder, _)| source.contains(folder))) => continue,
                "not measured" => format!("not measured on {}", stack.name),
                piece => linked(piece),
            };
            if !said.contains(&piece) {
                said.push(piece);
            }
        }
    }
    said.join(", ")
}

/// The parts between commas and semicolons that are not in a title.
fn pieces(source: &str) -> impl Iterator<Item = &str> {
    let mut in_title = false;
    source
        .split(move |c| {
            in_title ^= c == '"';
            !in_title && (c == ',' || c == ';')
        })
        .map(str::trim)
}

fn bare(mut piece: &str) -> &str {
    while let Some(rest) = SAID.iter().find_map(|said| piece.strip_prefix(said)) {
        piece = rest;
    }
    piece
}

fn linked(piece: &str) -> String {
    for (folder, end) in LINKED {
        if let Some(name) = piece.strip_prefix(folder).and_then(|name| name.strip_suffix(end)) {
            let folder = folder.strip_prefix("docs/").map_or_else(|| format!("../../{folder}"), |inside| format!("../{inside}"));
            return format!("[{name}]({folder}{name}{})", if end.is_empty() { "/README.md" } else { end });
        }
    }
    piece.into()
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
