"""A document's numbers beside our own: in panels of their own, and never with our intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from batchscope.analysis import run_series
from batchscope.catalogue import sweep_names
from batchscope.figures.drawing import canvas

HERE, THERE = "here", "as published"
_GROUND = "#f3f3ee"  # behind a document's numbers, so that nobody takes them for ours
_FACTORS = sweep_names.EVERY_FACTOR.keys() - {"batch_size", "seed"}
_WHOLE = [name for name, factor in sweep_names.EVERY_FACTOR.items() if factor.kind == "int"]


class Look(NamedTuple):
    """How a document's series is drawn."""

    style: dict[str, Any]
    shared: bool  # whether a series of our own looks the same, and is its like


def below(frame: pandas.DataFrame, table: pandas.DataFrame, figure: str) -> pandas.DataFrame:
    """Returns a figure's rows and, below them, a document's: one per series and batch size.

    A document's rows are those with a `document`; `series` is their label. Without any, the
    figure's own rows come back as they are.
    """
    chosen = table[table["figure"] == figure] if len(table) else table
    if chosen.empty:
        return frame
    shared = [name for name in frame.columns if name in chosen.columns and name in _FACTORS]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in chosen.to_dict("records"):
        series = "" if pandas.isna(row["series"]) else row["series"]
        first = {"document": row["document"], "series": series, "batch_size": row["batch_size"]}
        named = {name: row[name] for name in shared if not pandas.isna(row[name])}
        found = rows.setdefault((series, row["batch_size"]), {**first, **named})
        found[row["column"]] = row["value"]
    theirs = pandas.DataFrame(list(rows.values()))
    whole = {name: "Int64" for name in frame.columns if frame[name].dtype == "int64"}
    parts = [part for part in (frame.astype(whole), theirs) if len(part)]
    new = [name for name in theirs.columns if name not in frame.columns]
    return pandas.concat(parts, ignore_index=True).reindex(columns=[*frame.columns, *new])


def split(frame: pandas.DataFrame) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Returns a figure's own rows, as they were, and those of a document."""
    if "document" not in frame:
        return frame, frame.iloc[:0]
    theirs = frame["document"].notna()
    own = frame[~theirs].drop(columns=["document", "series"]).infer_objects()
    # What is whole came back as fractions, since a document's rows have gaps there.
    whole = {name: int for name in own if name in _WHOLE and own[name].notna().all()}
    return own.astype(whole), frame[theirs].astype({"batch_size": int}).fillna({"series": ""})


def series(theirs: pandas.DataFrame) -> list[run_series.Series]:
    """Returns a document's series in their order, each by batch size."""
    if theirs.empty:
        return []
    found = []
    for label, rows in theirs.groupby("series", sort=False):
        known = [name for name in rows if name in _FACTORS and rows[name].notna().all()]
        factors = {name: rows[name].iloc[0] for name in known}
        ordered = rows.sort_values("batch_size", kind="stable")
        found.append(run_series.Series(label, factors, ordered))
    return found


def looks(own: list[run_series.Series], theirs: list[run_series.Series]) -> list[Look]:
    """Returns the looks of a document's series: those of their likes here.

    The like of a series is the one with the same label, or else the only one with the same
    factors; a series without one has a look that none of ours has.
    """
    found: list[int] = []
    for group in theirs:
        labelled = [index for index, one in enumerate(own) if one.label == group.label]
        alike = [index for index, one in enumerate(own) if _agrees(one, group.factors)]
        chosen = labelled or (alike if len(alike) == 1 else [])
        free = [index for index in chosen if index not in found]
        found.append(free[0] if free else max([len(own) - 1, *found]) + 1)
    return [Look(canvas.line_style(index), index < len(own)) for index in found]


def _agrees(group: run_series.Series, factors: dict[str, Any]) -> bool:
    return bool(factors) and all(
        (group.frame[name] == value).all() for name, value in factors.items()
    )


def draw(
    axes: Axes,
    at: Callable[[Any], np.ndarray],
    groups: list[run_series.Series],
    chosen: list[Look],
    column: str,
) -> list[np.ndarray]:
    """Draws a document's numbers of one column; returns them, series by series."""
    axes.set_facecolor(_GROUND)
    drawn = []
    for look, group in zip(chosen, groups, strict=True):
        if column not in group.frame:
            continue
        rows = group.frame[group.frame[column].notna()]
        drawn.append(rows[column].to_numpy(float))
        points = {"linewidth": 1.2, "markersize": 5 if len(rows) <= 16 else 3, **canvas.EDGED}
        axes.plot(at(rows["batch_size"].to_numpy(float)), drawn[-1], **{**points, **look.style})
    return drawn


def entries(
    own: list[tuple[Any, str]], theirs: list[run_series.Series], chosen: list[Look]
) -> list[tuple[Any, str]]:
    """Returns the entries of a legend over both: our own, and what only the document has."""
    more = [
        (Line2D([], [], **look.style), f"{group.label or 'the document'} ({THERE})")
        for look, group in zip(chosen, theirs, strict=True)
        if not look.shared
    ]
    return [(handle, label or HERE) for handle, label in own] + more


def note(theirs: pandas.DataFrame) -> str:
    """Returns where the numbers come from; empty where there are none."""
    if theirs.empty:
        return ""
    documents = "; ".join(theirs["document"].unique())
    return (
        f"{THERE.capitalize()} (shaded): {documents}. Numbers of that document's own machine, data "
        "and network, without intervals and on scales of their own: for contrast."
    )
