"""Drawing functions that several kinds of figures share.

In this order: files, grids of panels, styles of batch sizes and series, means with intervals, marks
of failed runs, notes and legends. `axis_scales` has the axes. A function that a single kind needs
belongs to the module of this kind.
"""

from __future__ import annotations

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
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope.analysis import intervals, run_series
from batchscope.core import display, project_files
from batchscope.host import requirements
from batchscope.store import records
from batchscope.study.outcomes import MIN_SEEDS_FOR_INTERVAL

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


def runnable_series(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return the series that this machine can run in part or as a whole, or else all series."""
    groups = run_series.split_series(frame)
    left_out = requirements.LABELS
    runnable = [group for group in groups if not group.frame["status"].isin(left_out).all()]
    return runnable or groups


def first_items(
    items: Sequence[Any], max_count: int = MAX_SERIES, noun: str = "series"
) -> tuple[Sequence[Any], str]:
    """Return the first items, and a note for the figure if there are more."""
    note = f"The first {max_count} of {len(items)} {noun}; the CSV file holds all."
    return items[:max_count], note if max_count < len(items) else ""


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
