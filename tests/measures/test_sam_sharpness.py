"""SAM's one-step sharpness against answers worked out by hand."""

import numpy as np
import pytest

from batchscope.measures import sam_sharpness
from batchscope.measures.measure_job import FinishedRun
from batchscope.study.registry import MEASURES
from measured_run import RUN, measured


def values(loss, gradient, x, rhos=(0.05,)):
    return sam_sharpness.measure(lambda w: (loss(w), gradient(w)), loss, x, rhos).values


def test_quadratic_bowl():
    random = np.random.default_rng(0)
    curvature, x = random.uniform(0.1, 10.0, 40), random.standard_normal(40)

    def loss(w):
        return 0.25 + 0.5 * float(curvature @ w**2)

    found = values(loss, lambda w: curvature * w, x, (0.05, 0.5))
    gradient = curvature * x
    norm = np.linalg.norm(gradient)
    for rho in (0.05, 0.5):
        expected = rho * norm + 0.5 * (rho / norm) ** 2 * float(curvature @ gradient**2)
        assert found[f"sam_sharpness_{rho}"] == pytest.approx(expected, rel=1e-12)


def test_no_gradient_and_no_finite_loss():
    assert values(lambda w: 0.5 * float(w @ w), lambda w: w, np.zeros(3)) == {
        "sam_sharpness_0.05": 0.0
    }
    for bad in (np.inf, np.nan):
        found = values(lambda w, bad=bad: 1.0 if w[0] <= 1 else bad, np.ones_like, np.ones(2))
        assert found == {"sam_sharpness_0.05": None}


def test_record(results, tmp_path):
    record = measured("sam_sharpness", results, tmp_path, {"rhos": (0.05, 1.0)})
    columns = MEASURES["sam_sharpness"].columns_for({"rhos": (0.05, 1.0)})
    assert tuple(record["values"]) == columns == ("sam_sharpness_0.05", "sam_sharpness_1")
    # Away from a minimum, the first order dominates a small step.
    loss = FinishedRun(results, RUN).training_loss({"examples": 0})
    norm = np.linalg.norm(loss.loss_and_gradient(loss.weights())[1])
    assert record["values"]["sam_sharpness_0.05"] == pytest.approx(0.05 * norm, rel=0.3)
