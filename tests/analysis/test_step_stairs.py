"""Stairs in the time of a step: timings made with a known q, and timings without any."""

import math

import numpy as np
import pytest
from test_step_cost import SPARSE, noisy

from batchscope.analysis import step_stairs

DENSE = np.arange(1.0, 67.0)


def stairs(sizes, q, fixed=10.0, share=1.0):
    """Returns timings that grow by 1 per image on average, `share` of it in steps of q."""
    return fixed + (1 - share) * sizes + share * q * np.ceil(sizes / q)


def test_a_staircase_of_known_costs():
    found = step_stairs.staircase(SPARSE, 0.01 + 0.002 * np.ceil(SPARSE / 16), 16)
    assert found[:3] == pytest.approx((16, 0.01, 0.002))
    assert found.residual < 1e-12
    line = step_stairs.staircase(SPARSE, 0.01 + 0.002 * np.ceil(SPARSE / 16), 1)
    assert line.residual > 0.05
    with pytest.raises(ValueError, match="received q = 70"):
        step_stairs.staircase(SPARSE, SPARSE, 70)


@pytest.mark.parametrize("sizes", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("q", [8, 16, 32])
@pytest.mark.parametrize("noise", [0.002, 0.03])
def test_steps_are_found(sizes, q, noise):
    found = step_stairs.best_step(sizes, noisy(stairs(sizes, q), noise, q), draws=99)
    assert (found.winner, found.q) == ("staircase", q)
    assert found.alike == (q,) and found.share > 0.7
    assert found.difference > 2 and found.p == found.p_rival == 0.01
    assert found.residuals[1] < 1.3 * noise < found.residuals[0]
    assert f"fits stairs of {q} images" in step_stairs.verdict(found)


@pytest.mark.parametrize("q", [8, 16])
def test_steps_on_a_slope_keep_their_q(q):
    found = step_stairs.best_step(SPARSE, noisy(stairs(SPARSE, q, share=0.5), 0.005), draws=99)
    assert (found.winner, found.q) == ("staircase", q)
    assert found.share == pytest.approx(0.5, abs=0.1)


def test_several_comparisons_share_their_level():
    found = step_stairs.best_step(SPARSE, noisy(stairs(SPARSE, 16), 0.005), draws=99)
    line = step_stairs.best_step(SPARSE, noisy(20 + SPARSE, 0.01), draws=99)
    few = step_stairs.best_step(SPARSE[:5], noisy(stairs(SPARSE, 16), 0.005)[:5], draws=99)
    assert step_stairs.together([found]) == [found] and step_stairs.together([]) == []

    stays, unsure, *others = step_stairs.together(
        [
            found._replace(p=0.001, p_rival=0.002),
            found._replace(p=0.02, p_rival=0.01),
            line._replace(p=0.3, p_rival=0.2),
            few,  # can show no stairs, so that it is none of the comparisons
        ]
    )
    assert (stays.winner, stays.p_holm) == ("staircase", pytest.approx(3 * 0.002))
    assert "p = 0.001 and 0.002, 0.006 adjusted" in step_stairs.verdict(stays)
    assert (unsure.winner, unsure.p_holm) == ("staircase", pytest.approx(2 * 0.02))
    assert [one.winner for one in others] == [line.winner, "not resolved"]
    assert math.isnan(others[-1].p_holm)

    three = [found._replace(p=0.001, p_rival=p) for p in (0.04, 0.03, 0.02)]
    assert [one.winner for one in step_stairs.together(three)] == ["not resolved"] * 3
    assert "p = 0.060 adjusted" in step_stairs.verdict(step_stairs.together(three)[0])


def count(sizes, seconds, noise, times):
    winners = [
        step_stairs.best_step(sizes, noisy(seconds, noise, seed), draws=99).winner
        for seed in range(times)
    ]
    return {word: winners.count(word) for word in set(winners)}


def test_a_line_is_seldom_a_staircase():
    clear = count(SPARSE, 20 + SPARSE, 0.01, 200)
    assert clear.get("staircase", 0) <= 10 and clear["line"] > 150
    # A large fixed cost hides steps as well as their absence.
    hidden = count(SPARSE, 100 + SPARSE, 0.03, 100)
    assert hidden.get("staircase", 0) <= 5 and hidden["not resolved"] > 50


CURVES = {
    "power": lambda b: 5 + b**0.9,
    "saturating": lambda b: 20 + 30 * (1 - np.exp(-b / 20)),
    "flat, then a line": lambda b: np.maximum(20, b),
    "flat, then a line, rounded": lambda b: np.sqrt(400 + b * b),
    "one jump": lambda b: 10 + 0.5 * b + 8 * (b > 32),
    "multiples of 8 are fast": lambda b: (10 + b) * (1 - 0.08 * (b % 8 == 0)),
}


@pytest.mark.parametrize("name", CURVES)
def test_curves_without_a_period_are_no_staircase(name):
    for noise in (0.001, 0.01, 0.03):
        assert "staircase" not in count(SPARSE, CURVES[name](SPARSE), noise, 6)
    found = step_stairs.best_step(DENSE, noisy(CURVES[name](DENSE), 0.005), draws=99)
    assert found.winner == "neither"
    assert step_stairs.verdict(found).startswith(f"Neither: {found.rival} (")


def test_sizes_that_cannot_tell_q_say_so():
    # Multiples of 16 lie on one line for q = 1, 2, 4, 8 and 16.
    sizes = np.arange(16, 161, 16)
    found = step_stairs.best_step(sizes, noisy(stairs(sizes, 16), 0.005), draws=99)
    assert found.winner == "not resolved"
    assert {1, 2, 4, 8, 16} <= set(found.alike)
    assert "the data do not tell them apart" in step_stairs.verdict(found)


def test_two_steps_show_no_period():
    sizes = np.arange(1.0, 33.0)
    found = step_stairs.best_step(sizes, noisy(10 + 5 * (sizes > 16), 0.005), draws=99)
    assert found.winner != "staircase" and found.levels == 2
    assert step_stairs.best_step(sizes, stairs(sizes, 16), most=8, draws=99).q <= 8


def test_too_few_sizes_and_times_that_fall():
    few = step_stairs.best_step(
        [1, 8, 9, 16, 17], stairs(np.array([1, 8, 9, 16, 17.0]), 8), draws=99
    )
    assert few.winner == "not resolved"
    assert "5 batch sizes" in step_stairs.verdict(few)
    falling = step_stairs.best_step(SPARSE, 100 - stairs(SPARSE, 16), draws=99)
    assert falling.winner == "not resolved" and falling.growth < 0
    assert "does not get longer" in step_stairs.verdict(falling)
    with pytest.raises(ValueError, match="best_step: received"):
        step_stairs.best_step([16], [1.0])


def test_the_comparison_repeats_itself():
    seconds = noisy(stairs(SPARSE, 8), 0.05)
    assert step_stairs.best_step(SPARSE, seconds) == step_stairs.best_step(SPARSE, seconds)


def test_sizes_that_allow_few_models():
    # Of odd sizes none is a multiple of 2, and ceil(B / 2) = (B + 1) / 2 is a line.
    odd = np.arange(1.0, 40.0, 2)
    found = step_stairs.best_step(odd, noisy(5 + odd, 0.01), draws=99)
    assert found.winner == "not resolved" and {1, 2} <= set(found.alike)
    for sizes in ([1, 2], [1, 2, 3], [16, 32, 48, 64]):
        found = step_stairs.best_step(sizes, 1 + np.array(sizes), draws=9)
        assert found.winner == "not resolved"
        assert step_stairs.verdict(found).startswith("Not resolved")
