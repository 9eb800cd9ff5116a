"""Steps and examples per second against batch size, beside the plateau and the ceiling."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import run_series, step_cost
from batchscope.catalogue.timing_columns import QUARTILES
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, timings

_SHARE = step_cost.PLATEAU_SHARE
_SHARE_WORDS = wording.percent(_SHARE, 0)
_STEPS, _IMAGES = "iterations_per_second", "images_per_second"
_PLATEAU, _CEILING = "plateau_images_per_second", "ceiling_images_per_second"
_SHARE_OF_CEILING = "share_of_ceiling"
_FITTED = ("knee_fitted", "knee_fitted_low", "knee_fitted_high")
_MOST_LIMITS = 2  # series with a ceiling and a knee of their own across the panel
_MOST_SHOWN = 3  # series in sentences of their own
# Up to so many times the highest throughput a ceiling leaves room for the data below it.
_ROOM = {"linear": 1.6, "log": 5.0}
_CEILING_LINE = {"linestyle": (0, (1, 1)), "linewidth": 1.3}
_SHARE_LINE = {"linestyle": (0, (6, 3)), "linewidth": 0.9}
_RING = {"marker": "o", "markersize": 9, "fillstyle": "none"}
# Images, and so many more of which a step is shown to cost more; and the other numbers beside them.
_JUST_ABOVE = (((16, 17), (32, 34), (48, 50)), ((16, 18), (32, 33), (48, 49)))
_ALIKE = 1.1  # ratio up to which ceilings are one: they are measured in each job
_GREY = "#555555"
_NO_PLATEAU = "No plateau within the batch sizes"
_TOO_NOISY = f"Where throughput levels off is {step_cost.TOO_NOISY}"


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and batch size: medians and quartiles, beside the limits."""
    quartiles = [f"{name}{end}" for name in (_STEPS, _IMAGES) for end in QUARTILES]
    columns = ["status", "steps", "blocks", "disturbed_blocks", *quartiles]
    more = [_PLATEAU, *_FITTED, "knee_batch_size", "still_rising", _CEILING, _SHARE_OF_CEILING]
    return timings.with_sweeps(tables.throughput, tables.sweeps, columns, [*more, "noise_floor"])


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    figure, (grid,) = canvas.panels(1, 2, width=4.9, height=3.2)
    groups = timings.series(frame)
    left, right = grid
    handles = _draw_panel(left, frame, groups, _STEPS, by_peaks=False)
    _draw_panel(right, frame, groups, _IMAGES, by_peaks=timings.is_dense(frame["batch_size"]))
    left.set(title="Iterations per second", ylabel="iterations/s")
    right.set(title="Examples per second", ylabel="examples/s")
    shares, missing = _draw_shares(right, frame, groups)
    ceilings, outside = _draw_ceilings(right, frame, groups)
    limits = [*shares, *ceilings]
    labels = [group.label or "median" for group in groups]
    if len(groups) > 1 or limits:
        canvas.legend_of(figure, [*zip(handles, labels, strict=True), *limits])
    canvas.write(
        figure,
        timings.machine_note(frame),
        "Points: medians of timed blocks, bars quartiles of these blocks; of the jobs where these "
        "were repeated.",
        missing,
        outside,
        _exceeded_note(groups),
        timings.noise_note(groups),
        timings.disturbed_note(frame),
        timings.memory_note(frame),
    )
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns ratios of times, plateau, knee and ceiling, series by series."""
    timed = [group for group in timings.series(frame) if group.frame[_IMAGES].notna().any()]
    if len(timed) <= _MOST_SHOWN:
        return " ".join(timings.led(group.label, _sentences(group.frame)) for group in timed)
    ordered = sorted(timed, key=lambda group: group.frame[_IMAGES].max())
    ends = [f"{timings.rate(one.frame[_IMAGES].max())} ({one.label})" for one in ordered]
    range_ = f"The highest throughput was least at {ends[0]} and most at {ends[-1]}."
    return " ".join(filter(None, (range_, timings.noise_note(timed))))


def _sentences(rows: pandas.DataFrame) -> str:
    timed = timings.timed(rows, _IMAGES)
    last, best = timed["batch_size"].max(), timed.loc[timed[_IMAGES].idxmax(), "batch_size"]
    highest = timings.rate(timed[_IMAGES].max())
    if len(timed) == 1:
        return f"One batch size was timed, {last}: {highest}."
    at_last = timings.rate(timed.loc[timed["batch_size"].idxmax(), _IMAGES])
    if timings.too_noisy(rows):
        text = f"Throughput is highest at batch size {best}, {highest}; where it levels off is "
        text += step_cost.TOO_NOISY
    elif timings.one(rows, "still_rising"):
        text = f"Throughput still rises at the largest batch size, {last}: {at_last}"
    elif (plateau := timings.one(rows, _PLATEAU)) is None:
        text = f"Throughput is highest at batch size {best}, {highest}"
        text += f", and {at_last} at {last}" if last != best else ""
    else:
        text = f"Throughput tends to a plateau of {timings.rate(plateau)}, and reaches "
        text += f"{_SHARE_WORDS} of it {_knee_words(rows)}"
    share, ceiling = (timings.one_number(rows, name) for name in (_SHARE_OF_CEILING, _CEILING))
    reached = ""
    if math.isfinite(share):
        limit = timings.rate(ceiling)
        none = f"{limit} that the measured peak of a matrix product allows: that is no ceiling"
        words = none if share > 1 else f"ceiling of {limit}"
        reached = f"The highest is {wording.percent(share)} of the {words}."
    noise = timings.noise_words(rows)
    floor = f"A batch size differs from itself by up to {noise} (noise floor)." if noise else ""
    ratios = () if timings.too_noisy(rows) else (*_just_above(timed), _same_images(timed))
    return " ".join(filter(None, (*ratios, f"{text}.", reached, floor)))


def _same_images(timed: pandas.DataFrame) -> str:
    """Returns how much longer the smallest batch size takes for the same examples."""
    ordered = timed.sort_values("batch_size")
    small, large = ordered.iloc[0], ordered.iloc[-1]
    ratio = timings.by_quartiles(*timings.ratio(large, small, _IMAGES))
    sizes = (int(small["batch_size"]), int(large["batch_size"]))
    return f"Batch size {sizes[0]} takes {ratio} times as long as {sizes[1]} for the same examples."


def _just_above(timed: pandas.DataFrame) -> Iterator[str]:
    """Yields what a step takes at one or two images more than 16, 32 and 48, where timed."""
    rows = timed.set_index("batch_size")
    for pairs in _JUST_ABOVE:
        parts = []
        for size, more in pairs:
            if size in rows.index and more in rows.index:
                ratio = timings.ratio(rows.loc[size], rows.loc[more], _STEPS)
                times = f"t({more}) / t({size}) = {timings.by_quartiles(*ratio)}"
                parts.append(f"{times} for {wording.number(more / size)} times the images")
        if parts:
            yield f"Step times: {'; '.join(parts)}."


def _draw_panel(
    axes: Axes,
    frame: pandas.DataFrame,
    groups: list[run_series.Series],
    column: str,
    by_peaks: bool,
) -> list[Any]:
    """Draws the medians of every series; returns handles for a legend."""
    at = timings.batch_axis(axes, frame["batch_size"])
    timings.value_axis(axes, [group.frame[column].to_numpy(float) for group in groups], by_peaks)
    timings.mark_out_of_memory(axes, at, frame)
    return [
        timings.draw_medians(axes, at, group.frame, column, canvas.line_style(index))
        for index, group in enumerate(groups)
    ]


def _draw_shares(
    axes: Axes, frame: pandas.DataFrame, groups: list[run_series.Series]
) -> tuple[list[tuple[Any, str]], str]:
    """Draws 90 % of each series' plateau in its colour, and the knee on it where there is one.

    Returns legend entries, and what the note says of the lines that are not there.
    """
    few = len(groups) <= _MOST_LIMITS
    drawn, above = [], []  # knees of the lines that are drawn, and heights of those that are not
    without: dict[str, list[str]] = {_NO_PLATEAU: [], _TOO_NOISY: []}
    for index, group in enumerate(groups):
        plateau, colour = timings.one(group.frame, _PLATEAU), canvas.line_style(index)["color"]
        too_noisy = timings.too_noisy(group.frame)
        if plateau is None or too_noisy:
            if group.frame[_IMAGES].notna().any():
                without[_TOO_NOISY if too_noisy else _NO_PLATEAU].append(group.label)
            continue
        height = _SHARE * plateau
        if height > _ROOM[axes.get_yscale()] * frame[_IMAGES].max():
            above.append(height)
            continue
        _draw_across(axes, height, colour, 1.04, _SHARE_LINE)
        knee = _knee(group.frame)
        drawn.append(knee)
        if knee is not None:
            place = float(timings.batch_axis(axes, frame["batch_size"])(knee))
            if few:
                _mark_knee(axes, place, height, colour, index, _knee_label(group.frame, knee))
            else:
                axes.plot([place], [height], color=colour, linestyle="none", **_RING)
    label = f"{_SHARE_WORDS} of the plateau"
    entries = []
    if drawn:
        knees = any(knee is not None for knee in drawn)
        knee_words = f" ({'number' if few else 'ring'}: knee)" if knees else ""
        line = {**_SHARE_LINE, **({} if few or not knees else _RING)}
        entries = [(Line2D([], [], color=_GREY, **line), label + knee_words)]
    notes = []
    if above:
        ends = dict.fromkeys(timings.rate(end) for end in (min(above), max(above)))
        notes.append(f"{label}, by the fit, lies above the panel: {' to '.join(ends)}.")
    for why, labels in without.items():
        if labels:
            notes.append(f"{why}, so no line at {_SHARE_WORDS}{_whose(labels, groups)}.")
    return entries, " ".join(notes)


def _draw_ceilings(
    axes: Axes, frame: pandas.DataFrame, groups: list[run_series.Series]
) -> tuple[list[tuple[Any, str]], str]:
    """Draws each series' ceiling; of many series one line where they agree.

    A ceiling far above the data would squash them: of few series it stands at the upper edge.

    Returns legend entries, and what the note says of ceilings out of the panel.
    """
    known = [_ceiling(group.frame) for group in groups]
    ceilings = {index: value for index, value in enumerate(known) if math.isfinite(value)}
    room = _ROOM[axes.get_yscale()] * frame[_IMAGES].max()
    if not ceilings or not math.isfinite(room):
        return [], ""
    few = len(groups) <= _MOST_LIMITS
    lowest, highest = (pick(ceilings, key=ceilings.__getitem__) for pick in (min, max))
    one = not few and len(ceilings) > 1 and ceilings[highest] <= _ALIKE * ceilings[lowest]
    drawn = {lowest: statistics.median(ceilings.values())} if one else ceilings
    labels, outside = [], []
    for index, ceiling in drawn.items():
        colour = _GREY if one else canvas.line_style(index)["color"]
        if ceiling <= room:
            _draw_across(axes, ceiling, colour, 1.08, _CEILING_LINE)
            labels.append("ceiling")
            continue
        outside.append(timings.rate(ceiling))
        if few:
            _draw_above(axes, colour, index, outside[-1])
            labels.append("ceiling, above the panel")
            share = timings.one_number(groups[index].frame, _SHARE_OF_CEILING)
            reached = f"{wording.percent(share)} of it reached" if math.isfinite(share) else ""
            outside[-1] += wording.aside(", ".join(filter(None, [groups[index].label, reached])))
    line = {"color": _GREY, **_CEILING_LINE}
    entries = [(Line2D([], [], **line), label) for label in dict.fromkeys(labels)]
    if not outside:
        return entries, ""
    if few or one:
        return entries, f"Ceiling far above the panel: {'; '.join(outside)}."
    ends = [f"{timings.rate(ceilings[end])} ({groups[end].label})" for end in (lowest, highest)]
    some = "some " if labels else ""
    return entries, f"Ceilings, {some}far above the panel: from {ends[0]} to {ends[1]}."


def _draw_across(axes: Axes, height: float, colour: str, room: float, look: dict[str, Any]) -> None:
    """Draws a line across the panel, which reaches to `room` times its height."""
    axes.axhline(height, color=colour, zorder=1.5, **look)
    axes.set_ylim(top=max(axes.get_ylim()[1], room * height))


def _ceiling(rows: pandas.DataFrame) -> float:
    """Returns the ceiling; NaN where there is none, or more than it was reached."""
    return math.nan if _exceeded(rows) else timings.one_number(rows, _CEILING)


def _exceeded(rows: pandas.DataFrame) -> bool:
    return timings.one_number(rows, _SHARE_OF_CEILING) > 1


def _exceeded_note(groups: list[run_series.Series]) -> str:
    """Returns for which series a measured peak is no ceiling, or an empty string."""
    labels = [group.label for group in groups if _exceeded(group.frame)]
    whose = _whose(labels, groups)
    return f"No ceiling, since more than it was reached{whose}." if labels else ""


def _whose(labels: list[str], groups: list[run_series.Series]) -> str:
    return f" ({', '.join(labels)})" if len(groups) > 1 else ""


def _knee(rows: pandas.DataFrame) -> float | None:
    """Returns the knee: the fit's, or else the smallest size that was timed with it."""
    fitted = timings.one(rows, _FITTED[0])
    return timings.one(rows, "knee_batch_size") if fitted is None else fitted


def _knee_label(rows: pandas.DataFrame, knee: float) -> str:
    """Returns the number on a knee: of a fitted one with the digits that its interval leaves."""
    fitted = [timings.one_number(rows, name) for name in _FITTED]
    return wording.estimate(*fitted).value if math.isfinite(fitted[0]) else wording.number(knee)


def _knee_words(rows: pandas.DataFrame) -> str:
    """Returns at which batch sizes the share of the plateau is reached."""
    fitted, low, high = (timings.one_number(rows, name) for name in _FITTED)
    timed = timings.one(rows, "knee_batch_size")
    parts = []
    if math.isfinite(fitted):
        parts.append(f"at batch size {wording.estimated(fitted, low, high)} by the fit")
    if timed is not None:
        parts.append(f"from batch size {int(timed)} on as timed")
    return ", ".join(parts) or "at no batch size from which on it stays there"


def _draw_above(axes: Axes, colour: str, index: int, rate: str) -> None:
    """Draws a ceiling that is out of the panel along its upper edge, with its value."""
    edge = {"transform": axes.transAxes, "clip_on": False, "zorder": 1.5}
    axes.plot([0, 1], [1, 1], color=colour, **edge, **_CEILING_LINE)
    if axes.get_yscale() == "linear":
        axes.set_ylim(top=1.08 * axes.get_ylim()[1])  # room for the value above the bars
    look = {"xycoords": "axes fraction", "fontsize": 8, "color": colour}
    canvas.annotate(axes, f"\N{UPWARDS ARROW} {rate}", (0.01, 1.0), (0, -11 - 10 * index), **look)


def _mark_knee(
    axes: Axes, place: float, height: float, colour: str, index: int, number: str
) -> None:
    """Draws a knee as an upright line below the share of the plateau, with its number."""
    axes.plot([place] * 2, [axes.get_ylim()[0], height], color=colour, zorder=1.5, **_SHARE_LINE)
    look = {"fontsize": 8, "fontweight": "bold", "color": colour}
    look["xycoords"] = axes.get_xaxis_transform()
    canvas.annotate(axes, number, (place, 0.0), (3, 4 + 10 * index), **look)
