"""Tuned learning rates: losses or costs of all runs in, the index of a rate per batch size out.

The data that choose a rate overstate its outcome. So a validation loss chooses, and test data
report. If the outcome itself chooses, each seed is read at the rate that the other seeds choose.

All functions take a cube of shape (sizes, rates, seeds), rates ascending. A number is NaN without a
run, and infinite if the run diverged or never reached the target. A seed without any run of a size
does not count. A new rule is a function here; `trainings` applies it to one series.
"""

import math
from typing import Any

import numpy as np

from batchscope.analysis import intervals
from batchscope.study.outcomes import LEVEL

RATE = "learning_rate"


def index_of_lowest_loss(losses: Any) -> np.ndarray:
    """Return the index of the rate with the lowest mean loss of each batch size, shape (sizes,).

    A rate is excluded if one of its runs is missing, diverged or never reached the target. The
    index is -1 if all rates are excluded. Among equal losses the lowest rate is chosen.
    """
    losses = np.asarray(losses, float)
    has_seed, finite = ~np.isnan(losses).all(axis=1, keepdims=True), np.isfinite(losses)
    usable = was_tried(losses) & (finite | ~has_seed).all(axis=2)
    means = np.where(finite, losses, 0.0).sum(axis=2) / np.maximum(has_seed.sum(axis=2), 1)
    return np.where(usable.any(axis=1), np.where(usable, means, np.inf).argmin(axis=1), -1)


def index_for_other_data(losses: Any) -> np.ndarray:
    """Return the index of the rate for other data of each batch size, shape (sizes,).

    It is the rate of `index_of_lowest_loss`, or the only rate. If a run failed at every rate, it is
    the rate with the most successful runs. If every rate lacks a run, it is -1.
    """
    losses = np.asarray(losses, float)
    index = index_of_lowest_loss(losses)
    for size, (size_losses, is_tried) in enumerate(zip(losses, was_tried(losses), strict=True)):
        failed = np.isinf(size_losses[is_tried]).any(axis=1)
        if index[size] < 0 and (len(size_losses) == 1 or (len(failed) and failed.all())):
            best = _index_of_most_successes(size_losses)
            index[size] = best if best >= 0 else is_tried.argmax()
    return index


def is_beaten_with_fewer_seeds(losses: Any, index: np.ndarray) -> np.ndarray:
    """Return whether a rate with fewer seeds has a lower mean loss over its seeds, shape (sizes,).

    Args:
        index: Chosen rate of each batch size; -1 without one.
    """
    losses = np.asarray(losses, float)
    result = np.zeros(len(losses), bool)
    for size, chosen in enumerate(index):
        for rate in np.flatnonzero(was_tried(losses)[size]) if chosen >= 0 else ():
            seeds = ~np.isnan(losses[size, rate])
            has_fewer = seeds.sum() < (~np.isnan(losses[size, chosen])).sum()
            means = losses[size, [rate, chosen]][:, seeds].mean(axis=1)
            result[size] |= has_fewer and means[0] < means[1]
    return result


def index_for_all_data(losses: Any, costs: Any, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the one rate for all data of each size, and whether it is on an edge.

    1. Equally good rates: the tests show neither a loss above the lowest one, nor a cost above the
       fastest of these rates. Costs are compared over the seeds that reach the target at both.
    2. Among them, rates at which every seed reached the target are preferred. If none of these is
       an inner rate (between the first and the last), inner rates are preferred.
    3. The lowest mean loss decides.

    The rate is on an edge if it is the first or the last, and no inner rate is equally good. If
    nothing can be chosen, the index is the one of `index_for_other_data`. Costs are NaN without a
    target; `margin` is their negligible share.
    """
    losses, costs = np.asarray(losses, float), np.asarray(costs, float)
    lowest, index = index_of_lowest_loss(losses), index_for_other_data(losses)
    edges = is_on_edge(index, losses)
    for size in np.flatnonzero(lowest >= 0):
        index[size], edges[size] = _choose_for_size(losses[size], costs[size], lowest[size], margin)
    return index, edges


def _choose_for_size(
    losses: np.ndarray, costs: np.ndarray, lowest: int, margin: float
) -> tuple[int, bool]:
    """Return the index for one batch size, and whether it is on an edge (`index_for_all_data`)."""
    counts = np.isfinite(losses).sum(axis=1)
    rates = np.flatnonzero(was_tried(losses[None])[0])
    equal = [rate for rate in rates if counts[rate] == counts[lowest]]
    equal = [rate for rate in equal if not _is_above(losses[rate] - losses[lowest])]
    fastest = equal[max(_index_of_most_successes(costs[equal]), 0)]
    logs = np.log(np.where(np.isfinite(costs) & (costs > 0), costs, math.nan))
    log_margin = math.log1p(margin)
    equal = [rate for rate in equal if not _is_above(logs[rate] - logs[fastest], log_margin)]
    inner = {*equal} - {rates[0], rates[-1]}
    reached = [rate for rate in equal if not np.isinf(costs[rate]).any()]
    pool = reached if reached and (not inner or inner & {*reached}) else inner or equal
    best = min(pool, key=lambda rate: np.nanmean(losses[rate]))
    return best, len(rates) > 1 and best in (rates[0], rates[-1]) and not inner


def _is_above(differences: np.ndarray, margin: float = 0.0) -> bool:
    """Return whether the mean of the finite differences is shown to be above a margin."""
    return bool(intervals.t_interval(differences, 1 - 2 * LEVEL).low > margin)


def leave_one_out(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return each seed's value at the rate that the other seeds choose, an unbiased choice.

    The rates with the fewest failed seeds compete. The only seed of a size chooses its own rate.

    Returns:
        The values, shape (sizes, seeds), and the indices of their rates. The index is -1 without a
        choice. The value is then infinite if no other seed reached the target at any rate, and NaN
        if the seed has no run.
    """
    values = np.asarray(values, float)
    sizes, _, seeds = values.shape
    read, index = np.full((sizes, seeds), np.nan), np.full((sizes, seeds), -1)
    for size, (size_values, is_tried) in enumerate(zip(values, was_tried(values), strict=True)):
        has_run = ~np.isnan(size_values).all(axis=0)
        failures = np.where(is_tried, (~np.isfinite(size_values) & has_run).sum(axis=1), seeds + 1)
        allowed = failures == failures.min()
        for seed in np.flatnonzero(has_run):
            remaining = np.delete(size_values, seed, axis=1) if has_run.sum() > 1 else size_values
            chosen = _index_of_most_successes(np.where(allowed[:, None], remaining, np.nan))
            chosen = int(is_tried.argmax()) if is_tried.sum() == 1 else chosen
            index[size, seed] = chosen
            read[size, seed] = size_values[chosen, seed] if chosen >= 0 else np.inf
    return read, index


def rates_differ(rates: Any) -> np.ndarray:
    """Return whether the seeds of each size are read at different rates, shape (sizes,).

    Args:
        rates: Rates of the seeds, or indices of rates, shape (sizes, seeds). Seeds without a rate
            have NaN or -1.
    """
    rates = np.asarray(rates, float)
    rates = np.where(rates >= 0, rates, np.nan)
    return np.fmax.reduce(rates, axis=1) > np.fmin.reduce(rates, axis=1)


def is_on_edge(index: np.ndarray, values: Any) -> np.ndarray:
    """Return whether each size's rate (-1 for none) is the lowest or highest of several tried."""
    is_tried = was_tried(np.asarray(values, float))
    first, last = is_tried.argmax(axis=1), is_tried.shape[1] - 1 - is_tried[:, ::-1].argmax(axis=1)
    return (index >= 0) & ((index == first) | (index == last)) & (is_tried.sum(axis=1) > 1)


def _index_of_most_successes(values: np.ndarray) -> int:
    """Return the index of the lowest mean among the rates with the most successful seeds.

    It is -1 without any success. `values` has shape (rates, seeds).
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    means = np.where(finite, values, 0.0).sum(axis=1) / np.maximum(count, 1)
    means[count < max(count.max(), 1)] = np.inf
    return int(means.argmin()) if count.any() else -1


def was_tried(values: np.ndarray) -> np.ndarray:
    """Return whether each rate has a run of each size, shape (sizes, rates)."""
    return ~np.isnan(values).all(axis=2)


def values_at_rates(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the values at the rate index of each size and seed, shape (sizes, seeds)."""
    return np.take_along_axis(values, index[:, None], axis=1)[:, 0]
