"""The learning rate of every batch size, chosen over all seeds, and read by each seed fairly.

What a rate is chosen by says too much good of it. A validation loss chooses, and the test data
report; where the outcome itself chooses, each seed is read at the rate that the others choose.

All take a cube, shape (sizes, rates, seeds), rates ascending: NaN where there is no run, infinite
where it diverged or never reached the target. A rate without a single run was not tried, and a seed
without one at any rate of a size is no seed of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batchscope.analysis import intervals
from batchscope.study.outcomes import LEVEL

RATE = "learning_rate"


def by_lowest(losses: Any) -> np.ndarray:
    """Returns for every batch size the rate with the lowest mean loss over all seeds, (sizes,).

    A rate is excluded at a batch size where one of its runs is missing, diverged or never reached
    the target; where all are, it is -1. Among equals the lowest rate is chosen.
    """
    losses = np.asarray(losses, float)
    own, finite = ~np.isnan(losses).all(axis=1, keepdims=True), np.isfinite(losses)
    usable = tried(losses) & (finite | ~own).all(axis=2)
    means = np.where(finite, losses, 0.0).sum(axis=2) / np.maximum(own.sum(axis=2), 1)
    return np.where(usable.any(axis=1), np.where(usable, means, np.inf).argmin(axis=1), -1)


def for_other_data(losses: Any) -> np.ndarray:
    """Returns the rate at which other data of each batch size are read, shape (sizes,).

    The one that `by_lowest` chooses, or the only one. Where a run failed at every rate that was
    tried, the one at which most got there, so that the size is reported by its runs. Else, as
    every rate lacks a run, -1: means over other seeds are no means to compare.
    """
    losses = np.asarray(losses, float)
    index = by_lowest(losses)
    for size, (found, there) in enumerate(zip(losses, tried(losses), strict=True)):
        failed = np.isinf(found[there]).any(axis=1)
        if index[size] < 0 and (len(found) == 1 or (len(failed) and failed.all())):
            most = _most_reached(found)
            index[size] = most if most >= 0 else there.argmax()
    return index


def for_all_data(losses: Any, taken: Any, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rate of each batch size at which all of its data are read, shape (sizes,).

    Of the rates whose loss is not shown to be higher than the lowest one, those do equally well
    that are not shown to take longer than the fastest of them, by the seeds that reach the target
    at both. Of these the one with the lowest loss is chosen: of those at which every seed reached
    the target, or of those between the first and last rate tried if it did at neither of them.

    `taken` is NaN without a target; a share of `margin` of it is negligible. Without any choice the
    index is that of `for_other_data`. Also returns whether it is the first or last rate tried, and
    none between does equally well.
    """
    losses, taken = np.asarray(losses, float), np.asarray(taken, float)
    lowest, index = by_lowest(losses), for_other_data(losses)
    edges = on_edge(index, losses)
    for size in np.flatnonzero(lowest >= 0):
        index[size], edges[size] = _of_size(losses[size], taken[size], lowest[size], margin)
    return index, edges


def _of_size(losses: np.ndarray, taken: np.ndarray, lowest: int, margin: float) -> tuple[int, bool]:
    """Return the rate of one batch size, and whether it is on an edge, as `for_all_data` does."""
    known = np.isfinite(losses).sum(axis=1)
    rates = np.flatnonzero(tried(losses[None])[0])
    equal = [rate for rate in rates if known[rate] == known[lowest]]
    equal = [rate for rate in equal if not _higher(losses[rate] - losses[lowest])]
    fastest = equal[max(_most_reached(taken[equal]), 0)]
    logs = np.log(np.where(np.isfinite(taken) & (taken > 0), taken, math.nan))
    equal = [rate for rate in equal if not _higher(logs[rate] - logs[fastest], math.log1p(margin))]
    inner = {*equal} - {rates[0], rates[-1]}
    reached = [rate for rate in equal if not np.isinf(taken[rate]).any()]
    pool = reached if reached and (not inner or inner & {*reached}) else inner or equal
    best = min(pool, key=lambda rate: np.nanmean(losses[rate]))
    return best, len(rates) > 1 and best in (rates[0], rates[-1]) and not inner


def _higher(differences: np.ndarray, margin: float = 0.0) -> bool:
    """Return whether the mean of the finite differences is shown to be above a margin."""
    return bool(intervals.t_interval(differences, 1 - 2 * LEVEL).low > margin)


def leave_one_out(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Reads every seed at the rate that the other seeds choose, so that none flatters itself.

    The one rule for whatever is taken to a target, each outcome by itself: seconds are read at
    the rate that is chosen by seconds. Rates are chosen among those at which the fewest seeds
    failed, so one at which some training fails is chosen by none where another is without a
    failure. Where a single rate was tried there is no choice, and the only seed of a batch size
    is read at its own, which flatters it.

    Returns:
        The values read, shape (sizes, seeds), and at which rate, -1 where there is none to
        choose: then infinite where no other seed got there at any rate, and NaN where a seed has
        no run.
    """
    values = np.asarray(values, float)
    sizes, _, seeds = values.shape
    read, index = np.full((sizes, seeds), np.nan), np.full((sizes, seeds), -1)
    for size, (found, there) in enumerate(zip(values, tried(values), strict=True)):
        own = ~np.isnan(found).all(axis=0)
        failures = np.where(there, (~np.isfinite(found) & own).sum(axis=1), seeds + 1)
        allowed = failures == failures.min()
        for seed in np.flatnonzero(own):
            others = np.delete(found, seed, axis=1) if own.sum() > 1 else found
            chosen = _most_reached(np.where(allowed[:, None], others, np.nan))
            chosen = int(there.argmax()) if there.sum() == 1 else chosen
            index[size, seed] = chosen
            read[size, seed] = found[chosen, seed] if chosen >= 0 else np.inf
    return read, index


def differ(read: Any) -> np.ndarray:
    """Returns whether the seeds of each size are read at different rates, shape (sizes,).

    Then they are no independent samples (see `intervals.correction`). `read` has their rates, or
    the indices of these, shape (sizes, seeds); NaN or -1 where there is none.
    """
    read = np.asarray(read, float)
    read = np.where(read >= 0, read, np.nan)
    return np.fmax.reduce(read, axis=1) > np.fmin.reduce(read, axis=1)


def on_edge(index: np.ndarray, values: Any) -> np.ndarray:
    """Returns whether the rate of each size, -1 for none, is the first or last of several tried."""
    there = tried(np.asarray(values, float))
    first, last = there.argmax(axis=1), there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    return (index >= 0) & ((index == first) | (index == last)) & (there.sum(axis=1) > 1)


def _most_reached(values: np.ndarray) -> int:
    """Returns the rate at which most seeds of a size got there, of those the fastest; -1 if none.

    `values` has shape (rates, seeds).
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    means = np.where(finite, values, 0.0).sum(axis=1) / np.maximum(count, 1)
    means[count < max(count.max(), 1)] = np.inf
    return int(means.argmin()) if count.any() else -1


def tried(values: np.ndarray) -> np.ndarray:
    """Returns whether a rate was tried at a size, shape (sizes, rates)."""
    return ~np.isnan(values).all(axis=2)


def at(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Returns values of shape (sizes, rates, seeds) at the rate of each size and seed."""
    return np.take_along_axis(values, index[:, None], axis=1)[:, 0]
