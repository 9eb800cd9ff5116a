"""Stairs in the time of a step: timings made with a known q, and timings without any."""

import math

import numpy as np
import pytest
from test_step_cost import POWERS, SPARSE, noisy

from batchscope.analysis import step_stairs
from costs import draws

DENSE = np.arange(1.0, 67.0)


def stairs(sizes, q, fixed=10.0):
    """Returns timings that grow by 1 per example on average, in steps of q."""
    return fixed + q * np.ceil(sizes / q)


def alone(sizes, seconds):
    (found,) = step_stairs.compare([(sizes, seconds)])
    return found


@pytest.mark.parametrize("sizes", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("q", step_stairs.STAIRS)
@pytest.mark.parametrize("noise", [0.002, 0.05])
@draws(100)
def test_stairs_are_found(sizes, q, noise, draws):
    many = [alone(sizes, noisy(stairs(sizes, q), noise, seed)) for seed in range(draws)]
    assert sum((one.winner, one.best.q) == ("staircase", q) for one in many) >= 0.95 * draws
    found = many[0]
    assert found.best.residual < 1.3 * noise < found.line_residual
    assert found.p_holm == pytest.approx(3 * found.best.p)
    assert f"fits stairs of {q} examples" in step_stairs.verdict(found)


@pytest.mark.parametrize("sizes", [DENSE, SPARSE], ids=["dense", "sparse"])
@draws(1000)
def test_a_line_is_called_a_staircase_in_less_than_one_experiment_of_twenty(sizes, draws):
    """Experiments of two configurations each, one with much fixed cost and noise."""
    winners = []
    for seed in range(draws):
        clear, hidden = noisy(20 + sizes, 0.01, seed), noisy(500 + sizes, 0.05, 1000 + seed)
        found = step_stairs.compare([(sizes, clear), (sizes, hidden)])
        winners.append([one.winner for one in found])
    assert sum("staircase" in each for each in winners) <= 0.05 * draws
    # What noise hides is no evidence for the line either.
    assert sum(clear == "line" for clear, _ in winners) > 0.9 * draws
    assert sum(hidden == "not resolved" for _, hidden in winners) > 0.5 * draws


@draws(1000)
def test_p_is_as_often_below_a_level_as_the_level_says(draws):
    p = [alone(SPARSE, noisy(20 + SPARSE, 0.02, seed)).best for seed in range(draws)]
    assert np.mean([one.p < 0.5 for one in p]) == pytest.approx(0.5, abs=0.06)
    # Where the stairs are true, those p that reject them are as rare.
    p = [alone(SPARSE, noisy(stairs(SPARSE, 16), 0.02, seed)).best for seed in range(draws)]
    assert np.mean([one.p_line < 0.05 for one in p]) == pytest.approx(0.05, abs=0.025)


def test_configurations_of_an_experiment_share_their_level():
    lines = [(SPARSE, noisy(20 + SPARSE, 0.05, seed)) for seed in range(30)]
    unsure, clear = (SPARSE, noisy(stairs(SPARSE, 8, 100.0), 0.03)), (SPARSE, stairs(SPARSE, 16))
    assert [alone(*one).winner for one in (unsure, clear)] == ["staircase", "staircase"]
    hidden, seen, *_ = step_stairs.compare([unsure, clear, *lines])
    assert (hidden.winner, seen.winner) == ("not resolved", "staircase")
    assert hidden.best.p < 0.05 / 3 and hidden.p_holm > 0.05
    assert f"p = {hidden.p_holm:.3f}, adjusted" in step_stairs.verdict(hidden)
    assert "p < 0.001, adjusted" in step_stairs.verdict(seen)
    assert step_stairs.compare([]) == []


CURVES = {
    "power": lambda b: 5 + b**0.9,
    "saturating": lambda b: 20 + 30 * (1 - np.exp(-b / 20)),
    "flat, then a line": lambda b: np.maximum(20, b),
    "one jump": lambda b: 10 + 0.5 * b + 8 * (b > 32),
    "multiples of 8 are fast": lambda b: (10 + b) * (1 - 0.08 * (b % 8 == 0)),
    "a fall": lambda b: 100 - stairs(b, 16),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("sizes", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_curves_without_stairs_are_no_staircase(name, sizes):
    for noise in (0.001, 0.01):
        many = [alone(sizes, noisy(CURVES[name](sizes), noise, seed)) for seed in range(20)]
        assert "staircase" not in {one.winner for one in many}, noise


def test_a_line_and_its_verdict():
    found = alone(SPARSE, 20 + SPARSE)
    assert found.winner == "line" and found.line_residual < 1e-12
    rejected = "examples are rejected: a straight line"
    assert step_stairs.verdict(found).startswith(f"Stairs of 8, 16 and 32 {rejected}")
    # Multiples of 16 lie on one line for stairs of 8 and 16: only 32 can be asked.
    sizes = np.arange(16.0, 161.0, 16)
    found = alone(sizes, 20 + sizes)
    assert (found.winner, found.resolvable) == ("line", (32,))
    assert step_stairs.verdict(found).startswith(f"Stairs of 32 {rejected}")


@pytest.mark.parametrize(
    "sizes", [[1, 2], [1, 8, 9, 16], np.arange(1, 17), np.arange(100, 1001, 100), POWERS]
)
def test_sizes_that_show_no_stairs_say_so(sizes):
    """Too few of them, two levels, every level once, and powers of 2: a kink at 8."""
    found = alone(np.asarray(sizes), stairs(np.asarray(sizes, float), 8))
    assert (found.winner, found.best, found.resolvable) == ("not resolved", None, ())
    assert math.isnan(found.p_holm)
    assert "cannot show stairs of 8, 16 and 32 examples" in step_stairs.verdict(found)


def test_one_batch_size_is_refused():
    with pytest.raises(ValueError, match="compare: received"):
        alone([16], [1.0])
