"""The project's own shell: layers, links between pages, what CI runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from polypath import programs
from polypath.study import load_setup

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import clauses  # noqa: E402
import layers  # noqa: E402


def test_a_new_upward_edge_between_crates_fails():
    def package(name, *dependencies):
        return {"name": f"polypath-{name}", "dependencies": [{"name": f"polypath-{d}"} for d in dependencies] + [{"name": "serde"}]}

    fine = layers.crate_edges({"packages": [package("base"), package("wire", "base"), package("sim", "wire", "base")]})
    assert layers.check_crates(fine) == []
    upward = layers.crate_edges({"packages": [package("base"), package("sim"), package("wire", "sim")]})
    assert layers.check_crates(upward) == [
        "crate wire depends on sim, which is not below it: move the code down, or argue for the edge in tools/layers.py."
    ]
    new = layers.crate_edges({"packages": [package("gossip")]})
    assert layers.check_crates(new) == ["crate gossip has no layer: give it one in tools/layers.py."]


def tree(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_new_upward_import_between_packages_fails(tmp_path):
    package = tmp_path / "polypath"
    main = "from polypath.study import Study\nfrom . import _options\nimport json\n"
    tree(package, {"study/__init__.py": "", "cli/__init__.py": "", "cli/_main.py": main})
    assert layers.check_python(layers.python_edges(package), ("study", "cli")) == []
    ways = (
        "from polypath.cli import main",
        "import polypath.cli",
        "from polypath import cli",
        "from .. import cli",
        "from ..cli import main",
    )
    for statement in ways:
        tree(package, {"study/_model.py": f"def late() -> None:\n    {statement}\n"})
        (fault,) = layers.check_python(layers.python_edges(package), ("study", "cli"))
        assert fault.startswith("polypath/study/_model.py:2: study imports cli, which is not below it"), statement


def test_modules_of_a_package_that_import_one_another_fail(tmp_path):
    package = tmp_path / "polypath" / "study"
    files = {
        "__init__.py": "",
        "__init__.pyi": "from ._study import Study\n",
        "_model.py": "import json\nfrom polypath.errors import PolypathError\nfrom . import _errors\n",
        "_errors.py": "",
        "_study.py": "from ._model import Model\nfrom .inner import Part\n",
        "inner/__init__.py": "from ._part import Part\n",
        "inner/_part.py": "from .._errors import StudyError\n",
    }
    tree(package, files)
    assert layers.check_python_modules("study", layers.python_module_edges(package)) == []
    for face, statement in (
        ("", "from ._study import Study"),
        ("", "from . import _study"),
        ("", "import polypath.study._study"),
        ("__init__ and ", "from polypath.study import Study"),
        ("", "if TYPE_CHECKING:\n    from ._study import Study"),
        ("", "def late() -> None:\n    from polypath.study._study import Study"),
    ):
        (package / "_errors.py").write_text(f"{statement}\n")
        (fault,) = layers.check_python_modules("study", layers.python_module_edges(package))
        named = f"package study: the modules {face}_errors and _model and _study and inner and inner._part import one another"
        assert fault.startswith(named), statement


def test_modules_of_a_crate_that_use_one_another_fail(tmp_path):
    files = {
        "lib.rs": "mod a;\nmod b;\nmod c;\nmod d;\npub use b::Late;\n",
        "a.rs": "use crate::{Late, d::Deep};\n",  # by a re-export: a -> b
        "b.rs": "// use crate::a::Early;\npub fn f() { crate::c::g() }\n",  # b -> c
        "c.rs": "#[cfg(test)]\nmod harness;\n#[cfg(test)]\nmod tests {\n    use crate::a::Early;\n}\n",  # tests may look up
        "c/harness.rs": "use crate::a::Early;\n",  # a file of tests, too
        "d/mod.rs": "mod inside;\npub struct Deep;\n",
        "d/inside.rs": "use super::Deep;\nuse crate::b;\n",  # a child may use its parent; d -> b
    }
    tree(tmp_path, files)
    assert layers.check_modules("x", layers.module_edges(tmp_path)) == []
    (tmp_path / "c.rs").write_text("use super::a::Early;\n")
    assert layers.check_modules("x", layers.module_edges(tmp_path)) == [
        "crate x: the modules a and b and c and d use one another: move what they share into a module below both."
    ]


def test_every_departure_from_a_standard_names_its_mark_and_its_test(tmp_path):
    code = tmp_path / "crates/x/src/a.rs"
    code.parent.mkdir(parents=True)
    code.write_text("// RFC 9293 sections 3.1 and 3.4: so it is.\n// RFC 9293, section 3.5\n#[test]\nfn shown() {}\n")
    assert list(clauses.marks(tmp_path)[0]) == ["RFC 9293 section 3.1", "RFC 9293 section 3.4"]
    entry = 'clause = "RFC 9293 section 3.4"\nwords = "w"\ndeparture = "d"\nreason = "r"\ncode = "crates/x/src/a.rs"\n'
    (tmp_path / "specs/exceptions").mkdir(parents=True)
    wrong = entry.replace("3.4", "3.6") + 'test = "crates/x/src/a.rs::gone"\n'
    text = f'[[exception]]\n{entry}test = "crates/x/src/a.rs::shown"\n[[exception]]\n{wrong}[[exception]]\n{entry}'
    (tmp_path / "specs/exceptions/tcp.toml").write_text(text)
    assert clauses.check(tmp_path) == [
        'crates/x/src/a.rs:2: write a clause as "RFC 9293 section 3.10.7.4".',
        "specs/exceptions/tcp.toml, entry 2: crates/x/src/a.rs has no mark RFC 9293 section 3.6.",
        "specs/exceptions/tcp.toml, entry 2: there is no test crates/x/src/a.rs::gone.",
        "specs/exceptions/tcp.toml, entry 3: an exception has the fields clause, code, departure, reason, test, words,"
        " and none of them is empty.",
    ]


def test_a_public_number_with_a_unit_has_a_type_of_base():
    # STYLE.md. outcome.rs has columns of results, and `byte_ns` a product beyond 64 bits.
    naked = re.compile(r"\b(\w*(?:_ns|_us|_ms|_secs?|rtt|rate|timeout|bytes|octets))\b(?:\(&(?:mut )?self\) ->|:) *(?:Option<)?[iuf]\d")
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for crate in ("sched", "pmtu", "link", "transport", "tunnel", "sim", "emu")
        for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))
        if file.name != "outcome.rs"
        for line in re.findall(r"^ *pub (?!\().*", file.read_text(encoding="utf-8"), flags=re.M)
        for name in naked.findall(line)
        if name != "byte_ns" and not name.startswith(("as_", "from_"))
    ]
    assert found == []


def test_ci_notes_and_crates_have_one_list_each():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^\s*(?:make|cargo|pytest|python)\b.*", script, flags=re.M) == ["make test 2>&1 | tee build/test.log"]
    for manifest in ROOT.glob("crates/*/Cargo.toml"):
        if "autotests = false" in manifest.read_text(encoding="utf-8"):
            tests = manifest.parent / "tests"
            named = re.findall(r"^mod (\w+);$", (tests / "main.rs").read_text(encoding="utf-8"), flags=re.M)
            assert sorted([*named, "main"]) == sorted(file.stem for file in tests.glob("*.rs"))
    notes = ROOT / "specs/notes"
    index = (notes / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| (?:\[|`)([\w.-]+)", index, flags=re.M)) == sorted(note.name for note in notes.iterdir() if note.is_dir())


PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("studies/*/*.md"), *ROOT.glob("specs/**/*.md")} - {ROOT / "STYLE.md"}
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    missing = [
        target for target in targets if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert missing == []


def test_the_commands_of_the_readme_work_and_its_network_can_be_built(tmp_path):
    commands = re.findall(r"^    (polypath .*)$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M)
    assert [command.split()[1] for command in commands] == ["init", "run", "validate"]
    for command in commands:
        arguments = command.replace("SUMMARY.csv", str(ROOT / "tests/data/summary-v1.csv")).split()[1:]
        program = Path(sys.executable).with_name("polypath")
        done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    (text,) = re.findall(r"^cat > lab.yaml <<'END'\n(.*?)^END$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    (tmp_path / "lab.yaml").write_text(text)
    assert load_setup(tmp_path / "lab.yaml").topology.links.keys() == {"wifi", "lte"}


def sources():
    return [file for place in ("cc", "crates", "python", "tests", "tools") for file in (ROOT / place).rglob("*")]


def _is_tracked_text(path):
    return path.suffix in {".rs", ".py", ".c", ".h"} and path.is_file()


def test_source_files_stay_readable():
    # STYLE.md: a file is split by concept when it holds two; past 800 lines it does.
    known = programs.find("git") and programs.run("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", cwd=ROOT).stdout
    # What was unpacked from an archive has no list.
    listed = known.split("\0") if known else [str(file.relative_to(ROOT)) for file in sources()]
    assert "python/polypath/__init__.py" in listed
    long = {
        name: lines
        for name in listed
        if _is_tracked_text(ROOT / name) and (lines := (ROOT / name).read_text(encoding="utf-8").count("\n")) > 800
    }
    assert long == {}


def test_no_test_is_skipped_past_what_may_not_be_missing():
    # Where POLYPATH_REQUIRE says that nothing may be missing, tests/requirement.py fails instead.
    skips = re.compile(r"\b(pytest\.skip|skipif|importorskip|skipTest|mark\.skip|xfail)\b")
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if file.name != "requirement.py" and file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if skips.search(line)
    ]
    assert found == [], "call `lacking` instead"
