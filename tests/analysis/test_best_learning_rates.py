"""Best learning rates and their exponent, against losses with a known optimum."""

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import best_learning_rates
from costs import draws

RATES = [0.01, 0.02, 0.04, 0.08, 0.16]
SIZES = [32, 64, 128, 256]
INF, NAN = math.inf, math.nan


def runs(optimum, rates=RATES, sizes=SIZES, seeds=(0, 1, 2), power=0.0, **columns):
    """Returns runs whose loss is least at `optimum(batch size, seed)`, in doublings."""
    rows = [
        {
            "batch_size": size,
            "learning_rate": rate,
            "effective_learning_rate": rate * (size / 32) ** power,
            "seed": seed,
            "status": "finished",
            "best_validation_loss": 0.3 + math.log2(rate / optimum(size, seed)) ** 2,
            **columns,
        }
        for size in sizes
        for rate in rates
        for seed in seeds
    ]
    return pandas.DataFrame(rows)


def test_the_lowest_mean_is_the_best():
    assert best_learning_rates.best([[3.0, 1.0, 2.0], [3.0, 2.5, 1.0]]) == 2
    assert best_learning_rates.best([0.4, 0.3, 0.5]) == 1


def test_among_equals_the_lowest_rate_is_the_best():
    assert best_learning_rates.best([[1.0, 0.5, 0.5], [1.0, 0.7, 0.7]]) == 1


def test_a_diverged_rate_is_never_the_best():
    assert best_learning_rates.best([[1.0, 0.1], [1.0, INF]]) == 0
    assert best_learning_rates.best([[INF, INF]]) is None


def test_a_rate_that_fewer_seeds_tried_is_not_the_best():
    assert best_learning_rates.best([[1.0, 0.1], [1.0, NAN], [NAN, NAN]]) == 0
    assert best_learning_rates.best([[1.0, 0.1], [NAN, 0.2], [NAN, NAN]]) == 1
    assert best_learning_rates.best([[NAN, NAN]]) is None
    assert best_learning_rates.best([[NAN, 2.0]]) == 1


@pytest.mark.parametrize(
    ("index", "count", "place"),
    [(0, 5, "lowest"), (4, 5, "highest"), (2, 5, ""), (0, 1, "only"), (1, 2, "highest")],
)
def test_edges(index, count, place):
    assert best_learning_rates.edge(index, count) == place


@pytest.mark.parametrize(("power", "factor"), [(1.0, 0.01 / 32), (0.5, 0.01 / 32**0.5)])
def test_the_exponent_of_a_known_optimum_is_exact(power, factor):
    sizes = [32, 128, 512]
    rates = [0.005, *RATES, 0.32, 0.64]
    frame = runs(lambda size, _: 0.01 * (size / 32) ** power, rates, sizes)
    found = best_learning_rates.choices(frame)
    expected = [0.01 * (size / 32) ** power for size in sizes]
    assert [choice.rate for choice in found] == pytest.approx(expected)
    assert all(choice.edge == "" and choice.runs == 3 for choice in found)
    fit = best_learning_rates.exponent(found)
    # Three sizes two doublings apart, rates one apart: half a step moves the slope by 2 / 8.
    assert fit.interval == pytest.approx((power, power - 0.25, power + 0.25, 3))
    assert fit.factor == pytest.approx(factor)
    assert (fit.bound, fit.on_edge, fit.points) == ("", 0, 9)


def test_a_rate_that_was_never_trained_is_no_edge():
    rows = runs(lambda size, seed: 0.08)
    rows.loc[rows["learning_rate"] == 0.16, "status"] = "missing"
    found = best_learning_rates.choices(rows)
    assert {choice.edge for choice in found} == {best_learning_rates.HIGH}
    assert {len(choice.rates) for choice in found} == {4}


def test_the_exponent_is_of_effective_rates():
    frame = runs(lambda size, _: 0.04, power=1.0)
    found = best_learning_rates.choices(frame)
    assert [choice.learning_rate for choice in found] == [0.04] * 4
    assert [choice.rate for choice in found] == pytest.approx([0.04, 0.08, 0.16, 0.32])
    assert best_learning_rates.exponent(found).interval.mean == pytest.approx(1.0)


def test_each_seed_gives_an_exponent():
    frame = runs(lambda size, seed: 0.02 * (size / 32) ** (0.5 * seed), RATES, [32, 128])
    fit = best_learning_rates.exponent(best_learning_rates.choices(frame))
    # 0, 1/2 and 1: mean 1/2, standard error 1/2 / sqrt(3), t of 2 degrees of freedom 4.303.
    assert fit.interval.mean == pytest.approx(0.5)
    # Two sizes two doublings apart: half a step of the grid at both moves the slope by 1 / 2.
    half = 4.3027 * 0.5 / 3**0.5 + 0.5
    assert fit.interval.high - 0.5 == pytest.approx(half, rel=1e-4)
    assert 0.5 - fit.interval.low == pytest.approx(half, rel=1e-4)
    assert fit.interval.n == 3


def test_one_seed_has_no_interval_and_one_batch_size_no_exponent():
    fit = best_learning_rates.exponent(
        best_learning_rates.choices(runs(lambda *_: 0.04, seeds=[0]))
    )
    assert fit.interval.mean == pytest.approx(0, abs=1e-12)
    assert math.isnan(fit.interval.low) and fit.interval.n == 1
    assert (
        best_learning_rates.exponent(best_learning_rates.choices(runs(lambda *_: 0.04, sizes=[32])))
        is None
    )
    assert best_learning_rates.exponent([]) is None


@pytest.mark.parametrize(
    ("optimum", "bound"),
    [
        (lambda size, _: 0.02 * size / 32, ""),
        (lambda size, _: 0.04 * size / 32, "at least"),  # the largest would go beyond 0.16
        (lambda size, _: 0.32 / size * 32, "at most"),  # the smallest would go beyond 0.16
        (lambda size, _: 0.64, "unbounded"),  # all of them would
        (lambda size, _: 0.001 if size < 256 else 0.04, "unbounded"),
    ],
)
def test_edges_make_the_exponent_a_bound(optimum, bound):
    frame = runs(optimum, sizes=[32, 64, 128, 256] if bound else [32, 64, 128])
    fit = best_learning_rates.exponent(best_learning_rates.choices(frame))
    assert fit.bound == bound
    assert bool(fit.on_edge) == bool(bound)


def test_the_edge_of_the_choice_is_flagged():
    found = best_learning_rates.choices(runs(lambda size, _: 0.005 * size / 32))
    assert [choice.edge for choice in found] == ["lowest", "lowest", "", ""]
    assert found[0].edges == {0: "lowest", 1: "lowest", 2: "lowest"}
    (alone,) = best_learning_rates.choices(runs(lambda *_: 0.04, rates=[0.1], sizes=[32]))
    assert alone.edge == "only"


def test_the_resolution_is_half_a_step_at_every_batch_size():
    found = best_learning_rates.choices(runs(lambda *_: 0.04))
    # Doublings centre to -1.5, -0.5, 0.5, 1.5: half a step each moves the slope by 2 / 5.
    assert best_learning_rates.exponent(found).resolution == pytest.approx(0.4)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("step", [1, 2])
@draws(100)
def test_the_interval_of_the_exponent_covers(step, spread, draws):
    """Optima that fall anywhere between the rates; their luck by seed, in doublings."""
    rng, sizes, covered = np.random.default_rng(5), [32, 64, 128, 256], 0
    rates = [2.0**power for power in range(-10, 13, step)]
    for _ in range(draws):
        power, first = rng.uniform(0, 1), rng.uniform(-3, 3)
        luck = rng.normal(0, spread, (3, len(sizes)))

        def optimum(size, seed, power=power, first=first, luck=luck):
            return 2 ** (first + power * math.log2(size / 32) + luck[seed, sizes.index(size)])

        found = best_learning_rates.choices(runs(optimum, rates, sizes))
        _, low, high, _ = best_learning_rates.exponent(found).interval
        covered += low <= power <= high
    assert covered >= 0.95 * draws - 3 * math.sqrt(0.95 * 0.05 * draws)


def test_a_rate_next_to_divergence_is_not_on_the_edge():
    frame = runs(lambda *_: 0.16, sizes=[32])
    frame.loc[(frame["learning_rate"] == 0.16) & (frame["seed"] == 1), "status"] = "diverged"
    (choice,) = best_learning_rates.choices(frame)
    assert choice.rate == 0.08 and choice.edge == "" and choice.runs == 3
    assert choice.by_seed == {0: 0.16, 1: 0.08, 2: 0.16}


def test_batch_sizes_without_any_best_rate_are_left_out():
    frame = runs(lambda size, _: 0.01 * size / 32)
    frame.loc[frame["batch_size"] == 128, "status"] = "out_of_memory"
    frame.loc[(frame["batch_size"] == 64) & (frame["seed"] == 2), "status"] = "missing"
    found = best_learning_rates.choices(frame)
    assert math.isnan(found[2].rate) and found[2].edge == ""
    fit = best_learning_rates.exponent(found)
    assert fit.interval.mean == pytest.approx(1.0)
    assert (fit.interval.n, fit.points) == (2, 6)  # seed 2 lacks a batch size


def test_the_best_rate_is_reported_on_its_own_finished_runs():
    frame = runs(lambda *_: 0.04, sizes=[32, 64], test_loss=0.5)
    choice = best_learning_rates.choices(frame)[1]
    rows = choice.rows(frame)
    assert set(rows["learning_rate"]) == {0.04} and set(rows["batch_size"]) == {64}
    assert len(rows) == 3


def test_a_missing_run_takes_its_scaling_from_the_others():
    frame = runs(lambda *_: 0.04, power=1.0)
    gone = (frame["learning_rate"] == 0.16) & (frame["batch_size"] == 64)
    frame.loc[gone, ["effective_learning_rate", "best_validation_loss"]] = NAN
    frame.loc[gone, "status"] = "missing"
    found = best_learning_rates.effective(frame)
    assert np.allclose(found[gone], 0.32)
    alone = frame[frame["batch_size"] == 64].assign(effective_learning_rate=NAN)
    assert list(best_learning_rates.effective(alone)) == list(alone["learning_rate"])


def test_a_series_holds_all_its_learning_rates():
    frame = pandas.concat(
        [
            runs(lambda *_: 0.04, learning_rate_scaling="none"),
            runs(lambda *_: 0.02, learning_rate_scaling="linear", power=1.0),
        ],
        ignore_index=True,
    )
    groups = best_learning_rates.series(frame)
    assert [group.label for group in groups] == ["no scaling", "linear scaling"]
    assert all(len(group.frame) == 60 for group in groups)
    best = [best_learning_rates.choices(group.frame)[-1].rate for group in groups]
    assert best == pytest.approx([0.04, 0.16])
