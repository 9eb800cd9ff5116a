"""Validation loss by updates, examples and seconds: what wins depends on what is held equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import (
    best_learning_rates,
    run_series,
    trajectories,
    updates_to_target,
)
from batchscope.catalogue import own_columns
from batchscope.catalogue.budget_kinds import TARGET
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas, words

_LOSS, _STATED = "validation_loss", "stated_target"
_LONGEST_BESIDE = 24  # letters of a series that a panel's heading has room for
_MOST_SHOWN = 4  # series described in words
_MOST_POINTS = 30  # of one line: enough where they are spread in equal ratios
# Column -> heading and label of its axis, its unit, and how much of it a run used.
_AXES = {
    "updates": ("By updates", "updates", "updates", "made"),
    "examples": ("By examples", "examples", "examples", "used"),
    "seconds": ("By training time", "time (s)", "s", "took"),
}


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run and evaluation: factors, status, what was used, and the loss."""
    found = against_batch_size.with_absent(tables.trajectories, tables.runs)
    for name in ("updates", "examples"):
        if (found[name].dropna() % 1 == 0).all():
            found[name] = found[name].astype("Int64")
    axes = list(_AXES)
    if (found["machine"] == own_columns.ELSEWHERE).all():
        if found["seconds"].isna().all():
            axes.remove("seconds")  # nobody is to time what was made elsewhere
        # Seeds took times of their own, and are drawn as one line.
        alike = [*run_series.varying(found), "batch_size", "updates"]
        found["seconds"] = found.groupby(alike, dropna=False)["seconds"].transform("mean")
    found[_STATED] = _stated(tables.comparisons)
    columns = [*against_batch_size.factor_columns(found), *axes, _LOSS, _STATED]
    return found[columns].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one row of panels per series."""
    groups, drawn = run_series.series(frame), _drawn(frame)
    height = 2.75 if len(groups) < 4 else 2.0
    figure, grid = canvas.panels(len(groups), len(drawn), height=height, sharex="col", sharey=True)
    lines = against_epoch.Lines.of(frame, len(drawn), len(groups))
    points = [min(each, _MOST_POINTS) for each in (lines.points, lines.mean_points)]
    lines = replace(lines, points=points[0], mean_points=points[1], singles=False)
    targets = [_target(group.frame) for group in groups]
    canvas.value_scale(grid[0, 0], against_epoch.scaled_by(frame, _LOSS))
    beside = max(len(group.label) for group in groups) <= _LONGEST_BESIDE
    for row, group, target in zip(grid, groups, targets, strict=True):
        evaluated = group.frame.dropna(subset=_LOSS)
        for axes, column in zip(row, drawn, strict=True):
            rows = evaluated.dropna(subset=column)
            if len(rows):
                replace(lines, along=column).draw(axes, rows, _LOSS)
            else:
                canvas.centred(axes, "not timed" if len(evaluated) else "no run")
            if np.isfinite(target):
                axes.axhline(target, color="#555555", linewidth=0.9, linestyle=canvas.LINES[2])
            title = _AXES[column][0]
            axes.set_title(wording.titled(title, group.label if beside else ""))
        if group.label and not beside:
            row[0].set_title(f"{group.label}\n{_AXES[drawn[0]][0]}")
        row[0].set_ylabel("validation loss (nats)")
    for axes, column in zip(grid[-1], drawn, strict=True):
        against_epoch.used_axis(axes, frame[column].dropna().astype(float))
        axes.set_xlabel(_AXES[column][1])
    against_epoch.value_axis(grid[0, 0], frame, _LOSS)
    against_epoch.legend(figure, lines.styles)
    untimed = "" if "seconds" in drawn or "seconds" not in frame else "No run was timed."
    band = against_epoch.band_note(frame, False)
    runs = against_epoch.runs(frame)
    canvas.notes(figure, runs, band, _target_note(frame, targets), untimed)
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns losses at equal updates and at equal time (else examples), and updates to a loss."""
    runs = _by_run(frame)
    if runs.empty:
        return ""
    timed = "seconds" in runs and runs["seconds"].notna().all()
    sentences = []
    for name in ("updates", "seconds" if timed else "examples"):
        *_, unit, verb = _AXES[name]
        used = f"{wording.grouped(runs[name].min())} {unit}"
        what = f"Mean validation loss after {used}, which every finished run {verb},"
        sentences.append(words.sentence(runs, f"loss_at_{name}", what))
    if (frame[_STATED] > 0).any() or not best_learning_rates.tuned_factor(runs):
        # Else every rate has a dotted loss of its own.
        what = "Mean number of updates to the dotted loss"
        sentences.append(_missed(frame) or words.sentence(runs, "to_target", what))
    return " ".join(filter(None, sentences))


def _missed(frame: pandas.DataFrame) -> str:
    """Returns median updates to the stated loss; empty where every run reached it.

    A run that never got there counts as infinity, of which there is no mean.
    """
    if not (stated := frame[_STATED].iloc[0]) > 0:
        return ""
    used = frame.drop(columns="seconds", errors="ignore")
    used = used.astype({"updates": float, "examples": float})
    factors, target = run_series.factor_columns(used), updates_to_target.Target(_LOSS, stated)
    scalings = updates_to_target.scalings(used, factors, [target])
    if not any(np.isinf(each.taken["updates"].values).any() for each in scalings):
        return ""
    parts = [_medians(each) for each in scalings[:_MOST_SHOWN]]
    parts += words.further(len(scalings) - len(parts))
    best = (
        f"{best_learning_rates.AT_BEST}, " if any(each.trainings.tuned for each in scalings) else ""
    )
    what = f"to the dotted loss, {best}with infinity where a run never got there, was"
    by = ", by series," if len(scalings) > 1 else ""
    return f"Median number of updates {what}{by} {'; '.join(parts)}."


def _medians(scaling: updates_to_target.Scaling) -> str:
    """Returns the median updates at both ends of the batch sizes, and how many got there."""
    known = [
        (size, found[~np.isnan(found)])
        for size, found in zip(scaling.batch_sizes, scaling.taken["updates"].values, strict=True)
    ]
    known = [(size, found) for size, found in known if len(found)]
    parts = []
    for size, found in [*known[:1], *known[1:][-1:]]:
        middle = float(np.median(found))
        value = wording.grouped(middle) if np.isfinite(middle) else "infinite"
        count = words.seeds((int(np.isfinite(found).sum()), len(found)))
        parts.append(f"{value} at {size} (reached by {count})")
    label = run_series.describe(scaling.factors)
    text = wording.listed(parts).replace(" at ", " at batch size ", 1)
    return f"{label}: {text}" if label else text


def _stated(compared: pandas.DataFrame) -> float:
    """Returns the validation loss that the configuration states as target; NaN without one."""
    if compared.empty:
        return np.nan
    known = compared[(compared["budget"] == TARGET) & (compared["budget_column"] == _LOSS)]
    values = known.loc[known["stated"] == 1, "budget_value"].astype(float)
    return values.iloc[0] if len(values) else np.nan


def _target(rows: pandas.DataFrame) -> float:
    """Returns the target of a series: the one that is stated, or the lowest that every run reached.

    NaN where none is stated and a run did not finish.
    """
    if (stated := rows[_STATED].iloc[0]) > 0:
        return stated
    finite = rows[np.isfinite(rows[_LOSS].astype(float)) & (rows["status"] == canvas.FINISHED)]
    lowest = finite.groupby(["batch_size", "seed"])[_LOSS].min()
    every = rows[["batch_size", "seed"]].drop_duplicates()
    return float(lowest.max()) if len(lowest) == len(every) else np.nan


def _target_note(rows: pandas.DataFrame, targets: list[float]) -> str:
    drawn = [target for target in targets if np.isfinite(target)]
    if not drawn:
        return ""
    if (stated := rows[_STATED].iloc[0]) > 0:
        return f"Dotted: {wording.number(stated)}, the target as stated."
    if len(targets) == 1:
        return f"Dotted: {wording.number(drawn[0])}, the lowest loss that every run reached."
    return "Dotted: the lowest loss that every run of the row reached; none where one failed."


def _drawn(frame: pandas.DataFrame) -> list[str]:
    """Returns the axes that a frame has; no time where nothing was timed."""
    known = [name for name in _AXES if name in frame]
    return [name for name in known if name != "seconds" or frame[name].notna().any()]


def _by_run(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns one row per finished run: what it used, and its losses at what all of them used."""
    finished = frame[(frame["status"] == canvas.FINISHED) & frame[_LOSS].notna()]
    keys = [*run_series.varying(frame), "batch_size", "seed", "status"]
    by_run = finished.groupby(keys, sort=False, dropna=False)
    runs = by_run[_drawn(frame)].max().astype(float)
    targets = {}
    for group in run_series.series(frame):
        targets.update(dict.fromkeys(group.frame.index, _target(group.frame)))
    budgets, found = runs.min(), []
    for _, run in by_run:
        row = {}
        for name, budget in budgets.items():
            used = run[name].astype(float)
            row[f"loss_at_{name}"] = trajectories.at_budget(used, run[_LOSS], budget, True)
        crossed = trajectories.first_crossing(run["updates"], run[_LOSS], targets[run.index[0]])
        found.append({**row, "to_target": crossed})
    return runs.assign(**pandas.DataFrame(found, runs.index)).reset_index()
