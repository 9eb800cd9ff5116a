"""What all figures share: style, colours, panels, marks for what failed, and files."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from batchscope import project_files, wording
from batchscope.analysis import intervals, run_series
from batchscope.catalogue import value_ranges

from batchscope.figures.drawing import marks
from batchscope.host import absence
from batchscope.store import records

STYLE = project_files.STYLE
PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.75  # inches
FINISHED = records.FINISHED
# Okabe and Ito's colours, without yellow, which is lost on white. Markers and line styles
# change along with them and have other periods, so that lines also differ in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)))
# Short enough to stand side by side over neighbouring batch sizes.
_SHORT = {
    records.DIVERGED: "div.",
    records.OUT_OF_MEMORY: "mem.",
    records.OFF_TARGET: "off t.",
    records.MISSING: "miss.",
}
FAILED_WORDS = {**_SHORT, **absence.WORDS}
FAILED_COLOUR = "#8B0000"
EDGED = {"markeredgecolor": "white", "markeredgewidth": 0.6}  # markers that overlap stay apart
_LETTERS_PER_INCH = 15.5  # of a note
_LOG_SPAN = 12.0  # ratio of largest to smallest value from which an axis is logarithmic


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Applies the style sheet over matplotlib's own defaults, whatever the user has set."""
    with matplotlib.rc_context(fname=STYLE):
        yield


def svg_and_png(figure: Figure, title: str) -> tuple[str, bytes]:
    """Returns a figure as SVG and as PNG at 150 dots per inch.

    The same bytes for the same data, whenever they are drawn.
    """
    text, image = io.StringIO(), io.BytesIO()
    with style():
        # Laid out once for both formats, each of which is drawn once: savefig draws twice.
        figure.get_layout_engine().execute(figure)
        if _break_titles(figure):
            figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        metadata = {"Title": title, "Date": None, "Creator": None}
        FigureCanvasSVG(figure).print_svg(text, metadata=metadata)
        figure.set_dpi(matplotlib.rcParams["savefig.dpi"])
        FigureCanvasAgg(figure).print_png(image, metadata={"Software": None})
    return marks.written(figure, _shorter(text.getvalue())), image.getvalue()


def texts(figure: Figure) -> list[str]:
    """Returns the words of a figure, its numbers apart, and its logarithmic axes, each once."""
    found = (artist.get_text().strip() for artist in figure.findobj(Text) if artist.get_visible())
    kept = (text for text in found if re.search(r"[^\W\d]{2}|\N{DAGGER}", text))
    return list(dict.fromkeys([*kept, *_logarithmic(figure)]))


def _logarithmic(figure: Figure) -> Iterator[str]:
    """Yields `logarithmic axis: loss` of every axis that is; of a shared one where it is named."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            name = axis.get_label_text().partition(" (")[0]
            if name and axis.get_scale() in ("log", "symlog"):
                around = " (linear around 0)" if axis.get_scale() == "symlog" else ""
                yield f"{LOGARITHMIC}{name}{around}"


def _break_titles(figure: Figure) -> bool:
    """Breaks titles that are wider than their panel; returns whether there were some."""
    most = 1
    for axes in figure.axes:
        titles = [one for one in axes.get_children() if isinstance(one, Text) and one.get_text()]
        for title in (one for one in titles if one.get_text() == axes.get_title("left")):
            share = axes.get_window_extent().width / max(title.get_window_extent().width, 1.0)
            if share < 1:
                lines = title.get_text().split("\n")
                letters = max(12, int(share * max(map(len, lines))))
                broken = [part for line in lines for part in _halves(line, letters)]
                title.set_text("\n".join(broken))
                most = max(most, len(broken) - len(lines) + 1)
    if most > 1:
        places = [axes.get_subplotspec() for axes in figure.axes]
        rows = max((place.get_gridspec().nrows for place in places if place), default=1)
        grow(figure, 0.15 * rows * (most - 1))
    return most > 1


def _halves(line: str, letters: int) -> list[str]:
    """Returns a line in as few lines as it needs, of about equal length: no last word alone."""
    needed = len(textwrap.wrap(line, letters))
    return next(
        broken
        for width in range(-(-len(line) // needed), letters + 1)
        if len(broken := textwrap.wrap(line, width)) <= needed
    )


def _shorter(text: str) -> str:
    """Rounds coordinates to hundredths of a point, drops blanks around lines: half the size.

    The style that all points of a group share is stated once, of the group.
    """

    def shorter(number: re.Match) -> str:
        return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")

    def rounded(match: re.Match) -> str:
        return re.sub(r"-?\d+\.\d{3,}", shorter, match[0])

    def once(match: re.Match) -> str:
        points = match[2]
        shared = set(re.findall(r' style="[^"]*"', points))
        if len(shared) != 1 or points.count("<use ") != points.count(" style="):
            return match[0]
        (look,) = shared
        return f"<g{match[1]}{look}>\n{points.replace(look, '')}</g>"

    text = re.sub(r" *\n *", "\n", text)  # no text element could need them: text is outlines
    text = re.sub(r'<g((?: clip-path="[^"]*")?)>\n((?:<use [^>]*>\n)+)</g>', once, text)
    return re.sub(r' (?:d|x|y|x1|y1|x2|y2)="[^"]*"', rounded, text)


def panels(
    rows: int, columns: int, width: float = PANEL_WIDTH, height: float = PANEL_HEIGHT, **shared: Any
) -> tuple[Figure, np.ndarray]:
    """Returns a figure of rows x columns panels and their axes, shape (rows, columns)."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.03, hspace=0.04)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def some_panels(
    count: int,
    columns: int | None,
    width: float = PANEL_WIDTH,
    height: float = PANEL_HEIGHT,
    **shared: Any,
) -> tuple[Figure, list[Axes]]:
    """Returns a figure of so many panels and their axes, row by row; the last row may have fewer.

    Without a number of columns three stand in a row, or two of four.
    """
    columns = columns or (2 if count == 4 else min(count, 3))
    figure, grid = panels(-(-count // columns), columns, width, height, **shared)
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, list(grid.flat[:count])


def line_style(index: int) -> dict[str, Any]:
    """Returns colour, marker and line style of the series with this index."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[index % len(LINES)],
    }


def ordered_styles(values: Sequence[Any], markers: bool = False) -> dict[Any, dict[str, Any]]:
    """Returns value -> colour, line style and, if asked for, marker: dark to light, as ordered."""
    colours = map(to_hex, matplotlib.colormaps["viridis"](np.linspace(0.0, 0.82, len(values))))
    return {
        value: {"color": colour, "linestyle": LINES[index % len(LINES)]}
        | ({"marker": MARKERS[index % len(MARKERS)]} if markers else {})
        for index, (value, colour) in enumerate(zip(values, colours, strict=True))
    }


def batch_size_axis(axes: Axes, batch_sizes: list[int], room: float = 0.075) -> None:
    """Turns the horizontal axis, in log2(batch size), into batch sizes as plain numbers.

    Each label needs `room`, a share of the axis.
    """
    shown = spread(batch_sizes, room)
    positions = np.log2(shown) if shown else []
    axes.xaxis.set_major_locator(FixedLocator(positions))
    labels = {float(at): str(size) for at, size in zip(positions, shown, strict=True)}
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: labels.get(float(at), "")))
    axes.tick_params(axis="x", rotation=0 if len(shown) < 8 else 45)
    if batch_sizes:
        width = np.log2(max(batch_sizes) / min(batch_sizes))
        margin = max(0.45 * spacing(batch_sizes), 0.04 * width)
        axes.set_xlim(np.log2(min(batch_sizes)) - margin, np.log2(max(batch_sizes)) + margin)
    axes.set_xlabel("batch size")


def spread(batch_sizes: list[int], room: float = 0.075) -> list[int]:
    """Returns the batch sizes to label: those with room beside each other.

    Powers of two come first, and alone where they are four or more among many.
    """
    if len(batch_sizes) < 2:
        return batch_sizes
    width = np.log2(max(batch_sizes)) - np.log2(min(batch_sizes))
    powers = [size for size in batch_sizes if size & (size - 1) == 0]
    candidates = powers if len(powers) >= 4 and len(batch_sizes) > 9 else batch_sizes
    kept: list[int] = []
    for size in sorted(candidates, key=lambda size: (size not in powers, -size)):
        if all(abs(np.log2(size / other)) >= room * width for other in kept):
            kept.append(size)
    return sorted(kept)


def spacing(batch_sizes: list[int]) -> float:
    """Returns the least distance between neighbours on the log2 axis; 1 for one batch size."""
    positions = np.log2(sorted(set(batch_sizes)))
    return float(np.diff(positions).min()) if len(positions) > 1 else 1.0


def value_scale(axes: Axes, values: Any) -> None:
    """Makes the vertical axis logarithmic where positive values span much, linear elsewhere.

    Before intervals are drawn: what they are depends on it, as `mean_intervals` says.
    """
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() >= _LOG_SPAN * values.min():
        axes.set_yscale("log")


def mean_intervals(axes: Axes, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns the mean of each row, the ends of its 95 % t-interval, and how many numbers it is of.

    On a logarithmic axis the ends are of the mean's logarithm: else the lower end of a positive
    quantity may lie below 0, where such an axis has no place.
    """
    return intervals.t_intervals(values, logarithmic=axes.get_yscale() == "log")


def linear_ticks(axis: Axis, most: int = 5) -> None:
    """Sets round ticks, three at least."""
    axis.set_major_locator(MaxNLocator(nbins=most, min_n_ticks=3, steps=(1, 2, 2.5, 5, 10)))


def value_axis(axes: Axes, values: Any, ends: Any = ()) -> None:
    """Scales the vertical axis by `value_scale`, with its ticks and its ends.

    Where positive values and zeros span much it is linear up to the least of them.

    Args:
        ends: Ends of intervals, which a logarithmic axis reaches too. Its foot is a third of the
            least value or higher: the lower end of an interval of few values may lie anywhere.
    """
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    positive = values[values > 0]
    linear_ticks(axes.yaxis)
    small = len(positive) == 0 or positive.max() < _LOG_SPAN * positive.min()
    if small and axes.get_yscale() != "log":
        return
    if len(positive) == len(values):
        value_scale(axes, values)
        reached = np.append(positive, ends)
        top, foot = reached.max(), max(reached.min(), positive.min() / 3)
        few_log_labels(axes.yaxis, top / foot)
        margin = max(top / foot, 2.0) ** 0.06
        axes.set_ylim(foot / margin, top * margin)
    elif values.min() == 0:
        axes.set_yscale("symlog", linthresh=positive.min())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))


def from_zero(axes: Axes, values: np.ndarray) -> None:
    """Starts a linear vertical axis of these values at zero, so that heights compare as they do."""
    if np.isfinite(values).any() and axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)


def keep_possible(axes: Axes, column: str, values: Any) -> None:
    """Keeps a linear vertical axis to what a column can have; a marker at an end gets room."""
    if axes.get_yscale() != "linear":
        return
    least, largest = value_ranges.possible(column)
    bottom, top = axes.get_ylim()
    margin = 0.015 * (min(top, largest) - max(bottom, least))
    below = margin if np.nanmin(values) < least + margin else 0.0
    above = margin if np.nanmax(values) > largest - margin else 0.0
    axes.set_ylim(max(bottom, least - below), min(top, largest + above))


def alike_scales(every: Iterable[Axes], values: Sequence[Any]) -> None:
    """Makes all panels of a quantity logarithmic where one is: neighbours are compared.

    Before intervals are drawn, as with `value_scale`. Panels beyond the values are left alone.
    """
    panels = list(zip(every, values, strict=False))
    for axes, found in panels:
        value_scale(axes, found)
    if any(axes.get_yscale() == "log" for axes, _ in panels):
        for axes, found in panels:
            if np.nanmin(np.asarray(found, float), initial=np.inf) > 0:
                axes.set_yscale("log")


def present(groups: Sequence[run_series.Series]) -> list[run_series.Series]:
    """Returns the series but those whose every run waits for what is not here, or all if none else.

    They would be an empty panel, or a line of a legend without a line; a note counts their runs.
    """
    there = [group for group in groups if not group.frame["status"].isin(absence.WORDS).all()]
    return there or list(groups)


def cut_note(figure: Figure) -> str:
    """Returns what a reader must know of intervals that leave a panel; empty where none does."""
    for axes in figure.axes:
        y0, y1 = axes.dataLim.intervaly
        reached = np.array([*axes.get_ylim(), *([y0, y1] if y1 >= y0 else [])])
        if axes.get_yscale() == "log":
            reached = np.log(np.maximum(reached, np.finfo(float).tiny))
        bottom, top, *ends = reached
        room = 0.01 * (top - bottom)
        if any(end < bottom - room or end > top + room for end in ends):
            return "An interval is cut where it reaches values that cannot be, or leaves the panel."
    return ""


def few_log_labels(axis: Axis, span: float, crowded: float = 500) -> None:
    """Labels 1, 2 and 5 where there are few decades, as plain numbers where they are short.

    From a ratio of the axis' ends on, `crowded`, decades alone are labelled.
    """
    subs = (1.0, 2.0, 5.0) if span < crowded else (1.0,)
    if span < 10:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: wording.tick(value)))


def percent_tick(value: float, _: Any = None) -> str:
    """Returns a share as a percentage, for an axis whose label names the unit."""
    return wording.tick(round(100 * value, 6))


def failures(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the rows of runs that did not finish, or not where they are to be compared."""
    return frame[frame["status"] != FINISHED]


def mark_failures(axes: Axes, frame: pandas.DataFrame) -> None:
    """Writes how many runs failed, and how, at the upper edge over each batch size.

    Runs that wait for what is not here are noted below the figure alone, or where they are all of
    a panel, once in its middle.
    """
    waiting = frame["status"].map(absence.WORDS)
    if len(frame) and waiting.notna().all():
        centred(axes, ", ".join(waiting.unique()))
    look = {"ha": "center", "va": "bottom", "fontsize": 7, "color": FAILED_COLOUR}
    look |= {"rotation": 90 if _crowded(frame) else 0, "linespacing": 1.0, "annotation_clip": False}
    for size, text in _failure_marks(frame).items():
        at_edge = {"xycoords": axes.get_xaxis_transform(), **look}
        annotate(axes, text, (np.log2(size), 1.0), (0, 2), **at_edge)
    lift_title(axes, frame)
    if axes.get_subplotspec().is_first_col():
        grow(axes.figure, failure_height(frame) / 72)


def annotate(
    axes: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float], **look: Any
) -> None:
    """Writes a text beside a place, with an offset in points."""
    axes.annotate(text, at, offset, textcoords="offset points", **look)


def lift_title(axes: Axes, frame: pandas.DataFrame) -> None:
    """Lifts a panel's title above the marks of failed runs."""
    pad = matplotlib.rcParams["axes.titlepad"] + failure_height(frame)
    axes.set_title(axes.get_title("left"), pad=pad)


def failure_height(frame: pandas.DataFrame) -> float:
    """Returns how high the marks of failed runs are, in points."""
    marks = _failure_marks(frame).values()
    if _crowded(frame):
        return max((4.2 * len(text) for text in marks), default=0.0)
    return max((8.5 * (text.count("\n") + 1) for text in marks), default=0.0)


def _crowded(frame: pandas.DataFrame) -> bool:
    """Returns whether marks stand upright, for want of room between batch sizes."""
    return frame["batch_size"].nunique() > 9


def _failure_marks(frame: pandas.DataFrame) -> dict[int, str]:
    """Returns batch size -> `3 div.`, one line per kind of failure."""
    found = {}
    for size, rows in failures(frame).groupby("batch_size"):
        counts = rows["status"].value_counts()
        marks = [f"{counts[name]} {word}" for name, word in _SHORT.items() if name in counts]
        if marks:
            found[size] = (" " if _crowded(frame) else "\n").join(marks)
    return found


def grow(figure: Figure, inches: float) -> None:
    """Makes a figure higher, so that what stands around its panels does not squeeze them."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + inches)


def notes(figure: Figure, frame: pandas.DataFrame, *others: str) -> None:
    """Writes below a figure what failed and what else a reader must know."""
    write(figure, *others, coupled_note(frame), failure_note(frame))


def write(figure: Figure, *lines: str) -> None:
    """Writes lines below a figure, broken where it ends."""
    width = int(figure.get_size_inches()[0] * _LETTERS_PER_INCH)
    found = [part for line in lines for part in textwrap.wrap(line, width)]
    if found:
        grow(figure, 0.1 + 0.14 * len(found))
        figure.supxlabel("\n".join(found), fontsize=8, color="#333333", x=0.01, ha="left")


def first_note(shown: int, count: int, what: str = "series") -> str:
    """Returns how many of all are drawn; empty where all are."""
    return f"The first {shown} of {count} {what}; the CSV file holds all." if shown < count else ""


def coupled_note(frame: pandas.DataFrame) -> str:
    """Returns what else changes along the lines, or an empty string."""
    parts = []
    for factor, values in run_series.coupled_factors(frame).items():
        words = [wording.shortest(v) if not isinstance(v, str) else v for v in values]
        listed = words if len(words) < 7 else [*words[:3], "…", words[-1]]
        parts.append(f"{factor.replace('_', ' ')} {', '.join(listed)}")
    return f"Changes with the batch size: {'; '.join(parts)}." if parts else ""


def failure_note(frame: pandas.DataFrame) -> str:
    """Returns how many runs did not finish, or an empty string."""
    failed, parts = failures(frame), []
    for status, word in FAILED_WORDS.items():
        if count := int((failed["status"] == status).sum()):
            short = f" ({word})" if status in _SHORT else ""
            parts.append(f"{absence.counted(status, count)}{short}")
    return f"Of {len(frame)} runs: " + ", ".join(parts) + "." if parts else ""


def empty(axes: Axes, text: str = "no finished run") -> None:
    """Says in a panel that there is nothing to draw."""
    centred(axes, text)
    axes.set_yticks([])
    axes.grid(False)


def centred(axes: Axes, text: str) -> None:
    """Writes a text in the middle of a panel."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="#555555")


def legend_of(figure: Figure, entries: list[tuple[Any, str]]) -> None:
    """Draws the legend of pairs of a handle and its label."""
    legend(figure, [handle for handle, _ in entries], [label for _, label in entries])


def legend(figure: Figure, handles: list, labels: list[str], title: str | None = None) -> None:
    """Draws one legend above all panels, if there is more than one series."""
    if not handles or (len(labels) < 2 and not title):
        return
    width = figure.get_size_inches()[0]
    longest = max(len(label) for label in labels)
    columns = max(1, min(len(labels), int(width / (0.72 + 0.075 * longest))))
    rows = -(-len(labels) // columns) + bool(title)
    grow(figure, 0.12 + 0.18 * rows)
    drawn = figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, title=title, alignment="left"
    )
    marks.legend(drawn)
