"""The grid and the first guess of a new study, by hand."""

import math

import pytest

from batchscope.cli import range_test
from batchscope.cli.range_test import Curve

USED = (0, 100, 200, 300, 400)
CONSTANT = 2.0


def curve(*losses: float) -> Curve:
    return Curve(USED[: len(losses)], losses)


def test_a_loss_is_reached_between_two_evaluations():
    fallen = curve(2.0, 1.0, 0.6, 0.5, 0.55)
    assert fallen.lowest == 0.5
    assert fallen.examples_to(0.65) == pytest.approx(100 + 100 * 0.35 / 0.4)
    assert fallen.examples_to(2.5) == 0 and fallen.examples_to(0.4) == math.inf
    assert curve(math.inf, 1.0).examples_to(1.5) == 100


@pytest.mark.parametrize(
    ("examples", "most", "sizes"),
    [
        (60_000, math.inf, [16, 64, 256, 1024]),
        (60_000, 300, [4, 16, 64, 256]),
        (266, math.inf, [8, 16, 32, 64]),
        (40, math.inf, [1, 2, 4, 8]),
        (12, math.inf, [1, 2]),
    ],
)
def test_sizes_follow_from_examples_and_memory(examples, most, sizes):
    assert range_test.batch_sizes(examples, most) == sizes


def test_the_best_rate_is_soonest_at_a_common_loss():
    """Neither a slow rate that ends lower, nor a dead network, wins against a fast one."""
    curves = {
        0.0001: curve(2.1, 1.9, 1.7, 1.5, 1.3),
        0.001: curve(2.1, 1.5, 1.0, 0.6, 0.5),
        0.01: curve(2.1, 0.7, 0.58, 1.5, 3.0),  # soon, and overfits later
        0.1: curve(2.1, 2.0, 1.9999, 2.0, 2.0),  # learned nothing
        1.0: curve(2.1, math.inf),
    }
    assert range_test.best_rate(curves, CONSTANT) == 0.01
    dead = {rate: curve(2.1, 2.0, CONSTANT) for rate in (0.01, 0.1)}
    assert range_test.best_rate(dead, CONSTANT) is None
    assert range_test.next_rates(dead, CONSTANT) == []


def test_the_range_test_goes_on_until_the_best_rate_lies_inside():
    tried = range_test.next_rates({}, CONSTANT)
    assert tried[0] == 0.0001 and tried[-1] == 1
    rising = {rate: curve(2.1, 2 - 0.1 * index) for index, rate in enumerate(tried, 1)}
    assert range_test.next_rates(rising, CONSTANT) == [3]
    assert range_test.next_rates(rising | {3.0: curve(2.1, 1.9)}, CONSTANT) == []
    falling = {rate: curve(2.1, 1 + 0.1 * index) for index, rate in enumerate(tried)}
    assert range_test.next_rates(falling, CONSTANT) == [3e-5]
    ends = {rate: curve(2.1, 1.5) for rate in range_test.RATES[:-1]}
    assert range_test.next_rates(ends | {10.0: curve(1.0, 0.5)}, CONSTANT) == []


@pytest.mark.parametrize(
    ("best", "base", "sizes", "expected"),
    [
        (0.01, 64, [16, 32, 64, 128], [0.001, 0.003, 0.01, 0.03, 0.1]),
        (0.01, 1024, [16, 32, 64, 128], [0.0003, 0.001, 0.003, 0.01, 0.03]),  # root of 1 / 23
        (10.0, 64, [64], [0.1, 0.3, 1, 3, 10]),
        (1e-6, 64, [64], [1e-6, 3e-6, 1e-5, 3e-5, 1e-4]),
    ],
)
def test_five_rates_lie_around_the_best_one_of_the_middle_size(best, base, sizes, expected):
    assert range_test.rate_grid(best, base, sizes) == expected


def test_epochs_are_enough_for_the_largest_size():
    fallen = curve(2.0, 1.0, 0.6, 0.5, 0.55)
    # 95 % of the fall, 0.575, after 225 examples; twice as many at four times the size.
    epochs, every, needed = range_test.training_length(fallen, CONSTANT, 4, 100, 30)
    assert epochs == math.ceil(1.5 * 225 * 2 / 100) and needed == pytest.approx(2.25)
    # 90 % of it, 0.65, after 187.5 examples: 20 evaluations until then cost less than 30 / 3.
    assert every == 10
    assert range_test.training_length(fallen, CONSTANT, 4, 100, 3)[1] == 9
    # 1.25 times the lowest loss, 0.125, is lower than 95 % of the fall: after 275 examples.
    fallen = curve(2.0, 0.3, 0.2, 0.1)
    assert range_test.training_length(fallen, CONSTANT, 1, 100, 30)[0] == math.ceil(1.5 * 275 / 100)


def test_a_guess_lies_between_noise_scale_and_throughput():
    seconds = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.6, 16: 3.0, 32: 6.5}
    # Of at most 5.3 a second, 3.3 and 5.
    assert range_test.size_of_throughput(range_test.HALF_SHARE, seconds) == 4
    assert range_test.size_of_throughput(range_test.LEVEL_SHARE, seconds) == 8
    assert range_test.guessed_batch_size(100, 4, [4, 8, 16, 32]) == 16  # the root of 400 is 20
    assert range_test.guessed_batch_size(100, 4, [1, 2, 4, 8]) == 8
    assert range_test.guessed_batch_size(0.1, 1, [4, 8, 16, 32]) == 4


@pytest.mark.parametrize(
    ("examples", "margin"), [(34, 0.06), (355, 0.02), (800, 0.02), (1000, None)]
)
def test_a_margin_of_the_accuracy_exceeds_its_standard_error(examples, margin):
    assert range_test.accuracy_margin(examples) == margin
