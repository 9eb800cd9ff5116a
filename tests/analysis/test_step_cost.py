"""Step times: fits against timings that were made with known costs, steps and noise."""

import itertools
import math

import numpy as np
import pytest

from batchscope.analysis import step_cost

SPARSE = np.array([1, 2, 4, 8, 12, 15, 16, 17, 18, 24, 31, 32, 33, 34, 48, 64, 66.0])
POWERS = 2.0 ** np.arange(9)


def noisy(seconds, noise, seed=0, blocks=None):
    shape = seconds.shape if blocks is None else (*seconds.shape, blocks)
    scatter = noise * np.random.default_rng(seed).standard_normal(shape)
    return (seconds if blocks is None else seconds[:, None]) * (1 + scatter)


def rounds(medians, count=2):
    """Returns blocks that are alike in every round."""
    return [[seconds] * count for seconds in medians]


def test_exact_timings_give_their_costs_in_any_order():
    fit = step_cost.fixed_cost(POWERS[::-1], rounds(0.02 + 0.001 * POWERS[::-1]))
    assert fit.fixed == pytest.approx((0.02, 0.02, 0.02))
    assert fit.per_image == pytest.approx((0.001, 0.001, 0.001))
    assert fit.half_batch == pytest.approx((20, 20, 20))
    assert fit.residual < 1e-12 and fit.sizes == 9


def test_the_weights_are_relative():
    # Weights 1, 1 and 1/4, by hand: 9a + 15b = 10 and 15a + 29b = 18, so a = 5/9 and b = 1/3.
    fit = step_cost.fixed_cost([1, 2, 3], rounds([1.0, 1.0, 2.0]))
    assert (fit.fixed.value, fit.per_image.value) == pytest.approx((5 / 9, 1 / 3))
    assert fit.half_batch.value == pytest.approx(5 / 3)
    # Relative residuals 1/9, -2/9 and 2/9; the inverse matrix has 4 * 29 / 36 for a.
    assert fit.residual == pytest.approx(math.sqrt(1 / 27))
    assert fit.fixed_error == pytest.approx(math.sqrt(4 * 29 / 36 / 9))
    # Student's t at 97.5 % with one degree of freedom is 12.7062.
    assert fit.fixed.high - fit.fixed.value == pytest.approx(12.7062 * fit.fixed_error, rel=1e-5)


def test_a_negative_fixed_cost_is_reported_and_halves_nothing():
    fit = step_cost.fixed_cost([10, 20, 40], [0.01, 0.03, 0.07])
    assert fit.fixed.value == pytest.approx(-0.01)
    assert math.isnan(fit.half_batch.value)


@pytest.mark.parametrize("fixed, per_image", [(0.011, 0.0), (0.0, 0.0003)])
def test_a_cost_of_the_size_of_rounding_is_none(fixed, per_image):
    """Else half of a step would be fixed cost at a batch size of 1e17, or 1e-17."""
    sizes = np.array([8, 16, 32, 64, 128, 256])
    found = step_cost.fixed_cost(sizes, [[fixed + per_image * size] for size in sizes])
    assert found.fixed.value == pytest.approx(fixed) and (found.fixed.value > 0) == (fixed > 0)
    assert found.per_image.value == pytest.approx(per_image)
    assert (found.per_image.value > 0) == (per_image > 0)
    assert np.isnan(found.half_batch).all()


def test_blocks_count_by_their_median():
    blocks = [[0.03, 0.9, 0.03], [0.04, 0.04, 0.01], [0.06] * 3, [0.1, 0.2, 0.05]]
    assert step_cost.fixed_cost([10, 20, 40, 80], blocks).fixed.value == pytest.approx(0.02)


def made(generator, sizes, count, noise=0.02, strays=0.0, drift=0.0, spikes=0.0):
    """Returns blocks of 10 ms + 0.1 ms per example, shape (sizes, `count` rounds).

    Args:
        noise: Relative scatter of a block.
        strays: Relative scatter of the sizes around the line.
        drift: Relative scatter of the rounds, in common to all sizes.
        spikes: Share of the blocks that take half as long again.
    """
    seconds = (0.01 + 1e-4 * sizes) * (1 + strays * generator.standard_normal(len(sizes)))
    seconds = seconds[:, None] * np.exp(drift * generator.standard_normal(count))
    seconds = seconds * (1 + noise * generator.standard_normal(seconds.shape))
    return seconds * np.where(generator.random(seconds.shape) < spikes, 1.5, 1.0)


def covered(sizes, count, **how):
    """Returns the shares of 400 fits whose intervals hold a, b and a / b."""
    generator, hits = np.random.default_rng(1), np.zeros(3)
    for _ in range(400):
        fit = step_cost.fixed_cost(sizes, list(made(generator, sizes, count, **how)))
        true = (fit.fixed, 0.01), (fit.per_image, 1e-4), (fit.half_batch, 100)
        hits += [found.low < value < found.high for found, value in true]
    return hits / 400


EVERY_SHAPE = pytest.mark.parametrize(
    ("count", "sizes"), list(itertools.product((5, 9), (SPARSE, POWERS, POWERS[2::2])))
)


@pytest.mark.slow
@EVERY_SHAPE
def test_intervals_cover_noise_of_blocks_and_of_sizes(sizes, count):
    """Under noise of the blocks alone conservatively: what rounds have in common counts twice."""
    found = covered(sizes, count)
    assert (found >= 0.92).all() and (found <= 0.995).all()
    assert covered(sizes, count, noise=0.01, strays=0.03) == pytest.approx([0.95] * 3, abs=0.03)


@pytest.mark.slow
@EVERY_SHAPE
@pytest.mark.parametrize(
    "how",
    [
        {"drift": 0.05},
        {"drift": 0.05, "strays": 0.03},
        {"drift": 0.2, "noise": 0.005},
        {"spikes": 0.15},
        {"spikes": 0.15, "drift": 0.05},
    ],
    ids=["drift", "drift and strays", "much drift", "spikes", "spikes and drift"],
)
def test_intervals_cover_a_drift_of_all_sizes_and_spikes(how, sizes, count):
    assert (covered(sizes, count, **how) >= 0.92).all()


def test_the_error_that_sizes_have_in_common_by_hand():
    """A line without strays in two rounds, the second of which takes twice as long."""
    line = 0.02 + 0.001 * POWERS
    fit = step_cost.fixed_cost(POWERS, np.outer(line, [1.0, 2.0]))
    assert (fit.fixed.value, fit.per_image.value) == pytest.approx((0.03, 0.0015))
    # The logarithms' standard error is log(2) / 2, and Student's t with one degree 12.7062.
    error = math.sqrt(math.pi / 2) * math.log(2) / 2
    assert fit.fixed_error == pytest.approx(0.03 * error)
    assert fit.per_image.high / fit.per_image.value - 1 == pytest.approx(12.7062 * error)
    assert fit.half_batch == pytest.approx((20, 20, 20))
    once = step_cost.fixed_cost(POWERS, list(line))
    assert math.isnan(once.fixed.low) and once.half_batch == pytest.approx((20, 20, 20))


def test_every_size_has_every_round():
    with pytest.raises(ValueError, match=r"fixed_cost: received \[1, 2\] blocks; as many of every"):
        step_cost.fixed_cost([16, 32], [[1.0, 1.0], [2.0]])


def test_two_sizes_have_no_interval_and_one_has_no_line():
    fit = step_cost.fixed_cost([16, 32], [[0.03], [0.05]])
    assert (fit.fixed.value, fit.per_image.value) == pytest.approx((0.01, 0.00125))
    assert np.isnan([*fit.fixed[1:], *fit.per_image[1:]]).all()
    for sizes, blocks in (([16], [[1.0]]), ([16, 16], [1.0, 1.0]), ([16, 32], [1.0])):
        with pytest.raises(ValueError, match="fixed_cost: received .* different batch sizes"):
            step_cost.fixed_cost(sizes, blocks)
    for wrong in (0.0, -1.0, math.nan, []):
        with pytest.raises(ValueError, match="positive numbers are expected"):
            step_cost.fixed_cost([16, 32], [1.0, wrong])


def in_turns(delay, seed, rounds=7, noise=0.02, drift=0.2):
    """Returns blocks without and with a delay: each round at a speed of its own, off the line."""
    generator = np.random.default_rng(seed)
    bent = 0.01 + 1e-4 * POWERS + 2e-3 * np.sqrt(POWERS)
    speed = np.exp(drift * generator.standard_normal(rounds))
    return [
        (bent + added)[:, None]
        * speed
        * np.exp(noise * generator.standard_normal((len(POWERS), rounds)))
        for added in (0.0, delay)
    ]


def test_an_injected_delay_is_recovered():
    hits = np.zeros(2)
    for seed in range(300):
        blocks = in_turns(0.005, seed, drift=0.0)
        found = (step_cost.delay_recovered(POWERS, *blocks), step_cost.delay_of_pairs(*blocks))
        hits += [each.low < 0.005 < each.high for each in found]
    assert hits / 300 == pytest.approx([0.95, 0.95], abs=0.04)


def test_one_disturbed_round_carries_no_delay():
    """A small delay comes back although one block of a round was held up by ten times a step."""
    blocks = without, delayed = in_turns(0.001, seed=0, rounds=15, noise=0.005, drift=0.0)
    delayed[0, 13] += 0.1
    for found in (step_cost.delay_recovered(POWERS, *blocks), step_cost.delay_of_pairs(*blocks)):
        assert 0 < found.low < 0.001 < found.high
        assert found.value == pytest.approx(0.001, rel=0.2)
    assert np.mean(delayed - without) > 0.0015


def test_no_delay_is_recovered_from_none():
    """The machine's drift falls on both alike: as often as the level says, and no more."""
    hits = 0
    for seed in range(300):
        delay = step_cost.delay_recovered(POWERS, *in_turns(0.0, seed))
        hits += delay.low < 0 < delay.high
    assert hits / 300 == pytest.approx(0.95, abs=0.04)


def test_a_delay_without_noise_comes_back_whole_whatever_the_curve():
    without = np.outer(np.sqrt(POWERS), [1.0, 1.5, 0.7])
    without = np.hstack([without, without])
    delay = step_cost.delay_recovered(POWERS, without, without + 0.005)
    assert delay == pytest.approx((0.005, 0.005, 0.005))
    assert step_cost.delay_of_pairs(without, without + 0.005) == pytest.approx((0.005,) * 3)


def test_a_recovered_delay_by_hand():
    # The differences of two sizes give a line exactly: 1 and 3 at no example, round by round.
    without = [[1.0, 1.0], [1.0, 1.0]]
    delayed = [[3.0, 5.0], [4.0, 6.0]]  # differences 2 and 3, then 4 and 5, at sizes 1 and 2
    delay = step_cost.delay_recovered([1, 2], without, delayed)
    assert delay.value == pytest.approx(2) and math.isnan(delay.low)
    assert step_cost.delay_recovered([2, 1], without, delayed[::-1]) == pytest.approx(
        delay, nan_ok=True
    )
    pairs = step_cost.delay_of_pairs(without, delayed)
    assert pairs.value == pytest.approx(3.5) and math.isnan(pairs.high)  # 2, 3, 4 and 5
    one = step_cost.delay_recovered([1, 2], [[1.0], [1.0]], [[3.0], [4.0]])
    assert one.value == pytest.approx(1) and math.isnan(one.low) and math.isnan(one.high)


def test_a_delay_needs_every_round_twice():
    with pytest.raises(ValueError, match=r"received 2 and 2 batch sizes with \[1, 2\] blocks"):
        step_cost.delay_recovered([1, 2], [[1.0], [1.0]], [[3.0, 3.0], [4.0, 4.0]])
    with pytest.raises(ValueError, match="received 1 and 2 batch sizes"):
        step_cost.delay_recovered([1, 2], [[1.0]], [[3.0], [4.0]])
    with pytest.raises(ValueError, match="delay_of_pairs: received 0 and 0 batch sizes"):
        step_cost.delay_of_pairs([], [])


KNEE = 40.5  # 9 * 4.5, of timings 4.5 + B


def knee(sizes, speeds, **other):
    return step_cost.knee(sizes, list(np.array(sizes) / np.array(speeds)), **other)


def test_knees_by_hand():
    sizes = [1, 2, 4, 8, 16, 32]  # no line: the plateau is the median of the last two
    found = knee(sizes, [10, 50, 95, 80, 99, 101])
    assert (found.plateau, found.batch_size) == (100, 16)  # 8 falls below again
    assert not found.still_rising and math.isnan(found.fitted.value)
    assert knee(sizes, [10, 20, 40, 80, 100, 50]).batch_size is None
    assert knee(sizes, [10, 20, 40, 80, 100, 50], share=0.6).batch_size == 8
    # It falls after its best: nothing levels off, unless all of it may be noise.
    falling = [10, 20, 50, 100, 85, 70]
    found = knee(sizes, falling)
    assert math.isnan(found.plateau) and found.batch_size is None and not found.still_rising
    assert knee(sizes, falling, noise=1.17).plateau == 77.5
    found = knee([8], [50.0])
    assert (found.plateau, found.batch_size, found.still_rising) == (50, 8, False)


def test_a_size_is_short_where_its_upper_quartile_is():
    """The blocks of the last size: a median 20 % below, a quarter of them at the plateau."""
    sizes = [1, 2, 4, 8, 16, 32]
    blocks = [
        [size / speed] * 5 for size, speed in zip(sizes, (20, 40, 60, 100, 100), strict=False)
    ]
    noisy_end, short_end = ([32 / speed for speed in (70, 80, 80, top, top)] for top in (92, 82))
    # The median of 16 and 32 is 90, and 81 is its share.
    assert step_cost.knee(sizes, [*blocks, noisy_end]).batch_size == 8
    assert step_cost.knee(sizes, [*blocks, [0.99 * t for t in short_end]]).batch_size == 8
    assert step_cost.knee(sizes, [*blocks, [32 / 60] * 5]).batch_size is None


def test_the_knee_of_a_line_is_nine_times_its_half_batch():
    found = step_cost.knee(SPARSE, list(4.5 + SPARSE))
    assert found.plateau == pytest.approx(1)
    assert found.fitted == pytest.approx((KNEE, KNEE, KNEE))
    assert found.batch_size == 48 and not found.still_rising
    assert knee(SPARSE, SPARSE / (4.5 + SPARSE), share=0.8).fitted.value == pytest.approx(18)
    # By the first size it is behind: the line has none within the sizes.
    found = step_cost.knee(SPARSE, list(0.05 + SPARSE))
    assert math.isnan(found.fitted.value) and found.batch_size == 1


def test_the_interval_of_the_half_batch_by_hand():
    # Weights 1, 1 and 1/4: the inverse of their normal equations is [[29, -15], [-15, 9]] / 9.
    fit = step_cost.fixed_cost([1, 2, 3], [1.0, 1.0, 2.0])
    a, b, variance = 5 / 9, 1 / 3, 1 / 9 / 9
    error = math.sqrt(variance * (29 / a**2 + 2 * 15 / (a * b) + 9 / b**2))
    assert math.log(fit.half_batch.high / fit.half_batch.value) == pytest.approx(12.7062 * error)
    assert fit.half_batch.low * fit.half_batch.high == pytest.approx(fit.half_batch.value**2)


@pytest.mark.parametrize("sizes", [SPARSE, POWERS[:8], np.array([4, 16, 64, 256.0])])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.06])
def test_noise_neither_moves_nor_hides_the_knee(sizes, noise):
    found = []
    for seed in range(100 if noise else 1):
        blocks = list(noisy(4.5 + sizes, noise, seed, blocks=9))
        found.append(step_cost.knee(sizes, blocks, noise=step_cost.noise_floor(blocks)))
    fitted = np.array([one.fitted for one in found])
    assert np.isfinite(fitted).all() and not any(one.still_rising for one in found)
    assert np.median(fitted[:, 0]) == pytest.approx(KNEE, rel=0.02)
    assert np.abs(fitted[:, 0] / KNEE - 1).max() < 0.25
    if noise:
        inside = (fitted[:, 1] <= KNEE) & (fitted[:, 2] >= KNEE)
        assert 0.88 <= inside.mean() <= 0.99
    # And so does the empirical one: in 2 % of all at most none is there.
    timed = [one.batch_size for one in found if one.batch_size]
    assert len(timed) >= 0.98 * len(found)
    assert np.median(timed) == sizes[sizes >= KNEE][0]


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.06])
@pytest.mark.parametrize("seconds", [100 + SPARSE, SPARSE**0.6, np.maximum(90, SPARSE)])
def test_what_still_rises_has_no_knee_within_the_sizes(seconds, noise):
    for seed in range(50 if noise else 1):
        blocks = list(noisy(seconds, noise, seed, blocks=9))
        found = step_cost.knee(SPARSE, blocks, noise=step_cost.noise_floor(blocks))
        assert found.still_rising
        assert found.batch_size is None and math.isnan(found.fitted.value)


@pytest.mark.parametrize("seconds", [4.5 + SPARSE, 100 + SPARSE, SPARSE**0.6, SPARSE])
def test_nothing_is_reported_of_noise(seconds):
    """Half of the noise floor is two standard errors of a median, and may be no more than 10 %."""
    for seed in range(50):
        blocks = list(seconds[:, None] * np.exp(noisy(np.zeros((17, 5)) + 1, 0.5, seed) - 1))
        floor = step_cost.noise_floor(blocks)
        assert step_cost.too_noisy(floor)
        found = step_cost.knee(SPARSE, blocks, noise=floor)
        assert math.isnan(found.plateau) and np.isnan(found.fitted).all()
        assert found.batch_size is None and found.still_rising is None
    quiet = step_cost.knee(SPARSE, list(seconds), noise=1.2)
    assert quiet == step_cost.knee(SPARSE, list(seconds)) and quiet.still_rising is not None
    assert not any(step_cost.too_noisy(floor) for floor in (1.2, 1.0, math.nan, None))


def test_a_knee_whose_interval_holds_every_size_is_not_reported():
    """Three sizes leave one degree of freedom: 5 % off one of them, and any may be the knee."""
    sizes = np.array([4, 16, 64])
    seconds = (2 + sizes) * [1, 0.95, 1]
    fit = step_cost.fixed_cost(sizes, list(seconds))
    assert fit.residual < step_cost.LINE_FITS
    assert 9 * fit.half_batch.low < 4 < 9 * fit.half_batch.value < 64 < 9 * fit.half_batch.high
    found = step_cost.knee(sizes, list(seconds))
    assert math.isnan(found.fitted.value) and found.batch_size == 16


def test_what_falls_at_the_end_does_not_rise():
    """A line that fits, with its knee beyond the sizes, though the last is short of the best."""
    sizes = np.array([1, 2, 4, 8, 12, 15, 16, 17, 18, 24, 31, 32, 33, 34, 48, 50, 66.0])
    seconds = 15 + sizes
    assert step_cost.knee(sizes, list(seconds)).still_rising
    seconds[-1] *= 1.2
    assert step_cost.fixed_cost(sizes, list(seconds)).residual < step_cost.LINE_FITS
    found = step_cost.knee(sizes, list(seconds))
    assert not found.still_rising and found.batch_size is None


def test_still_rising():
    """Without a line: by more than 10 % over half of the largest size."""
    sizes = [8, 16, 32]
    assert knee(sizes, [50, 80, 90]).still_rising
    assert not knee(sizes, [50, 80, 87]).still_rising
    # 64 and 66 hardly differ, yet their throughput is 40 % of what it tends to.
    assert knee(SPARSE, SPARSE / (100 + SPARSE)).still_rising
    assert not knee(SPARSE, SPARSE / (1 + SPARSE)).still_rising
    # A line whose knee is the largest size is just at its plateau.
    assert not step_cost.knee(SPARSE, list(0.99 * 66 / 9 + SPARSE)).still_rising
    assert step_cost.knee(SPARSE, list(1.01 * 66 / 9 + SPARSE)).still_rising


def test_a_flat_start_is_no_line():
    """Below 10 images a step takes as long as with 10: the line would have its knee at 80."""
    found = step_cost.knee(SPARSE, list(np.maximum(10, SPARSE)), noise=1.1)
    assert math.isnan(found.fitted.value) and found.plateau == 1 and found.batch_size == 12


def test_the_noise_floor():
    assert step_cost.noise_floor([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0]]) == 1
    # Blocks alternate: the halves 1, 3, 5 and 2, 5 have the medians 3 and 3.5.
    assert step_cost.noise_floor([[1.0, 2.0, 3.0, 5.0, 5.0]]) == pytest.approx(3.5 / 3)
    assert step_cost.noise_floor([[1.02, 1.0], [1.0, 1.05]]) == pytest.approx(1.05)
    # Of 100 sizes the 95 % quantile, not the worst.
    found = step_cost.noise_floor([[1.01, 1.0]] * 96 + [[2.0, 1.0]] * 4)
    assert found == pytest.approx(1.01)
    for none in ([[1.0, 1.0], [1.0]], []):
        with pytest.raises(ValueError, match="two halves"):
            step_cost.noise_floor(none)
