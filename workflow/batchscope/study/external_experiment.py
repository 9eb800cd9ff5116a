"""Plan an experiment of external runs, and check keys against the columns of logs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from batchscope.errors import ConfigError, UserError
from batchscope.problems import Place, Problem, received
from batchscope.study import budget_kinds, checks, figure_checks, figure_names, own_columns
from batchscope.study.experiments import ExternalExperiment, LoggedExperiment
from batchscope.study.plan import PlannedExperiment


def read(
    place: Place,
    keys: ExternalExperiment,
    folder: Path,
    problems: list[Problem],
    warn: Callable[[Problem], None],
) -> Any:
    """Return the runs of an experiment; None if their logs are invalid."""
    # Imported by name, since its package is above this one and needs pandas.
    external_runs = importlib.import_module("batchscope.external.external_runs")
    at = (*place, "runs")
    try:
        runs = external_runs.read(keys.runs, folder, keys.user_metrics)
    except UserError as error:
        lines = error.problems if isinstance(error, ConfigError) else [str(error)]
        problems.append(Problem(at, "\n  ".join(lines)))
        return None
    for note in runs.table.notes:
        warn(Problem(at, f"{note}."))
    return runs


def problems(place: Place, keys: LoggedExperiment, planned: PlannedExperiment) -> Iterator[Problem]:
    """Yield the keys that need columns that the logs lack."""
    runs, columns = planned.external_runs, planned.columns
    source = runs.path if runs else "the log"
    yield from checks.early_budgets(place, keys.budgets, checks.falling_schedule(planned))
    for outcome in keys.margins:
        if outcome not in columns:
            outcomes = own_columns.outcomes(keys.user_metrics)
            present = [name for name in columns if name in outcomes]
            expected = f"an outcome in {source} ({', '.join(present) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, present)
    for key, value in keys.budgets.items():
        at, names = (*place, "budgets", key), [budget_kinds.AXES.get(key)]
        if not planned.has_evaluations:
            text = f"Needs a row per evaluation. Each training of {source} has a single row."
            yield Problem(at, text)
            continue
        for column in value if key == budget_kinds.TARGET else names:
            if column not in columns:
                needed = f"a column {column} of {source}" if runs else "alone: true"
                yield Problem(at, f"Needs {needed}.")
        if key == budget_kinds.TARGET and "updates" not in columns:
            yield Problem(at, f"Needs updates or examples of {source}, or examples_per_epoch.")
    for at, figure in figure_checks.named(place, keys):
        if lacking := figure_names.of_own_runs(figure, {*columns, *planned.vary}):
            yield received(at, figure.name, f"a figure that {source} allows ({lacking})")


def columns(runs: Any) -> tuple[str, ...]:
    """Return the columns of our tables that external runs fill."""
    names = (*own_columns.AXES, "epoch", *own_columns.outcomes(runs.metrics))
    filled = runs.rows.reindex(columns=names).dropna(axis=1, how="all")
    return (*filled, *(name for name, needed in own_columns.MADE_OF.items() if needed <= {*filled}))


def common_seeds(runs: Any) -> int:
    """Return the number of seeds that every batch size has, of the series with the fewest."""
    seeds = (rows.groupby("batch_size")["seed"].agg(set) for rows in runs.series)
    return min(len(set.intersection(*by_size)) for by_size in seeds)


def vary(runs: Any) -> dict[str, tuple[Any, ...]]:
    sizes = tuple(sorted(runs.rows["batch_size"].unique().tolist()))
    return {"batch_size": sizes, **({"learning_rate": runs.rates} if runs.rates else {})}
