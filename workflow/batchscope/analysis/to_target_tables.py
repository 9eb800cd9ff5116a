"""What each batch size takes to a target, as tables: a row per series and target, or per training.

The second has all that the first was fitted to, so that a figure is drawn from both alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import (
    chosen_rates,
    fastest_batch_size,
    intervals,
    run_series,
    updates_to_target,
)
from batchscope.analysis.updates_to_target import Scaling, Target
from batchscope.catalogue.decision_columns import CRITICAL, TO_TARGET
from batchscope.catalogue.own_columns import AXES, LEAST_SIZES, OUTCOMES

NAN = math.nan
_NONE: Mapping[str, Any] = {}


def target_text(target: Target) -> str:
    """Returns a target as the command line takes it; the file's own where it states none."""
    if not target.column:
        return "as in the file"
    return f"{target.column}={wording.shortest(float(f'{target.value:.6g}'))}"


def evaluations(trajectories: pandas.DataFrame, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the evaluations of an experiment, as `updates_to_target` takes them.

    A run that left no evaluation has a row of its own, so that its rate counts as tried.
    """
    keys = ["machine", "run"]
    there = set(trajectories[keys].itertuples(index=False, name=None))
    absent = [key not in there for key in runs[keys].itertuples(index=False, name=None)]
    floats = {name: float for name in (*AXES, *OUTCOMES) if name in trajectories}
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
    names = run_series.factor_columns(runs)
    single = {name: runs[name].nunique(dropna=False) == 1 for name in names}
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


def _factors(scalings: Sequence[Scaling], constant: Mapping[str, Any]) -> list[str]:
    """Returns the factors in the order of a table: as the registry has them, then others."""
    names = list(dict.fromkeys([*constant, *(name for each in scalings for name in each.factors)]))
    known = run_series.factor_columns(pandas.DataFrame(columns=names))
    return [*known, *(name for name in names if name not in known)]


def _target_columns(target: Target) -> dict[str, Any]:
    names = ("target", "target_column", "target_value")
    return dict(zip(names, (target_text(target), target.column, target.value), strict=True))


def _fit_row(scaling: Scaling) -> dict[str, Any]:
    row, fit, best = {**_target_columns(scaling.target), "points": 0}, scaling.fit, scaling.fastest
    if fit:
        names = ("points", "updates_min", "examples_min", "residual", "lack_of_fit")
        row |= {name: getattr(fit, name) for name in names}
        critical = (fit.critical_batch_size, fit.low, fit.high)
        row |= intervals.columns("critical_batch_size", critical)
        row |= {"by_seed": int(fit.by_seed), "stray": " ".join(map(str, fit.stray))}
    if scaling.step:
        row["fixed_seconds"], row["seconds_per_image"], half = scaling.step
        row |= intervals.columns("half_batch", (end if math.isfinite(end) else NAN for end in half))
    if best:
        row |= intervals.columns("fastest_batch_size", best[:3])
        row |= {"fastest_seconds": best.seconds, "fastest_from": best.low, "fastest_to": best.high}
    examples = scaling.measured["examples"]
    row["examples_fewest"] = fastest_batch_size.measured_fastest(scaling.batch_sizes, examples)
    row["measured_fastest"] = scaling.measured_fastest
    return row


def _training_rows(scaling: Scaling, rate: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of one series and target; `rate` is NaN where it has several."""
    rates, timed = (scaling.rates.get(axis) for axis in ("updates", "seconds"))
    along = scaling.along.get(chosen_rates.RATE)
    for at, size in enumerate(scaling.batch_sizes):
        shared: dict[str, Any] = {**_target_columns(scaling.target), "batch_size": size}
        for name, of in (("", rates), ("seconds_", timed)):
            if of:
                shared[f"{name}chosen_learning_rate"] = of.chosen[at]
                shared[f"{name}on_edge"] = int(of.on_edge[at])
        if rates:
            for name, left_out in (("diverged", rates.diverged), ("never", rates.never)):
                shared[f"{name}_learning_rates"] = " ".join(map(wording.shortest, left_out[at]))
        for column, seed in enumerate(scaling.seeds):
            taken = {axis: float(found[at, column]) for axis, found in scaling.measured.items()}
            if math.isnan(taken["updates"]):
                continue
            own = along[at] if along else rate
            yield {
                **shared,
                "seed": seed,
                "learning_rate": rates.read[at, column] if rates else own,
                "seconds_learning_rate": timed.read[at, column] if timed else NAN,
                "reached": int(math.isfinite(taken["updates"])),
                "at_first": int(scaling.at_first[at, column]),
                **{axis: value if math.isfinite(value) else NAN for axis, value in taken.items()},
            }
