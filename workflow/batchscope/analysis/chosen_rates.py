"""Tuned learning rates: the choice of a rate for every batch size, without a biased outcome.

The data that choose a rate overstate it. A validation loss chooses, and test data report; if the
outcome itself chooses, each seed is read at the rate that the other seeds choose.

All functions take a cube of shape (sizes, rates, seeds), rates ascending: NaN without a run,
infinite if it diverged or never reached the target. A rate of a size without a run was not tried,
and a seed of a size without a run at any rate does not count.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batchscope.analysis import intervals
from batchscope.study.outcomes import LEVEL

RATE = "learning_rate"


def by_lowest(losses: Any) -> np.ndarray:
    """Return the index of the rate with the lowest mean loss of each batch size, shape (sizes,).

    A rate with a run that is missing, diverged or never reached the target is excluded. The index
    is -1 if all rates are. Among equal rates the lowest one is chosen.
    """
    losses = np.asarray(losses, float)
    has_seed, finite = ~np.isnan(losses).all(axis=1, keepdims=True), np.isfinite(losses)
    usable = tried(losses) & (finite | ~has_seed).all(axis=2)
    means = np.where(finite, losses, 0.0).sum(axis=2) / np.maximum(has_seed.sum(axis=2), 1)
    return np.where(usable.any(axis=1), np.where(usable, means, np.inf).argmin(axis=1), -1)


def for_other_data(losses: Any) -> np.ndarray:
    """Return the index of the rate for other data of each batch size, shape (sizes,).

    It is the rate of `by_lowest`, or the only one. If a run failed at every rate, it is the rate
    with the most successful runs, so that the size is reported by its runs. If every rate lacks a
    run, it is -1: means over different seeds cannot be compared.
    """
    losses = np.asarray(losses, float)
    index = by_lowest(losses)
    for size, (size_losses, is_tried) in enumerate(zip(losses, tried(losses), strict=True)):
        failed = np.isinf(size_losses[is_tried]).any(axis=1)
        if index[size] < 0 and (len(size_losses) == 1 or (len(failed) and failed.all())):
            most = _most_reached(size_losses)
            index[size] = most if most >= 0 else is_tried.argmax()
    return index


def better_with_fewer_seeds(losses: Any, index: np.ndarray) -> np.ndarray:
    """Return whether a rate with fewer seeds may be better than the chosen one, shape (sizes,).

    By the seeds of that rate, its mean loss is lower. It left a race over rates, or is new in it.

    Args:
        index: Chosen rate of each batch size; -1 without one.
    """
    losses = np.asarray(losses, float)
    result = np.zeros(len(losses), bool)
    for size, chosen in enumerate(index):
        for rate in np.flatnonzero(tried(losses)[size]) if chosen >= 0 else ():
            seeds = ~np.isnan(losses[size, rate])
            has_fewer = seeds.sum() < (~np.isnan(losses[size, chosen])).sum()
            means = losses[size, [rate, chosen]][:, seeds].mean(axis=1)
            result[size] |= has_fewer and means[0] < means[1]
    return result


def for_all_data(losses: Any, costs: Any, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the rate for all data of each batch size, and whether it is on an edge.

    Two rates are equally good if neither a higher loss is shown than the lowest one, nor a higher
    cost than the fastest of these rates, by the seeds that reach the target at both. Among them the
    lowest loss decides: among the rates at which every seed reached the target, or, if none of
    these is between the first and the last rate, among the rates between.

    A rate is on an edge if it is the first or the last one and no rate between is equally good.
    Without any choice the index is the one of `for_other_data`.

    Args:
        costs: Cost to the target; NaN without a target.
        margin: Negligible share of the cost.
    """
    losses, costs = np.asarray(losses, float), np.asarray(costs, float)
    lowest, index = by_lowest(losses), for_other_data(losses)
    edges = on_edge(index, losses)
    for size in np.flatnonzero(lowest >= 0):
        index[size], edges[size] = _choose_for_size(losses[size], costs[size], lowest[size], margin)
    return index, edges


def _choose_for_size(
    losses: np.ndarray, costs: np.ndarray, lowest: int, margin: float
) -> tuple[int, bool]:
    """Return the rate of one batch size, and whether it is on an edge, as `for_all_data` does."""
    counts = np.isfinite(losses).sum(axis=1)
    rates = np.flatnonzero(tried(losses[None])[0])
    equal = [rate for rate in rates if counts[rate] == counts[lowest]]
    equal = [rate for rate in equal if not _higher(losses[rate] - losses[lowest])]
    fastest = equal[max(_most_reached(costs[equal]), 0)]
    logs = np.log(np.where(np.isfinite(costs) & (costs > 0), costs, math.nan))
    equal = [rate for rate in equal if not _higher(logs[rate] - logs[fastest], math.log1p(margin))]
    inner = {*equal} - {rates[0], rates[-1]}
    reached = [rate for rate in equal if not np.isinf(costs[rate]).any()]
    pool = reached if reached and (not inner or inner & {*reached}) else inner or equal
    best = min(pool, key=lambda rate: np.nanmean(losses[rate]))
    return best, len(rates) > 1 and best in (rates[0], rates[-1]) and not inner


def _higher(differences: np.ndarray, margin: float = 0.0) -> bool:
    """Return whether the mean of the finite differences is shown to be above a margin."""
    return bool(intervals.t_interval(differences, 1 - 2 * LEVEL).low > margin)


def leave_one_out(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Read every seed at the rate that the other seeds choose, so that the choice is unbiased.

    Each cost to a target has its own choice: seconds choose the rate of seconds. Only the rates
    with the fewest failed seeds can be chosen. A single rate leaves no choice, and the only seed of
    a batch size chooses its own rate, which is biased.

    Returns:
        The values, shape (sizes, seeds), and the indices of their rates. The index is -1 without a
        choice: the value is then infinite if no other seed got there at any rate, and NaN if the
        seed has no run.
    """
    values = np.asarray(values, float)
    sizes, _, seeds = values.shape
    read, index = np.full((sizes, seeds), np.nan), np.full((sizes, seeds), -1)
    for size, (size_values, is_tried) in enumerate(zip(values, tried(values), strict=True)):
        has_run = ~np.isnan(size_values).all(axis=0)
        failures = np.where(is_tried, (~np.isfinite(size_values) & has_run).sum(axis=1), seeds + 1)
        allowed = failures == failures.min()
        for seed in np.flatnonzero(has_run):
            remaining = np.delete(size_values, seed, axis=1) if has_run.sum() > 1 else size_values
            chosen = _most_reached(np.where(allowed[:, None], remaining, np.nan))
            chosen = int(is_tried.argmax()) if is_tried.sum() == 1 else chosen
            index[size, seed] = chosen
            read[size, seed] = size_values[chosen, seed] if chosen >= 0 else np.inf
    return read, index


def differ(read: Any) -> np.ndarray:
    """Return whether the seeds of each size are read at different rates, shape (sizes,).

    Such seeds are not independent (see `intervals.correction`).

    Args:
        read: Their rates or the indices of these, shape (sizes, seeds); NaN or -1 without one.
    """
    read = np.asarray(read, float)
    read = np.where(read >= 0, read, np.nan)
    return np.fmax.reduce(read, axis=1) > np.fmin.reduce(read, axis=1)


def on_edge(index: np.ndarray, values: Any) -> np.ndarray:
    """Return whether the rate of each size, -1 for none, is the first or last of several tried."""
    is_tried = tried(np.asarray(values, float))
    first, last = is_tried.argmax(axis=1), is_tried.shape[1] - 1 - is_tried[:, ::-1].argmax(axis=1)
    return (index >= 0) & ((index == first) | (index == last)) & (is_tried.sum(axis=1) > 1)


def _most_reached(values: np.ndarray) -> int:
    """Return the fastest rate among those with the most successful seeds; -1 without any.

    `values` has shape (rates, seeds).
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    means = np.where(finite, values, 0.0).sum(axis=1) / np.maximum(count, 1)
    means[count < max(count.max(), 1)] = np.inf
    return int(means.argmin()) if count.any() else -1


def tried(values: np.ndarray) -> np.ndarray:
    """Return whether a rate was tried at a size, shape (sizes, rates)."""
    return ~np.isnan(values).all(axis=2)


def at(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return values of shape (sizes, rates, seeds) at the rate of each size and seed."""
    return np.take_along_axis(values, index[:, None], axis=1)[:, 0]
