"""Updates and examples to a target against batch size, and the critical batch size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import (
    chosen_rates,
    critical_batch_size,
    ratio_intervals,
    run_series,
    to_target_tables,
)
from batchscope.analysis.updates_to_target import Scaling
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, target_words, to_target

_MOST_ROWS = 6  # beyond them one target of each series
_MOST_SERIES = 12
_MOST_SHOWN = 3  # series described in words
NOTHING = "No target was reached at three batch sizes."
MORE_TARGETS = "Of each series the lowest target; all others are in critical_batch_size.csv."
_NOISE = {"start": "_start", "end": ""}  # place in the training -> how its columns end
_NOISE_ENDS = {
    place: [f"noise_scale_{place}{end}" for end in ("", "_low", "_high")] for place in _NOISE
}


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series, target, batch size and seed, beside what was fitted to them.

    `noise_scale_start` and `noise_scale_end` are those of the finished runs at the batch size
    nearest to the critical one, at its learning rate; an end that is open is infinite.
    """
    frame = to_target_tables.joined(tables.critical_batch_size, tables.to_target)
    noise = [_noise(scaling, tables.runs) for scaling in to_target_tables.restored(frame)]
    distinguishing = [name for name in run_series.varying(frame) if name != chosen_rates.RATE]
    keys = ["target_column", "target_value", *distinguishing]
    groups = frame.groupby(keys, sort=False, dropna=False).ngroup() if len(frame) else []
    columns = ["noise_batch_size", *chain(*_NOISE_ENDS.values())]
    return frame.assign(**{name: [noise[group][name] for group in groups] for name in columns})


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: a row of two panels for each series and target."""
    every = to_target_tables.restored(frame)
    scalings = shown(every)
    if not scalings:
        return nothing(("Updates to the target", "Examples to the target"))
    panels = []
    for scaling in scalings:
        above = wording.capital(title(scaling)) if scaling.factors else f"To {title(scaling)}"
        marks = tuple(_marks(first_row(frame, scaling)))
        panels.append(to_target.Panel(scaling, above, target_words.caption(scaling), "", marks))
    figure = to_target.draw(panels, seconds=False)
    more = "" if len(every) == len(scalings) else MORE_TARGETS
    canvas.write(figure, more, *rate_notes(scalings, "updates"))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the critical batch size of each series at its lowest target, and what it means."""
    scalings = lowest(to_target_tables.restored(frame))
    sentences = [] if scalings else [NOTHING]
    for scaling in scalings[:_MOST_SHOWN]:
        sentences.append(sentence(scaling))
        if fit := scaling.fit:
            sentences += _regimes(scaling, fit)
            if fit.lack_of_fit:
                sentences.append(
                    f"The residuals bend ({fit.lack_of_fit}): the critical batch size is an order "
                    "of magnitude, and its interval too narrow."
                )
            sentences += _noise_sentence(first_row(frame, scaling))
        sentences += edge_sentence(scaling, "updates")
        sentences += target_words.at_first(scaling)
    return " ".join(sentences)


def shown(scalings: Sequence[Scaling]) -> list[Scaling]:
    """Returns what is drawn: all, or where they are many each series at its lowest target."""
    found = list(scalings) if len(scalings) <= _MOST_ROWS else lowest(scalings)
    return found[:_MOST_SERIES]


def lowest(scalings: Sequence[Scaling]) -> list[Scaling]:
    """Returns the last target of each series, of those that have a fit, if any has."""
    last: dict[tuple[Any, ...], Scaling] = {}
    for scaling in scalings:
        key = tuple(map(str, scaling.factors.values()))
        if key not in last or scaling.fit or not last[key].fit:
            last[key] = scaling
    return list(last.values())


def nothing(titles: Sequence[str]) -> Figure:
    """Returns a figure that says that there is nothing to draw."""
    figure, grid = canvas.panels(1, len(titles))
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set(title=title, xlabel="batch size", ylabel=title.lower())
        axes.set_xticks([])
        canvas.empty(axes, "no target that three\nbatch sizes reached")
    return figure


def title(scaling: Scaling) -> str:
    """Returns the series and the target, in words."""
    what = "the file's target"
    if scaling.target.column:
        what = f"{scaling.target.column.replace('_', ' ')} {wording.number(scaling.target.value)}"
    return ", ".join(filter(None, [run_series.describe(scaling.factors), what]))


def whose(scaling: Scaling) -> str:
    """Returns the series in brackets, where there are several."""
    words = run_series.describe(scaling.factors)
    return f" ({words})" if words else ""


def edge_sentence(scaling: Scaling, axis: str) -> Iterator[str]:
    """Yields where a rate that is chosen by an axis lies on the edge of its grid, if any does."""
    rates = scaling.rates_by(axis)
    if rates and rates.on_edge.any():
        sizes = wording.listed(compress(scaling.batch_sizes, rates.on_edge))
        yield (
            f"At batch size {sizes} the chosen learning rate lies on the edge of those tried: a "
            f"better one may lie beyond it, and with it fewer {axis}."
        )


def rate_notes(scalings: Sequence[Scaling], axis: str) -> Iterator[str]:
    """Yields how learning rates were chosen by an axis, and which were not."""
    last = [(each, rates) for each in lowest(scalings) if (rates := each.rates_by(axis))]
    if last:
        yield "Rates are chosen: each seed is read at the rate that the other seeds choose."
    differ = {size for each, rates in last for size in compress(each.batch_sizes, rates.differ())}
    if differ:
        sizes = wording.listed(sorted(differ))
        yield f"At {sizes} these are different ones, and intervals are wider for it."
    for scaling, rates in last[:_MOST_SHOWN]:
        value = scaling.target.value
        what = wording.number(value) if math.isfinite(value) else scaling.target.words
        yield f"To {what}{whose(scaling)}: {target_words.chosen(scaling, rates)}."
        if len(last) == 1:
            yield from (f"{words}." for words in target_words.left_out(scaling, rates))
    if any(rates.on_edge.any() for _, rates in last):
        yield "Edge: the lowest or highest rate tried there."


def first_row(frame: pandas.DataFrame, scaling: Scaling) -> pandas.Series:
    """Returns the first row of a series and target: what was fitted stands on each of them."""
    found = to_target_tables.of_target(frame, scaling.target)
    for name, value in scaling.factors.items():
        found = found[found[name].isna() if pandas.isna(value) else found[name] == value]
    return found.iloc[0]


def _noise(scaling: Scaling, runs: pandas.DataFrame) -> dict[str, float]:
    """Returns the noise scale beside a critical batch size; NaN where it is not measured."""
    values = dict.fromkeys(["noise_batch_size", *chain(*_NOISE_ENDS.values())], math.nan)
    if scaling.fit is None or "gradient_variance" not in runs:
        return values
    sizes = np.array(scaling.batch_sizes)[scaling.fitted]
    centre = scaling.fit.critical_batch_size
    centre = centre if math.isfinite(centre) else float(np.median(sizes))
    size = int(sizes[np.abs(np.log(sizes / centre)).argmin()])
    own = runs[(runs["batch_size"] == size) & (runs["status"] == canvas.FINISHED)]
    for name, value in scaling.factors.items():
        own = own[own[name] == value]
    if scaling.rates:
        rate = scaling.rates["updates"].chosen[scaling.batch_sizes.index(size)]
        own = own[own[chosen_rates.RATE] == rate]
    for place, end in _NOISE.items():
        parts = (own[f"gradient_{name}{end}"] for name in ("variance", "norm_squared"))
        ratio = ratio_intervals.fieller(*parts)
        if ratio.resolved:
            found = (math.nan if ratio.open else ratio.ratio, ratio.low, ratio.high)
            values |= dict(zip(_NOISE_ENDS[place], found, strict=True), noise_batch_size=size)
    return values


def _marks(row: pandas.Series) -> Iterator[to_target.Mark]:
    looks = zip(canvas.COLOURS[3:], ("o", "s"), strict=False)
    for (place, columns), look in zip(_NOISE_ENDS.items(), looks, strict=True):
        value, low, high = row[columns].astype(float)
        if np.isfinite([value, low]).any():
            known = (low if low > 0 else math.nan, high if math.isfinite(high) else math.nan)
            label = f"noise scale, {place}"
            yield to_target.Mark(label, value, *known, *look, bar=math.isfinite(low))


def sentence(scaling: Scaling) -> str:
    """Returns the critical batch size with its interval, in words."""
    fit, start = scaling.fit, f"To {scaling.target.words}{whose(scaling)}"
    if fit is None:
        return f"{start} there is no fit: {target_words.too_few(scaling)}."
    value = fit.critical_batch_size
    low, high = (wording.number(end) if math.isfinite(end) else "" for end in (fit.low, fit.high))
    if math.isnan(value):
        way = f"larger than these batch sizes (at least {low})" if low else "not resolved"
        way = f"smaller than these batch sizes (at most {high})" if high else way
        return f"{start} the critical batch size is {way}."
    found = wording.estimate(value, fit.low, fit.high)
    rounded, ends = found.value, f"95 % interval {found.low} to {found.high}"
    if not found.low:
        ends = f"at least {low}" if low else f"at most {high}" if high else "open at both ends"
    return (
        f"{start} the critical batch size is {rounded} ({ends}): there a training "
        f"takes {wording.grouped(2 * fit.updates_min)} updates and "
        f"{wording.grouped(2 * fit.examples_min)} examples, twice the fewest of each."
    )


def _regimes(scaling: Scaling, fit: critical_batch_size.CriticalBatchSize) -> Iterator[str]:
    """Yields which batch sizes lie where a doubling halves the updates, or saves none."""
    if math.isnan(fit.critical_batch_size):
        return
    sizes: dict[str, list[int]] = {}
    for size in scaling.batch_sizes:
        sizes.setdefault(fit.regime(size), []).append(size)
    if below := sizes.get(critical_batch_size.PERFECT):
        yield f"Up to {max(below)} a doubled batch nearly halves the updates."
    if above := sizes.get(critical_batch_size.MAXIMAL):
        yield f"From {min(above)} on a larger batch saves next to no updates."


def _noise_sentence(row: pandas.Series) -> Iterator[str]:
    parts = []
    for place, columns in _NOISE_ENDS.items():
        value, low, high = row[columns].astype(float)
        if math.isfinite(value):
            parts.append(f"{wording.estimated(value, low, high)} at the {place}")
        elif math.isfinite(low):
            parts.append(f"at least {wording.number(low)} at the {place}")
    if parts:
        size = int(row["noise_batch_size"])
        yield (
            f"The gradient noise scale at batch size {size} was {wording.listed(parts)} of the "
            "training."
        )
