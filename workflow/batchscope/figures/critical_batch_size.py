"""Updates and examples to a target against batch size, and the critical batch size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import critical_batch_size, noise_scales, run_series, to_target_tables
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, target_words, to_target
from batchscope.figures.drawing.target_words import Panel

_MOST_ROWS = 6  # beyond them one target of each series
_MOST_SERIES = 12
_MOST_SHOWN = 3  # series described in words
NOTHING = "No target was reached at three batch sizes."
MORE_TARGETS = "Of each series the lowest target; all others are in critical_batch_size.csv."


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series, target, batch size and seed, beside what was fitted to them."""
    frame = to_target_tables.joined(tables.critical_batch_size, tables.to_target)
    panels = target_words.panels(frame)
    beside = [noise_scales.beside(panel.rows, tables.runs) for panel in panels]
    return pandas.concat(beside) if beside else frame


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: a row of two panels for each series and target."""
    every = target_words.panels(frame)
    panels = shown(every)
    if not panels:
        return nothing(("Updates to the target", "Examples to the target"))
    titles = [
        wording.capital(title(each) if each.factors else f"to {title(each)}") for each in panels
    ]
    noise = [list(_marks(panel)) for panel in panels]
    figure = to_target.draw(panels, titles, noise, seconds=False)
    more = "" if len(every) == len(panels) else MORE_TARGETS
    canvas.write(figure, more, *rate_notes(panels, "updates"))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the critical batch size of each series at its lowest target, and what it means."""
    panels = lowest(target_words.panels(frame))
    sentences = [] if panels else [NOTHING]
    for panel in panels[:_MOST_SHOWN]:
        sentences.append(_sentence(panel))
        if panel.points:
            sentences += [*_regimes(panel), *_noise_sentence(panel)]
        sentences += edge_sentence(panel, "updates")
        sentences += target_words.at_first(panel)
    return " ".join(sentences)


def shown(panels: Sequence[Panel]) -> list[Panel]:
    """Returns what is drawn: all, or where they are many each series at its lowest target."""
    found = list(panels) if len(panels) <= _MOST_ROWS else lowest(panels)
    return found[:_MOST_SERIES]


def lowest(panels: Sequence[Panel]) -> list[Panel]:
    """Returns the last target of each series, of those that have a fit, if any has."""
    last: dict[tuple[Any, ...], Panel] = {}
    for panel in panels:
        key = tuple(map(str, panel.factors.values()))
        if key not in last or panel.points or not last[key].points:
            last[key] = panel
    return list(last.values())


def nothing(titles: Sequence[str]) -> Figure:
    """Returns a figure that says that there is nothing to draw."""
    figure, grid = canvas.panels(1, len(titles))
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set(title=title, xlabel="batch size", ylabel=title.lower())
        axes.set_xticks([])
        canvas.empty(axes, "no target that three\nbatch sizes reached")
    return figure


def title(panel: Panel) -> str:
    """Returns the series and the target, in words."""
    target, what = panel.target, "the file's target"
    if target.column:
        what = f"{target.column.replace('_', ' ')} {wording.number(target.value)}"
    return ", ".join(filter(None, [run_series.describe(panel.factors), what]))


def whose(panel: Panel) -> str:
    """Returns the series in brackets, where there are several."""
    return wording.aside(run_series.describe(panel.factors))


def edge_sentence(panel: Panel, axis: str) -> Iterator[str]:
    """Yields where a rate that is chosen by an axis lies on the edge of its grid, if any does."""
    rates = panel.rates(axis)
    if rates is not None and (rates["on_edge"] == 1).any():
        sizes = wording.listed(rates.index[rates["on_edge"] == 1])
        yield (
            f"At batch size {sizes} the chosen learning rate lies on the edge of those tried: a "
            f"better one may lie beyond it, and with it fewer {axis}."
        )


def rate_notes(panels: Sequence[Panel], axis: str) -> Iterator[str]:
    """Yields how learning rates were chosen by an axis, and which were not."""
    last = [(each, rates) for each in lowest(panels) if (rates := each.rates(axis)) is not None]
    if last:
        yield "Rates are chosen: each seed is read at the rate that the other seeds choose."
    differ = {size for _, rates in last for size in rates.index[rates["differ"]]}
    if differ:
        sizes = wording.listed(sorted(differ))
        yield f"At {sizes} these are different ones, and intervals are wider for it."
    for panel, rates in last[:_MOST_SHOWN]:
        value = panel.target.value
        what = wording.number(value) if math.isfinite(value) else panel.target.words
        yield f"To {what}{whose(panel)}: {target_words.chosen(rates)}."
        if len(last) == 1:
            yield from (f"{words}." for words in target_words.left_out(panel))
    if any((rates["on_edge"] == 1).any() for _, rates in last):
        yield "Edge: the lowest or highest rate tried there."


def _marks(panel: Panel) -> Iterator[to_target.Mark]:
    looks = zip(canvas.COLOURS[3:], ("o", "s"), strict=False)
    for place, look in zip(noise_scales.BESIDE, looks, strict=False):
        value, low, high = panel.interval(f"noise_scale_{place}")
        if math.isfinite(value) or math.isfinite(low):
            known = (low if low > 0 else math.nan, high if math.isfinite(high) else math.nan)
            label = f"noise scale, {place}"
            yield to_target.Mark(label, value, *known, *look, bar=math.isfinite(low))


def _sentence(panel: Panel) -> str:
    """Returns the critical batch size with its interval, in words."""
    start = f"To {panel.target.words}{whose(panel)}"
    if not panel.points:
        return f"{start} there is no fit: {target_words.too_few(panel)}."
    text = target_words.critical_text(*panel.interval("critical_batch_size"), "")
    if panel.departs:
        fewest, at = panel.value("examples_fewest"), ""
        if fewest > 0:
            at = f" Batch size {wording.batch_size(fewest)} takes the fewest examples."
        return (
            f"{start} the updates depart from the curve ({target_words.lack_of_fit(panel)}; "
            f"residual {wording.percent(panel.value('residual'))}): a critical batch size of"
            f"{text} is an order of magnitude.{at}"
        )
    return f"{start} the critical batch size is{text} (95 % interval)."


def _regimes(panel: Panel) -> Iterator[str]:
    """Yields which batch sizes lie where a doubling halves the updates, or saves none."""
    if panel.departs or math.isnan(panel.value("critical_batch_size")):
        return
    constants = (panel.value("updates_min"), panel.value("examples_min"))
    sizes: dict[str, list[int]] = {}
    for size in panel.batch_sizes:
        sizes.setdefault(critical_batch_size.regime(size, *constants), []).append(size)
    if below := sizes.get(critical_batch_size.PERFECT):
        yield f"Up to {max(below)} a doubled batch nearly halves the updates."
    if above := sizes.get(critical_batch_size.MAXIMAL):
        yield f"From {min(above)} on a larger batch saves next to no updates."


def _noise_sentence(panel: Panel) -> Iterator[str]:
    parts = []
    for place in noise_scales.BESIDE:
        value, low, high = panel.interval(f"noise_scale_{place}")
        if math.isfinite(value):
            parts.append(f"{wording.estimated(value, low, high)} at the {place}")
        elif math.isfinite(low):
            parts.append(f"at least {wording.number(low)} at the {place}")
    if parts:
        size = int(panel.value("noise_batch_size"))
        yield (
            f"The gradient noise scale at batch size {size} was {wording.listed(parts)} of the "
            "training."
        )
