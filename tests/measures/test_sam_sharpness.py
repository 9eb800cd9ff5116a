"""SAM's one-step sharpness against answers worked out by hand."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import measured_run
from batchscope.catalogue import measure_settings
from batchscope.catalogue.measures import MEASURES
from batchscope.measures import sam_sharpness

SETTINGS = measure_settings.parse_settings("sam_sharpness", "default")


def measured(loss, gradient, x, rhos=(0.05,)):
    return sam_sharpness.measure(lambda w: (loss(w), gradient(w)), loss, x, rhos)


def test_quadratic_bowl():
    random = np.random.default_rng(0)
    curvature, x = random.uniform(0.1, 10.0, 40), random.standard_normal(40)

    def loss(w):
        return 0.25 + 0.5 * float(curvature @ w**2)

    values, details = measured(loss, lambda w: curvature * w, x, (0.05, 0.5))
    gradient = curvature * x
    norm = np.linalg.norm(gradient)
    for rho in (0.05, 0.5):
        expected = rho * norm + 0.5 * (rho / norm) ** 2 * float(curvature @ gradient**2)
        assert values[f"sam_sharpness_{rho}"] == pytest.approx(expected, rel=1e-12)
    assert details["loss"] == loss(x)
    assert details["gradient_norm"] == pytest.approx(norm, rel=1e-12)
    assert details["parameters"] == 40


def test_linear_function_rises_by_its_slope_times_rho():
    slope = np.array([3.0, -4.0])
    values, _ = measured(lambda w: float(slope @ w), lambda w: slope, np.ones(2), (0.1,))
    assert values == {"sam_sharpness_0.1": pytest.approx(0.5, rel=1e-12)}


def test_zero_gradient_gives_zero():
    values, _ = measured(lambda w: 0.5 * float(w @ w), lambda w: w, np.zeros(3))
    assert values == {"sam_sharpness_0.05": 0.0}


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_loss_without_finite_value(bad):
    def loss(w):
        return 1.0 if w[0] <= 1 else bad

    values, _ = measured(loss, np.ones_like, np.ones(2))
    assert values == {"sam_sharpness_0.05": None}


def test_columns_are_named_by_the_length_of_the_step():
    assert MEASURES["sam_sharpness"].columns_for(SETTINGS) == ("sam_sharpness_0.05",)
    assert MEASURES["sam_sharpness"].columns_for({"rhos": (0.1, 1.0)}) == (
        "sam_sharpness_0.1",
        "sam_sharpness_1",
    )


written = functools.partial(measured_run.measured, "sam_sharpness")


def test_record(results, tmp_path):
    record = written(results, tmp_path)
    assert record["status"] == "finished"
    assert tuple(record["values"]) == MEASURES["sam_sharpness"].columns_for(SETTINGS)
    rise = record["values"]["sam_sharpness_0.05"]
    # Away from a minimum, the first order dominates a small step.
    assert rise == pytest.approx(0.05 * record["gradient_norm"], rel=0.3)
    assert record["subset"]["examples"] == measured_run.COUNTS["train"]
    assert record["chunk"] == measured_run.COUNTS["train"]
