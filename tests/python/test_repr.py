"""A study's repr rebuilds it, with nothing but what `from polypath import *` gives."""

import copy
import pickle
from pathlib import Path

import pytest
from study_data import written

import polypath
from polypath import Study, study
from polypath.cli._init import templates
from polypath.engines import SimEngine, check
from polypath.study._model import Model

NAMES = {name: getattr(polypath, name) for name in polypath.__all__}
STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*/study.yaml"))
CHANGES = (("__setitem__", "x", 1), ("update", {"x": 1}), ("clear",), ("popitem",), ("setdefault", "x", 1), ("__ior__", {"x": 1}))


def mappings(value):
    """Those in a model, however deep."""
    if isinstance(value, dict):
        yield value
    fields = [getattr(value, field) for field in type(value).model_fields] if isinstance(value, Model) else value
    for each in fields.values() if isinstance(fields, dict) else fields if isinstance(fields, (list, tuple)) else ():
        yield from mappings(each)


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.parent.name)
def test_a_study_of_the_project_is_simulated_rebuilt_and_read_back_and_cannot_be_changed(file):
    made = Study.load(file.parent)
    check(SimEngine(), made)
    before = repr(made)
    assert eval(before, dict(NAMES)) == made
    assert Study.model_validate_json(made.model_dump_json()) == pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    found = list(mappings(made))
    assert len(found) > 5
    for each in found:
        for name, *words in CHANGES:
            with pytest.raises(TypeError, match="a study is frozen, and so is what is in it"):
                getattr(each, name)(*words)
    assert repr(made) == before


@pytest.mark.parametrize("name", templates())
def test_a_template_is_rebuilt_from_its_repr(tmp_path, name):
    made = written(tmp_path, templates()[name].replace("NAME", name))
    assert eval(repr(made), dict(NAMES)) == made


def test_every_model_that_may_stand_in_a_study_is_exported():
    models = {name for name in study.__all__ if isinstance(found := getattr(study, name), type) and issubclass(found, Model)}
    # A cell's set-up is made from a study, and never stands in one.
    assert models - {"Setup"} <= set(polypath.__all__), models - set(polypath.__all__)
