"""The package's face: every public name is listed, sorted, and comes from where it is public."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import polypath
from polypath import Results, Study, results

PACKAGES = ["polypath", *(f"polypath.{module.name}" for module in pkgutil.iter_modules(polypath.__path__) if module.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_sorted_and_there(name):
    package = importlib.import_module(name)
    # Constants, then classes, then functions: the order of the linter.
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert len(package.__all__) == len(set(package.__all__))


@pytest.mark.parametrize("stub", sorted(Path(polypath.__path__[0]).rglob("__init__.pyi")), ids=lambda stub: stub.parent.name)
def test_a_stub_lists_what_it_imports(stub):
    statements = ast.parse(stub.read_text()).body
    imported = [name.asname or name.name for each in statements if isinstance(each, ast.ImportFrom) for name in each.names]
    listed = next(ast.literal_eval(each.value) for each in statements if isinstance(each, ast.Assign))
    assert sorted(imported) == sorted(listed)


CALLED = [polypath.list_cc, polypath.load, polypath.plan, polypath.run, results.execute]
CALLED += [
    Results.open,
    Results.table,
    Results.to_pandas,
    Results.to_polars,
    Results.to_xarray,
    Results.against,
    Results.scenario,
    Results.report,
    Results.plot,
    Study.load,
    Study.replace,
    Study.set,
    Study.over_starts,
]


@pytest.mark.parametrize("call", CALLED, ids=lambda call: call.__qualname__)
def test_a_docstring_names_all_that_a_call_takes(call):
    said = inspect.getdoc(call)
    given = re.search(r"^Args:\n((?:    .*\n?)+)", said, re.MULTILINE)[1]
    assert re.findall(r"^    \**(\w+): ", given, re.MULTILINE) == [name for name in inspect.signature(call).parameters if name != "self"]
