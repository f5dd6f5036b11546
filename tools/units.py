"""Fails when a public signature of a crate has a naked number that nobody gave a reason for.

    tools/units.py            a sentence for each naked number, and for each reason that nothing needs any more
    tools/units.py --list     every naked number that has a reason, with it

A number with a unit has a type of `base`: Instant, Duration, SmoothedRtt, Rate, Bytes, Segments, Seq, DataSeq, PathId. What is looked
at is every `pub` function, field, constant and alias, and all of a public enum or trait, tests aside; macros are read as they are
written. No tool can tell an index from a length, so each number is refused unless `REASONS` has its place. A `u8` is not looked at: it
holds no amount.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("base", "cc", "sched", "pmtu", "link", "transport", "tunnel", "sim", "emu")
# `$number` is the width with which the macros of `base` make its types.
NAKED = frozenset(f"{kind}{width}" for kind in "iu" for width in ("16", "32", "64", "128", "size")) | {"f32", "f64", "$number"}

# Why a number has no type of its own -> patterns of the places, as `--list` prints them.
REASONS: Mapping[str, tuple[str, ...]] = {
    "a type is made of a number, or turned into one": (
        "base::*::$name::new(*)",
        "base::*::$name::get()",
        "base::*::from_*(*)",
        "base::*::as_*()",
    ),
    "arithmetic in the number's own ring, as the RFCs have it": ("base::seq::$name::distance()",),
    "random numbers, their seeds and their bounds": (
        "base::rng::*",
        "link::spec::*(seed)",
        "sim::scenario::Scenario::seed",
        "emu::spec::EmulatedScenario::seed",
    ),
    "a column of results: its unit is the declaration's": ("base::columns::*", "sim::outcome::*"),
    "as pp_cc.h has it": ("cc::mirror::*", "cc::$name()", "cc::*::private_word()", "cc::*::private_bytes()"),
    "a bit, or a mask of bits": ("cc::[A-Z]*", "cc::*::flags()", "sched::*(changed)", "sched::*(_changed)", "sched::*(tried)"),
    "an index, a slot or a number that tells things apart": (
        "sched::Choice::subflow",
        "sched::Scheduler::pick_reinjection()",
        "link::chain::ElementChain::elements*()",
        "link::fq_codel::*slot*",
        "link::fq_codel::FqCodel::take_dropped()",
        "link::packet::PacketMeta::flow",
        "link::loss::LossConfig::Packets::numbers",
        "link::ring::Ring::insert(ahead)",
        "transport::*Connection::subflow(i)",
        "transport::*Connection::path_of(i)",
        "transport::*Connection::path()",
        "transport::udp::*::number",
        "tunnel::*(flow_hash)",
        "sim::queue::Source::0",
        "sim::scenario::Tunnel::key",
        "sim::scenario::Tunnel::port",
        "emu::spec::Emulated::link",
    ),
    "how many subflows, paths, flows, addresses, threads or attempts": (
        "sched::MAX_SUBFLOWS",
        "link::aqm::FqCodelConfig::flows",
        "link::retry::RetryConfig::attempts",
        "transport::*Connection::subflow_count()",
        "transport::mptcp::path_manager::*most_subflows(*)",
        "transport::mptcp::path_manager::AddressSet::below(count)",
        "transport::tcp::sender::Sender::consecutive_timeouts()",
        "tunnel::*::new(paths)",
        "emu::spec::Spec::threads",
        "sim::queue::EventQueue::new(*)",
        "sim::bench::turn_queue(*)",
    ),
    "how many packets, buffers, pieces or datagrams": (
        "sched::Buffered::buffers",
        "link::*::packets",
        "link::*::drops",
        "link::*::marks()",
        "link::*::longest()",
        "link::*::len()",
        "link::rate::QueueLimit::Packets::0",
        "transport::reorder_stats::ReorderStats::pieces",
        "transport::udp::Socket::sent()",
        "tunnel::*_packets()",
        "tunnel::*(packets)",
        "tunnel::*batch*",
        "tunnel::*BATCH",
        "tunnel::earliest::PathEstimate::lost",
        "sim::scenario::Tunnel::batch",
        "*::Reorder*::window",
        "*::Reorder*::capacity",
        "sim::scenario::Tunnel::*packets*",
        "sim::scenario::Capture::packets",
    ),
    "a sum or a product beyond 64 bits": (
        "transport::reorder_stats::ReorderStats::sum_ahead",
        "transport::reorder_stats::ReorderStats::byte_ns",
    ),
    "ticks of a kernel's clock, whose length is another field's": ("transport::stack::values::TimerFloor::Ticks::0",),
    "a share, a weight or a factor": (
        "link::*::probability",
        "link::loss::LossConfig::Bernoulli::changes",
        "link::loss::LossConfig::GilbertElliott::*",
        "link::aqm::RedConfig::weight_log",
        "link::aqm::PieConfig::alpha",
        "link::aqm::PieConfig::beta",
        "tunnel::*weights*",
        "sim::scenario::TunnelPath::weight",
    ),
}

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?:br|r)(?P<hash>\#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^']*|[^'\\])'|'\w+|\$?\w+|->|=>|::|\s+|.""",
    re.DOTALL | re.VERBOSE,
)
OPENING, CLOSING = "([{", ")]}"


def tokens(source: str) -> list[tuple[str, int]]:
    """Words and punctuation with their lines; no comments, blanks, lifetimes, literals of text, or what stands under `#[cfg(test)]`."""
    found, line = [], 1
    for match in TOKEN.finditer(source):
        text = match[0]
        if not (text.isspace() or text.startswith(("//", "/*", "'")) or text.endswith(('"', "'", "#"))) or text == "#":
            found.append((text, line))
        line += text.count("\n")
    kept, at = [], 0
    while at < len(found):
        if [text for text, _ in found[at : at + 7]] == ["#", "[", "cfg", "(", "test", ")", "]"]:
            at = item_end(found, at + 7)
        else:
            kept.append(found[at])
            at += 1
    return kept


def closing(code: list[tuple[str, int]], at: int) -> int:
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for place in range(at, len(code)):
        depth += (code[place][0] in OPENING) - (code[place][0] in CLOSING)
        if depth == 0:
            return place
    return len(code) - 1


def item_end(code: list[tuple[str, int]], at: int) -> int:
    """The place after the item that begins at `at`, its attributes included."""
    while at < len(code):
        text = code[at][0]
        if text in OPENING:
            at = closing(code, at)
            if text == "{":
                return at + 1
        elif text in (";", ","):
            return at + 1
        at += 1
    return at


def until(code: list[tuple[str, int]], at: int, ends: str) -> int:
    """The first place from `at` on with one of `ends` outside of brackets, those of generics included."""
    depth = 0
    for place in range(at, len(code)):
        text = code[place][0]
        if depth == 0 and text in ends:
            return place
        depth += (text in "([{<") - (text in ")]}>")
    return len(code)


def places(file: Path, crate: str) -> Iterator[tuple[str, int, str]]:
    """(place, line, type) of each part of a public signature that has a naked number."""
    code = tokens(file.read_text(encoding="utf-8"))
    path = file.with_suffix("").parts[file.parts.index("src") + 1 :]
    module = "::".join([crate, *(part for part in path if part not in ("lib", "mod"))])
    scopes: list[tuple[str, str, int]] = []  # kind and name of what the code stands in, and where that ends

    def look(label: str, begin: int, end: int) -> Iterator[tuple[str, int, str]]:
        if any(text in NAKED for text, _ in code[begin:end]):
            place = "::".join([module, *(name for _, name, _ in scopes if name)])
            yield f"{place}::{label}", code[begin][1], " ".join(text for text, _ in code[begin:end])

    def parts(begin: int, end: int) -> Iterator[tuple[int, int]]:
        while begin < end:
            stop = min(until(code, begin, ","), end)
            while code[begin][0] == "#":
                begin = closing(code, begin + 1) + 1
            yield begin, stop
            begin = stop + 1

    at = 0
    while at < len(code):
        while scopes and at >= scopes[-1][2]:
            scopes.pop()
        public = code[at][0] == "pub" and code[at + 1][0] != "("
        word = at + public
        while code[word][0] in ("const", "unsafe", "async", "extern") and code[word + 1][0] in ("fn", "unsafe", "extern", "async"):
            word += 1
        kind, name = code[word][0], code[min(word + 1, len(code) - 1)][0]
        if kind == "impl" and word == at:
            stop = until(code, at + 1, "{;")
            begin = until(code, at + 2, ">") + 1 if name == "<" else at + 1
            of_trait = any(text == "for" for text, _ in code[begin:stop])
            scopes.append(("impl", "" if of_trait else code[begin][0], closing(code, stop)))
            at = stop + 1
        elif kind == "fn" and (public or (scopes and scopes[-1][0] == "trait")):
            begin = until(code, word + 2, "(")
            end = closing(code, begin)
            stop = until(code, end + 1, "{;")
            yield from look(f"{name}<>", word + 2, begin)
            for here, after in parts(begin + 1, end):
                yield from look(f"{name}({code[here + (code[here][0] == 'mut')][0]})", here, after)
            yield from look(f"{name}()", end + 1, stop)
            at = stop
        elif kind in ("struct", "union", "trait") and public:
            body = until(code, word + 2, "({;")
            if code[body][0] == "{":
                scopes.append((kind, name, closing(code, body)))
            elif code[body][0] == "(":
                for here, after in parts(body + 1, closing(code, body)):
                    if code[here][0] == "pub" and code[here + 1][0] != "(":
                        yield from look(f"{name}::0", here + 1, after)
            at = body + 1
        elif kind == "enum" and public:
            body = until(code, word + 2, "{")
            end = closing(code, body)
            for here, after in parts(body + 1, end):
                if here + 1 < after and code[here + 1][0] in "({":
                    for field, over in parts(here + 2, closing(code, here + 1)):
                        last = code[field][0] if code[field + 1][0] == ":" else "0"
                        yield from look(f"{name}::{code[here][0]}::{last}", field, over)
            at = end
        elif kind in ("const", "static", "type") and public:
            stop = until(code, word + 2, ";" if kind == "type" else "=;")
            yield from look(name, word + 2, stop)
            at = stop
        elif public and name == ":":
            stop = until(code, word + 2, ",}")
            yield from look(kind, word + 2, stop)
            at = stop
        else:
            at += 1


def of_tests(file: Path, names: frozenset[str]) -> bool:
    """Whether the file is, or lies in, a module that only tests have."""
    return any(part in names for part in (*file.parts[file.parts.index("src") + 1 : -1], file.stem))


def naked(root: Path, crate: str) -> Iterator[tuple[Path, str, int, str]]:
    """(file, place, line, type) of each naked number of a crate."""
    files = sorted((root / "crates" / crate / "src").rglob("*.rs"))
    declared = re.compile(r"#\[cfg\(test\)\]\s*(?:pub\(crate\) )?mod (\w+);")
    tests = frozenset(name for file in files for name in declared.findall(file.read_text(encoding="utf-8")))
    for file in files:
        if not of_tests(file, tests):
            for found in places(file, crate):
                yield file, *found


def check(root: Path) -> tuple[list[str], list[str]]:
    """A sentence for each fault, and a line for each number that has a reason."""
    reasons = {pattern: reason for reason, patterns in REASONS.items() for pattern in patterns}
    faults, given, needed = [], [], set()
    for crate in CRATES:
        for file, place, line, text in naked(root, crate):
            fits = [pattern for pattern in reasons if fnmatchcase(place, pattern)]
            needed.update(fits)
            if fits:
                given.append(f"{place}: {text}  ({reasons[fits[0]]})")
            else:
                what = f"{file.relative_to(root)}:{line}: {place} has a naked number, `{text}`"
                faults.append(f"{what}: give it a type of base, or a reason in tools/units.py.")
    faults += [f"tools/units.py: nothing needs the reason of {pattern} any more." for pattern in reasons if pattern not in needed]
    return faults, given


def main() -> int:
    """Prints what is at fault."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--list", action="store_true", help="print what has a reason")
    listing = arguments.parse_args().list
    faults, given = check(ROOT)
    for line in faults or (given if listing else []):
        print(line)
    if not faults and not listing:
        print(f"units: {len(given)} numbers of public signatures have no type, each for one of {len(REASONS)} reasons")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
