"""The gradient noise scale over the training, with the batch sizes that were used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

from batchscope import wording
from batchscope.analysis import noise_scales, run_series
from batchscope.analysis.noise_scales import EARLY, END, START, Point, Ratio
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, marks, words

_SCALE = "gradient_noise_scale"
_COLUMNS = [_SCALE, f"{_SCALE}_error", "gradient_norm_squared", "gradient_variance"]
_STEP, _WIDEST = 5.0, 32.0  # points between two batch sizes' marks at one epoch, and of all
_LINEAR_TO = 1.0  # epoch up to which a logarithmic axis of epochs is linear
_MOST_SHOWN = 2  # series described in words


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run and place in its training, in order: factors, status and columns.

    The place is `start`, `end`, or `epoch` for what lies between them.
    """
    keys, runs = ["machine", "run"], tables.runs
    factors = against_batch_size.factor_columns(runs)
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
    return frame[[*factors, "place", "epoch", *_COLUMNS]].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per series."""
    groups = run_series.series(frame)
    columns = min(len(groups), 2)
    width, height = 5.6 if columns == 1 else 4.4, 3.6 if len(groups) <= columns else 3.0
    alike = {"sharex": True, "sharey": True}
    figure, grid = canvas.some_panels(len(groups), columns, width, height, **alike)
    styles = canvas.ordered_styles(sorted(frame["batch_size"].unique().tolist()), markers=True)
    points = [{size: noise_scales.points(group.frame, size) for size in styles} for group in groups]
    every = [point for found in points for each in found.values() for point in each]
    low, high = _limits(every, list(styles))
    epochs = sorted(frame.loc[frame["status"] == canvas.FINISHED, "epoch"].dropna().unique())
    for axes, group, found in zip(grid, groups, points, strict=True):
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        canvas.few_log_labels(axes.yaxis, high / low)
        _epoch_axis(axes, epochs)
        axes.set_title(wording.capital(group.label) or "Gradient noise scale")
        own = [size for size in styles if (group.frame["batch_size"] == size).any()]
        _draw_panel(axes, {size: found[size] for size in own}, styles, low)
    for axes in grid:
        axes.set_xlabel("epoch")
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("noise scale (examples)")
    against_epoch.legend(figure, styles)
    canvas.notes(figure, against_epoch.runs(frame), *_notes(frame, every))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the noise scale at start and end, for the smallest and the largest batch size.

    That at the end beside the batch size that was used.
    """
    sentences = []
    for group in run_series.series(frame)[:_MOST_SHOWN]:
        of = wording.aside(group.label)
        sizes = sorted(group.frame["batch_size"].unique().tolist())
        for size in dict.fromkeys((sizes[0], sizes[-1])):
            points = {point.place: point for point in noise_scales.points(group.frame, size)}
            ends = {place: points[place].found for place in (START, END) if place in points}
            if ends:
                values = wording.listed(
                    f"{_scale_words(one, size if at == END else 0)} at the {at}"
                    for at, one in ends.items()
                )
                all_seeds = group.frame["seed"].nunique()
                counts = words.seeds(*((one.n, all_seeds) for one in ends.values()))
                sentences.append(
                    f"At batch size {size}{of} the gradient noise scale was {values} of the "
                    f"training ({counts})."
                )
    return " ".join(sentences)


def _scale_words(found: Ratio, size: int) -> str:
    """Returns a noise scale in words, and as a multiple of a batch size that is not 0."""
    if found.open:
        return f"at least {wording.number(found.low)} examples"
    if not found.resolved:
        return "not resolved"
    multiple = f", {wording.number(found.ratio / size)} times the batch size," if size else ""
    return wording.estimated(*found[:3], of=" examples") + multiple


def _limits(points: list[Point], sizes: list[int]) -> tuple[float, float]:
    """Returns the vertical axis's ends: what is drawn, above zero, and the batch sizes."""
    known = [point for point in points if point.found.resolved]
    estimates = [p.found.low if p.found.open else p.found.ratio for p in known]
    centre = np.array([*sizes, *estimates], float)
    centre = centre[centre > 0]
    ends = np.array([end for point in known for end in point.ends], float)
    shown = np.append(centre, ends[np.isfinite(ends) & (ends > 0)])
    # A lower end close to zero would leave the rest no room.
    low, high = max(shown.min(), centre.min() / 10), shown.max()
    margin = max((high / low) ** 0.07, 1.5)
    return float(low / margin), float(high * margin)


def _epoch_axis(axes: Axes, epochs: list[float]) -> None:
    """Labels the epochs that were measured; logarithmic from epoch 1 on where they span much."""
    if not epochs:
        return
    last = epochs[-1]
    spread = [epoch for epoch in epochs if 0 < epoch < last]
    if spread and last > 8 * spread[0]:
        axes.set_xscale("symlog", base=2, linthresh=_LINEAR_TO)
        named = canvas.spread([round(epoch) for epoch in epochs if epoch >= 1])
        axes.set_xlim(-0.35, last * 1.5)
    else:
        named = [round(epoch) for epoch in epochs if epoch > 0]
        kept = [last, *(epoch for epoch in named if 0.06 * last < epoch < 0.94 * last)]
        named = sorted({round(epoch) for epoch in kept}) if len(kept) < 9 else [round(last)]
        axes.set_xlim(-0.08 * last, 1.12 * last)
    axes.xaxis.set_major_locator(FixedLocator([0, *named]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))


def _draw_panel(
    axes: Axes, points: dict[int, list[Point]], styles: dict[int, dict[str, Any]], low: float
) -> None:
    if not any(points.values()):
        canvas.empty(axes)
        return
    labelled = canvas.spread(list(points))
    beside = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    beside |= {"va": "center", "fontsize": 7, "annotation_clip": False}
    step = min(_STEP, _WIDEST / len(points))
    for index, (size, each) in enumerate(points.items()):
        style = styles[size]
        axes.axhline(size, color=style["color"], linestyle=canvas.LINES[2], linewidth=1, zorder=1)
        if size in labelled:
            axes.annotate(f"B = {size}", (1, size), (3, 0), color=style["color"], **beside)
        _draw_points(axes, each, style, step * (index - (len(points) - 1) / 2), low)


def _draw_points(
    axes: Axes, points: list[Point], style: dict[str, Any], shift: float, low: float
) -> None:
    """Draws one batch size's estimates, lower ends and words, so many points beside the epoch."""
    colour = style["color"]
    beside = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
    # Broken where there is no more than a lower end.
    unknown = [point.found.open or not point.found.resolved for point in points]
    values = np.where(unknown, np.nan, [point.found.ratio for point in points])
    line = {"color": colour, "linestyle": style["linestyle"], "linewidth": 1, "zorder": 2}
    axes.plot([point.epoch for point in points], values, transform=beside, **line)
    mark = {"color": colour, "marker": style["marker"], "markersize": 5.5, "zorder": 4}
    mark |= {"linestyle": "none", "transform": beside}
    place = {"xycoords": beside, "textcoords": "offset points"}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    upright = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": 6, "bbox": box}
    arrow = {"arrowstyle": "<-", "color": colour, "shrinkA": 0, "shrinkB": 2}
    for point in points:
        _draw_runs(axes, point, style, beside)
        at, found = point.epoch, point.found
        if found.open:
            axes.annotate("", (at, found.low), (0, 22), arrowprops=arrow, **place)
            axes.plot(at, found.low, markerfacecolor="white", **mark)
        elif not found.resolved:
            axes.annotate("not resolved", (at, low), (0, 4), color=colour, **upright, **place)
        else:
            bottom, top = point.ends
            if np.isfinite(top):
                bar = {"color": colour, "linewidth": 1, "linestyle": "-"}
                axes.plot([at] * 2, [max(bottom, low), top], transform=beside, **bar)
            white = {"markeredgecolor": "white", "markeredgewidth": 0.5}
            (whole,) = axes.plot(at, found.ratio, **white, **mark)
            if found.n == 1:
                marks.points(whole, point.runs, point.runs[_SCALE])


def _draw_runs(axes: Axes, point: Point, style: dict[str, Any], beside: Transform) -> None:
    """Draws what single runs of several say, where it lies in the panel."""
    inside = point.runs[point.runs[_SCALE].astype(float).between(*axes.get_ylim())]
    if point.found.n < 2 or inside.empty:
        return
    look = {"marker": style["marker"], "color": style["color"], "alpha": 0.5, "markersize": 2.6}
    look |= {"linestyle": "none", "markeredgewidth": 0, "zorder": 3, "transform": beside}
    (drawn,) = axes.plot(np.full(len(inside), point.epoch), inside[_SCALE], **look)
    marks.points(drawn, inside, inside[_SCALE])


def _notes(frame: pandas.DataFrame, points: list[Point]) -> Iterator[str]:
    """Yields what bars and marks are, where there are any, and of which gradients all is."""
    if any(point.found.n > 1 for point in points):
        yield "Large: ratios of means over seeds; bars: Fieller's 95 % intervals. Small: runs."
    elif points:
        yield "One seed. Bars: the jackknife's standard error over examples."
    if any(point.found.open for point in points):
        yield "Hollow, with an arrow: at least so much; the interval has no upper end."
    if any(not point.found.resolved for point in points):
        yield "Not resolved: the squared gradient is not distinguished from zero, or is below it."
    if points:
        yield "Dotted: the batch sizes that were used."
    if "optimizer" in frame and (frame["optimizer"] == "adam").any():
        yield "Adam: of the raw gradients, which says less of the batch size that is critical."
