"""What each batch size takes to a target, as tables: a row per series and target, or per training.

The second has all that the first was fitted to, so that a figure is drawn from both alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope import wording
from batchscope.analysis import chosen_rates, intervals, run_series, updates_to_target
from batchscope.analysis.critical_batch_size import LEAST_SIZES, CriticalBatchSize
from batchscope.analysis.fastest_batch_size import FastestBatchSize
from batchscope.analysis.step_cost import Estimate
from batchscope.analysis.updates_to_target import AXES, Rates, Scaling, Step, Target
from batchscope.catalogue.decision_columns import CRITICAL, TO_TARGET

NAN = math.nan
_NONE: Mapping[str, Any] = {}


def target_text(target: Target) -> str:
    """Returns a target as the command line takes it; the file's own where it states none."""
    if not target.column:
        return "as in the file"
    return f"{target.column}={wording.shortest(float(f'{target.value:.6g}'))}"


def critical_text(fit: CriticalBatchSize, name: str = "B_crit") -> str:
    """Returns `B_crit 39 [27, 57]`, with an open end in words."""
    low, high = fit.low, fit.high
    known = not math.isnan(fit.critical_batch_size)
    value = f" {wording.number(fit.critical_batch_size)}" if known else ""
    if math.isnan(low) and math.isnan(high):
        return f"{name}{value} (not resolved: open at both ends)"
    if math.isnan(high):
        return f"{name}{value or ' beyond these sizes'}, at least {wording.number(low)}"
    if math.isnan(low):
        return f"{name}{value or ' below these sizes'}, at most {wording.number(high)}"
    return f"{name} {wording.bracketed(fit.critical_batch_size, low, high)}"


def evaluations(trajectories: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the evaluations of an experiment, as `updates_to_target` takes them.

    A run that left no evaluation has a row of its own, so that its rate counts as tried.
    """
    keys = ["machine", "run"]
    there = set(trajectories[keys].itertuples(index=False, name=None))
    absent = [key not in there for key in runs[keys].itertuples(index=False, name=None)]
    numbers = [*AXES, *updates_to_target.LOSSES, *updates_to_target.ACCURACIES]
    floats = {name: float for name in numbers if name in trajectories}
    rows = runs.loc[absent, [name for name in trajectories if name in runs]]
    rows = rows.reindex(columns=trajectories.columns).astype(floats)
    frame = trajectories.astype(floats)
    frame = pandas.concat([frame, rows], ignore_index=True) if len(rows) else frame
    return frame.drop(columns="seconds") if frame["seconds"].isna().all() else frame


def of_study(
    trajectories: pandas.DataFrame, runs: pandas.DataFrame, targets: Iterable[Target] = ()
) -> list[Scaling]:
    """Returns the scaling of every target and series with three batch sizes or more.

    By default to three targets of each series.
    """
    if trajectories.empty or runs["batch_size"].nunique() < LEAST_SIZES:
        return []
    frame = evaluations(trajectories, runs)
    found = updates_to_target.scalings(frame, run_series.factor_columns(frame), targets)
    own = updates_to_target.at_own_targets(trajectories)
    found = [each for each in found if own or each.target.column]
    return [each for each in found if len(each.batch_sizes) >= LEAST_SIZES]


def constants(runs: pandas.DataFrame) -> dict[str, Any]:
    """Returns the factors of an experiment: the value of those that have one, else None."""
    single = {name: runs[name].nunique(dropna=False) == 1 for name in runs}
    names = run_series.factor_columns(runs)
    return {name: runs[name].iloc[0] if single[name] else None for name in names}


def fits(scalings: Sequence[Scaling], constant: Mapping[str, Any] = _NONE) -> pandas.DataFrame:
    """Returns one row per series and target, with the `constants` of all; see `CRITICAL`."""
    rows = [{**constant, **each.factors, **_fit_row(each)} for each in scalings]
    return run_series.table(rows, CRITICAL, _factors(scalings, constant))


def trainings(scalings: Sequence[Scaling], constant: Mapping[str, Any] = _NONE) -> pandas.DataFrame:
    """Returns one row per series, target, batch size and seed; see `TO_TARGET`."""
    factors = [name for name in _factors(scalings, constant) if name != chosen_rates.RATE]
    rows: list[dict[str, Any]] = []
    for each in scalings:
        own = {**constant, **each.factors}
        rows += [{**own, **row} for row in _training_rows(each, own.get(chosen_rates.RATE, NAN))]
    return run_series.table(rows, TO_TARGET, factors)


def joined(fitted: pandas.DataFrame, each: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the rows of `trainings`, each beside its row of `fits`."""
    keys = [name for name in fitted if name in each and name != chosen_rates.RATE]
    beside = fitted.drop(columns=chosen_rates.RATE, errors="ignore")
    return each.merge(beside, on=keys, how="left", sort=False)


def restored(frame: pandas.DataFrame) -> list[Scaling]:
    """Returns the scalings that a table of `joined` was made of, but for the fit of the step."""
    if frame.empty:
        return []
    found, names = [], distinguishing(frame)
    for key, rows in frame.groupby(names, sort=False, dropna=False):
        values = dict(zip(names, key, strict=True))
        column, value = values.pop("target_column"), float(values.pop("target_value"))
        target = Target("" if pandas.isna(column) else column, value)
        found.append(_restored(values, target, rows))
    return found


def distinguishing(frame: pandas.DataFrame) -> list[str]:
    """Returns the columns of a table of `joined` that distinguish its series and targets."""
    names = [name for name in run_series.varying(frame) if name != chosen_rates.RATE]
    return [*names, "target_column", "target_value"]


def of_target(frame: pandas.DataFrame, target: Target) -> pandas.DataFrame:
    """Returns the rows of a target, of a table of `joined`."""
    if not target.column:
        return frame[frame["target_value"].isna()]
    same = (frame["target_column"] == target.column) & (frame["target_value"] == target.value)
    return frame[same]


def factors_first(names: Iterable[str]) -> list[str]:
    """Returns names in the order of a table: factors as the registry has them, then others."""
    names = list(dict.fromkeys(names))
    known = run_series.factor_columns(pandas.DataFrame(columns=names))
    return [*known, *(name for name in names if name not in known)]


def _factors(scalings: Sequence[Scaling], constant: Mapping[str, Any]) -> list[str]:
    return factors_first([*constant, *(name for each in scalings for name in each.factors)])


def _target_columns(target: Target) -> dict[str, Any]:
    names = ("target", "target_column", "target_value")
    return dict(zip(names, (target_text(target), target.column, target.value), strict=True))


def constants_found(
    fit: CriticalBatchSize | None, fastest: FastestBatchSize | None
) -> dict[str, Any]:
    """Returns the columns of both fits, of those that there are."""
    row: dict[str, Any] = {}
    if fit:
        critical = (fit.critical_batch_size, fit.low, fit.high)
        row |= {
            "points": fit.points,
            "updates_min": fit.updates_min,
            "examples_min": fit.examples_min,
            **intervals.columns("critical_batch_size", critical),
            "by_seed": int(fit.by_seed),
            "residual": fit.residual,
            "lack_of_fit": fit.lack_of_fit,
        }
    if fastest:
        best = (fastest.batch_size, fastest.batch_size_low, fastest.batch_size_high)
        row |= intervals.columns("fastest_batch_size", best)
        row["fastest_seconds"] = fastest.seconds
        row["fastest_from"], row["fastest_to"] = fastest.low, fastest.high
    return row


def _fit_row(scaling: Scaling) -> dict[str, Any]:
    row = {**_target_columns(scaling.target), "points": 0}
    row |= constants_found(scaling.fit, scaling.fastest)
    if scaling.step:
        row["fixed_seconds"], row["seconds_per_image"], half = scaling.step
        row |= intervals.columns("half_batch", (end if math.isfinite(end) else NAN for end in half))
    row["measured_fastest"] = scaling.measured_fastest
    return row


def _training_rows(scaling: Scaling, rate: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of one series and target; `rate` is NaN where it has several."""
    rates, timed = (scaling.rates.get(axis) for axis in ("updates", "seconds"))
    along = scaling.along.get(chosen_rates.RATE)
    for at, size in enumerate(scaling.batch_sizes):
        own = along[at] if along else rate
        shared: dict[str, Any] = {"batch_size": size}
        if rates:
            shared |= {
                "chosen_learning_rate": rates.chosen[at],
                "on_edge": int(rates.on_edge[at]),
                "diverged_learning_rates": " ".join(map(wording.shortest, rates.diverged[at])),
                "never_learning_rates": " ".join(map(wording.shortest, rates.never[at])),
            }
        if timed:
            shared |= {
                "seconds_chosen_learning_rate": timed.chosen[at],
                "seconds_on_edge": int(timed.on_edge[at]),
            }
        for column, seed in enumerate(scaling.seeds):
            taken = {axis: float(found[at, column]) for axis, found in scaling.measured.items()}
            if math.isnan(taken["updates"]):
                continue
            yield {
                **_target_columns(scaling.target),
                **shared,
                "seed": seed,
                "learning_rate": rates.read[at, column] if rates else own,
                "seconds_learning_rate": timed.read[at, column] if timed else NAN,
                "reached": int(math.isfinite(taken["updates"])),
                "at_first": int(scaling.at_first[at, column]),
                **{axis: value if math.isfinite(value) else NAN for axis, value in taken.items()},
            }


def _unlisted(text: Any) -> tuple[float, ...]:
    return tuple(float(part) for part in str(text).split()) if pandas.notna(text) else ()


def _restored(factors: dict[str, Any], target: Target, rows: pandas.DataFrame) -> Scaling:
    columns = ["learning_rate", "seconds_learning_rate", "at_first", "reached", *AXES]
    cells = rows.set_index(["batch_size", "seed"])[columns].astype(float)
    cubes = {name: cells[name].unstack("seed").sort_index().sort_index(axis=1) for name in columns}
    sizes, seeds = (axis.tolist() for axis in cubes["reached"].axes)
    read, timed_read = (cubes[name].to_numpy() for name in columns[:2])
    at_first = cubes["at_first"].to_numpy() == 1
    # A training that never got there has no numbers, and counts as infinity.
    measured = {
        axis: cubes[axis].mask(cubes["reached"] == 0, math.inf).to_numpy()
        for axis in AXES
        if axis == "updates" or rows[axis].notna().any()
    }
    first = rows.iloc[0]
    step, rates = None, {}
    if pandas.notna(first["fixed_seconds"]):
        half = Estimate(*(float(first[f"half_batch{end}"]) for end in intervals.ENDS))
        step = Step(float(first["fixed_seconds"]), float(first["seconds_per_image"]), half)
    if rows["on_edge"].notna().any():
        rates["updates"] = _rates(rows, read)
        if np.isfinite(timed_read).any():
            rates["seconds"] = _rates(rows, timed_read, "seconds_")
    return Scaling(factors, target, sizes, seeds, measured, at_first, step, rates=rates)


def _rates(rows: pandas.DataFrame, read: np.ndarray, by: str = "") -> Rates:
    """Returns the rates that seeds were read at, with what the columns of a prefix say of them."""
    first = rows.groupby("batch_size").first()
    return Rates(
        tuple(sorted(set(read[~np.isnan(read)].tolist()))),
        first[f"{by}chosen_learning_rate"].to_numpy(float),
        first[f"{by}on_edge"].to_numpy(bool),
        read,
        tuple(map(_unlisted, first["diverged_learning_rates"])),
        tuple(map(_unlisted, first["never_learning_rates"])),
    )
