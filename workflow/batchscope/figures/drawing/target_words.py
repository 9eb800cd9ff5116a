"""What batch sizes take to a target, read off the tables, and words for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    fastest_batch_size,
    intervals,
    noise_scales,
    run_series,
)
from batchscope.analysis.updates_to_target import Target
from batchscope.catalogue.own_columns import LEAST_SIZES

# Why there is no closed form where seconds are known.
NO_LINE = "the times of a step show no fixed cost, or no straight line over batch sizes"


class Panel(NamedTuple):
    """One series and target: its rows of to_target.csv, beside its row of the fits."""

    factors: dict[str, Any]  # what distinguishes the series
    rows: pandas.DataFrame

    @property
    def target(self) -> Target:
        """What is to be reached."""
        column, value = self.rows[["target_column", "target_value"]].iloc[0]
        return Target("" if pandas.isna(column) else column, float(value))

    @property
    def batch_sizes(self) -> list[int]:
        """Ascending."""
        return sorted(self.rows["batch_size"].unique().tolist())

    @property
    def fitted(self) -> list[int]:
        """The batch sizes that every seed reached the target with."""
        usable = fastest_batch_size.usable(self.taken("updates").to_numpy())
        return list(compress(self.batch_sizes, usable))

    @property
    def points(self) -> int:
        """How many batch sizes were fitted; 0 where there is no fit."""
        return int(self.rows["points"].iloc[0])

    @property
    def departs(self) -> bool:
        """Whether the updates depart from the curve."""
        return critical_batch_size.departs(self.value("lack_of_fit"))

    def value(self, column: str) -> float:
        """Returns a number of the fit; NaN where there is none."""
        return float(self.rows[column].astype(float).iloc[0])

    def interval(self, column: str) -> tuple[float, float, float]:
        """Returns a number of the fit with the ends of its interval."""
        first, low, high = (self.value(f"{column}{end}") for end in intervals.ENDS)
        return first, low, high

    def taken(self, axis: str) -> pandas.DataFrame:
        """Returns what was taken by size and seed: infinite where a training never got there."""
        values = self.rows[axis].astype(float).mask(self.rows["reached"] == 0, math.inf)
        cells = self.rows.assign(_taken=values)
        return cells.pivot(index="batch_size", columns="seed", values="_taken").sort_index()

    def known(self, axis: str) -> bool:
        """Whether anything is known along an axis."""
        return bool(self.rows[axis].notna().any())

    def rates(self, axis: str) -> pandas.DataFrame | None:
        """Returns the rate and edge of each size that an axis chooses; None where none is."""
        if self.rows["on_edge"].isna().all():
            return None
        read = self.read_column(axis)
        by = read.removesuffix("learning_rate")
        found = self.rows.groupby("batch_size")
        table = found[[f"{by}chosen_learning_rate", f"{by}on_edge"]].first()
        differ = found[read].nunique() > 1
        return table.set_axis(["chosen", "on_edge"], axis=1).assign(differ=differ)

    def read_column(self, axis: str) -> str:
        """Returns the column of the rates that values along an axis are read at."""
        timed = axis == "seconds" and self.rows["seconds_on_edge"].notna().any()
        return "seconds_learning_rate" if timed else "learning_rate"

    def differ(self, axis: str) -> np.ndarray:
        """Returns whether seeds of a size are read at different rates, shape (sizes,)."""
        rates = self.rates(axis)
        return (
            np.zeros(len(self.batch_sizes), bool) if rates is None else rates["differ"].to_numpy()
        )

    def means(self, axis: str) -> list[intervals.Interval]:
        """Returns the geometric mean of each size; NaN where a seed never got there."""
        return fastest_batch_size.geometric_means(self.taken(axis), self.differ(axis))


def panels(frame: pandas.DataFrame) -> list[Panel]:
    """Returns every series and target of a table of `to_target_tables.joined`."""
    names = [name for name in run_series.varying(frame) if name != chosen_rates.RATE]
    groups = frame.groupby([*names, "target_column", "target_value"], sort=False, dropna=False)
    return [Panel(dict(zip(names, key, strict=False)), rows) for key, rows in groups]


def title(panel: Panel) -> str:
    """Returns the series and the target."""
    target = panel.rows["target"].iloc[0]
    return ", ".join(filter(None, [run_series.describe(panel.factors), target]))


def critical_text(value: float, low: float, high: float, name: str = "B_crit") -> str:
    """Returns `B_crit 39 [27, 57]`, with an open end in words."""
    known = "" if math.isnan(value) else f" {wording.number(value)}"
    if math.isnan(low) and math.isnan(high):
        return f"{name}{known} (not resolved: open at both ends)"
    if math.isnan(high):
        return f"{name}{known or ' beyond these sizes'}, at least {wording.number(low)}"
    if math.isnan(low):
        return f"{name}{known or ' below these sizes'}, at most {wording.number(high)}"
    return f"{name} {wording.bracketed(value, low, high)}"


def caption(panel: Panel) -> str:
    """Returns what stands above a panel of the fit."""
    if not panel.points:
        return too_few(panel)
    departs = f"\n{lack_of_fit(panel)}" if panel.departs else ""
    critical = critical_text(*panel.interval("critical_batch_size"))
    return f"{critical}, residual {wording.percent(panel.value('residual'))}{departs}"


def lack_of_fit(panel: Panel) -> str:
    """Returns how sure the lack of fit is, and which sizes stray."""
    p = wording.p_value(panel.value("lack_of_fit"), "= ")
    # A single size is a number where the table was read from a file.
    sizes = map(wording.batch_size, map(float, str(panel.rows["stray"].iloc[0]).split()))
    return f"lack of fit (p {p}), most at {wording.listed(sizes)}"


def too_few(panel: Panel) -> str:
    """Returns why there is no fit."""
    reach = wording.count(len(panel.fitted), "batch size reaches", "batch sizes reach")
    return f"{reach} the target with every seed; a fit needs {LEAST_SIZES}"


def fastest(panel: Panel) -> str:
    """Returns `B* 55 [52, 57]`; empty where there is none."""
    best = panel.interval("fastest_batch_size")
    return "" if math.isnan(best[0]) else f"B* {wording.bracketed(*best)}"


def chosen(rates: pandas.DataFrame) -> str:
    """Returns the chosen learning rates, `0.2 at 8; 0.4 at 16 and 32 (edge)`."""
    parts = []
    for (rate, edge), rows in rates.groupby(["chosen", "on_edge"], sort=False, dropna=False):
        name = "none" if pandas.isna(rate) else wording.shortest(rate)
        parts.append(f"{name} at {wording.listed(rows.index)}{' (edge)' if edge else ''}")
    return "; ".join(parts)


def at_first(panel: Panel) -> Iterator[str]:
    """Yields at which sizes the target holds by the first evaluation, if at any."""
    sizes = sorted(set(panel.rows.loc[panel.rows["at_first"] == 1, "batch_size"].tolist()))
    if sizes:
        yield (
            f"At batch size {wording.listed(sizes)} a training is at {panel.target.words} by its "
            "first evaluation: what it took is an upper bound. A lower loss as target, or more "
            "frequent evaluations, would tell."
        )


def left_out(panel: Panel) -> Iterator[str]:
    """Yields the rates that are not chosen: a training diverged there, or never got there."""
    for name, what in (("diverged", "diverged"), ("never", "never got there")):
        cells = panel.rows.groupby("batch_size")[f"{name}_learning_rates"].first().dropna()
        rates = cells.astype(str).str.split().explode().dropna()
        if len(rates):
            sizes = rates.groupby(rates.astype(float)).agg(lambda part: wording.listed(part.index))
            listed = (f"{wording.shortest(rate)} at {at}" for rate, at in sizes.items())
            yield f"Not chosen, as a run {what}: {'; '.join(listed)}"


def noise_sentence(runs: pandas.DataFrame, critical: pandas.DataFrame) -> str:
    """Returns how many critical batch sizes the noise scale at the end of trainings is.

    Empty where either is not known, or of several series. Of `critical`, the rows of
    critical_batch_size.csv of other experiments, the last target that was fitted counts.
    """
    if "gradient_variance" not in runs or critical.empty or len(run_series.series(runs)) > 1:
        return ""
    known = critical[critical["points"] > 0]
    for name in ("dataset", "model", "optimizer"):
        known = known[known[name] == runs[name].iloc[0]]
    if known.empty or known["target"].duplicated().any():
        return ""
    row, parts = known.iloc[-1], []
    value, low, high = (float(row[f"critical_batch_size{end}"]) for end in intervals.ENDS)
    for size, rows in run_series.finished(runs).groupby("batch_size"):
        noise = noise_scales.of(rows)
        if noise.resolved and not noise.open and not math.isnan(value):
            ratio = wording.estimate(noise.ratio / value, noise.low / high, noise.high / low)
            ends = f" ({ratio.low} to {ratio.high})" if ratio.low else ""
            parts.append(f"{ratio.value} times at batch size {size}{ends}")
    to = Target(row["target_column"], row["target_value"]).words
    text = f"Over the critical batch size to {to} the noise scale at the end of the training is "
    return f"{text}{wording.listed(parts)}." if parts else ""
