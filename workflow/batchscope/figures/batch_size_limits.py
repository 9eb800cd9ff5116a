"""How large a batch may be: what fits, where throughput levels off, how far an outcome holds.

One horizontal axis of batch sizes; one row for every limit of the machine and for every series.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from batchscope import wording
from batchscope.analysis import comparisons, run_series, step_cost
from batchscope.catalogue import run_factors
from batchscope.catalogue.budget_kinds import END
from batchscope.catalogue.decision_columns import COMPARISONS
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.figures import Tables
from batchscope.figures.drawing import canvas, verdict_marks

FITS, KNEE = "fits", "knee"
NO_KNEE, RISES, NOISY = "no_knee", "still_rising", "too_noisy"
_LIMIT_COLUMNS = ("bound", "memory_mb")
_LOOP_FACTORS = tuple(run_factors.TIMING_ONLY_FACTORS)
_ROW = 0.3  # inches
_LABEL = 34  # characters in a line
_MOST_SHOWN = 6  # series described one by one
# Verdicts of which one suffices to show that no batch size is within the margin.
_WITHOUT = (Verdict.NOT_RESOLVED, Verdict.BEYOND)
_SERIES, _MACHINE = canvas.COLOURS[:2]


class _Row(NamedTuple):
    """One row: words beside it, its entries in the frame, and whether it is a machine's limit."""

    label: str
    entries: pandas.DataFrame
    limit: bool


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per limit of the machine, and per series, outcome and batch size.

    `limit` is `fits` or `knee`, or empty in a series' rows; the largest batch that fits has the
    bound of its search and its memory.
    """
    machine = pandas.DataFrame(_machine_limits(tables.limits)).drop_duplicates()
    ends = tables.comparisons[tables.comparisons["budget"] == END]
    own = [*run_series.varying(ends), *COMPARISONS]
    columns = dict.fromkeys(["limit", *run_series.varying(machine), *own, *_LIMIT_COLUMNS])
    rows = pandas.concat([machine, ends[list(dict.fromkeys(own))]], ignore_index=True)
    return rows.reindex(columns=list(columns))


def _machine_limits(table: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    """Yields the limits in the rows of limits.csv, with their factors."""
    for row in table.to_dict("records"):
        factors = {name: row[name] for name in run_series.factor_columns(table)}
        if pandas.notna(row["max_batch_size"]):
            # Memory does not depend on what drives the steps.
            memory = {name: v for name, v in factors.items() if name not in _LOOP_FACTORS}
            values = {"bound": row["max_batch_size_bound"], "memory_mb": row["memory_limit_mb"]}
            yield {**memory, "limit": FITS, "batch_size": row["max_batch_size"], **values}
        if step_cost.too_noisy(row["noise_floor"]):
            yield {**factors, "limit": KNEE, "bound": NOISY}
        elif pandas.notna(row["still_rising"]):
            fitted = row["knee_fitted"]
            knee = row["knee_batch_size"] if pandas.isna(fitted) else fitted
            bound = NO_KNEE if pandas.isna(knee) else "resolved"
            bound = RISES if row["still_rising"] else bound
            yield {**factors, "limit": KNEE, "batch_size": knee, "bound": bound}


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure."""
    rows = [*_machine_rows(frame), *_series_rows(frame)]
    wrapped = any(len(row.label) > _LABEL for row in rows)
    height = (_ROW + 0.1 * wrapped) * max(len(rows), 2)
    figure = Figure(figsize=(7.2, 1.0 + height), layout="constrained")
    axes = figure.subplots()
    known = frame["batch_size"].dropna()
    for index, row in enumerate(rows):
        height = len(rows) - 1 - index
        if row.limit:
            _draw_limit(axes, row.entries.iloc[0], height, known)
        else:
            _draw_series(axes, row.entries, height)
    # The axis must keep its width, however much the labels of the series hold.
    labels = ["\n".join(textwrap.wrap(row.label, _LABEL)) for row in reversed(rows)]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_title("Batch sizes within each limit")
    if not rows or _none_finished(frame):
        canvas.empty(axes)
    sizes = sorted({round(size) for size in known})
    canvas.batch_size_axis(axes, sizes, room=0.05)
    handles, labels = verdict_marks.legend(
        map(_shown, frame.dropna(subset="verdict").to_dict("records"))
    )
    if any(row.limit for row in rows):
        handles.append(Line2D([], [], color=_MACHINE, linewidth=5, alpha=0.5))
        labels.append("limit of the machine")
    canvas.legend(figure, handles, labels)
    canvas.notes(figure, pandas.DataFrame({"status": []}), _note(frame))
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns how far each series reaches, and the machine's limits."""
    sentences = []
    for chosen in [] if _none_finished(frame) else _outcomes(frame):
        parts, few, none, alone = [], 0, 0, 0
        for series in run_series.series(chosen):
            if comparisons.range_within(series.frame):
                parts.append(_reach(series))
            elif series.frame["verdict"].isin(_WITHOUT).any():
                none += 1
            elif series.frame["reason"].eq(Reason.ALONE).any():
                alone += 1
            else:
                few += 1
        what = f"a {_within(chosen)} of every other's"
        if len(parts) > 2:
            sentences.append(f"The largest batch size with {what} {_range(chosen)}.")
        if parts:
            more = f" and {len(parts) - _MOST_SHOWN} more" if len(parts) > _MOST_SHOWN else ""
            sentences.append(f"Largest batch with {what}: {'; '.join(parts[:_MOST_SHOWN])}{more}.")
        several = len(parts) + few + none + alone > 1
        if none:
            whose = f" in {none} series" if several else ""
            sentences.append(f"No batch size is shown to have {what}{whose}.")
        if alone:
            whose = f" in {alone} series" if several else ""
            one = f"Only one batch size has no failed run{whose}"
            sentences.append(f"{one}: there is none to compare it with for {what}.")
        if few:
            whose = f" of {few} series" if several else ""
            sentences.append(f"Too few pairs of runs finished{whose} for a verdict on {what}.")
    limits = frame[frame["limit"].notna()].to_dict("records")
    sentences += map(_limit_sentence, limits)
    return " ".join(dict.fromkeys(sentences))


def _range(chosen: pandas.DataFrame) -> str:
    """Returns the least and the most of the largest batch sizes of series, with these."""
    reach = [
        (within[1], run_series.describe(series.factors))
        for series in run_series.series(chosen)
        if (within := comparisons.range_within(series.frame))
    ]
    ends = [function(size for size, _ in reach) for function in (min, max)]
    if ends[0] == ends[1]:
        return f"is {ends[0]} in {wording.every(len(reach), 'series')}"
    parts = []
    for end in ends:
        own = [series for size, series in reach if size == end]
        parts.append(f"{end} ({own[0] if len(own) == 1 else f'{len(own)} series'})")
    return f"is between {wording.listed(parts)}"


def _none_finished(frame: pandas.DataFrame) -> bool:
    return bool(frame["mean"].isna().all())


def _reach(series: run_series.Series) -> str:
    """Returns `adam: 64 (from 16 on; 128 is not resolved: ... against 32)`."""
    smallest, largest = comparisons.range_within(series.frame) or (0, 0)
    above = series.frame[series.frame["batch_size"] > largest].sort_values("batch_size")
    why = "the largest tried"
    if len(above):
        first = above.iloc[0]
        words_ = {
            Verdict.BEYOND: "is beyond it",
            Reason.FAILED: "has a failed run",
            Reason.NO_VALUE: "has no run, or no value",
        }
        why = f"{int(first['batch_size'])} {words_.get(_shown(first), 'is not resolved')}"
        if pandas.notna(first["estimate"]):
            ends = (first["estimate"], first["low"], first["high"])
            unit = wording.POINTS if first["outcome"].endswith("accuracy") else wording.PLAIN
            rounded = wording.estimate(*ends, unit=unit)
            why += f": {rounded.value}{unit.suffix} against {int(first['against'])}, "
            why += f"interval {rounded.low} to {rounded.high}"
    name = f"{run_series.describe(series.factors)}: " if series.factors else ""
    return f"{name}{largest} (from {smallest} on; {why})"


def _limit_sentence(row: dict[str, Any]) -> str:
    where = f" on {row['machine']}" if isinstance(row.get("machine"), str) else ""
    if row["limit"] == FITS:
        memory = f"{wording.number(row['memory_mb'])} MB of memory"
        if row["bound"] == "most_fits":
            return f"All that was tried fits into {memory}{where}, up to {int(row['batch_size'])}."
        return f"The largest batch that fits into {memory}{where}: {int(row['batch_size'])}."
    if row["bound"] == NO_KNEE:
        return f"Throughput{where} stays at 90 % of its plateau from no batch size on: no knee."
    if row["bound"] == NOISY:
        return f"Where throughput{where} levels off is {step_cost.TOO_NOISY}."
    if row["bound"] == RISES:
        return f"Throughput{where} still rises at the largest batch size timed: no knee."
    return f"Throughput{where} reaches 90 % of its plateau at {wording.number(row['batch_size'])}."


def _machine_rows(frame: pandas.DataFrame) -> list[_Row]:
    found = []
    for limit, what in ((FITS, "fits into memory"), (KNEE, "90 % of the plateau")):
        chosen = _known(frame[frame["limit"] == limit])
        # The position of a limit is no factor of what it is a limit of.
        for series in run_series.series(chosen.assign(batch_size=0)):
            for index in series.frame.index:
                entry = chosen.loc[[index]]
                memory = entry["memory_mb"].iloc[0] if limit == FITS else None
                name = what.replace("memory", f"{wording.number(memory)} MB") if memory else what
                found.append(_Row(name + wording.aside(series.label), entry, True))
    return found


def _series_rows(frame: pandas.DataFrame) -> list[_Row]:
    outcomes = _outcomes(frame)
    found = []
    for chosen in outcomes:
        for series in run_series.series(chosen):
            label = run_series.describe(series.factors)
            if not label or len(outcomes) > 1:
                label = f"{_within(chosen)}: {label}".removesuffix(": ")
            found.append(_Row(label, series.frame, False))
    return found


def _outcomes(frame: pandas.DataFrame) -> list[pandas.DataFrame]:
    """Returns the rows of each outcome."""
    rows = _known(frame[frame["outcome"].notna()])
    return [chosen for _, chosen in rows.groupby("outcome", sort=False)]


def _within(chosen: pandas.DataFrame) -> str:
    """Returns `test accuracy within 0.5 points`, of the rows of an outcome."""
    return " within ".join(_stated(chosen))


def _stated(chosen: pandas.DataFrame) -> tuple[str, str]:
    """Returns the words of an outcome and its margin."""
    outcome, margin = chosen["outcome"].iloc[0], float(chosen["margin"].iloc[0])
    shown = wording.points(margin) if outcome.endswith("accuracy") else wording.number(margin)
    return outcome.replace("_", " "), shown


def _known(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Returns rows without the factors that only the other kind of rows has."""
    unknown = [name for name in run_series.factor_columns(rows) if rows[name].isna().all()]
    return rows.drop(columns=unknown)


def _draw_limit(axes: Axes, entry: pandas.Series, height: int, known: pandas.Series) -> None:
    left = np.log2(float(known.min())) - 0.5
    if pandas.isna(entry["batch_size"]):
        why = {RISES: "beyond what was timed", NOISY: step_cost.TOO_NOISY}
        look = {"va": "center", "fontsize": 8, "color": "#555555"}
        axes.annotate(why.get(entry["bound"], "none"), (left + 0.5, height), **look)
        return
    size = float(entry["batch_size"])
    at = np.log2(size)
    if entry["limit"] == FITS:
        axes.plot([left, at], [height] * 2, color=_MACHINE, linewidth=6, alpha=0.5, zorder=1)
    axes.plot(at, height, "|", color=_MACHINE, markersize=15, markeredgewidth=2.2, zorder=2)
    text = f"{wording.number(size) if entry['limit'] == KNEE else int(size)}"
    text += " or more" if entry["bound"] == "most_fits" else ""
    _beside(axes, text, at, height, _MACHINE)


def _draw_series(axes: Axes, rows: pandas.DataFrame, height: int) -> None:
    entries = rows.sort_values("batch_size")
    if within := comparisons.range_within(entries):
        ends = np.log2(within)
        axes.plot(ends, [height] * 2, color=_SERIES, linewidth=6, alpha=0.3, zorder=1)
        _beside(axes, str(within[1]), ends[1], height, _SERIES)
    for entry in entries.to_dict("records"):
        at = np.log2(float(entry["batch_size"]))
        axes.plot(at, height, **verdict_marks.look(_shown(entry)), zorder=3)


def _shown(entry: Any) -> str:
    return verdict_marks.shown(entry["verdict"], entry["reason"])


def _beside(axes: Axes, text: str, at: float, height: int, colour: str) -> None:
    look = {"fontsize": 8, "fontweight": "bold", "color": colour, "zorder": 4}
    canvas.annotate(axes, text, (at, height), (5, 5), **look)


def _note(frame: pandas.DataFrame) -> str:
    stated = map(_stated, _outcomes(frame))
    parts = [f"{outcome}: margin {margin}, stated beforehand" for outcome, margin in stated]
    seeds = frame["n"].dropna()
    if len(seeds):
        parts.append(f"paired seeds: {int(seeds.max())}")
    if (frame["verdict"] == Verdict.PROVISIONAL).any():
        parts.append(verdict_marks.WORDS[Verdict.PROVISIONAL])
    return f"{wording.capital('; '.join(parts))}." if parts else ""
