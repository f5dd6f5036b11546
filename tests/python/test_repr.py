"""A study's repr rebuilds it, with nothing but what `from polypath import *` gives."""

import copy
import pickle

import pytest

import polypath
from polypath import Study, study
from polypath.cli._init import templates
from polypath.study._model import Model

NAMES = {name: getattr(polypath, name) for name in polypath.__all__}
STUDIES = [
    "atlas",
    "bbr-shared",
    "hybrid",
    "jittertrap",
    "linux-6.8",
    "linux-reference",
    "mpt-gre",
    "mtu",
    "nitk",
    "poster",
    "reorder",
    "rfc9438",
    "schedulers",
    "simult-flows",
]


def test_these_are_the_studies_of_the_project(request):
    assert sorted(file.parent.name for file in (request.config.rootpath / "studies").glob("*/study.yaml")) == STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_the_project_is_rebuilt_from_its_repr(request, name):
    made = Study.load(request.config.rootpath / "studies" / name)
    assert eval(repr(made), dict(NAMES)) == made


@pytest.mark.parametrize("name", templates())
def test_a_template_is_rebuilt_from_its_repr(tmp_path, name):
    (tmp_path / "study.yaml").write_text(templates()[name].replace("NAME", name))
    made = Study.load(tmp_path)
    assert eval(repr(made), dict(NAMES)) == made


def test_every_model_that_may_stand_in_a_study_is_exported():
    models = {name for name in study.__all__ if isinstance(found := getattr(study, name), type) and issubclass(found, Model)}
    # A cell's set-up is made from a study, and never stands in one.
    assert models - {"Setup"} <= set(polypath.__all__), models - set(polypath.__all__)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_the_project_is_read_back_from_json_pickle_and_a_copy(request, name):
    made = Study.load(request.config.rootpath / "studies" / name)
    assert Study.model_validate_json(made.model_dump_json()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made


def test_no_mapping_in_a_study_can_be_changed(request):
    def mappings(value):
        if isinstance(value, Model):
            for field in type(value).model_fields:
                yield from mappings(getattr(value, field))
        elif isinstance(value, dict):
            yield value
            for each in value.values():
                yield from mappings(each)
        elif isinstance(value, tuple):
            for each in value:
                yield from mappings(each)

    for name in STUDIES:
        made = Study.load(request.config.rootpath / "studies" / name)
        before = repr(made)
        found = list(mappings(made))
        assert len(found) > 5
        for each in found:
            for change in (
                lambda each=each: each.__setitem__("x", 1),
                lambda each=each: each.update(x=1),
                lambda each=each: each.clear(),
                lambda each=each: each.popitem(),
                lambda each=each: each.setdefault("x", 1),
                lambda each=each: each.__ior__({"x": 1}),
            ):
                with pytest.raises(TypeError, match="a study is frozen, and so is what is in it"):
                    change()
        assert repr(made) == before


MISTAKES = {
    "a bare number": (
        lambda: polypath.Link(ends=("a", "b"), both={"delay": 5}),
        "both.delay: the bare number 5 has no unit; write time like",
    ),
    "a field that there is not": (lambda: polypath.Node(rooter=True), "rooter: there is no field `rooter` here; did you mean `router`?"),
    "a field that is missing": (lambda: polypath.Flow(client="a"), "the field `server` is missing"),
}


@pytest.mark.parametrize("made, sentence", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_python_is_one_sentence(made, sentence):
    with pytest.raises(polypath.StudyError) as error:
        made()
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert "pydantic" not in str(error.value)
