"""The keys `measure` and `timing`: names, lists, maps and settings; settings that fit no run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from batchscope.core.errors import ConfigError
from batchscope.study import planner
from batchscope.study.experiments import entries_type
from batchscope.study.registry import MEASURES, OF_SWEEPS
from batchscope.study.versions import ENTRIES

MEASURE = TypeAdapter(entries_type(MEASURES | {"time_epoch": ENTRIES["time_epoch"]}, "measure"))
TIMING = TypeAdapter(entries_type(OF_SWEEPS, "timing"))


# Two gradients of the training examples of digits.
FEW_GRADIENTS = {"micro_batch": 400, "examples": "all"}


def default(name: str) -> dict[str, Any]:
    return {key: each.default for key, each in ENTRIES[name].parameters.items()}


@pytest.mark.parametrize(
    "raw", ["evaluate", ["evaluate"], {"evaluate": None}, {"evaluate": {}}, [{"evaluate": None}]]
)
def test_a_name_a_list_and_a_map_are_the_same(raw):
    (asked,) = MEASURE.validate_python(raw)
    assert (asked.name, asked.settings) == ("evaluate", default("evaluate"))


def test_order_settings_and_words_are_those_of_the_file():
    raw = [{"sharpness": {"spaces": ["full"], "examples": "all"}}, "time_epoch", "evaluate"]
    asked = MEASURE.validate_python(raw)
    assert [each.name for each in asked] == ["sharpness", "time_epoch", "evaluate"]
    assert asked[0].settings == default("sharpness") | {"spaces": ("full",), "examples": 0}
    (times,) = TIMING.validate_python({"throughput": {"repeats": 3, "block_seconds": 1}})
    assert times.settings == default("throughput") | {"repeats": 3, "block_seconds": 1.0}


def test_a_pair_has_two_values_of_one_factor():
    (asked,) = MEASURE.validate_python({"line": {"between": {"batch_size": [16, 64]}}})
    assert asked.between == {"batch_size": (16, 64)} and "between" not in asked.settings


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        *(([], ()), ({}, ()), (3, ()), ([3], ()), (["evaluate", "evaluate"], ())),
        ("evalute", ("evalute",)),
        ({"evaluate": {"weight": "best"}}, ("evaluate", "weight")),
        ({"hessian": {"probes": 1}}, ("hessian", "probes")),
        ({"sharpness": {"epsilons": [0.1, 0.1]}}, ("sharpness", "epsilons")),
        # The experiment's own keys give them.
        ({"evaluate": {"epoch": 3}}, ("evaluate",)),
        ({"time_epoch": {"repeats": 3}}, ("time_epoch",)),
        # Settings that exclude each other.
        ({"branches": {"factors": [2, 3]}}, ("branches",)),
        ({"branches": {"examples": 2}}, ("branches",)),
        ({"landscape": {"points": 4}}, ("landscape",)),
        ({"landscape": {"pairs": 0, "lines": 0}}, ("landscape",)),
        ({"noise_scale": {"examples": 5, "micro_batch": 2}}, ("noise_scale",)),
        # Pairs of runs.
        ("line", ("line", "between")),
        ({"line": {"between": {}}}, ("line", "between")),
        ({"line": {"between": {"batch_size": [16]}}}, ("line", "between", "batch_size")),
        ({"line": {"between": {"batch_size": [16, 16]}}}, ("line", "between")),
        ({"line": {"between": {"batch_size": [16, "x"]}}}, ("line", "between")),
        ({"line": {"between": {"seed": [0, 1]}}}, ("line", "between", "seed")),
        ({"line": {"between": {"batch_size": [1, 2], "epochs": [1, 2]}}}, ("line", "between")),
    ],
)
def test_what_is_refused_is_named(raw, place):
    with pytest.raises(ValidationError) as raised:
        MEASURE.validate_python(raw)
    places = {error["loc"] for error in raised.value.errors()}
    assert place in {found[: len(place)] for found in places}


def study(*sizes: int, **measure: Any) -> dict[str, Any]:
    factors = {"dataset": "digits", "model": "mlp", "optimizer": "sgd", "learning_rate": 0.1}
    experiment = {"vary": {"batch_size": [*sizes]}, "seeds": 1, "measure": measure}
    return {
        "study": "small",
        "defaults": {**factors, "epochs": 1, "device": "cpu", "threads": 1},
        "experiments": {"a": experiment},
    }


@pytest.mark.parametrize(
    ("sizes", "measure", "place", "received"),
    [
        ((16, 128), {"branches": None}, "branches.factors", 16),
        (
            (16,),
            {"noise_scale": {"micro_batch": 400, "examples": "all"}},
            *("noise_scale.micro_batch", 400),
        ),
    ],
)
def test_settings_that_do_not_fit_the_training_set_are_refused(sizes, measure, place, received):
    with pytest.raises(ConfigError) as raised:
        planner.make(study(*sizes, **measure))
    (problem,) = raised.value.problems
    assert problem.startswith(f"experiments.a.measure.{place}: received {received}")


def test_settings_that_fit_are_planned():
    found = planner.make(study(16, 64, branches=None, noise_scale={"micro_batch": 8}))
    assert [*found.experiments["a"].measures] == ["branches", "noise_scale"]
