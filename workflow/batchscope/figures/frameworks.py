"""How busy a machine is, what memory is held and how fast it trains, framework by framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import run_series
from batchscope.catalogue import framework_names
from batchscope.catalogue.timing_columns import FIRST, QUARTILES
from batchscope.figures import Tables
from batchscope.figures.drawing import as_published, canvas, timings, words
from batchscope.host.absence import NO_GPU, WORDS
from batchscope.store import records

UTILISATION, MEMORY, IMAGES = "utilisation_percent", "memory_mb", "images_per_second"
_WORST = (*WORDS, records.OUT_OF_MEMORY, records.DIVERGED)  # of two statuses the first is shown
_WIDTH, _HEIGHT = 3.5, 2.9  # of a panel, inches
_MOST_SHOWN = 4  # series, or places, in a sentence
# Device -> the columns of utilisation.csv that say how busy it is, and what memory it holds.
_BUSY = {"cpu": "process_percent", "gpu": "gpu_percent"}
_HELD = {"cpu": "memory_peak_mb", "gpu": "gpu_memory_peak_mb"}
_MEASURED = {
    "cpu": "CPU: % of the process's cores, and its peak resident memory",
    "gpu": "GPU: % of the time in which a kernel ran, and the peak memory of all processes on it",
}
# Column -> that of what other processes disturbed.
_FLAGS = {UTILISATION: "disturbed", IMAGES: "disturbed_blocks"}


@dataclass(frozen=True)
class Panel:
    """What one panel shows."""

    column: str
    title: str
    label: str  # on its vertical axis, where devices differ, and for a document
    labels: dict[str, str] = field(default_factory=dict)  # by device


_UTILISATIONS = {"cpu": "CPU utilisation (%)", "gpu": "GPU utilisation (%)"}
_MEMORIES = {"cpu": "peak resident memory (MB)", "gpu": "peak memory of the GPU (MB)"}
PANELS = (
    Panel(UTILISATION, "Utilisation", "utilisation (%)", _UTILISATIONS),
    Panel(MEMORY, "Memory", "memory (MB)", _MEMORIES),
    Panel(IMAGES, "Throughput", "examples/s"),
)


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per series and batch size: utilisation, memory and examples per second.

    Below them stand the numbers of a document, where the study has some.
    """
    busy, speed = timings.at_most_all(tables.utilisation), tables.throughput
    keys = ["machine", "sweep", "batch_size"]
    first = [*FIRST, "batch_size"]
    parts = [part[[*first, "status"]] for part in (busy, speed) if len(part)]
    rows = pandas.concat(parts, ignore_index=True) if parts else busy[[*first, "status"]]
    status = rows.groupby(keys, sort=False, dropna=False)["status"].agg(_worst)
    rows = rows.drop_duplicates(keys, ignore_index=True)
    rows["status"] = status.to_numpy() if len(rows) else rows["status"]
    index = pandas.MultiIndex.from_frame(rows[keys])
    found = busy.set_index(keys).reindex(index) if len(busy) else pandas.DataFrame(index=index)
    gpu = (rows["device"] == "gpu").to_numpy()
    for name, sources, ends in ((UTILISATION, _BUSY, QUARTILES), (MEMORY, _HELD, ("",))):
        for end in ends:
            of = {device: _numbers(found, f"{column}{end}") for device, column in sources.items()}
            rows[f"{name}{end}"] = np.where(gpu, of["gpu"], of["cpu"])
    rows["disturbed"] = _numbers(found, "disturbed")
    found = speed.set_index(keys).reindex(index) if len(speed) else pandas.DataFrame(index=index)
    for name in (*(f"{IMAGES}{end}" for end in QUARTILES), "blocks", "disturbed_blocks"):
        rows[name] = _numbers(found, name)
    factors = list(dict.fromkeys(["machine", "device", "framework", *timings.factor_columns(rows)]))
    values = [name for name in rows if name not in (*FIRST, *factors)]
    return as_published.below(rows[[*factors, *values]], tables.published, "frameworks")


def _worst(statuses: pandas.Series) -> str:
    found = set(statuses)
    return next((name for name in _WORST if name in found), canvas.FINISHED)


def _numbers(frame: pandas.DataFrame, column: str) -> np.ndarray:
    if column not in frame:
        return np.full(len(frame), np.nan)
    return frame[column].to_numpy(float, na_value=np.nan)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: a row of panels, and a second one where a document has numbers."""
    own, theirs = as_published.split(frame)
    groups, others = _named(timings.series(own)), as_published.series(theirs)
    figure, grid = canvas.panels(2 if others else 1, len(PANELS), _WIDTH, _HEIGHT)
    sizes = _sizes(own, theirs)
    styles, looks = _styles(groups, others)
    for axes, panel in zip(grid[0], PANELS, strict=True):
        _draw_panel(axes, own, panel, list(zip(groups, styles, strict=True)), sizes)
        axes.set_title(f"{panel.title}, {as_published.HERE}" if others else panel.title)
    for axes, panel in zip(grid[-1] if others else (), PANELS, strict=bool(others)):
        at = timings.batch_axis(axes, sizes)
        drawn = as_published.draw(axes, at, others, looks, panel.column)
        if not any(map(len, drawn)):
            axes.remove()  # of this the document has no numbers
            continue
        _scale(axes, panel, drawn, sizes)
        axes.set(title=f"{panel.title}, {as_published.THERE}", ylabel=panel.label)
    entries = _entries(groups, styles, others)
    if others:
        entries = as_published.entries(entries, others, looks)
    canvas.legend_of(figure, entries)
    canvas.write(
        figure,
        _subject_note(own),
        _measured_note(own),
        _absent_note(own),
        timings.disturbed_note(own),
        timings.disturbed_trainings_note(own),
        timings.memory_note(own),
        as_published.note(theirs),
    )
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns who is busiest at both ends, how memory changes, and the highest throughput."""
    own, _ = as_published.split(frame)
    places = list(_places(own))
    parts = (
        _sentence("Median {device} utilisation{place} was", places, _utilisation),
        _sentence("Peak {memory}{place} changed", places, _memory),
        _sentence("Highest median throughput of the {device}{place} was", places, _speed),
    )
    return " ".join(filter(None, parts))


def _sizes(own: pandas.DataFrame, theirs: pandas.DataFrame) -> list[int]:
    """Returns the batch sizes of the axes: the same in both rows, so that they can be compared."""
    measured = own[~own["status"].isin(WORDS)]
    rows = measured if len(measured) else own
    return sorted({int(size) for part in (rows, theirs) for size in part["batch_size"].dropna()})


def _named(groups: list[run_series.Series]) -> list[run_series.Series]:
    """Returns the series with a label also where there is one alone: its framework."""
    if len(groups) != 1 or groups[0].frame.empty:
        return groups
    name = groups[0].frame["framework"].iloc[0]
    return [replace(groups[0], label=framework_names.TITLES[name])]


def _styles(
    groups: list[run_series.Series], others: list[run_series.Series]
) -> tuple[list[dict[str, Any]], list[as_published.Look]]:
    """Returns how our series and a document's look: a framework the same in both.

    A framework has a colour and a marker; where more is varied, line styles distinguish it.
    """
    named = [group.frame["framework"].iloc[0] for group in groups if len(group.frame)]
    there = [group.factors.get("framework") for group in others]
    order = dict.fromkeys([*named, *there])
    base = {name: canvas.line_style(index) for index, name in enumerate(order)}
    # What distinguishes a series from others of its framework.
    rests = [
        tuple(item for item in group.factors.items() if item[0] != "framework")
        for group in groups
        if len(group.frame)
    ]
    kinds = list(dict.fromkeys(rests))
    alone = len(kinds) < 2
    lines = [{} if alone else {"linestyle": line} for line in canvas.LINES]
    styles = [
        {**base[name], **lines[kinds.index(rest) % len(lines)]}
        for name, rest in zip(named, rests, strict=True)
    ]
    labels = {group.label: style for group, style in zip(groups, styles, strict=False)}
    looks = [
        as_published.Look(
            labels.get(group.label, {**base[name], **lines[0]}), group.label in labels
        )
        for group, name in zip(others, there, strict=True)
    ]
    return styles or [canvas.line_style(0)] * len(groups), looks


def _entries(
    groups: list[run_series.Series], styles: list[dict[str, Any]], others: list[run_series.Series]
) -> list[tuple[Any, str]]:
    """Returns a legend's handle and label of every series; what nobody drew has no line."""
    found = []
    there = {group.label for group in others}
    for group, style in zip(groups, styles, strict=True):
        statuses = group.frame["status"]
        if statuses.empty or not statuses.isin(WORDS).all():
            found.append((Line2D([], [], **style), group.label))
            continue
        drawn = style if group.label in there else {"linestyle": "none"}
        where = " here" if others else ""
        word = WORDS[statuses.iloc[0]]
        found.append((Line2D([], [], **drawn), f"{group.label}: {word}{where}"))
    return [(handle, label) for handle, label in found if label]


def _draw_panel(
    axes: Axes,
    own: pandas.DataFrame,
    panel: Panel,
    styled: list[tuple[run_series.Series, dict[str, Any]]],
    sizes: list[int],
) -> None:
    at = timings.batch_axis(axes, sizes)
    ends = []
    for group, style in styled:
        rows = timings.timed(group.frame, panel.column)
        timings.draw_medians(axes, at, rows, panel.column, style, flag=_FLAGS.get(panel.column))
        upper = rows.get(f"{panel.column}_q3", rows[panel.column])
        ends.append(np.fmax(rows[panel.column], upper).to_numpy(float))
    _scale(axes, panel, ends, sizes)
    devices = own["device"].unique().tolist()
    label = panel.labels.get(devices[0], panel.label) if len(devices) == 1 else panel.label
    axes.set_ylabel(label)
    timings.mark_out_of_memory(axes, at, own)


def _scale(axes: Axes, panel: Panel, drawn: list[np.ndarray], sizes: list[int]) -> None:
    """Scales the vertical axis: percentages from zero, others also logarithmic."""
    values = [part for part in drawn if len(part)]
    if not values:
        canvas.empty(axes, timings.EMPTY)
    elif panel.column == UTILISATION:
        timings.percent_axis(axes, values)
    else:
        timings.value_axis(axes, drawn, by_peaks=timings.is_dense(sizes))


def _subject_note(own: pandas.DataFrame) -> str:
    """Returns the machine and the framework, where the legend names neither."""
    named = own["framework"].dropna().unique().tolist()
    framework = f"Framework: {framework_names.TITLES[named[0]]}." if len(named) == 1 else ""
    return " ".join(filter(None, [timings.machine_note(own), framework]))


def _measured_note(own: pandas.DataFrame) -> str:
    devices = set(own["device"].dropna())
    parts = [text for device, text in _MEASURED.items() if device in devices]
    points = "Points: medians, of memory the peak; bars: quartiles."
    return f"{points} {'; '.join(parts)}." if parts else points


def _absent_note(own: pandas.DataFrame) -> str:
    """Returns which frameworks are not installed, or lack a GPU, and where, or an empty string."""
    several = own["machine"].nunique() > 1
    notes = []
    for status, word in WORDS.items():
        parts = []
        for machine, rows in own[own["status"] == status].groupby("machine", sort=False):
            named = ", ".join(framework_names.TITLES[name] for name in rows["framework"].unique())
            parts.append(f"{named} (on {machine})" if several else named)
        if parts:
            where = " on one" if status == NO_GPU else ""
            start = f"{wording.capital(word)}, and so not measured{where}"
            notes.append(f"{start}: {'; '.join(parts)}.")
    return " ".join(notes)


@dataclass(frozen=True)
class _Place:
    """The series of one device of one machine: what may be compared."""

    words: dict[str, str]  # name in a sentence's template -> word
    series: list[run_series.Series]


def _places(own: pandas.DataFrame) -> Iterator[_Place]:
    own = own.reset_index(drop=True)
    groups = timings.series(own)
    if own.empty:
        return
    pairs = list(own[["machine", "device"]].drop_duplicates().itertuples(index=False, name=None))
    machines = {machine for machine, _ in pairs}
    for machine, device in pairs:
        there = (own["machine"] == machine) & (own["device"] == device)
        named = {
            "device": device.upper(),
            "memory": "GPU memory" if device == "gpu" else "resident memory",
            "place": f" on {machine}" if len(machines) > 1 else "",
        }
        # Under labels that do not repeat the place.
        factors = run_series.varying(own[there])
        factors = factors if "framework" in factors else ["framework", *factors]
        inside = [group for group in groups if there[group.frame.index].all()]
        labels = [timings.constant_words(group.frame, factors) for group in inside]
        series = [replace(one, label=label) for one, label in zip(inside, labels, strict=True)]
        yield _Place(named, series)


def _sentence(start: str, places: list[_Place], describe: Callable[[_Place], str]) -> str:
    """Returns a sentence with what every place has to say, if anything."""
    described = [(place, text) for place in places if (text := describe(place))]
    if not described:
        return ""
    parts = [f"{start.format(**place.words)} {text}" for place, text in described[:_MOST_SHOWN]]
    more = words.further(len(described) - len(parts), "")
    return f"{'; '.join([parts[0], *map(wording.lower, parts[1:]), *more])}."


def _utilisation(place: _Place) -> str:
    """Returns the highest and the lowest utilisation at the smallest and largest batch size.

    What other processes disturbed is left out.
    """
    rows = _known(place, UTILISATION)
    if rows.empty or (rows := rows[~timings.is_disturbed(rows, "disturbed")]).empty:
        return ""
    sizes = sorted({rows["batch_size"].min(), rows["batch_size"].max()})
    parts = [f"{_extremes(rows[rows['batch_size'] == size])} at {size}" for size in sizes]
    return ", and ".join(parts).replace(" at ", " at batch size ", 1)


def _extremes(rows: pandas.DataFrame) -> str:
    low, high = (rows.loc[rows[UTILISATION].agg(pick)] for pick in ("idxmin", "idxmax"))
    ends = [f"{wording.fixed(row[UTILISATION], 1)} %" for row in (low, high)]
    if len(rows) > 1 and ends[0] == ends[1]:
        return f"{ends[0]} in {wording.every(len(rows), 'series')}"
    columns = [f"{UTILISATION}{end}" for end in QUARTILES]
    texts = [
        timings.by_quartiles(*map(float, row[columns]), wording.Unit(" %"), f"{row['label']}; ")
        for row in (low, high)
    ]
    return texts[0] if len(rows) == 1 else f"from {texts[0]} to {texts[1]}"


def _memory(place: _Place) -> str:
    """Returns the ratio of memory between both ends of the batch sizes, series by series."""
    rows = _known(place, MEMORY)
    if rows.empty:
        return ""
    by_sizes: dict[str, list[str]] = {}
    for label, chosen in rows.groupby("label", sort=False):
        ordered = chosen.sort_values("batch_size")
        first, last = ordered.iloc[0], ordered.iloc[-1]
        if first["batch_size"] < last["batch_size"] and first[MEMORY] > 0:
            sizes = f"from batch size {first['batch_size']} to {last['batch_size']}"
            ratio = wording.number(last[MEMORY] / first[MEMORY])
            by_sizes.setdefault(sizes, []).append(f"{ratio} ({label})")
    parts = []
    for sizes, ratios in by_sizes.items():
        more = words.further(len(ratios) - _MOST_SHOWN)
        parts.append(f"{sizes} by a factor of {', '.join([*ratios[:_MOST_SHOWN], *more])}")
    return ", and ".join(parts)


def _speed(place: _Place) -> str:
    rows = _known(place, IMAGES)
    if rows.empty:
        return ""
    best = rows.loc[rows[IMAGES].idxmax()]
    return f"{timings.rate(best[IMAGES])} at batch size {best['batch_size']} ({best['label']})"


def _known(place: _Place, column: str) -> pandas.DataFrame:
    """Returns the rows of a place that have a value, with their series' label."""
    parts = [timings.timed(group.frame, column).assign(label=group.label) for group in place.series]
    parts = [part for part in parts if len(part)]
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame()
