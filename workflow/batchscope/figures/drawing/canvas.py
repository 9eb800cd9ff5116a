"""Style, colours, axes, marks of failed runs, legends and files of all figures."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import pandas
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from batchscope import project_files, wording
from batchscope.analysis import intervals, run_series
from batchscope.host import requirements
from batchscope.store import records
from batchscope.study.outcomes import LEAST_WITH_INTERVAL
from batchscope.study.specifications import Scale
from batchscope.study.tables import possible

if TYPE_CHECKING:
    from batchscope.study.study_file import FigureFormat

STYLE = project_files.STYLE
style = functools.partial(matplotlib.rc_context, fname=STYLE)  # whatever the user has set
PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.75  # inches
LEAST_PANEL_WIDTH = 2.5  # inches, on the page of a paper
MM_PER_INCH = 25.4
_page_width: ContextVar[float | None] = ContextVar("_page_width", default=None)  # inches
# In the SVG as they stand here: a page recolours text, axes, grounds and ink by them.
INK, MUTED, GRID, PAPER = "#1a1a1a", "#666666", "#dddddd", "#ffffff"
OTHERS = "#b8b8b8"  # batch sizes between those that have a colour
FAILED_COLOUR = "#b3261e"
# Batch sizes from the smallest to the largest: Okabe and Ito's, without yellow.
COLOURS = ("#0072b2", "#009e73", "#e69f00", "#d55e00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)))
EDGED = {"markeredgecolor": PAPER, "markeredgewidth": 0.6}  # markers that overlap stay apart
LOG_SPAN = 12.0  # ratio of largest to smallest value from which an axis is logarithmic
# Short enough to stand side by side over neighbouring batch sizes.
_SHORT = {
    records.DIVERGED: "div.",
    records.OUT_OF_MEMORY: "mem.",
    records.OFF_TARGET: "off t.",
    records.MISSING: "miss.",
}
_MOST_MARKED = 9  # batch sizes, over which counts of failures have room
_NOTE_LETTERS, _TITLE_LETTERS = 15.5, 12.5  # per inch
_NUMBER, _PLACES = re.compile(r"-?\d+\.\d{3,}"), re.compile(r' (?:d|x|y|transform)="[^"]*"')


def svg_and_png(figure: Figure, title: str) -> tuple[str, bytes]:
    """Return a figure as SVG without a background, and as PNG at 150 dots per inch.

    The bytes are the same for the same data.
    """

    def rounded(places: re.Match) -> str:  # to hundredths of a point: two thirds of the size
        return _NUMBER.sub(lambda each: f"{float(each[0]):.2f}".rstrip("0").rstrip("."), places[0])

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
    return _PLACES.sub(rounded, text.getvalue()), image.getvalue()


def _text_ratio(figure_format: FigureFormat) -> float:
    with style():
        return figure_format.font_size / matplotlib.rcParams["font.size"]


@contextlib.contextmanager
def page(figure_format: FigureFormat) -> Iterator[None]:
    """Lay out the figures in this block for the page of a format, for `pdf` to finish.

    The layout has the font size of the style, and the page is wider by the ratio of font sizes, so
    that text, legends and rows of panels break at the right places.
    """
    token = _page_width.set(figure_format.width / MM_PER_INCH / _text_ratio(figure_format))
    try:
        yield
    finally:
        _page_width.reset(token)


def page_width(width: float) -> float:
    """Return the width of the present `page` in inches; without one the given width."""
    return _page_width.get() or width


def pdf(figure: Figure, title: str, figure_format: FigureFormat) -> bytes:
    """Return a figure that was drawn on the `page` of a format as PDF, with its texts scaled.

    The bytes are the same for the same data.
    """
    ratio, content = _text_ratio(figure_format), io.BytesIO()
    with style():
        for text in figure.findobj(Text):
            text.set_fontsize(ratio * text.get_fontsize())
        width = figure_format.width / MM_PER_INCH
        figure.set_size_inches(width, ratio * figure.get_size_inches()[1])
        metadata = dict.fromkeys(("CreationDate", "Creator", "Producer"))
        FigureCanvasPdf(figure).print_pdf(content, metadata={"Title": title, **metadata})
    return content.getvalue()


def panels(
    count: int,
    columns: int = 0,
    width: float = PANEL_WIDTH,
    height: float = PANEL_HEIGHT,
    **shared: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with `count` panels and their axes, row by row.

    By default three panels stand in a row, or two of four; on a `page` as many as fit.
    """
    columns = columns or (2 if count == 4 else min(count, 3))
    figure_width = page_width(width * columns)
    if _page_width.get() and "col" not in shared.values():  # panels of a column share an axis
        columns = min(columns, max(1, int(figure_width / LEAST_PANEL_WIDTH)))
    rows = -(-count // columns)
    figure = Figure(figsize=(figure_width, height * rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.03, hspace=0.04)
    grid = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def title(axes: Axes, text: str, lifted: float = 0.0) -> None:
    """Set the heading of a panel in lines as wide as the panel, lifted by some points."""
    columns = axes.get_subplotspec().get_gridspec().ncols
    letters = int(_TITLE_LETTERS * (axes.figure.get_size_inches()[0] / columns - 0.6))
    pad = matplotlib.rcParams["axes.titlepad"] + lifted
    axes.set_title("\n".join(textwrap.wrap(text, letters)), pad=pad)


def size_styles(sizes: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return batch size -> colour: four from the smallest to the largest, the others grey."""
    sizes = sorted({int(size) for size in sizes})
    places = np.linspace(0, len(sizes) - 1, min(len(sizes), len(COLOURS))).round().astype(int)
    coloured = dict(zip(places.tolist(), COLOURS, strict=False))
    if len(sizes) > 1:
        coloured[len(sizes) - 1] = COLOURS[-1]
    return {
        size: {"color": coloured.get(place, OTHERS), "zorder": 3 if place in coloured else 2}
        for place, size in enumerate(sizes)
    }


def size_legend(figure: Figure, styles: dict[int, dict[str, Any]]) -> None:
    """Draw the legend of batch sizes, with all grey ones as one entry."""
    named = {str(size): look["color"] for size, look in styles.items() if look["color"] != OTHERS}
    if between := [str(size) for size in styles if str(size) not in named]:
        shown = between if len(between) < 4 else [between[0], "…", between[-1]]
        named[", ".join(shown)] = OTHERS
    entries = [({"color": colour, "linewidth": 2}, label) for label, colour in named.items()]
    legend(figure, entries, "batch size")


def series_styles(count: int) -> list[dict[str, Any]]:
    """Return markers and lines in two tones of ink, for series other than batch sizes."""
    return [
        {
            "color": (INK, MUTED)[index % 2],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": LINES[index % len(LINES)],
            "markerfacecolor": PAPER if index // 2 % 2 else (INK, MUTED)[index % 2],
            "markeredgecolor": (INK, MUTED)[index % 2] if index // 2 % 2 else PAPER,
            "markeredgewidth": 1.0 if index // 2 % 2 else 0.6,
        }
        for index in range(count)
    ]


def line_look(look: dict[str, Any], count: int) -> dict[str, Any]:
    return {**look, "linestyle": "none"} if count < 3 else look


def batch_size_axis(axes: Axes, batch_sizes: list[int], room: float = 0.075) -> None:
    """Label a horizontal axis in log2(batch size); a label needs `room`, a share of the axis."""
    shown = spread(batch_sizes, room)
    axes.set_xticks(np.log2(shown), [str(size) for size in shown])
    if batch_sizes:
        width = np.log2(max(batch_sizes) / min(batch_sizes))
        margin = max(0.45 * spacing(batch_sizes), 0.04 * width)
        axes.set_xlim(np.log2(min(batch_sizes)) - margin, np.log2(max(batch_sizes)) + margin)
    axes.set_xlabel("batch size")


def spread(values: list[Any], room: float = 0.075) -> list[Any]:
    """Return the values to label on a log2 axis with `room` for each, powers of two first."""
    if len(values) < 2:
        return values
    width = np.log2(max(values)) - np.log2(min(values))
    powers = [value for value in values if np.log2(value) in range(64)]
    candidates = powers if len(powers) >= 4 and len(values) > 9 else values
    kept: list[Any] = []
    for value in sorted(candidates, key=lambda value: (value not in powers, -value)):
        if all(abs(np.log2(value / other)) >= room * width for other in kept):
            kept.append(value)
    return sorted(kept)


def spacing(batch_sizes: list[int]) -> float:
    positions = np.log2(sorted(set(batch_sizes)))
    return float(np.diff(positions).min()) if len(positions) > 1 else 1.0


def value_scale(axes: Axes, values: Any) -> None:
    """Make the vertical axis logarithmic if positive values span much.

    Call it before intervals are drawn, because `mean_intervals` depends on the scale.
    """
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() >= LOG_SPAN * values.min():
        axes.set_yscale("log")


def alike_scales(every: Iterable[Axes], values: Sequence[Any]) -> None:
    """Make all panels with positive values logarithmic if one of them spans much."""
    pairs = list(zip(every, values, strict=False))
    for axes, of_panel in pairs:
        value_scale(axes, of_panel)
    if any(axes.get_yscale() == "log" for axes, _ in pairs):
        for axes, of_panel in pairs:
            if np.nanmin(np.asarray(of_panel, float), initial=np.inf) > 0:
                axes.set_yscale("log")


def mean_intervals(axes: Axes, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return mean, ends of the 95 % t-interval, and count of the numbers of each row.

    On a logarithmic axis the interval is that of the logarithms, so that its ends are positive.
    """
    logarithmic = axes.get_yscale() == "log"
    mean, low, high, count = intervals.t_intervals(values, logarithmic=logarithmic)
    low, high = (np.where(count < LEAST_WITH_INTERVAL, np.nan, end) for end in (low, high))
    return mean, low, high, count


def error_bars(axes: Axes, at: Any, mean: Any, low: Any, high: Any, **look: Any) -> None:
    mean, low, high = (np.atleast_1d(np.asarray(part, float)) for part in (mean, low, high))
    axes.errorbar(at, mean, yerr=np.nan_to_num([mean - low, high - mean]), **look)


def curve(axes: Axes, table: pandas.DataFrame, look: dict[str, Any], at: Any = None) -> None:
    """Draw the mean of each row; a line with a colour also has its interval as a band."""
    mean, low, high, _ = mean_intervals(axes, table.to_numpy(float))
    at = table.index.to_numpy(float) if at is None else at
    axes.plot(at, mean, **look)
    if np.isfinite(low).any() and look["color"] not in (OTHERS, INK, MUTED):
        axes.fill_between(at, low, high, color=look["color"], alpha=0.15, linewidth=0)


def linear_ticks(axis: Axis, most: int = 5) -> None:
    axis.set_major_locator(MaxNLocator(nbins=most, min_n_ticks=3, steps=(1, 2, 2.5, 5, 10)))


def few_log_labels(axis: Axis, span: float, crowded: float = 500) -> None:
    """Label 1, 2 and 5 as plain numbers, or decades alone from the ratio `crowded` of the ends."""
    subs = (1.0, 2.0, 5.0) if span < crowded else (1.0,)
    if span < 10:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: wording.tick(value))


def percent_tick(value: float, _: Any = None) -> str:
    return wording.tick(round(100 * value, 6))


def value_axis(axes: Axes, values: Any, ends: Any = (), scale: str = Scale.AUTO) -> None:
    """Set ticks and ends of the vertical axis, and its scale if `value_scale` has not.

    A logarithmic axis shows the ends of intervals down to a third of the smallest value. If values
    with a zero span much, the axis is linear up to the smallest positive one.
    """
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    positive = values[values > 0]
    linear_ticks(axes.yaxis)
    if scale == Scale.AUTO:
        value_scale(axes, values)
    if axes.get_yscale() == "log" and len(positive):
        reached = np.append(positive, ends)
        reached = reached[np.isfinite(reached)]
        top, foot = reached.max(), max(reached.min(), positive.min() / 3)
        few_log_labels(axes.yaxis, top / foot)
        margin = max(top / foot, 2.0) ** 0.06
        axes.set_ylim(foot / margin, top * margin)
    elif scale == Scale.AUTO and len(positive) and positive.max() >= LOG_SPAN * positive.min():
        if values.min() == 0:
            axes.set_yscale("symlog", linthresh=positive.min())
            axes.yaxis.set_major_formatter(lambda value, _: wording.tick(value))
    elif scale == Scale.PERCENT:
        axes.yaxis.set_major_formatter(percent_tick)


def around(axes: Axes, values: Any, share: float) -> None:
    """End a linear vertical axis near the values, so that no wide interval squeezes them."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if len(values) and axes.get_yscale() == "linear":
        margin = share * float(np.ptp(values)) or 0.05 * abs(float(values[0])) or 1.0
        axes.set_ylim(values.min() - margin, values.max() + margin)


def keep_possible(axes: Axes, column: str, values: Any) -> None:
    """Limit a linear vertical axis to the possible values, with room for markers at the ends."""
    values = np.asarray(values, float)
    if axes.get_yscale() != "linear" or not np.isfinite(values).any():
        return
    least, largest = possible(column)
    bottom, top = axes.get_ylim()
    margin = 0.015 * (min(top, largest) - max(bottom, least))
    below = margin if np.nanmin(values) < least + margin else 0.0
    above = margin if np.nanmax(values) > largest - margin else 0.0
    axes.set_ylim(max(bottom, least - below), min(top, largest + above))


def present(frame: pandas.DataFrame) -> list[run_series.Series]:
    """Return the series with a run whose requirements are met, or all if there is none."""
    groups = run_series.series(frame)
    met = [group for group in groups if not group.frame["status"].isin(requirements.LABELS).all()]
    return met or groups


def first(items: Sequence[Any], most: int, noun: str = "series") -> tuple[Sequence[Any], str]:
    note = f"The first {most} of {len(items)} {noun}; the CSV file holds all."
    return items[:most], note if most < len(items) else ""


def mark_failures(axes: Axes, frame: pandas.DataFrame, text: str) -> None:
    """Set the heading of a panel, and below it the failed runs of each batch size.

    Each status has a line such as `3 div.`, if there are few batch sizes.
    """
    look = {"ha": "center", "va": "bottom", "fontsize": 7, "color": FAILED_COLOUR}
    look |= {"linespacing": 1.0, "annotation_clip": False, "xycoords": axes.get_xaxis_transform()}
    few, lines = frame["batch_size"].nunique() <= _MOST_MARKED, 0
    failed = frame[frame["status"] != records.FINISHED]
    for size, rows in failed.groupby("batch_size") if few else ():
        counts = rows["status"].value_counts()
        marks = [f"{counts[name]} {word}" for name, word in _SHORT.items() if name in counts]
        annotate(axes, "\n".join(marks), (np.log2(size), 1.0), (0, 2), **look)
        lines = max(lines, len(marks))
    title(axes, text, 8.5 * lines)
    if axes.get_subplotspec().is_first_col():
        grow(axes.figure, 8.5 * lines / 72)


def annotate(
    axes: Axes, text: str, at: tuple[Any, Any], offset: tuple[float, float], **look: Any
) -> None:
    axes.annotate(text, at, offset, textcoords="offset points", **look)


def grow(figure: Figure, inches: float) -> None:
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + inches)


def notes(figure: Figure, frame: pandas.DataFrame, *others: str) -> None:
    """Write notes, factors that change with the batch size, and failed runs below a figure."""
    coupled = []
    for factor, values in run_series.coupled_factors(frame).items():
        words = [value if isinstance(value, str) else wording.shortest(value) for value in values]
        listed = words if len(words) < 7 else [*words[:3], "…", words[-1]]
        coupled.append(f"{factor.replace('_', ' ')} {', '.join(listed)}")
    counts = frame["status"].value_counts()
    failed = [
        requirements.label_count(status, counts[status]) + wording.aside(_SHORT.get(status, ""))
        for status in (*_SHORT, *requirements.LABELS)
        if status in counts
    ]
    lines = [
        *others,
        f"Changes with the batch size: {'; '.join(coupled)}." if coupled else "",
        f"Of {len(frame)} runs: {', '.join(failed)}." if failed else "",
    ]
    width = int(figure.get_size_inches()[0] * _NOTE_LETTERS)
    found = [part for line in lines for part in textwrap.wrap(line, width)]
    if found:
        grow(figure, 0.1 + 0.14 * len(found))
        figure.supxlabel("\n".join(found), fontsize=8, color=MUTED, x=0.01, ha="left")


def empty(axes: Axes, text: str = "no finished run") -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)
    axes.set_yticks([])
    axes.grid(False)


def legend(figure: Figure, entries: Sequence[tuple[Any, str]], title: str | None = None) -> None:
    """Draw one legend above all panels, if it has entries.

    Args:
        entries: An artist, or the look of a line, and its label.
    """
    if not entries:
        return
    looks, labels = zip(*entries, strict=True)
    handles = [look if isinstance(look, Artist) else Line2D([], [], **look) for look in looks]
    longest = max(len(label) for label in labels)
    width = figure.get_size_inches()[0]
    columns = max(1, min(len(labels), int(width / (0.72 + 0.075 * longest))))
    grow(figure, 0.12 + 0.18 * (-(-len(labels) // columns) + bool(title)))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, title=title, alignment="left"
    )
