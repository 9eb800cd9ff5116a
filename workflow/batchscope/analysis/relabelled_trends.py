"""Trends over batch sizes whose learning rates were chosen from the same runs, by relabelling.

The rate of a batch size is chosen over all seeds, so that seeds share it: two sizes that are
equally good may get different rates, and then differ alike in every seed. Page's and Friedman's
tests take seeds as independent and would count that as evidence. Here the batch-size labels are
drawn anew within each seed, and every draw chooses its rates again: the p-value holds the choice
as well.

Rates of two sizes count as alike by their order. Where sizes were tried at different numbers of
rates, a label cannot take another's along. Each size is then cut to as many neighbouring rates as
the one with the fewest has, those that hold its chosen rate, in every way; the p-value is the
largest of all: it holds where any of these ways makes the sizes alike (an intersection-union test:
Berger 1982, Technometrics 24, 295). As the ways follow the chosen rate it is approximate: with 3
and 4 or 5 rates, simulated studies without a difference get a trend in 1 to 4 % of cases, and in
6 % where neighbouring rates are equally good on validation data and three standard deviations apart
on test data; by Page's test in up to 30 %.

Source: Ernst 2004, "Permutation Methods: A Basis for Exact Inference", Statistical Science 19, 676.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from batchscope.analysis import chosen_rates
from batchscope.analysis.chosen_rates import tried
from batchscope.catalogue import outcomes

DRAWS = 4999  # the smallest p is one in 5,000
_CHUNK = 500  # draws at a time, for memory
_MOST_WINDOWS = 256  # of which the statistics are computed
_LEAST_TESTED = 8  # windows that are tested, for each of three tests


def chosen_at_all(losses: np.ndarray) -> bool:
    """Returns whether several rates were tried at any size, so that there is a choice to hold."""
    return bool((tried(losses).sum(axis=1) > 1).any())


def p_values(
    losses: np.ndarray, values: np.ndarray, by_others: bool, draws: int = DRAWS
) -> tuple[float, float, float]:
    """Returns p of a rise, a fall and any difference over sizes, the choice of rates included.

    Args:
        losses: What rates are chosen by, as `chosen_rates.by_lowest` takes it.
        values: The outcome, likewise.
        by_others: Whether each seed is read at the rate that the others choose.
        draws: Relabellings beside the labels as they are.

    Returns:
        NaN for each where fewer than two sizes or `outcomes.LEAST_SEEDS` seeds are whole.
    """
    losses, values = _whole(losses, values)
    if len(losses) < 2 or losses.shape[2] < outcomes.LEAST_SEEDS:
        return math.nan, math.nan, math.nan
    ways = _decisive(losses, values, by_others)
    found = [_of_alike(*_cut(losses, values, index), by_others, draws) for index in ways]
    return tuple(np.max(found, axis=0).tolist())


def _of_alike(losses: np.ndarray, values: np.ndarray, by_others: bool, draws: int) -> np.ndarray:
    """Returns `p_values` of sizes that were tried at as many rates each."""
    sizes, _, seeds = losses.shape
    random = np.random.default_rng(0)
    rises, any_ = _statistics(losses, values, _own(losses), by_others)
    close, close_any = (
        1e-9 * (1 + np.abs(each)) for each in (rises, any_)
    )  # of sums in another order
    reached = np.zeros(3)
    for done in range(0, draws, _CHUNK):
        shape = (min(_CHUNK, draws - done), sizes, seeds)
        labels = random.random(shape).argsort(axis=1)
        page, friedman = _statistics(losses, values, labels, by_others)
        reached += [
            (page >= rises - close).sum(),
            (page <= rises + close).sum(),
            (friedman >= any_ - close_any).sum(),
        ]
    return (1 + reached) / (1 + draws)


def _own(losses: np.ndarray) -> np.ndarray:
    """Returns the labels as they are, shape (1, sizes, seeds)."""
    sizes, _, seeds = losses.shape
    return np.broadcast_to(np.arange(sizes)[:, None], (1, sizes, seeds))


def _cut(losses: np.ndarray, values: np.ndarray, index: np.ndarray) -> list[np.ndarray]:
    """Returns both at the rates of each size, shape (sizes, rates), alone."""
    return [np.take_along_axis(each, index[..., None], 1) for each in (losses, values)]


def _whole(losses: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns sizes with any run, their tried rates first, and seeds without a gap at these.

    A rate that lacks a run of a seed of its size is never chosen (`chosen_rates.by_lowest`), so
    that it counts as not tried, and costs no seed, where another rate of that size has them all.
    """
    gaps = np.isnan(losses) | np.isnan(values)
    lacking = (gaps & ~gaps.all(axis=1, keepdims=True)).any(axis=2)
    dropped = lacking & (~lacking & tried(losses)).any(axis=1, keepdims=True)
    losses = np.where(dropped[..., None], np.nan, losses)
    there = tried(losses)
    kept = there.any(axis=1)
    most = int(there.sum(axis=1).max())
    order = np.argsort(~there[kept], axis=1, kind="stable")[:, :most]
    losses, values = _cut(losses[kept], values[kept], order)
    there = np.arange(most) < there[kept].sum(axis=1, keepdims=True)
    gaps = (np.isnan(losses) | np.isnan(values)) & there[..., None]
    seeds = ~gaps.any(axis=(0, 1))
    return losses[..., seeds], values[..., seeds]


def _decisive(losses: np.ndarray, values: np.ndarray, by_others: bool) -> list[np.ndarray]:
    """Returns the windows of rates that are tested, each of shape (sizes, rates in the window).

    Where sizes were tried at as many rates, all of them. Else those windows that say least for a
    rise, for a fall and for any difference.
    """
    every = _windows(losses)
    if len(every) == 1:
        return every
    statistics = []
    for index in every:
        page, friedman = _statistics(*_cut(losses, values, index), _own(losses), by_others)
        statistics.append((page[0], -page[0], friedman[0]))
    kept = {int(at) for column in np.array(statistics).T for at in column.argsort()[:_LEAST_TESTED]}
    return [every[at] for at in sorted(kept)]


def _windows(losses: np.ndarray) -> list[np.ndarray]:
    """Returns every way to take as many neighbouring rates of each size, the chosen one among them.

    As many as the size with the fewest has; one that was tried at a single rate has that one in
    each place, and so no choice.
    """
    counts = tried(losses).sum(axis=1)
    several = counts[counts > 1]
    length = int(several.min()) if len(several) else 1
    chosen = chosen_rates.by_lowest(losses).index
    options = []
    for count, at in zip(counts.tolist(), chosen.tolist(), strict=True):
        starts = range(max(count - length, 0) + 1)
        holding = [start for start in starts if at < 0 or start <= at < start + length]
        options.append([np.minimum(start + np.arange(length), count - 1) for start in holding])
    return [np.array(each) for each in itertools.product(*_few(options))]


def _few(options: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Returns the options with at most so many combinations: the outermost of each size."""
    while math.prod(map(len, options)) > _MOST_WINDOWS:
        longest = max(range(len(options)), key=lambda at: len(options[at]))
        if len(options[longest]) == 2:
            break
        options[longest] = [options[longest][0], options[longest][-1]]
    return options


def _statistics(
    losses: np.ndarray, values: np.ndarray, labels: np.ndarray, by_others: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Returns Page's and Friedman's statistics of every draw, up to constants.

    `labels` says which size's runs a label has in each seed, shape (draws, sizes, seeds).
    """
    seeds = np.arange(losses.shape[2])
    # (draws, sizes, seeds, rates), for the rates stand between indices that are broadcast.
    drawn, outcome = losses[labels, :, seeds], values[labels, :, seeds]
    failed = np.isinf(drawn)
    finite = np.where(failed, 0.0, drawn)
    # A failure outweighs any loss: the rate with the fewest, and among these the lowest sum.
    scale = 1e6 * (1 + np.abs(finite).max())
    totals = finite.sum(axis=2, keepdims=True) + scale * failed.sum(axis=2, keepdims=True)
    rates = (totals - finite * by_others).argmin(axis=3)
    rates = np.broadcast_to(rates, drawn.shape[:3])
    read = np.take_along_axis(outcome, rates[..., None], 3)[..., 0]
    ranks = _rank_sums(read)
    steps = np.arange(ranks.shape[1])
    return ranks @ steps, ((ranks - ranks.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)


def _rank_sums(read: np.ndarray) -> np.ndarray:
    """Returns the ranks of sizes within each seed, summed over seeds, shape (draws, sizes).

    Ties share their mean rank. Pair by pair, which is many times as fast as sorting so few.
    """
    draws, sizes, seeds = read.shape
    sums = np.full((draws, sizes), float(seeds))
    for one in range(sizes):
        for other in range(one):
            above = (read[:, one] > read[:, other]).sum(axis=1)
            below = (read[:, one] < read[:, other]).sum(axis=1)
            sums[:, one] += (seeds + above - below) / 2
            sums[:, other] += (seeds + below - above) / 2
    return sums
