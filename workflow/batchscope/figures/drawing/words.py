"""Sentences with a figure's own numbers: means over seeds, at the smallest and largest batch size.

They say what was measured, and leave verdicts to batchscope.analysis.trends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pandas

from batchscope import wording
from batchscope.analysis import best_learning_rates, run_series, seed_pairs
from batchscope.analysis.run_series import Series
from batchscope.analysis.seed_pairs import Mean

_MOST_SERIES = 4  # described one by one
_MOST_CHANGES = 3  # of so many each has its change; two are compared, and of more the extremes


def seeds(*counts: tuple[int, int]) -> str:
    """Returns `6 of 6 seeds` or `6 of 6 and 4 of 6 seeds`, given found and all of each."""
    parts = dict.fromkeys(f"{found} of {all_}" for found, all_ in counts)
    alone = len(parts) == 1 and counts[0][1] == 1
    return wording.listed(parts) + (" seed" if alone else " seeds")


def sentence(
    frame: pandas.DataFrame,
    column: str,
    what: str,
    unit: wording.Unit = wording.PLAIN,
    most: int = 2,
) -> str:
    """Returns the mean of a column at both ends of the batch sizes, and how far these are apart.

    Of several series the lowest and the highest, then each of them; of one, up to `most` batch
    sizes one by one. Where several learning rates were tried, of a loss, an accuracy or what a
    target takes each batch size at its best one. Empty where nothing finished.
    """
    if (rate := best_learning_rates.tuned_factor(frame)) and (sign := _sign(column)):
        frame = best_learning_rates.at_best(frame, column, sign).rename(
            columns={rate: seed_pairs.CHOSEN_RATE}
        )
        what = f"{what.removesuffix(',')}, {best_learning_rates.AT_BEST},"
    every = (
        (each, seed_pairs.by_batch_size(each.frame, column)) for each in run_series.series(frame)
    )
    found = [(group, means) for group, means in every if means]
    if not found:
        return ""
    if len(found) == 1:
        group, means = found[0]
        what += wording.aside(group.label)
        return f"{what} was {_values(means, unit, most)}{_change(means, unit)}."
    changes = len(found) == _MOST_CHANGES
    parts = [
        f"{group.label}: {_values(means, unit)}{_change(means, unit) if changes else ''}"
        for group, means in found[:_MOST_SERIES]
    ]
    parts += further(len(found) - len(parts))
    beside = _contrast(found, unit)
    if not beside:
        return f"{what} was, by series, {'; '.join(parts)}."
    if changes and any(len(means) > 1 for _, means in found):
        return f"{what} was, by series, {'; '.join(parts)}. It was {beside}."
    return f"{what} was {beside}. By series: {'; '.join(parts)}."


def ran_out(counts: dict[int, tuple[int, int]]) -> str:
    """Returns `3 of 6 runs at batch size 256 ran ...` of what `training_ends.ran_out` returned."""
    if not counts:
        return ""
    (size, (some, all_)), *rest = counts.items()
    parts = [f"{some} of {all_} runs at batch size {size}"]
    parts += [f"{some} of {all_} at batch size {size}" for size, (some, all_) in rest]
    return f"{', '.join(parts)} ran to the last epoch that they may"


def further(count: int, what: str = "series ") -> list[str]:
    """Returns what a sentence says of those that it leaves out; nothing where there are none."""
    return [f"{count} further {what}in the figure"] if count > 0 else []


def _change(means: dict[int, Mean], unit: wording.Unit) -> str:
    """Returns how far the largest batch size of a series is from its smallest."""
    return "" if len(means) < 2 else _apart(means[max(means)], means[min(means)], unit)[0]


def _sign(column: str) -> int:
    """Returns 1 where lower is better, -1 where higher is, 0 where neither is."""
    if column.startswith("generalisation_gap"):
        return 0
    if column.endswith("accuracy"):
        return -1
    return int("loss" in column or column == "to_target")


def _contrast(found: list[tuple[Series, dict[int, Mean]]], unit: wording.Unit) -> str:
    """Returns the lowest and the highest mean of series at the largest batch size of all of them.

    With how far they are apart over paired seeds: of shares the difference, of what is above zero
    the ratio. Empty where no batch size is in all.
    """
    shared = set.intersection(*(set(means) for _, means in found))
    if not shared:
        return ""
    small, largest = min(shared), max(shared)
    values = {size: {each[size].interval.mean for _, each in found} for size in (largest, small)}
    differ = [size for size, different in values.items() if len(different) > 1]
    size = differ[0] if differ else largest
    ordered = sorted(found, key=lambda each: each[1][size].interval.mean)
    (lowest, low), (highest, high) = ordered[0], ordered[-1]
    rounded = wording.alike([each[size].interval[:3] for each in (low, high)], unit)
    every = wording.every(len(found), "series")
    if not differ:
        return f"{rounded[0]} in {every} at batch size {size}"
    between = f"between {rounded[0]} ({lowest.label}) and {rounded[1]} ({highest.label})"
    alone = " for these two alone" if len(found) > 2 else ""
    contrast = _contrasted(high[size], low[size], unit, alone)
    if size != largest:
        contrast += f", and the same in {every} at {largest}"
    elif not alone and small < size and (there := _contrasted(high[small], low[small], unit)):
        contrast += f"; at {small}{there.removeprefix(',')}"
    of = {group.label: means[size] for group, means in found}
    for factor, less, more in _ablations([group for group, _ in found]) if alone else ():
        apart = _contrasted(of[more.label], of[less.label], unit)
        if apart and {less.label, more.label} != {lowest.label, highest.label}:
            names = (run_series.describe({factor: each.factors[factor]}) for each in (more, less))
            contrast += f"; {' against '.join(names)}, else alike{apart}"
    return f"{between} at batch size {size}{contrast}"


def _ablations(
    groups: list[Series],
) -> Iterator[tuple[str, Series, Series]]:
    """Yields the factors in which a single pair of series differs, and in nothing else.

    In nothing either that follows from it, such as a learning rate of each optimizer.
    """
    names = run_series.factor_columns(groups[0].frame)
    pairs: dict[str, list[tuple[Series, Series]]] = {}
    for one, other in itertools.combinations(groups, 2):
        differ = [n for n in names if set(one.frame[n].dropna()) != set(other.frame[n].dropna())]
        if len(differ) == 1 and differ[0] in one.factors:
            pairs.setdefault(differ[0], []).append((one, other))
    yield from ((name, *found[0]) for name, found in pairs.items() if len(found) == 1)


def _contrasted(high: Mean, low: Mean, unit: wording.Unit, alone: str = "") -> str:
    """Returns how far two series are apart, and whether that is distinguishable from nothing."""
    apart, none = _apart(high, low, unit)
    return f"{apart}{alone if apart else ''}{none}"


def _apart(larger: Mean, smaller: Mean, unit: wording.Unit) -> tuple[str, str]:
    """Returns how far two means are apart over paired seeds, and that it may be nothing.

    Empty without an interval: below two seeds that are in both.
    """
    found, ratio = seed_pairs.apart(larger, smaller, ratio=unit is not wording.PERCENT)
    shown = wording.PLAIN if ratio else wording.POINTS if unit is wording.PERCENT else unit
    pairs = f"{'geometric mean of ' if ratio else ''}{wording.count(found.n, 'pair')}"
    rounded = wording.estimate(found.mean, found.low, found.high, shown)
    if not rounded.low:
        return "", ""
    ends = f"{pairs}, 95 % interval {rounded.low} to {rounded.high}"
    none = int(ratio)  # of a ratio 1, of a difference 0
    alike = f", not distinguishable from {none}" if found.low <= none <= found.high else ""
    what = "a factor" if ratio else "a difference"
    return f", {what} of {rounded.value}{shown.suffix} ({ends})", alike


def _at(mean: Mean) -> str:
    """Returns ` (rate 0.1)`, the one that was chosen, or the range of those of the seeds."""
    rates = [wording.number(rate) for rate in mean.rates]
    if not rates:
        return ""
    return f" (rate {rates[0]})" if len(rates) == 1 else f" (rates {rates[0]} to {rates[-1]})"


def _values(means: dict[int, Mean], unit: wording.Unit, most: int = 2) -> str:
    """Returns the means; of more than `most`, those of the smallest and largest batch size."""
    sizes = list(means) if len(means) <= most else [min(means), max(means)]
    counts = seeds(*((means[size].interval.n, means[size].seeds) for size in sizes))
    values = wording.alike([means[size].interval[:3] for size in sizes], unit)
    parts = [
        f"{value} at {size}{_at(means[size])}" for value, size in zip(values, sizes, strict=True)
    ]
    return f"{wording.listed(parts).replace(' at ', ' at batch size ', 1)} ({counts})"
