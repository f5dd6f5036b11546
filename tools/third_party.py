"""What other people wrote of the programs that are packed: their notices, which licences ask for,
and a bill of materials.

    python tools/third_party.py notices PROGRAM... > FILE    licences with their texts
    python tools/third_party.py sbom PROGRAM... > FILE       CycloneDX, JSON

A PROGRAM is a crate of the workspace, such as polypath-tunneld. What only runs while it is built is
not in it, and is left out.

A new crate needs a licence of `deny.toml`. A new version of a vendored file gets its hash in
`web/vendor/README.md`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WEB, WEB_PLATFORM = "polypath-web", "wasm32-unknown-unknown"
_TEXT = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Crates whose package has no text, and whose licence is that of a text of ours with other names.
_STANDARD = {"MIT OR Apache-2.0": "LICENSE-APACHE", "MIT/Apache-2.0": "LICENSE-APACHE", "Apache-2.0": "LICENSE-APACHE"}
# Where crates have the texts of what others wrote of them.
_INSIDE = {"ring": ("third_party/fiat",), "libbpf-sys": ("libbpf",)}
_OTHERS = """\
Rust's standard library: MIT OR Apache-2.0 (and what its file COPYRIGHT lists), https://github.com/rust-lang/rust
In the programs that are linked statically, the GNU C Library: LGPL-2.1-or-later, https://www.gnu.org/software/libc. Whoever wants to link
them with another version builds them from Polypath's sources (make setup-all).
"""


def packages(programs: Iterable[str]) -> list[dict[str, Any]]:
    """The foreign crates in these programs, as Cargo describes them, by name and version."""
    found: dict[str, dict[str, Any]] = {}
    wanted = set(programs)
    for platform, roots in ((_host(), wanted - {WEB}), (WEB_PLATFORM, wanted & {WEB})):
        if roots:
            found.update((each["id"], each) for each in _within(_metadata(platform), roots))
    return sorted((each for each in found.values() if each["source"]), key=lambda each: (each["name"], each["version"]))


def _metadata(platform: str) -> Any:
    options = ["--format-version", "1", "--locked", "--offline", "--features", "polypath-bpf/load", "--filter-platform", platform]
    return json.loads(subprocess.run(["cargo", "metadata", *options], cwd=ROOT, capture_output=True, check=True).stdout)


def _host() -> str:
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line.removeprefix("host: ") for line in said.splitlines() if line.startswith("host: "))


def _within(metadata: Any, roots: set[str]) -> Iterator[dict[str, Any]]:
    by_id = {each["id"]: each for each in metadata["packages"]}
    uses = {
        node["id"]: [each["pkg"] for each in node["deps"] if any(kind["kind"] is None for kind in each["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    open_ = [each["id"] for each in metadata["packages"] if each["name"] in roots]
    if len(open_) != len(roots):
        raise SystemExit(f"third_party: {', '.join(sorted(roots))}: not all of them are crates of the workspace")
    seen = set(open_)
    while open_:
        here = by_id[open_.pop()]
        # A macro is part of the compiler.
        if any("proc-macro" in target["kind"] for target in here["targets"]):
            continue
        yield here
        new = set(uses[here["id"]]) - seen
        seen |= new
        open_ += new


def texts(package: dict[str, Any]) -> list[str]:
    """The licences and notices that come with a crate. Raises `SystemExit` where none does and none
    can stand for it.
    """
    folder = Path(package["manifest_path"]).parent
    places = [folder, *(folder / name for name in _INSIDE.get(package["name"], ()))]
    found = (file for place in places for file in place.iterdir() if _TEXT.match(file.name) and file.is_file())
    files = sorted(file for file in found if file.suffix not in (".rs", ".toml"))
    if not files and package["license"] in _STANDARD:
        files = [ROOT / _STANDARD[package["license"]]]
    if not files:
        name = f"{package['name']} {package['version']}"
        raise SystemExit(f"third_party: {name} ({package['license']}) comes without the text of its licence")
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def notices(programs: list[str]) -> str:
    """Who wrote what under which licence; each text once, with those whose it is."""
    listed: list[str] = []
    whose: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    for package in packages(programs):
        name = f"{package['name']} {package['version']}"
        listed.append(f"{name}: {package['license']}, {package['repository'] or package['homepage'] or 'no address'}")
        for text in texts(package):
            key = " ".join(text.split())
            words.setdefault(key, text)
            whose.setdefault(key, []).append(name)
    if WEB in programs:
        for file in sorted((ROOT / "web" / "vendor").glob("*/LICENSE*")):
            listed.append(f"{file.parent.name}: see below, web/vendor/README.md")
            whose[file.parent.name], words[file.parent.name] = [file.parent.name], file.read_text(encoding="utf-8").strip()
    line = "-" * 100
    parts = [f"{line}\n{', '.join(names)}\n{line}\n\n{words[key]}\n" for key, names in whose.items()]
    head = f"Other people's work in {', '.join(programs)}.\n\n"
    return head + "\n".join(sorted(listed)) + f"\n\n{_OTHERS}\n" + "\n".join(parts)


def sbom(programs: list[str]) -> str:
    """A bill of materials of the same crates; the same for the same crates, whenever it is made."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    crates = [
        Component(
            name=each["name"],
            version=each["version"],
            type=ComponentType.LIBRARY,
            purl=PackageURL("cargo", name=each["name"], version=each["version"]),
            bom_ref=f"{each['name']}@{each['version']}",
            # A slash is an old spelling of OR.
            licenses=[LicenseExpression(each["license"].replace("/", " OR "))],
        )
        for each in packages(programs)
    ]
    whole = Component(name=", ".join(sorted(programs)), type=ComponentType.APPLICATION, bom_ref="programs")
    bom = Bom(components=crates, metadata=BomMetaData(component=whole))
    bom.register_dependency(whole, crates)
    made: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    del made["serialNumber"], made["metadata"]["timestamp"]
    return json.dumps(made, indent=1)


def main() -> None:
    """Prints what is asked for."""
    kinds = {"notices": notices, "sbom": sbom}
    if len(sys.argv) < 3 or sys.argv[1] not in kinds:
        raise SystemExit(__doc__)
    print(kinds[sys.argv[1]](sys.argv[2:]))


if __name__ == "__main__":
    main()
