"""Bundles: values of parameters that come with a value of another."""

import pytest
import yaml
from study_data import one_link

from polypath import Study
from polypath.study import cells, parameter_names, runs

STUDY = one_link(
    "bundled",
    '{rate: "${rate}", queue: 50packets, delay: "${delay}"}',
    duration="2s",
    baselines="null",
    bundles="{network: {dsl: {rate: 20mbit, delay: 10ms}, satellite: {rate: 50mbit, delay: 300ms}}}",
    matrix="{cc: [cubic, reno], network: [dsl, satellite]}",
)


def study(**changes):
    return Study.model_validate({**yaml.safe_load(STUDY), **changes})


def test_a_value_brings_others_with_it_and_may_bring_a_seed():
    made = study()
    links = [cell.setup.topology.links["l"].both for cell in cells(made)]
    assert [(str(link.rate), str(link.delay)) for link in links] == [("20mbit", "10ms"), ("50mbit", "300ms")] * 2
    # What is brought is no column of its own.
    assert parameter_names(made) == ["cc", "network"]
    assert len({run.key for run in runs(made, engine="sim", version="any")}) == 4
    networks = {"dsl": {"rate": "20mbit", "delay": "1ms", "seed": 3}, "satellite": {"rate": "1mbit", "delay": "9ms"}}
    made = study(seeds=[5], bundles={"network": networks})
    assert [cell.seeds for cell in cells(made)] == [(3,), (5,)] * 2
    assert [run.seed for run in runs(made, engine="sim", version="any")] == [3, 5, 3, 5]
    assert Study.model_validate(yaml.safe_load(study().to_yaml())) == study()


MISTAKES = {
    "a value without a bundle": ({"matrix": {"cc": ["cubic"], "network": ["dls"]}}, 'no bundle of network "dls"; did you mean "dsl"?'),
    "a value from two places": ({"parameters": {"rate": "5mbit"}}, '"rate" has a value already: give it in one place'),
    "a parameter that nothing sets": (
        {"bundles": {"network": {"dsl": {"rate": "20mbit"}, "satellite": {"rate": "50mbit"}}}},
        'the parameter "delay" has no value',
    ),
    "a seed that is none": (
        {"bundles": {"network": {"dsl": {"rate": "20mbit", "delay": "1ms", "seed": "x"}}}, "matrix": {"cc": ["cubic"], "network": ["dsl"]}},
        "a seed is a whole number from 0 on",
    ),
    "a bundle of what stands nowhere": (
        {
            "bundles": {
                "network": {"dsl": {"rate": "20mbit", "delay": "1ms"}, "satellite": {"rate": "1mbit", "delay": "9ms"}},
                "mood": {"good": {"x": 1}},
            },
            "matrix": {"cc": ["cubic"], "network": ["dsl"], "mood": ["good"]},
        },
        '"${mood}" stands nowhere',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_meant_is_refused(name):
    changes, sentence = MISTAKES[name]
    with pytest.raises(ValueError) as error:
        study(**changes)
    assert sentence in str(error.value)
