"""The package's face: every public name is listed, sorted, and comes from where it is public."""

import importlib
import pkgutil

import pytest

import polypath

PACKAGES = ["polypath", *(f"polypath.{module.name}" for module in pkgutil.iter_modules(polypath.__path__) if module.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_sorted_and_there(name):
    package = importlib.import_module(name)
    # Constants, then classes, then functions: the order of the linter.
    assert set(package.__all__) <= set(vars(package))
    assert len(package.__all__) == len(set(package.__all__))


def test_the_face_lists_what_it_imports():
    public = {name for name in vars(polypath) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(polypath.__path__)}
    assert public - modules == set(polypath.__all__)
