"""Best learning rates and their exponent, against losses with a known optimum."""

import itertools
import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import best_learning_rates
from batchscope.analysis.best_learning_rates import best_rates, exponent

RATES = [0.01, 0.02, 0.04, 0.08, 0.16]
SIZES = [32, 64, 128, 256]
INF, NAN = math.inf, math.nan


def runs(optimum, rates=RATES, sizes=SIZES, seeds=(0, 1, 2), power=0.0, **columns):
    """Returns runs whose loss is least at `optimum(batch size, seed)`, in doublings."""
    names = ["batch_size", "learning_rate", "seed"]
    frame = pandas.DataFrame([*itertools.product(sizes, rates, seeds)], columns=names)
    pairs = frame[["batch_size", "seed"]].itertuples(index=False, name=None)
    best_rates = [optimum(*pair) for pair in pairs]
    return frame.assign(
        effective_learning_rate=frame["learning_rate"] * (frame["batch_size"] / 32) ** power,
        best_validation_loss=0.3 + np.log2(frame["learning_rate"] / best_rates) ** 2,
        **{"status": "finished", **columns},
    )


@pytest.mark.parametrize(("power", "factor"), [(1.0, 0.01 / 32), (0.5, 0.01 / 32**0.5)])
def test_the_exponent_of_a_known_optimum_is_exact(power, factor):
    sizes = [32, 128, 512]
    rates = [0.005, *RATES, 0.32, 0.64]
    frame = runs(lambda size, _: 0.01 * (size / 32) ** power, rates, sizes)
    found = best_rates(frame)
    expected = [0.01 * (size / 32) ** power for size in sizes]
    assert [choice.rate for choice in found] == pytest.approx(expected)
    assert all(choice.edge == "" for choice in found)
    fit = exponent(found)
    # Three sizes two doublings apart, rates one apart: half a step moves the slope by 2 / 8.
    assert fit.interval == pytest.approx((power, power - 0.25, power + 0.25, 3))
    assert fit.factor == pytest.approx(factor)
    assert fit.bound == ""


@pytest.mark.parametrize(
    ("optimum", "bound"),
    [
        (lambda size, _: 0.02 * size / 32, ""),
        (lambda size, _: 0.64 if size == 64 else 0.04, ""),  # the middle one has no effect
        (lambda size, _: 0.04 * size / 32, "at least"),  # the largest would go beyond 0.16
        (lambda size, _: 0.32 / size * 32, "at most"),  # the smallest would go beyond 0.16
        (lambda size, _: 0.64, "unbounded"),  # all of them would
        (lambda size, _: 0.001 if size < 256 else 0.04, "unbounded"),
    ],
)
def test_edges_make_the_exponent_a_bound(optimum, bound):
    frame = runs(optimum, sizes=[32, 64, 128, 256] if bound else [32, 64, 128])
    fit = exponent(best_rates(frame))
    assert fit.bound == bound


def test_a_missing_run_is_scaled_as_the_others():
    frame = runs(lambda *_: 0.1, power=1.0)
    scaled = frame["effective_learning_rate"]
    incomplete = frame.assign(effective_learning_rate=scaled.mask(frame["seed"] == 0))
    assert best_learning_rates.effective_rates(incomplete).tolist() == pytest.approx([*scaled])


def test_a_rate_is_tuned_where_several_were_tried_of_a_batch_size():
    tuned = best_learning_rates.has_choice
    single = runs(lambda *_: 0.1, rates=[0.1], optimizer="sgd")
    assert tuned(runs(lambda *_: 0.1, rates=[0.1, 0.2]))
    # One that goes with another factor is no choice.
    both = pandas.concat([single, single.assign(learning_rate=0.01, optimizer="adam")])
    none = (single.drop(columns="learning_rate"), pandas.DataFrame(columns=["learning_rate"]))
    for frame in (single, single.assign(learning_rate=single["batch_size"] / 100), both, *none):
        assert not tuned(frame)


def test_a_seed_without_a_rate_that_left_a_race_chooses_none():
    frame = runs(lambda size, seed: 0.02 * 2**seed, seeds=(0, 1, 2, 3))
    raced = frame[(frame["seed"] < 3) | (frame["learning_rate"] == 0.04)]
    by_seed = best_rates(raced)[0].by_seed
    assert by_seed == pytest.approx({0: 0.02, 1: 0.04, 2: 0.08, 3: NAN}, nan_ok=True)
    assert exponent(best_rates(raced)).interval.n == 3  # seed 3 would narrow it
