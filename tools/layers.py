"""Fails when a crate or a Python package depends on something above itself, or modules of one crate
or package on each other in a circle.

Rust: the order below against the workspace's Cargo metadata, development dependencies included; and
the modules of each crate against what they name by `crate::` and `super::` outside of tests. A
module may use the items of the module that holds it. Python: the order below against every import
statement in python/polypath, wherever it stands in a file; and the modules of each package against
what they import of one another, its face (`__init__`, with what its stub names) among them.
Something new has no place until it is given one here, in review.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

# Each entry lists what a crate may depend on. Transitive edges are written out where they are
# wanted, so that nothing creeps in.
CRATES: Mapping[str, frozenset[str]] = {
    "base": frozenset(),
    "wire": frozenset({"base"}),
    "cc": frozenset({"base"}),
    "sched": frozenset({"base", "cc"}),
    "pmtu": frozenset({"base"}),
    "link": frozenset({"base"}),
    "transport": frozenset({"base", "wire", "cc", "sched", "pmtu"}),
    "sim": frozenset({"base", "wire", "cc", "sched", "pmtu", "link", "transport", "tunnel"}),
    "tunnel": frozenset({"base", "wire", "pmtu"}),
    "guest": frozenset({"base", "wire", "io"}),
    "capture": frozenset({"base", "wire"}),
    "fuzz": frozenset({"base", "wire", "capture", "pmtu", "sim", "tunnel", "tunneld"}),
    "vectors": frozenset({"cc"}),
    "bpf": frozenset({"base", "cc", "vectors"}),
    "io": frozenset({"base"}),
    "testkit": frozenset({"base", "wire", "cc", "sched", "transport", "sim", "guest"}),
    "packetdrill": frozenset({"base", "testkit"}),
    "emu": frozenset({"base", "wire", "link", "io", "guest"}),
    "tunneld": frozenset({"base", "wire", "tunnel", "io"}),
    "web": frozenset({"base", "cc", "sched", "sim"}),
    "py": frozenset({"base", "capture", "cc", "sched", "pmtu", "transport", "sim", "emu", "guest"}),
}

# Lowest first: a package may import those in lines before its own, never one of its own line or
# below it.
PYTHON: tuple[frozenset[str], ...] = (
    frozenset({"_native", "errors"}),
    frozenset({"programs", "terminal"}),
    frozenset({"customcc", "columns", "pcap", "tunnel"}),
    frozenset({"study", "planner", "linux", "kernelcc", "sockets"}),
    frozenset({"emu", "doctor", "play", "traces"}),
    frozenset({"engines", "analysis"}),
    frozenset({"sweep"}),
    frozenset({"results", "selftests"}),
    frozenset({"plot", "advise", "benchmark", "measured"}),
    frozenset({"report", "validate"}),
    frozenset({"bisect"}),
    frozenset({"cli"}),
)


# `Results.report()` and `Results.plot()` are what a person asks of results: they load the layer
# above when they are called.
CALLED_LATE = frozenset({("results", "report"), ("results", "plot")})


def crate_edges(metadata: Mapping[str, object]) -> set[tuple[str, str]]:
    """Pairs (crate, crate it depends on) of the workspace, names without the prefix, from
    `cargo metadata --no-deps`.
    """
    packages = metadata["packages"]
    assert isinstance(packages, list)
    names = {package["name"] for package in packages}
    return {(_short(p["name"]), _short(d["name"])) for p in packages for d in p["dependencies"] if d["name"] in names} | {
        (_short(name), _short(name)) for name in names
    }


def _short(crate: str) -> str:
    return crate.removeprefix("polypath-")


def check_crates(edges: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each edge that points upward. An edge from a crate to itself only says that
    the crate exists.
    """
    faults = []
    for crate, below in sorted(edges):
        if crate not in CRATES:
            faults.append(f"crate {crate} has no layer: give it one in tools/layers.py.")
        elif below != crate and below not in CRATES[crate]:
            faults.append(
                f"crate {crate} depends on {below}, which is not below it: move the code down, or argue for the edge in tools/layers.py."
            )
    return list(dict.fromkeys(faults))


# A path from the crate's root or from the module above, up to its end or to the braces of a `use`.
PATH = re.compile(r"\b(crate|super(?:::super)*)::((?:\w+::)*)(\w+|\{[^;]*?\})", re.S)
REEXPORT = re.compile(r"^pub(?:\([^)]*\))? use (\w+(?:::\w+)*)::(\w+|\{[^}]*\});", re.M)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod \w+ \{.*", re.S)
TEST_FILE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod (\w+);")
COMMENT = re.compile(r"//[^\n]*")


def module_edges(source: Path) -> set[tuple[str, str]]:
    """Pairs (module, module it uses) of the crate whose folder of sources is `source`; modules of
    tests are left out.
    """
    files = [file for file in sorted(source.rglob("*.rs")) if file.relative_to(source).parts[0] != "bin"]
    texts = {_module(file, source): COMMENT.sub("", TESTS.sub("", file.read_text(encoding="utf-8"))) for file in files}
    exported = {
        "::".join(filter(None, (module, name))): "::".join(filter(None, (module, inside)))
        for module, text in texts.items()
        for inside, names in REEXPORT.findall(text)
        for name in re.findall(r"\w+", names)
    }
    tests = {"::".join(filter(None, (module, name))) for module, text in texts.items() for name in TEST_FILE.findall(text)}
    edges = set()
    for module, text in texts.items():
        here = module.split("::") if module else []
        if any("::".join(here[: i + 1]) in tests for i in range(len(here))):
            continue
        for root, middle, last in PATH.findall(text):
            start = [] if root == "crate" else here[: max(0, len(here) - root.count("super"))]
            names = re.findall(r"(?:^|[{,])\s*((?:\w+::)*\w+)", last) if last.startswith("{") else [last]
            for name in names:
                target = "::".join([*start, *middle.split("::")[:-1], *name.split("::")])
                while target not in texts:  # the name of an item: the module that has it
                    target = exported.get(target) or target.rpartition("::")[0]
                if target != module:
                    edges.add((module, target))
    return edges


def _module(file: Path, source: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return "::".join(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def check_modules(crate: str, edges: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each circle of modules that stand beside one another, at any depth. A module
    and those inside it are one.
    """
    beside: dict[str, set[str]] = {}
    for module, target in edges:
        a, b = module.split("::"), target.split("::")
        shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
        if shared is not None and module and target:  # else one holds the other
            beside.setdefault("::".join(a[: shared + 1]), set()).add("::".join(b[: shared + 1]))
    return [
        f"crate {crate}: the modules {' and '.join(circle)} use one another: move what they share into a module below both."
        for circle in _circles(beside)
    ]


def _circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach one another, each sorted."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(edges.get(start, ()))
        while todo:
            if (node := todo.pop()) not in seen:
                seen.add(node)
                todo.extend(edges.get(node, ()))
        return seen

    reach = {node: reached(node) for node in sorted(edges)}
    groups = {tuple(sorted({node} | {o for o in seen if node in reach.get(o, ())})) for node, seen in reach.items()}
    return [list(group) for group in sorted(groups) if len(group) > 1]


def python_edges(root: Path) -> set[tuple[str, str, str]]:
    """Triples (part, part it imports, "file:line") for the package whose folder is `root`."""
    edges = set()
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root).with_suffix("").parts
        part = inside[0]
        if part == "__init__" or part.startswith("__"):
            continue  # the package's own face: re-exports everything
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), filename=str(file))):
            for names in _imported(node, root.name, inside, is_package=file.name == "__init__.py"):
                target = names[0] if names else ""
                if target != part:
                    edges.add((part, target, f"{file.relative_to(root.parent)}:{getattr(node, 'lineno', 0)}"))
    return edges


def _imported(node: ast.AST, package: str, inside: tuple[str, ...], *, is_package: bool) -> list[list[str]]:
    """The names below `package` that an import statement reaches; none of them is the package's own
    face (everything).
    """
    if isinstance(node, ast.Import):
        modules = [alias.name.split(".") for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        module = (node.module or "").split(".") if node.module else []
        if node.level:
            here = [package, *(inside[:-1] if is_package else inside)]
            module = here[: len(here) - node.level + (1 if is_package else 0)] + module
        modules = [[*module, alias.name] for alias in node.names]
    else:
        return []
    return [m[1:] for m in modules if m[:1] == [package]]


def python_module_edges(package: Path) -> set[tuple[str, str]]:
    """Pairs (module, module it imports) inside the package whose folder is `package`, such as
    ("_model", "_errors").
    """
    files = {_python_module(file, package): file for file in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")])}
    edges = set()
    for file in files.values():
        inside = (package.name, *file.relative_to(package).with_suffix("").parts)
        module = _python_module(file, package)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), filename=str(file))):
            for target in _imported(node, package.parent.name, inside, is_package=file.stem == "__init__"):
                if target[:1] == [package.name]:
                    names = target[1:]
                    while names and ".".join(names) not in files:  # the name of an item: the module that has it
                        names = names[:-1]
                    edges.add((module, ".".join(names) or FACE))
    return {(module, target) for module, target in edges if module != target}


FACE = "__init__"


def _python_module(file: Path, package: Path) -> str:
    parts = file.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == FACE else parts) or FACE


def check_python_modules(package: str, edges: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each circle of modules of one package."""
    imports: dict[str, set[str]] = {}
    for module, target in edges:
        imports.setdefault(module, set()).add(target)
    return [
        f"package {package}: the modules {' and '.join(circle)} import one another: move what they share into a module below both."
        for circle in _circles(imports)
    ]


def check_python(edges: Iterable[tuple[str, str, str]], modules: Iterable[str]) -> list[str]:
    """A sentence for each import that points upward; `modules` are the parts that exist."""
    level = {part: i for i, parts in enumerate(PYTHON) for part in parts}
    known = set(modules) | {"_native"}
    faults = []
    for part, target, where in sorted(edges):
        if part not in level:
            faults.append(f"package {part} has no layer: give it one in tools/layers.py.")
        elif target not in known:  # a name of the package's face: `from polypath import Study`
            faults.append(f"{where}: {part} imports the package's public face ({target or 'polypath'}): import the part that it needs.")
        elif target not in level:
            faults.append(f"package {target} has no layer: give it one in tools/layers.py.")
        elif level[target] >= level[part] and (part, target) not in CALLED_LATE:
            faults.append(
                f"{where}: {part} imports {target}, which is not below it: move the code down, or argue for the edge in tools/layers.py."
            )
    return list(dict.fromkeys(faults))


def main(project: Path) -> int:
    done = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"], cwd=project, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"layers: cargo metadata failed: {done.stderr.strip()}", file=sys.stderr)
        return 2
    package = project / "python" / "polypath"
    parts = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists())}
    crates, imports = crate_edges(json.loads(done.stdout)), python_edges(package)
    sources = {folder.name: folder / "src" for folder in sorted((project / "crates").iterdir()) if (folder / "src").is_dir()}
    circles = [fault for crate, source in sources.items() for fault in check_modules(crate, module_edges(source))]
    circles += [
        fault
        for part in sorted(parts)
        if (package / part).is_dir()
        for fault in check_python_modules(part, python_module_edges(package / part))
    ]
    faults = check_crates(crates) + circles + check_python(imports, parts)
    for fault in faults:
        print(f"layers: {fault}", file=sys.stderr)
    if not faults:
        packages = {edge[:2] for edge in imports}
        below = sum(a != b for a, b in crates)
        print(f"layers: {below} edges between crates and {len(packages)} between packages point down; no modules inside one form a circle")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
