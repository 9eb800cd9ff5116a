"""Simulate the coverage of the intervals of fits and of tuned rates.

    python benchmarks/coverage.py [--studies 2000]

The table has the share of simulated studies whose 95 % interval contains the true value, with its
Monte Carlo error: of the critical batch size, the fastest batch size, the gradient noise scale, and
the difference of two batch sizes at the learning rates that the other seeds choose. Nothing is
trained or written. With several seeds an interval is the wider of the profile interval and the
interval over seeds, so its coverage is higher. `error_rates.py` simulates verdicts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np
from side_by_side import header, row

from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    intervals,
    noise_scales,
    step_cost,
    to_target_tables,
)
from batchscope.core import display

SIZES = 2.0 ** np.arange(3, 10)  # 8 to 512
CRITICAL, FIXED, PER_IMAGE = 80.0, 2e-3, 1e-4


def updates(random: np.random.Generator, noise: float, seeds: int) -> np.ndarray:
    """Return updates to a target, shape (sizes, seeds), scattered around the hyperbola."""
    true = 100 * (1 + CRITICAL / SIZES)
    return true[:, None] * np.exp(random.normal(0, noise, (len(SIZES), seeds)))


def critical(random: np.random.Generator, noise: float, seeds: int) -> bool:
    interval = critical_batch_size.fit(SIZES, updates(random, noise, seeds))
    return not (interval.low > CRITICAL or interval.high < CRITICAL)  # an open end is NaN


def fastest(random: np.random.Generator, noise: float, seeds: int) -> bool:
    fit = critical_batch_size.fit(SIZES, updates(random, noise, seeds))
    seconds = (FIXED + PER_IMAGE * SIZES) * np.exp(random.normal(0, noise, len(SIZES)))
    cost = step_cost.fit_step_cost(SIZES, seconds[:, None])
    error = to_target_tables.log_error(fit, cost.half_batch)
    if math.isnan(error):
        return True  # no interval is stated
    best = math.sqrt(fit.critical_batch_size * cost.half_batch.mean)
    return abs(math.log(best / math.sqrt(CRITICAL * FIXED / PER_IMAGE))) <= error


def noise_scale(random: np.random.Generator, norm_squared: float, spread: float) -> bool:
    common, own = random.standard_normal((2, 6))
    variances = 400 + 10 * (0.5 * common + math.sqrt(0.75) * own)
    interval = noise_scales.fieller(variances, norm_squared + spread * common)
    return interval.low <= 400 / norm_squared <= interval.high


def at_chosen_rates(
    random: np.random.Generator, step: float, rates: int, seeds: int, alone: bool = False
) -> bool:
    """Return whether the interval of the difference of two equal sizes contains 0.

    Means of rates are `step` apart. With `alone`, the mean of one size is compared with its value.
    """
    means = step * np.arange(rates)[:, None]
    read, index = chosen_rates.leave_one_out(9 + random.normal(means, 1, (2, rates, seeds)))
    tuned, other = chosen_rates.rates_differ(index), 9.0 if alone else read[1]
    interval = intervals.t_interval(read[0] - other, tuned=bool(tuned[: 2 - alone].any()))
    return interval.low <= 0 <= interval.high


def cases() -> Iterator[tuple[str, str, Callable]]:
    """Yield the description, the expected share, and the simulation of one study."""
    for seeds in (1, 3, 6):
        for noise in (0.03, 0.1):
            description = f"{display.count(seeds, 'seed')}, {noise:.0%} scatter"
            expected = "93 to 97 %" if seeds == 1 else "at least 93 %"
            for name, one in {"B_crit": critical, "B*": fastest}.items():
                yield (
                    f"{name}: {description}",
                    expected,
                    lambda random, one=one, noise=noise, seeds=seeds: one(random, noise, seeds),
                )
    for norm_squared, spread, words in ((4.0, 0.25, "clear"), (0.05, 0.05, "mostly open")):
        yield (
            f"noise scale: 6 seeds, {words}",
            "93 to 97 %",
            lambda random, n=norm_squared, s=spread: noise_scale(random, n, s),
        )
    grids = [(0.0, rates) for rates in (2, 3, 5, 7)] + [(0.5, 3), (3.0, 3)]
    for step, rates in grids:
        for seeds in (6, 12, 20):
            yield (
                f"difference at chosen rates: {seeds} seeds, {rates} rates, {step:g} sd apart",
                "at least 93 %",
                lambda random, s=step, k=rates, n=seeds: at_chosen_rates(random, s, k, n),
            )
    for seeds, rates, step in ((6, 3, 0.0), (6, 3, 1.0), (6, 5, 0.0), (20, 7, 0.0)):
        yield (
            f"mean at chosen rates: {seeds} seeds, {rates} rates, {step:g} sd apart",
            "93 to 97 %",
            lambda random, s=step, k=rates, n=seeds: at_chosen_rates(random, s, k, n, alone=True),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    arguments = parser.parse_args()
    header("simulated", "share", "expected")
    studies = arguments.studies
    for name, expected, study in cases():
        random = np.random.default_rng(0)
        share = sum(study(random) for _ in range(studies)) / studies
        error = math.sqrt(max(share * (1 - share), 1 / studies) / studies)
        row(name, f"{share:.1%} ± {error:.1%}", expected)


if __name__ == "__main__":
    main()
