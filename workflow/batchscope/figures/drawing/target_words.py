"""Words for what batch sizes take to a target: the fit, its interval, the learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import compress

from batchscope import wording
from batchscope.analysis.critical_batch_size import LEAST_SIZES
from batchscope.analysis.run_series import describe
from batchscope.analysis.to_target_tables import critical_text, target_text
from batchscope.analysis.updates_to_target import Rates, Scaling

# Why there is no closed form where seconds are known.
NO_LINE = "the times of a step show no fixed cost, or no straight line over batch sizes"


def title(scaling: Scaling) -> str:
    """Returns the series and the target."""
    words = describe(scaling.factors)
    return ", ".join(part for part in (words, target_text(scaling.target)) if part)


def caption(scaling: Scaling) -> str:
    """Returns what stands above a panel of the fit."""
    if scaling.fit is None:
        return too_few(scaling)
    bends = f"\nlack of fit ({scaling.fit.lack_of_fit})" if scaling.fit.lack_of_fit else ""
    return f"{critical_text(scaling.fit)}, residual {wording.percent(scaling.fit.residual)}{bends}"


def too_few(scaling: Scaling) -> str:
    """Returns why there is no fit."""
    return (
        f"{wording.count(int(scaling.fitted.sum()), 'batch size reaches', 'batch sizes reach')} "
        f"the target with every seed; a fit needs {LEAST_SIZES}"
    )


def fastest(scaling: Scaling) -> str:
    """Returns `B* 55 [52, 57]`; empty where there is none."""
    best = scaling.fastest
    if best is None:
        return ""
    ends = (best.batch_size_low, best.batch_size_high)
    return f"B* {wording.bracketed(best.batch_size, *ends)}"


def chosen(scaling: Scaling, rates: Rates) -> str:
    """Returns the chosen learning rates, `0.2 at 8; 0.4 at 16 and 32 (edge)`."""
    groups: dict[tuple[float, bool], list[int]] = {}
    for size, rate, edge in zip(
        scaling.batch_sizes, rates.chosen.tolist(), rates.on_edge.tolist(), strict=True
    ):
        key = (-1.0 if math.isnan(rate) else rate, edge)
        groups.setdefault(key, []).append(size)
    parts = []
    for (rate, edge), sizes in groups.items():
        name = "none" if rate < 0 else wording.shortest(rate)
        parts.append(f"{name} at {wording.listed(sizes)}{' (edge)' if edge else ''}")
    return "; ".join(parts)


def at_first(scaling: Scaling) -> Iterator[str]:
    """Yields at which sizes the target holds by the first evaluation, if at any."""
    sizes = list(compress(scaling.batch_sizes, scaling.at_first.any(axis=1)))
    if sizes:
        yield (
            f"At batch size {wording.listed(sizes)} a training is at {scaling.target.words} by its "
            "first evaluation: what it took is an upper bound. A lower loss as target, or more "
            "frequent evaluations, would tell."
        )


def left_out(scaling: Scaling, rates: Rates) -> Iterator[str]:
    """Yields the rates that are not chosen: a training diverged there, or never got there."""
    for cells, what in ((rates.diverged, "diverged"), (rates.never, "never got there")):
        by_rate: dict[float, list[int]] = {}
        for size, found in zip(scaling.batch_sizes, cells, strict=True):
            for rate in found:
                by_rate.setdefault(rate, []).append(size)
        if by_rate:
            listed = (
                f"{wording.shortest(rate)} at {wording.listed(sizes)}"
                for rate, sizes in sorted(by_rate.items())
            )
            yield f"Not chosen, as a run {what}: {'; '.join(listed)}"
