"""Drawing functions that several kinds of figures share.

In this order: files, grids of panels, axes, styles of batch sizes and series, means with intervals,
marks of failed runs, notes and legends. A function that a single kind needs belongs to its module.
"""

import functools
import io
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from batchscope.analysis import intervals, run_series
from batchscope.core import display, project_files
from batchscope.host import requirements
from batchscope.store import records
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL
from batchscope.study.specifications import Scale
from batchscope.study.table_entries import value_range

style = functools.partial(matplotlib.rc_context, fname=project_files.STYLE)
PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.75  # inches
# The report recolours text, axes and backgrounds of an SVG by these values.
INK, MUTED, GRID, PAPER = "#1a1a1a", "#666666", "#dddddd", "#ffffff"
GREY = "#b8b8b8"  # the colour of batch sizes between the coloured ones
FAILED_COLOUR = "#b3261e"
# Colours of batch sizes from the smallest to the largest: Okabe and Ito's, without yellow.
SIZE_COLOURS = ("#0072b2", "#009e73", "#e69f00", "#d55e00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)))
# A pale edge keeps overlapping markers apart.
MARKER_EDGE = {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
LOG_SPAN = 12.0  # An axis is logarithmic if largest / smallest value is at least this ratio.
MAX_SERIES = 6  # More panels in a row or a column are too small to read.
# Marks of failed runs, short enough for neighbouring batch sizes.
_STATUS_MARKS = {
    records.DIVERGED: "div.",
    records.OUT_OF_MEMORY: "mem.",
    records.OFF_TARGET: "off t.",
    records.MISSING: "miss.",
}
_MAX_MARKED_SIZES = 9  # More batch sizes have no room for counts of failures.
_NOTE_LETTERS_PER_INCH, _TITLE_LETTERS_PER_INCH = 15.5, 12.5  # mean widths in the style's fonts
_NUMBER, _COORDINATES = re.compile(r"-?\d+\.\d{3,}"), re.compile(r' (?:d|x|y|transform)="[^"]*"')


def svg_and_png(figure: Figure, title: str) -> tuple[str, bytes]:
    """Return a figure as SVG without a background, and as PNG at 150 dots per inch.

    The bytes are the same for the same data.
    """
    text, image = io.StringIO(), io.BytesIO()
    with style():
        # One layout serves both formats; savefig would draw twice.
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        figure.set_dpi(matplotlib.rcParams["savefig.dpi"])
        FigureCanvasAgg(figure).print_png(image, metadata={"Software": None})
        for part in (figure, *figure.axes):
            part.patch.set_visible(False)
        metadata = {"Title": title, "Date": None, "Creator": None}
        FigureCanvasSVG(figure).print_svg(text, metadata=metadata)
    # Rounding to hundredths of a point reduces the file to two thirds.
    rounded = _COORDINATES.sub(
        lambda attribute: _NUMBER.sub(_rounded, attribute[0]), text.getvalue()
    )
    return rounded, image.getvalue()


def _rounded(number: re.Match) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.03, hspace=0.04)
    return figure


def panels(
    count: int,
    columns: int = 0,
    width: float = PANEL_WIDTH,
    height: float = PANEL_HEIGHT,
    **shared: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with `count` panels of a size in inches, and their axes row by row.

    By default a row has three panels, or two of four.
    """
    columns = columns or (2 if count == 4 else min(count, 3))
    rows = -(-count // columns)
    figure = new_figure(width * columns, height * rows)
    grid = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def set_title(axes: Axes, text: str, lift: float = 0.0) -> None:
    """Set the heading of a panel, wrapped to its width and lifted by some points."""
    columns = axes.get_subplotspec().get_gridspec().ncols
    letters = int(_TITLE_LETTERS_PER_INCH * (axes.figure.get_size_inches()[0] / columns - 0.6))
    padding = matplotlib.rcParams["axes.titlepad"] + lift
    axes.set_title("\n".join(textwrap.wrap(text, letters)), pad=padding)


def set_batch_size_axis(axes: Axes, batch_sizes: list[int], room: float = 0.075) -> None:
    """Set up a horizontal axis in log2(batch size); a label needs `room`, a share of the axis."""
    labelled = labelled_values(batch_sizes, room)
    axes.set_xticks(np.log2(labelled), [str(size) for size in labelled])
    if batch_sizes:
        width = np.log2(max(batch_sizes) / min(batch_sizes))
        margin = max(0.45 * min_doublings(batch_sizes), 0.04 * width)
        axes.set_xlim(np.log2(min(batch_sizes)) - margin, np.log2(max(batch_sizes)) + margin)
    axes.set_xlabel("batch size")


def labelled_values(values: list[Any], room: float = 0.075) -> list[Any]:
    """Return the values that have room for a label on a log2 axis; powers of two have priority."""
    if len(values) < 2:
        return values
    width = np.log2(max(values)) - np.log2(min(values))
    powers = [value for value in values if np.log2(value) in range(64)]
    candidates = powers if len(powers) >= 4 and len(values) > 9 else values
    labelled: list[Any] = []
    for value in sorted(candidates, key=lambda value: (value not in powers, -value)):
        if all(abs(np.log2(value / neighbour)) >= room * width for neighbour in labelled):
            labelled.append(value)
    return sorted(labelled)


def min_doublings(batch_sizes: list[int]) -> float:
    doublings = np.log2(sorted(set(batch_sizes)))
    return float(np.diff(doublings).min()) if len(doublings) > 1 else 1.0


def set_value_scale(grid: Iterable[Axes], values: Iterable[Any]) -> None:
    """Make the vertical axes of panels logarithmic if the values of one panel span much.

    Panels with other than positive values stay linear. Call it before intervals are drawn, because
    `mean_intervals` depends on the scale.
    """
    finite = [_finite_values(panel_values) for panel_values in values]
    lowest = [panel.min(initial=np.inf) for panel in finite]
    pairs = zip(finite, lowest, strict=True)
    if any(low > 0 and panel.max(initial=0) >= LOG_SPAN * low for panel, low in pairs):
        for axes, low in zip(grid, lowest, strict=True):
            if low > 0:
                axes.set_yscale("log")


def set_linear_ticks(axis: Axis, max_count: int = 5) -> None:
    axis.set_major_locator(MaxNLocator(nbins=max_count, min_n_ticks=3, steps=(1, 2, 2.5, 5, 10)))


def set_log_labels(axis: Axis, span: float, crowded: float = 500) -> None:
    """Label 1, 2 and 5 of each decade as plain numbers, but only decades from a span of `crowded`.

    The span is the ratio of the ends of the axis.
    """
    subs = (1.0, 2.0, 5.0) if span < crowded else (1.0,)
    if span < 10:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: display.tick(value))


def percent_tick(value: float, _: Any = None) -> str:
    return display.tick(round(100 * value, 6))


def set_value_axis(axes: Axes, values: Any, ends: Any = (), scale: str = Scale.AUTO) -> None:
    """Set ticks and ends of the vertical axis, and its scale if `set_value_scale` has not.

    A logarithmic axis shows the ends of intervals down to a third of the smallest value. If values
    with a zero span much, the axis is linear up to the smallest positive one.
    """
    values = _finite_values(values)
    positive = values[values > 0]
    set_linear_ticks(axes.yaxis)
    if scale == Scale.AUTO:
        set_value_scale([axes], [values])
    if axes.get_yscale() == "log" and len(positive):
        reach = _finite_values([*positive, *ends])
        top, bottom = reach.max(), max(reach.min(), positive.min() / 3)
        set_log_labels(axes.yaxis, top / bottom)
        margin = max(top / bottom, 2.0) ** 0.06
        axes.set_ylim(bottom / margin, top * margin)
    elif scale == Scale.AUTO and len(positive) and positive.max() >= LOG_SPAN * positive.min():
        if values.min() == 0:
            axes.set_yscale("symlog", linthresh=positive.min())
            axes.yaxis.set_major_formatter(lambda value, _: display.tick(value))
    elif scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(percent_tick)


def set_axis_from_zero(axes: Axes, values: np.ndarray, is_linear: bool = False) -> None:
    """Scale the vertical axis: linear from zero, or logarithmic if values span much."""
    if is_linear:
        set_linear_ticks(axes.yaxis)
    else:
        set_value_axis(axes, values)
    if axes.get_yscale() == "linear" and np.isfinite(values).any():
        axes.set_ylim(0, 1.08 * np.nanmax(values) or 1.0)


def limit_to_values(axes: Axes, values: Any, share: float) -> None:
    """Limit a linear vertical axis to the values, so that no wide interval squeezes them."""
    values = _finite_values(values)
    if len(values) and axes.get_yscale() == "linear":
        margin = share * float(np.ptp(values)) or 0.05 * abs(float(values[0])) or 1.0
        axes.set_ylim(values.min() - margin, values.max() + margin)


def limit_to_possible_values(axes: Axes, column: str) -> None:
    """Limit a linear vertical axis to the possible values of a column, with room for markers."""
    if axes.get_yscale() != "linear":
        return
    smallest, largest = value_range(column)
    bottom, top = axes.get_ylim()
    margin = 0.015 * (min(top, largest) - max(bottom, smallest))
    data = [panel.dataLim for panel in axes.get_shared_y_axes().get_siblings(axes)]
    room_below = margin if min(limits.y0 for limits in data) < smallest + margin else 0.0
    room_above = margin if max(limits.y1 for limits in data) > largest - margin else 0.0
    axes.set_ylim(max(bottom, smallest - room_below), min(top, largest + room_above))


def _finite_values(values: Any) -> np.ndarray:
    values = np.asarray(values, float)
    return values[np.isfinite(values)]


def size_styles(sizes: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return batch size -> colour: four from the smallest to the largest, the others grey."""
    sizes = sorted({int(size) for size in sizes})
    coloured = np.linspace(0, len(sizes) - 1, min(len(sizes), len(SIZE_COLOURS))).round()
    colours = dict(zip(coloured.tolist(), SIZE_COLOURS, strict=False))
    if len(sizes) > 1:
        colours[len(sizes) - 1] = SIZE_COLOURS[-1]
    return {
        size: {"color": colours.get(index, GREY), "zorder": 3 if index in colours else 2}
        for index, size in enumerate(sizes)
    }


def draw_size_legend(figure: Figure, styles: dict[int, dict[str, Any]]) -> None:
    """Draw the legend of batch sizes, with all grey ones as one entry."""
    colours = {
        str(size): props["color"] for size, props in styles.items() if props["color"] != GREY
    }
    if grey := [str(size) for size in styles if str(size) not in colours]:
        colours[", ".join(grey if len(grey) < 4 else [grey[0], "…", grey[-1]])] = GREY
    entries = [({"color": colour, "linewidth": 2}, label) for label, colour in colours.items()]
    draw_legend(figure, entries, "batch size")


def series_styles(count: int) -> list[dict[str, Any]]:
    """Return markers and lines in two tones of ink, for series other than batch sizes."""
    styles = []
    for index in range(count):
        colour, is_hollow = (INK, MUTED)[index % 2], index // 2 % 2
        hollow = {"markerfacecolor": PAPER, "markeredgecolor": colour, "markeredgewidth": 1.0}
        edge = hollow if is_hollow else {"markerfacecolor": colour, **MARKER_EDGE}
        line = {"linestyle": LINE_STYLES[index % len(LINE_STYLES)]}
        styles.append({"color": colour, "marker": MARKERS[index % len(MARKERS)], **line, **edge})
    return styles


def points(marker: str, size: float, colour: str = INK, **props: Any) -> dict[str, Any]:
    """Return the props of points without a line."""
    return {"marker": marker, "markersize": size, "color": colour, "linestyle": "none", **props}


def line_props(props: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the props of a line through `count` points, without a line for fewer than three."""
    return {**props, "linestyle": "none"} if count < 3 else props


def mean_intervals(axes: Axes, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return mean, ends of the 95 % t-interval, and count of the numbers of each row.

    On a logarithmic axis the interval is computed from logarithms, so that its ends are positive.
    """
    logarithmic = axes.get_yscale() == "log"
    mean, low, high, count = intervals.t_intervals(values, logarithmic=logarithmic)
    low, high = (np.where(count < MIN_SEEDS_FOR_INTERVAL, np.nan, end) for end in (low, high))
    return mean, low, high, count


def draw_error_bars(axes: Axes, x: Any, mean: Any, low: Any, high: Any, **props: Any) -> None:
    mean, low, high = (np.atleast_1d(np.asarray(value, float)) for value in (mean, low, high))
    axes.errorbar(x, mean, yerr=np.nan_to_num([mean - low, high - mean]), **props)


def draw_curve(axes: Axes, table: pandas.DataFrame, props: dict[str, Any], x: Any = None) -> None:
    """Draw the mean of each row of a table, and its interval as a band if the line has a colour."""
    mean, low, high, _ = mean_intervals(axes, table.to_numpy(float))
    x = table.index.to_numpy(float) if x is None else x
    axes.plot(x, mean, **props)
    if np.isfinite(low).any() and props["color"] not in (GREY, INK, MUTED):
        axes.fill_between(x, low, high, color=props["color"], alpha=0.15, linewidth=0)


def mark_failures(axes: Axes, frame: pandas.DataFrame, text: str) -> None:
    """Set the heading of a panel, and below it the number of failed runs of each batch size.

    Each status has a line such as `3 div.`. Panels with many batch sizes have no room for them.
    """
    props = {"ha": "center", "va": "bottom", "fontsize": 7, "color": FAILED_COLOUR}
    props |= {"linespacing": 1.0, "annotation_clip": False, "xycoords": axes.get_xaxis_transform()}
    has_room, lines = frame["batch_size"].nunique() <= _MAX_MARKED_SIZES, 0
    failed = frame[frame["status"] != records.FINISHED]
    for size, rows in failed.groupby("batch_size") if has_room else ():
        counts = rows["status"].value_counts()
        marks = [f"{counts[name]} {word}" for name, word in _STATUS_MARKS.items() if name in counts]
        annotate(axes, "\n".join(marks), (np.log2(size), 1.0), (0, 2), **props)
        lines = max(lines, len(marks))
    set_title(axes, text, 8.5 * lines)
    if axes.get_subplotspec().is_first_col():
        increase_height(axes.figure, 8.5 * lines / 72)


def annotate(
    axes: Axes, text: str, xy: tuple[Any, Any], offset: tuple[float, float], **props: Any
) -> None:
    axes.annotate(text, xy, offset, textcoords="offset points", **props)


def increase_height(figure: Figure, inches: float) -> None:
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + inches)


def first_items(
    items: Sequence[Any], max_count: int = MAX_SERIES, noun: str = "series"
) -> tuple[Sequence[Any], str]:
    """Return the first items, and a note for the figure if there are more."""
    note = f"The first {max_count} of {len(items)} {noun}; the CSV file holds all."
    return items[:max_count], note if max_count < len(items) else ""


def write_notes(figure: Figure, frame: pandas.DataFrame, *lines: str) -> None:
    """Write lines below a figure, then the coupled factors and failed runs of a frame."""
    coupled = []
    for factor, values in run_series.coupled_factors(frame).items():
        texts = [value if isinstance(value, str) else display.shortest(value) for value in values]
        texts = texts if len(texts) < 7 else [*texts[:3], "…", texts[-1]]
        coupled.append(f"{factor.replace('_', ' ')} {', '.join(texts)}")
    counts = frame["status"].value_counts()
    failed = [
        requirements.label_count(status, counts[status])
        + display.aside(_STATUS_MARKS.get(status, ""))
        for status in (*_STATUS_MARKS, *requirements.LABELS)
        if status in counts
    ]
    lines += (f"Changes with the batch size: {'; '.join(coupled)}.",) if coupled else ()
    lines += (f"Of {len(frame)} runs: {', '.join(failed)}.",) if failed else ()
    width = int(figure.get_size_inches()[0] * _NOTE_LETTERS_PER_INCH)
    wrapped = [part for line in lines for part in textwrap.wrap(line, width)]
    if wrapped:
        increase_height(figure, 0.1 + 0.14 * len(wrapped))
        figure.supxlabel("\n".join(wrapped), fontsize=8, color=MUTED, x=0.01, ha="left")


def write_no_data(axes: Axes, text: str = "no finished run") -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)
    axes.set_yticks([])
    axes.grid(False)


def draw_legend(
    figure: Figure, entries: Sequence[tuple[Any, str]], title: str | None = None
) -> None:
    """Draw one legend above all panels, if it has entries.

    Args:
        entries: Pairs of an artist, or the props of a line, and a label.
    """
    if not entries:
        return
    styles, labels = zip(*entries, strict=True)
    handles = [props if isinstance(props, Artist) else Line2D([], [], **props) for props in styles]
    longest = max(len(label) for label in labels)
    width = figure.get_size_inches()[0]
    columns = max(1, min(len(labels), int(width / (0.72 + 0.075 * longest))))
    increase_height(figure, 0.12 + 0.18 * (-(-len(labels) // columns) + bool(title)))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, title=title, alignment="left"
    )
