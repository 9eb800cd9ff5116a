"""Trends over batch sizes whose learning rates were chosen from the same runs, by relabelling.

The rate of a batch size is chosen over all seeds, so that seeds share it: two sizes that are
equally good may get different rates, and then differ alike in every seed. Page's and Friedman's
tests take seeds as independent and would count that as evidence. Here the batch-size labels are
drawn anew within each seed, and every draw chooses its rates again: the p-value holds the choice
as well.

Source: Ernst 2004, "Permutation Methods: A Basis for Exact Inference", Statistical Science 19, 676.
"""

from __future__ import annotations

import numpy as np

from batchscope.analysis import intervals

DRAWS = 4999  # the smallest p is one in 5,000
_CHUNK = 500  # draws at a time, for memory


def tried_alike(losses: np.ndarray) -> bool:
    """Returns whether every size was trained at the same number of rates, more than one.

    Args:
        losses: As `chosen_rates.by_lowest` takes them; a size without any run has no say.
    """
    counts = (~np.isnan(losses).all(axis=2)).sum(axis=1)
    counts = counts[counts > 0]
    return bool(len(counts) and counts.min() > 1 and counts.min() == counts.max())


def p_values(
    losses: np.ndarray, values: np.ndarray, by_others: bool, draws: int = DRAWS
) -> tuple[float, float, float]:
    """Returns p of a rise, a fall and any difference over sizes, the choice of rates included.

    Args:
        losses: What rates are chosen by, shape (sizes, rates, seeds), lower is better, rates
            ascending and as many at each size; infinite where a run failed. Of a size and a rate
            that were not tried NaN; the rates of two sizes count as alike by their order.
        values: The outcome, likewise.
        by_others: Whether each seed is read at the rate that the others choose.
        draws: Relabellings beside the labels as they are.

    Returns:
        NaN for each where fewer than two seeds or sizes are whole.
    """
    losses, values = _whole(losses, values)
    sizes, _, seeds = losses.shape
    if min(sizes, seeds) < 2:
        return intervals.NAN, intervals.NAN, intervals.NAN
    random = np.random.default_rng(0)
    own = np.broadcast_to(np.arange(sizes)[:, None], (1, sizes, seeds))
    rises, any_ = _statistics(losses, values, own, by_others)
    reached = np.zeros(3)
    done = 0
    while done < draws:
        count = min(_CHUNK, draws - done)
        labels = random.random((count, sizes, seeds)).argsort(axis=1)
        page, friedman = _statistics(losses, values, labels, by_others)
        close = 1e-9 * (1 + np.abs([rises[0], rises[0], any_[0]]))  # sums in another order
        reached += [
            (page >= rises - close[0]).sum(),
            (page <= rises + close[1]).sum(),
            (friedman >= any_ - close[2]).sum(),
        ]
        done += count
    rising, falling, different = (1 + reached) / (1 + draws)
    return float(rising), float(falling), float(different)


def _whole(losses: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns sizes with any run, their tried rates side by side, and seeds without a gap."""
    tried = ~np.isnan(losses).all(axis=2)
    kept = tried.any(axis=1)
    order = np.argsort(~tried[kept], axis=1, kind="stable")[:, : int(tried.sum(axis=1).max())]
    losses, values = (
        np.take_along_axis(each[kept], order[..., None], 1) for each in (losses, values)
    )
    seeds = ~(np.isnan(losses) | np.isnan(values)).any(axis=(0, 1))
    return losses[..., seeds], values[..., seeds]


def _statistics(
    losses: np.ndarray, values: np.ndarray, labels: np.ndarray, by_others: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Returns Page's and Friedman's statistics of every draw, up to constants.

    Args:
        losses: Shape (sizes, rates, seeds).
        values: Likewise.
        labels: Which size's runs a label has in each seed, shape (draws, sizes, seeds).
        by_others: As `p_values` takes it.
    """
    from scipy import stats  # half a second, which the figures need not pay for

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
    ranks = stats.rankdata(read, axis=1).sum(axis=2)
    steps = np.arange(ranks.shape[1])
    return ranks @ steps, ((ranks - ranks.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
