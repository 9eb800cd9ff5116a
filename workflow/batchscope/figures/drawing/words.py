"""Sentences with a figure's own numbers: means over seeds, at the smallest and largest batch size.

They say what was measured, and leave verdicts to the tests of batchscope.analysis.outcome_answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import best_learning_rates, intervals, run_series
from batchscope.figures.drawing import canvas

_MOST_SERIES = 4  # described one by one
_MOST_CHANGES = 3  # of so many each has its change; two are compared, and of more the extremes
_CHOSEN = "chosen_learning_rate"


class End(NamedTuple):
    """The mean at one batch size with its interval, over the runs with a value among all seeds."""

    batch_size: int
    interval: intervals.Interval
    seeds: int
    rates: tuple[float, ...] = ()  # that were chosen there; empty where there was no choice

    @property
    def mean(self) -> float:
        """The mean alone."""
        return self.interval.mean


def seeds(*counts: tuple[int, int]) -> str:
    """Returns `6 of 6 seeds` or `6 of 6 and 4 of 6 seeds`, given found and all of each."""
    parts = dict.fromkeys(f"{found} of {all_}" for found, all_ in counts)
    alone = len(parts) == 1 and counts[0][1] == 1
    return wording.listed(parts) + (" seed" if alone else " seeds")


def ends(rows: pandas.DataFrame, column: str, most: int = 2) -> list[End]:
    """Returns the batch sizes with a value; of more than `most`, the smallest and the largest."""
    finished = rows[rows["status"] == canvas.FINISHED]
    values = finished[column].astype(float).replace([np.inf, -np.inf], np.nan)
    total = rows["seed"].nunique()
    found = []
    for size, known in values.groupby(finished["batch_size"]):
        known = known.dropna()
        if len(known):
            rates = _rates(rows.loc[known.index])
            interval = intervals.t_interval(known, differ=len(rates) > 1)
            found.append(End(int(size), interval, total, rates))
    return found if len(found) <= most else [found[0], found[-1]]


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
        frame = best_learning_rates.at_best(frame, column, sign).rename(columns={rate: _CHOSEN})
        what = f"{what.removesuffix(',')}, {best_learning_rates.AT_BEST},"
    every = ((group, ends(group.frame, column)) for group in run_series.series(frame))
    series = [(group, found) for group, found in every if found]
    if not series:
        return ""
    if len(series) == 1:
        group, _ = series[0]
        found = ends(group.frame, column, most)
        of = f" ({group.label})" if group.label else ""
        return f"{what}{of} was {_values(found, unit)}{_change(group, column, unit)}."
    changes = len(series) == _MOST_CHANGES
    parts = [
        f"{group.label}: {_values(found, unit)}{_change(group, column, unit) if changes else ''}"
        for group, found in series[:_MOST_SERIES]
    ]
    parts += further(len(series) - len(parts))
    beside = _contrast([group for group, _ in series], column, unit)
    if not beside:
        return f"{what} was, by series, {'; '.join(parts)}."
    if changes and any(found[1:] for _, found in series):
        return f"{what} was, by series, {'; '.join(parts)}. It was {beside}."
    return f"{what} was {beside}. By series: {'; '.join(parts)}."


def further(count: int, what: str = "series ") -> list[str]:
    """Returns what a sentence says of those that it leaves out; nothing where there are none."""
    return [f"{count} further {what}in the figure"] if count > 0 else []


def _change(group: run_series.Series, column: str, unit: wording.Unit) -> str:
    """Returns how far the largest batch size of a series is from its smallest."""
    cells = _by_seed(group.frame, column)
    return "" if len(cells) < 2 else _apart(cells[max(cells)], cells[min(cells)], unit)[0]


def _sign(column: str) -> int:
    """Returns 1 where lower is better, -1 where higher is, 0 where neither is."""
    if column.startswith("generalisation_gap"):
        return 0
    if column.endswith("accuracy"):
        return -1
    return int("loss" in column or column == "to_target")


def _rates(rows: pandas.DataFrame) -> tuple[float, ...]:
    return tuple(sorted(rows[_CHOSEN].unique())) if _CHOSEN in rows else ()


def _contrast(groups: list[run_series.Series], column: str, unit: wording.Unit) -> str:
    """Returns the lowest and the highest mean of series at the largest batch size of all of them.

    With how far they are apart over paired seeds: of shares the difference, of what is above zero
    the ratio. Empty where no batch size is in all.
    """
    tables = [_by_seed(group.frame, column) for group in groups]
    shared = set.intersection(*map(set, tables))
    if not shared:
        return ""
    small, largest = int(min(shared)), int(max(shared))
    differ = [each for each in (largest, small) if len({t[each].mean for t in tables}) > 1]
    size = differ[0] if differ else largest
    ordered = sorted(zip(tables, groups, strict=True), key=lambda each: each[0][size].mean)
    (low, lowest), (high, highest) = ordered[0], ordered[-1]
    ends = [
        intervals.t_interval(each[size].by_seed, differ=each[size].differ) for each in (low, high)
    ]
    rounded = wording.alike([end[:3] for end in ends], unit)
    every = wording.every(len(groups), "series")
    if not differ:
        return f"{rounded[0]} in {every} at batch size {size}"
    between = f"between {rounded[0]} ({lowest.label}) and {rounded[1]} ({highest.label})"
    alone = " for these two alone" if len(groups) > 2 else ""
    contrast = _contrasted(high[size], low[size], unit, alone)
    if size != largest:
        contrast += f", and the same in {every} at {largest}"
    elif not alone and small < size and (there := _contrasted(high[small], low[small], unit)):
        contrast += f"; at {small}{there.removeprefix(',')}"
    of = {group.label: table[size] for group, table in zip(groups, tables, strict=True)}
    for factor, less, more in _ablations(groups) if alone else ():
        apart = _contrasted(of[more.label], of[less.label], unit)
        if apart and {less.label, more.label} != {lowest.label, highest.label}:
            names = (run_series.describe({factor: each.factors[factor]}) for each in (more, less))
            contrast += f"; {' against '.join(names)}, else alike{apart}"
    return f"{between} at batch size {size}{contrast}"


def _ablations(
    groups: list[run_series.Series],
) -> Iterator[tuple[str, run_series.Series, run_series.Series]]:
    """Yields the factors in which a single pair of series differs, and in nothing else.

    In nothing either that follows from it, such as a learning rate of each optimizer.
    """
    names = run_series.factor_columns(groups[0].frame)
    pairs: dict[str, list[tuple[run_series.Series, run_series.Series]]] = {}
    for one, other in itertools.combinations(groups, 2):
        differ = [n for n in names if set(one.frame[n].dropna()) != set(other.frame[n].dropna())]
        if len(differ) == 1 and differ[0] in one.factors:
            pairs.setdefault(differ[0], []).append((one, other))
    yield from ((name, *found[0]) for name, found in pairs.items() if len(found) == 1)


class _Cell(NamedTuple):
    """The runs of a series at one batch size."""

    by_seed: pandas.Series  # seed -> what its run has in a column
    differ: bool  # whether they are read at different rates (see `intervals.correction`)

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return self.by_seed.mean()


def _by_seed(rows: pandas.DataFrame, column: str) -> dict[int, _Cell]:
    """Returns batch size -> the finished runs, of all seeds that have one at any."""
    values = rows[column].astype(float)
    finished = rows[(rows["status"] == canvas.FINISHED) & np.isfinite(values)]
    table = finished.pivot_table(column, "seed", "batch_size")
    return {
        int(size): _Cell(table[size], len(_rates(own)) > 1)
        for size, own in finished.groupby("batch_size")
    }


def _contrasted(high: _Cell, low: _Cell, unit: wording.Unit, alone: str = "") -> str:
    """Returns how far two series are apart, and whether that is distinguishable from nothing."""
    apart, none = _apart(high, low, unit)
    return f"{apart}{alone if apart else ''}{none}"


def _apart(larger: _Cell, smaller: _Cell, unit: wording.Unit) -> tuple[str, str]:
    """Returns how far two cells are apart over paired seeds, and that it may be nothing.

    Of what is above zero the geometric mean of ratios, unless single seeds turn it against the
    order of the means. Empty without an interval: below two seeds that are in both.
    """
    high, low = larger.by_seed.align(smaller.by_seed, join="inner")
    differ = larger.differ or smaller.differ
    ratio = unit is not wording.PERCENT and bool(((high > 0) & (low > 0)).all())
    found = (
        intervals.ratio_interval(high, low, differ)
        if ratio
        else intervals.t_interval(high - low, differ=differ)
    )
    if ratio and found.n and (found.mean - 1) * (high.mean() - low.mean()) < 0:
        ratio, found = False, intervals.t_interval(high - low, differ=differ)
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


def _at(end: End) -> str:
    """Returns ` (rate 0.1)`, the one that was chosen, or the range of those of the seeds."""
    rates = [wording.number(rate) for rate in end.rates]
    if not rates:
        return ""
    return f" (rate {rates[0]})" if len(rates) == 1 else f" (rates {rates[0]} to {rates[-1]})"


def _values(found: list[End], unit: wording.Unit) -> str:
    counts = seeds(*((end.interval.n, end.seeds) for end in found))
    values = wording.alike([end.interval[:3] for end in found], unit)
    parts = [
        f"{value} at {end.batch_size}{_at(end)}" for value, end in zip(values, found, strict=True)
    ]
    return f"{wording.listed(parts).replace(' at ', ' at batch size ', 1)} ({counts})"
