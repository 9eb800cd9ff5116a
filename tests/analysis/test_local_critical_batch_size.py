"""The table of local critical batch sizes: verdicts, and intervals over seeds."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import local_critical_batch_size
from batchscope.measures.branches import critical_multiple

FACTORS = (1, 2, 4)


def tables(losses):
    """branches.csv and branch_points.csv of seeds with these losses, shape (seeds, factors)."""
    branches, points = [], []
    for seed, row in enumerate(losses):
        same = {"run": f"r{seed}", "batch_size": 8, "seed": seed, "learning_rate": 0.1}
        same |= {"share": 0.5, "examples_used": 100 + seed}
        branches += [
            {**same, "factor": factor, "branch_loss": loss}
            for factor, loss in zip(FACTORS, row, strict=True)
        ]
        whole = [loss if math.isfinite(loss) else math.inf for loss in row]
        critical = 8 * critical_multiple(list(FACTORS), whole, 0.1)
        noise = {"gradient_variance": 30.0, "gradient_norm_squared": 2.0 + 0.1 * seed}
        points.append({**same, **noise, "local_critical_batch_size": critical})
    return pandas.DataFrame(branches), pandas.DataFrame(points)


def losses(means, scatter=0.01, seeds=8, seed=0):
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(seeds, 1))  # pairs cancel it
    return np.array(means) + shared + scatter * generator.normal(size=(seeds, len(means)))


def test_larger_factors_beside_the_best_smaller_one():
    found = local_critical_batch_size.table(*tables(losses([1.0, 0.8, 1.0])), 0.1)
    assert found["factor"].tolist() == [2, 4]
    assert found["verdict"].tolist() == ["within", "beyond"]
    assert found["against"].tolist() == [1, 2]
    assert found["estimate"].tolist() == pytest.approx([-0.2, 0.2], abs=0.02)
    assert (found["critical_batch_size"] == 16).all()
    # All seeds have 16: what lies between 16 and 32 was never seen.
    assert found["critical_batch_size_low"].tolist() == pytest.approx([16, 16])
    assert found["critical_batch_size_high"].tolist() == pytest.approx([32, 32])
    assert found["noise_scale"].tolist() == pytest.approx([30 / 2.35] * 2)
    assert (found["noise_scale_low"] < 30 / 2.35).all()


def test_ends_are_open_where_no_factor_was_small_or_large_enough():
    low = local_critical_batch_size.table(*tables(losses([1.0, 1.5, 2.0])), 0.1)
    assert low["critical_batch_size"].tolist() == [8, 8]
    assert low["critical_batch_size_low"].isna().all()
    assert low["critical_batch_size_high"].tolist() == pytest.approx([16, 16])
    high = local_critical_batch_size.table(*tables(losses([1.0, 1.0, 1.0])), 0.1)
    assert high["critical_batch_size_high"].isna().all()
    assert high["critical_batch_size_low"].tolist() == pytest.approx([32, 32])


def test_a_branch_that_diverged_is_beyond_and_stages_share_the_level():
    given = losses([1.0, 0.8, 1.0])
    given[3, 2] = math.nan
    found = local_critical_batch_size.table(*tables(given), 0.1)
    assert found["verdict"].tolist() == ["within", "beyond"]
    assert found["reason"].tolist() == ["", "failed"]
    assert found["estimate"].isna().tolist() == [False, True]
    given = losses([1.0, 0.8, 1.0], 0.1, 9)
    one = local_critical_batch_size.table(*tables(given), 0.1)
    staged = local_critical_batch_size.table(*tables(given), 0.1, (6, 9, 13))
    assert (staged["high"] - staged["low"] > one["high"] - one["low"]).all()


def test_smaller_factors_that_diverged_for_a_seed_are_compared_over_the_others():
    given = losses([0.2, 0.8, 0.81])
    given[3, 0] = math.nan
    found = local_critical_batch_size.table(*tables(given), 0.1)
    assert found["verdict"].tolist() == ["beyond", "beyond"]
    assert found["against"].tolist() == [1, 1]
    given[:, 0] = math.nan
    found = local_critical_batch_size.table(*tables(given), 0.1)
    assert found["verdict"].tolist() == ["not_testable", "within"]
    assert found["reason"].tolist() == ["failed", ""]
    empty = pandas.DataFrame()
    assert local_critical_batch_size.table(empty, empty, math.nan).empty


def test_the_mean_lies_in_its_interval():
    rows = np.array([[1.0, 1.0, 2.0]] * 8 + [[1.0, 1.0, 1.0]] * 7)
    rows[:8] += np.array([0, -0.3, 0])
    branches, points = tables(rows)
    found = local_critical_batch_size.table(branches, points, 0.1).iloc[0]
    low, value = found["critical_batch_size_low"], found["critical_batch_size"]
    assert low < value and value == pytest.approx(16 ** (8 / 15) * 32 ** (7 / 15))
