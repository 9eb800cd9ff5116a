"""The keys `measure` and `timing`: names, lists, maps and settings; settings that fit no run."""

import pytest
from pydantic import TypeAdapter, ValidationError

from batchscope.study import planner
from batchscope.study.experiments import entries_type
from batchscope.study.registry import ENTRIES, MEASURES, SWEEP_TIMINGS
from small_study import config, problems

MEASURE = TypeAdapter(entries_type(MEASURES | {"time_epoch": ENTRIES["time_epoch"]}, "measure"))
TIMING = TypeAdapter(entries_type(SWEEP_TIMINGS, "timing"))


@pytest.mark.parametrize("raw", ["evaluate", ["evaluate"], {"evaluate": None}, {"evaluate": {}}])
def test_a_name_a_list_and_a_map_are_the_same(raw):
    assert MEASURE.validate_python(raw) == {"evaluate": ENTRIES["evaluate"].settings()}


def test_order_settings_and_words_are_those_of_the_file():
    sharpness = {"spaces": ["full"], "examples": "all"}
    raw = {"sharpness": sharpness, "time_epoch": None, "evaluate": None}
    asked = MEASURE.validate_python(raw)
    assert list(asked) == ["sharpness", "time_epoch", "evaluate"]
    assert (asked["sharpness"].spaces, asked["sharpness"].examples) == (("full",), 0)
    times = TIMING.validate_python({"throughput": {"repeats": 3, "block_seconds": 1}})
    assert times == {"throughput": ENTRIES["throughput"].settings(repeats=3, block_seconds=1.0)}


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        *(([], ()), ({}, ()), (3, ()), ([3], ()), (["evaluate", "evaluate"], ())),
        ({"hessian": {"probes": 1}}, ("hessian", "probes")),
        ({"sharpness": {"epsilons": [0.1, 0.1]}}, ("sharpness", "epsilons")),
        ({"time_epoch": {"repeats": 3}}, ("time_epoch",)),  # The experiment's own keys give them.
        # Settings that exclude each other.
        ({"branches": {"factors": [2, 3]}}, ("branches",)),
        ({"branches": {"examples": 2}}, ("branches",)),
        ({"noise_scale": {"examples": 2}}, ("noise_scale",)),
        # Pairs of runs.
        ({"line": {"between": {"batch_size": [16]}}}, ("line", "between", "batch_size")),
        ({"line": {"between": {"batch_size": [16, 16]}}}, ("line", "between")),
        ({"line": {"between": {"batch_size": [1, 2], "epochs": [1, 2]}}}, ("line", "between")),
    ],
)
def test_what_is_refused_is_named(raw, place):
    with pytest.raises(ValidationError) as raised:
        MEASURE.validate_python(raw)
    places = {error["loc"] for error in raised.value.errors()}
    assert place in {found[: len(place)] for found in places}


def test_settings_fit_the_training_set():
    study = config(experiment={"vary": {"batch_size": [16, 128]}, "measure": ["branches"]})
    (problem,) = problems(study)
    assert problem.startswith("experiments.a.measure.branches.factors: received 16")
    study["experiments"]["a"]["vary"]["batch_size"] = [16, 64]
    assert list(planner.make(study).experiments["a"].measures) == ["branches"]
