"""The gradient noise scale over the training, with the batch sizes that were used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from batchscope import wording
from batchscope.analysis import noise_scales, run_series
from batchscope.analysis.noise_scales import EARLY, END, START, Point
from batchscope.catalogue import entries
from batchscope.figures import Tables, rows
from batchscope.figures.drawing import canvas

_SCALE = "gradient_noise_scale"
_COLUMNS = [_SCALE, f"{_SCALE}_error", "gradient_norm_squared", "gradient_variance"]
_STEP, _WIDEST = 5.0, 32.0  # points between two batch sizes' marks at one epoch, and of all
_MOST_PANELS = 6  # series


def select(tables: Tables, spec: entries.Figure) -> pandas.DataFrame:
    """Returns one row per run and place in its training, in order: factors, status and columns.

    The place is `start`, `end`, or `epoch` for what lies between them.
    """
    runs = tables.runs
    if _SCALE not in runs:
        return pandas.DataFrame()
    keys, factors = [*rows.RUN], [*run_series.varying(runs), "batch_size", "seed", "status"]
    about = runs[list(dict.fromkeys([*keys, *factors, "epochs_run"]))]
    epochs = {START: 0, END: about["epochs_run"]}
    parts = []
    for place, ending in noise_scales.ENDINGS.items():
        values = {name: runs[f"{name}{ending}"] for name in _COLUMNS}
        parts.append(about.assign(place=place, epoch=epochs[place], **values))
    if len(tables.at_epochs):
        early = tables.at_epochs[[*keys, "at_epoch", *_COLUMNS]]
        early = about.merge(early.rename(columns={"at_epoch": "epoch"}), on=keys)
        # The weights after a training's last epoch are its end.
        parts.append(early[early["epoch"] < early["epochs_run"]].assign(place=EARLY))
    frame = pandas.concat([part.astype({"epoch": float}) for part in parts])
    order = frame["place"].map({START: 0, EARLY: 1, END: 2})
    frame = frame.assign(order=order).sort_values(["order", "epoch"], kind="stable")
    kept = frame[[*factors, "place", "epoch", *_COLUMNS]].reset_index(drop=True)
    return kept if rows.panels(kept, spec) else kept.iloc[:0]


def draw(frame: pandas.DataFrame, spec: entries.Figure) -> Figure:
    """Returns the figure: one panel per series."""
    groups, more = canvas.first(frame, _MOST_PANELS)
    looks = canvas.size_styles(frame["batch_size"].unique())
    width = 5.6 if len(groups) == 1 else 4.4
    alike = {"sharex": True, "sharey": True}
    figure, grid = canvas.some_panels(len(groups), min(len(groups), 2), width, 3.2, **alike)
    points = [{size: noise_scales.points(group.frame, size) for size in looks} for group in groups]
    shown = [point for found in points for each in found.values() for point in each]
    low, high = _limits(shown, list(looks))
    grid[0].set_yscale("log")
    grid[0].set_ylim(low, high)
    canvas.few_log_labels(grid[0].yaxis, high / low)
    for axes, group, found in zip(grid, groups, points, strict=True):
        _draw_panel(axes, found, looks, low)
        _epoch_axis(axes, sorted({point.epoch for point in shown}))
        canvas.title(axes, wording.capital(group.label) or spec.title)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(spec.panels[0].label)
    canvas.size_legend(figure, looks)
    open_ended = any(point.found.open for point in shown)
    unknown = sum(not point.found.resolved for point in shown)
    arrow = "Hollow, with an arrow: at least so much." if open_ended else ""
    left_out = f"Not resolved, and not drawn: {unknown} of {len(shown)}." if unknown else ""
    canvas.notes(figure, rows.runs(frame), more, arrow, left_out)
    return figure


def _limits(points: list[Point], sizes: list[int]) -> tuple[float, float]:
    """Returns the vertical axis's ends: what is drawn, above zero, and the batch sizes."""
    known = [point for point in points if point.found.resolved]
    centre = [*sizes, *(p.found.low if p.found.open else p.found.ratio for p in known)]
    centre = np.array([value for value in centre if value > 0], float)
    ends = np.array([end for point in known for end in point.ends], float)
    shown = np.append(centre, ends[np.isfinite(ends) & (ends > 0)])
    # A lower end close to zero would leave the rest no room.
    low, high = max(shown.min(), centre.min() / 10), shown.max()
    margin = max((high / low) ** 0.07, 1.5)
    return float(low / margin), float(high * margin)


def _epoch_axis(axes: Axes, epochs: list[float]) -> None:
    """Labels the epochs that were measured; logarithmic from epoch 1 on where they span much."""
    axes.set_xlabel("epoch")
    last = epochs[-1] if epochs else 0.0
    between = [epoch for epoch in epochs if 0 < epoch < last]
    if between and last > 8 * between[0]:
        axes.set_xscale("symlog", base=2, linthresh=1.0)
        named = canvas.spread([round(epoch) for epoch in epochs if epoch >= 1])
        axes.xaxis.set_major_locator(FixedLocator([0, *named]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))
        axes.set_xlim(-0.35, last * 1.5)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(-0.08 * last - 0.1, 1.08 * last + 0.1)


def _draw_panel(
    axes: Axes, points: dict[int, list[Point]], looks: dict[int, dict[str, Any]], low: float
) -> None:
    if not any(points.values()):
        canvas.empty(axes)
        return
    step = min(_STEP, _WIDEST / len(points))
    dotted = {"linestyle": canvas.LINES[2], "linewidth": 1}
    for index, (size, each) in enumerate(points.items()):
        if each:
            axes.axhline(size, **{**looks[size], **dotted, "zorder": 1})
            _draw_points(axes, each, looks[size], step * (index - (len(points) - 1) / 2), low)


def _draw_points(
    axes: Axes, points: list[Point], look: dict[str, Any], shift: float, low: float
) -> None:
    """Draws one batch size's estimates and their intervals, so many points beside the epoch."""
    beside = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
    place = {"transform": beside, **look}
    known = [point for point in points if point.found.resolved]
    # Broken where there is no more than a lower end.
    values = [np.nan if point.found.open else point.found.ratio for point in known]
    line = canvas.line_look({"linestyle": "-", "linewidth": 1, **place}, len(known))
    axes.plot([point.epoch for point in known], values, **line)
    for point in known:
        at, found = point.epoch, point.found
        if found.open:
            arrow = {"arrowstyle": "<-", "color": look["color"], "shrinkA": 0, "shrinkB": 2}
            offset = {"xycoords": beside, "textcoords": "offset points"}
            axes.annotate("", (at, found.low), (0, 22), arrowprops=arrow, **offset)
            axes.plot(at, found.low, marker="o", markerfacecolor=canvas.PAPER, **place)
            continue
        bottom, top = point.ends
        if np.isfinite(top):
            axes.plot([at] * 2, [max(bottom, low), top], linewidth=1, **place)
        axes.plot(at, found.ratio, marker="o", **{**canvas.EDGED, **place})
