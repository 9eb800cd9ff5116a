"""Numbers of what batch sizes took to a target, as a report and a terminal write them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas

from batchscope import wording
from batchscope.analysis import intervals, noise_scales, run_series
from batchscope.analysis.targets import Target
from batchscope.catalogue.own_columns import LEAST_SIZES
from batchscope.figures.drawing.to_target import Panel

NO_LINE = "the times of a step show no fixed cost, or no straight line over batch sizes"


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
