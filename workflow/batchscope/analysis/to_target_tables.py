"""What each batch size takes to a target, as tables: a row per series and target, or per training.

The second has all that the first was fitted to, so that a figure is drawn from both alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import chosen_rates, intervals, run_series, updates_to_target
from batchscope.analysis.targets import Target, at_own_targets
from batchscope.analysis.trainings import of_experiment
from batchscope.analysis.updates_to_target import Scaling
from batchscope.catalogue.decision_columns import CRITICAL, TO_TARGET
from batchscope.catalogue.own_columns import LEAST_SIZES

NAN = math.nan
_NONE: Mapping[str, Any] = {}


def target_text(target: Target) -> str:
    """Returns a target as the command line takes it; the file's own where it states none."""
    if not target.column:
        return "as in the file"
    return f"{target.column}={wording.shortest(float(f'{target.value:.6g}'))}"


def of_study(
    trajectories: pandas.DataFrame, runs: pandas.DataFrame, targets: Iterable[Target] = ()
) -> list[Scaling]:
    """Returns the scaling of every target and series with three batch sizes or more.

    By default to three targets of each series.
    """
    if trajectories.empty or runs["batch_size"].nunique() < LEAST_SIZES:
        return []
    series = of_experiment(runs, trajectories)
    series = [each for each in series if len(each.axes[0]) >= LEAST_SIZES]
    found, own = updates_to_target.of_series(series, targets), at_own_targets(trajectories)
    return [each for each in found if own or each.target.column]


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
    rows = [
        {**constant, **each.factors, **row} for each in scalings for row in _training_rows(each)
    ]
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
        (row["fixed_seconds"], *_), (row["seconds_per_image"], *_), half, *_ = scaling.step
        row |= intervals.columns("half_batch", (end if math.isfinite(end) else NAN for end in half))
    if best:
        row |= intervals.columns("fastest_batch_size", best[:3])
        row |= {"fastest_seconds": best.seconds, "fastest_from": best.low, "fastest_to": best.high}
    row["examples_fewest"] = scaling.measured_fastest("examples")
    row["measured_fastest"] = scaling.measured_fastest("seconds")
    return row


def _training_rows(scaling: Scaling) -> Iterator[dict[str, Any]]:
    """Yields the rows of one series and target."""
    each, taken, left_out = scaling.trainings, scaling.taken, scaling.left_out()
    sizes, _, seeds = each.axes
    rates = {axis: each.rates(choice.read) for axis, choice in taken.items()}
    chosen = (("", "updates"), ("seconds_", "seconds")) if each.tuned else ()
    for at, size in enumerate(sizes):
        shared: dict[str, Any] = {**_target_columns(scaling.target), "batch_size": size}
        for name, axis in chosen:
            if axis in taken:
                shared[f"{name}chosen_learning_rate"] = taken[axis].rates[at]
                shared[f"{name}on_edge"] = int(taken[axis].on_edge[at])
        for why, of_sizes in left_out.items() if each.tuned else ():
            shared[f"{why}_learning_rates"] = " ".join(map(wording.shortest, of_sizes[at]))
        for column, seed in enumerate(seeds):
            found = {axis: float(choice.values[at, column]) for axis, choice in taken.items()}
            if math.isnan(found["updates"]):
                continue
            timed = each.tuned and "seconds" in taken
            yield {
                **shared,
                "seed": seed,
                "learning_rate": rates["updates"][at, column],
                "seconds_learning_rate": rates["seconds"][at, column] if timed else NAN,
                "reached": int(math.isfinite(found["updates"])),
                "at_first": int(scaling.at_first[at, column]),
                **{axis: value if math.isfinite(value) else NAN for axis, value in found.items()},
            }
