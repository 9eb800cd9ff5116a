"""Phases of the batch size over a training, and constants of optimizers that follow it."""

import math

import numpy as np
import pytest

from batchscope.study import batch_phases, names, run_factors
from batchscope.study.batch_phases import Course
from digit_runs import run_name

STEPS = {"batch_schedule": "steps", "largest_batch_size": 64, "batch_size": 16, "epochs": 3}
SEESAW = {**STEPS, "batch_schedule": "seesaw", "schedule": "cosine", "largest_batch_size": 1024}


def factors_of(**given):
    return names.parse_run(run_name(**given))


def updates(factors, examples):
    """Batch sizes and rate factors of all updates, one after the other by the definition."""
    phases, horizon = batch_phases.batch_phases(factors), factors["epochs"] * examples
    found = []
    for epoch in range(factors["epochs"]):
        used = 0
        while used < examples:
            begun = [p for p in phases if p.share * horizon <= epoch * examples + used + 1e-6]
            size = min(begun[-1].batch_size, examples - used)
            found.append((epoch, used, size, begun[-1].rate))
            used += begun[-1].batch_size
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [(0, 16, 1)]),
        ({**STEPS, "batch_rises": 2}, [(0, 16, 1), (0.5, 32, 1), (0.75, 64, 1)]),
        # At its limit the rate falls in the batch size's place.
        (
            {**STEPS, "batch_rises": 2, "largest_batch_size": 32},
            [(0, 16, 1), (0.5, 32, 1), (0.75, 32, 0.5)],
        ),
        ({**STEPS, "optimizer": "adam"}, [(0, 16, 1), (0.5, 32, 0.5**0.5)]),
        (
            {**STEPS, "optimizer": "adam", "batch_rise_factor": 4.0, "largest_batch_size": 16},
            [(0, 16, 1), (0.5, 16, 0.25)],
        ),
    ],
)
def test_phases_by_hand(given, expected):
    found = batch_phases.batch_phases(factors_of(**{"batch_size": 16, **given}))
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("warmup", [0, 1])
def test_seesaw_rises_where_the_schedule_has_fallen_by_the_factor(schedule, warmup):
    factors = factors_of(**SEESAW | {"schedule": schedule, "warmup_epochs": warmup})
    first, *risen = batch_phases.batch_phases(factors)
    assert len(risen) == 6  # 2^-6 is above a hundredth, 2^-7 below
    for index, phase in enumerate(risen, 1):
        part = (phase.share - warmup / 3) / (1 - warmup / 3)
        left = (1 + math.cos(math.pi * part)) / 2 if schedule == "cosine" else 1 - part
        assert left == pytest.approx(0.5**index)
        assert phase.batch_size == 16 * 2**index and phase.rate == 1
    assert (first.share, first.batch_size) == (0, 16)


@pytest.mark.parametrize("examples", [64, 1078])
@pytest.mark.parametrize(
    "given",
    [
        {"batch_size": 16},
        {**STEPS, "batch_rises": 2},
        {**STEPS, "batch_rises": 5, "batch_rises_from": 0.1},
        {**STEPS, "batch_rises": 64, "batch_rises_from": 0.01, "largest_batch_size": 50},
        {**SEESAW, "largest_batch_size": 60, "optimizer": "adam"},
    ],
)
def test_a_course_has_the_updates_of_the_definition(examples, given):
    factors = factors_of(**given)
    course, expected = Course(factors, examples), updates(factors, examples)
    found, rates = [], course.rate_changes()
    for epoch in range(factors["epochs"]):
        assert course.updates(epoch) == sum(each[0] < epoch for each in expected)
        step, used = 0, course.example_positions(epoch)
        for stop, offset, size in course.segments(epoch):
            for each in range(step, stop):
                start = offset + each * size
                rate = [value for at, value in rates if at <= len(found)][-1]
                found.append((epoch, start, min(size, examples - start), rate))
                assert used[each] == course.examples_after(epoch, each) == start
            step = stop
        assert used[-1] == course.examples_after(epoch, step) == examples and len(used) == step + 1
    np.testing.assert_allclose(found, expected)


def test_examples_by_batch_size_add_up():
    factors = factors_of(**STEPS, batch_rises=2)
    course = Course(factors, 100)
    assert course.examples_by_size(300) == pytest.approx({16: 150, 32: 75, 64: 75})
    assert course.examples_by_size(160) == pytest.approx({16: 150, 32: 10})
    assert batch_phases.example_shares(factors) == {16: 0.5, 32: 0.25, 64: 0.25}
    assert batch_phases.example_shares(factors_of()) == {100: 1.0}
    unknown = Course(factors, math.nan).examples_by_size(160)
    assert math.isnan(sum(unknown.values()))


def effective(**factors):
    return run_factors.scaled_constants(factors_of(**factors))


def test_what_is_left_out_is_the_optimizers_own():
    assert effective(optimizer="sgd") == {"weight_decay": 0}
    lion = {"weight_decay": 0, "beta_1": 0.8, "beta_2": 0.99}
    assert effective(optimizer="lion", beta_1=0.8) == lion
    assert effective(optimizer="adamw")["weight_decay"] == 0.004
    assert effective(optimizer="adamw", weight_decay=0)["weight_decay"] == 0


def test_the_half_life_in_examples_stays():
    """0.5^(1/10) forgets half in 10 updates of 32 examples: in 5 of 64, in 40 of 8."""
    given = {"optimizer": "adam", "beta_2": 0.5**0.1, "beta_scaling": "half_life"}
    for batch_size, updates in ((64, 5), (32, 10), (8, 40)):
        found = effective(batch_size=batch_size, **given)
        assert found["beta_2"] ** updates == pytest.approx(0.5, rel=1e-12)
        assert (found["beta_1"], found["epsilon"]) == (0.9, 1e-7)


def test_the_square_root_rule_of_adam():
    found = effective(batch_size=128, optimizer="adam", beta_scaling="square_root")
    assert found == pytest.approx(
        {"beta_1": 0.6, "beta_2": 0.996, "epsilon": 5e-8, "weight_decay": 0}, rel=1e-12
    )
    same = effective(batch_size=32, optimizer="adam", beta_scaling="square_root")
    assert same == pytest.approx(effective(optimizer="adam"), rel=1e-15)
