"""The gradient noise scale over the training, with the batch sizes that were used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from batchscope import wording
from batchscope.analysis import noise_scales, run_series
from batchscope.analysis.noise_scales import EARLY, END, START, Point
from batchscope.figures import FigureTables, rows
from batchscope.figures.drawing import canvas
from batchscope.study import specifications

_SCALE = "gradient_noise_scale"
_COLUMNS = [_SCALE, f"{_SCALE}_error", "gradient_norm_squared", "gradient_variance"]
_STEP, _WIDEST = 5.0, 32.0  # points between two batch sizes' marks at one epoch, and of all
_MOST_PANELS = 6  # series


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Returns one row per run and place in its training, in order: factors, status and columns.

    The place is `start`, `end`, or `epoch` for what lies between them.
    """
    runs = tables.runs
    if _SCALE not in runs:
        return pandas.DataFrame()
    keys, factors = [*rows.RUN], [*run_series.varying(runs), "batch_size", "seed", "status"]
    about = runs[list(dict.fromkeys([*keys, *factors, "epochs_run"]))]
    epochs, parts = {START: 0, END: about["epochs_run"]}, {}
    for place, ending in noise_scales.ENDINGS.items():
        values = {name: runs[f"{name}{ending}"] for name in _COLUMNS}
        parts[place] = about.assign(place=place, epoch=epochs[place], **values)
    if len(tables.at_epochs):
        early = tables.at_epochs[[*keys, "at_epoch", *_COLUMNS]]
        early = about.merge(early.rename(columns={"at_epoch": "epoch"}), on=keys)
        # The weights after a training's last epoch are its end.
        parts[EARLY] = early[early["epoch"] < early["epochs_run"]].assign(place=EARLY)
    in_order = [
        parts[place].astype({"epoch": float}).sort_values("epoch", kind="stable")
        for place in (START, EARLY, END)
        if place in parts
    ]
    kept = pandas.concat(in_order)[[*factors, "place", "epoch", *_COLUMNS]].reset_index(drop=True)
    return kept if rows.panels(kept, spec) else kept.iloc[:0]


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Returns the figure: one panel per series."""
    groups, more = canvas.first(canvas.present(frame), _MOST_PANELS)
    looks = canvas.size_styles(frame["batch_size"].unique())
    alike = {"sharex": True, "sharey": True, "width": 5.6 if len(groups) == 1 else 4.4}
    figure, grid = canvas.panels(len(groups), min(len(groups), 2), height=3.2, **alike)
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
        named = [0, *canvas.spread([round(epoch) for epoch in epochs if epoch >= 1])]
        axes.set_xticks(named, map(wording.tick, named))
        axes.minorticks_off()
        axes.set_xlim(-0.35, last * 1.5)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.set_xlim(-0.08 * last - 0.1, 1.08 * last + 0.1)


def _draw_panel(
    axes: Axes, points: dict[int, list[Point]], looks: dict[int, dict[str, Any]], low: float
) -> None:
    """Draws the estimates of every batch size and their intervals, side by side at an epoch."""
    if not any(points.values()):
        canvas.empty(axes)
        return
    step = min(_STEP, _WIDEST / len(points))
    dotted = {"linestyle": canvas.LINES[2], "linewidth": 1, "zorder": 1}
    for index, (size, each) in enumerate(points.items()):
        if not each:
            continue
        axes.axhline(size, **{**looks[size], **dotted})
        shift = step * (index - (len(points) - 1) / 2) / 72
        beside = axes.transData + ScaledTranslation(shift, 0, axes.figure.dpi_scale_trans)
        place = {"transform": beside, **looks[size]}
        known = [point for point in each if point.found.resolved]
        # Broken where there is no more than a lower end.
        values = [np.nan if point.found.open else point.found.ratio for point in known]
        line = canvas.line_look({"linestyle": "-", "linewidth": 1, **place}, len(known))
        axes.plot([point.epoch for point in known], values, **line)
        for point in known:
            _draw_point(axes, point, place, low)


def _draw_point(axes: Axes, point: Point, place: dict[str, Any], foot: float) -> None:
    at, found = point.epoch, point.found
    if found.open:
        arrow = {"arrowstyle": "<-", "color": place["color"], "shrinkA": 0, "shrinkB": 2}
        beside = {"xycoords": place["transform"], "arrowprops": arrow}
        canvas.annotate(axes, "", (at, found.low), (0, 22), **beside)
        axes.plot(at, found.low, marker="o", markerfacecolor=canvas.PAPER, **place)
        return
    bottom, top = point.ends
    if np.isfinite(top):
        axes.plot([at] * 2, [max(bottom, foot), top], linewidth=1, **place)
    axes.plot(at, found.ratio, marker="o", **{**canvas.EDGED, **place})
