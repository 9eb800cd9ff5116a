"""Plan an experiment of external runs, and check its keys against the columns of the logs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from batchscope.errors import ConfigError, UserError
from batchscope.problems import Place, Problem, received
from batchscope.study import budget_kinds, figure_checks, horizons, own_columns, plan
from batchscope.study.experiments import ExternalExperiment, LoggedExperiment


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
    except ConfigError as error:
        problems.append(Problem(at, "\n  ".join(error.problems)))
        return None
    except UserError as error:
        problems.append(Problem(at, str(error)))
        return None
    for note in runs.table.notes:
        warn(Problem(at, f"{note}."))
    return runs


def problems(
    place: Place, keys: LoggedExperiment, logs: plan.ExternalLogs, varied: Collection[str]
) -> Iterator[Problem]:
    """Yield the keys that need columns that the logs lack."""
    source = logs.path or "the log"
    schedule = horizons.of_own_runs(logs.schedule)
    yield from horizons.of_budgets(place, keys.budgets, schedule)
    for outcome in keys.margins:
        if outcome not in logs.columns:
            known = own_columns.outcomes(keys.user_metrics)
            outcomes = [name for name in logs.columns if name in known]
            expected = f"an outcome in {source} ({', '.join(outcomes) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, outcomes)
    for key, value in keys.budgets.items():
        names = [*value] if key == budget_kinds.TARGET else [budget_kinds.AXES[key]]
        if not logs.evaluated:
            text = f"Needs a row per evaluation. Each training of {source} has a single row."
            yield Problem((*place, "budgets", key), text)
        for column in names if logs.evaluated else ():
            if column not in logs.columns:
                needed = f"a column {column} of {source}" if logs.path else "alone: true"
                yield Problem((*place, "budgets", key), f"Needs {needed}.")
        if key == budget_kinds.TARGET and logs.evaluated and "updates" not in logs.columns:
            text = f"Needs updates or examples of {source}, or examples_per_epoch."
            yield Problem((*place, "budgets", key), text)
    for at, figure in figure_checks.named(place, keys):
        lacking = figure_checks.of_own_runs(figure, {*logs.columns, *varied})
        if lacking:
            yield received(at, figure.name, f"a figure that {source} allows ({lacking})")


def columns(runs: Any) -> tuple[str, ...]:
    named = (*own_columns.AXES, "epoch", *own_columns.outcomes(runs.metrics))
    filled = runs.rows.reindex(columns=named).dropna(axis=1, how="all")
    return (*filled, *(name for name, needed in own_columns.MADE_OF.items() if needed <= {*filled}))


def planned(runs: Any) -> plan.ExternalLogs:
    """Return the logs of external runs as the plan holds them."""
    by_size = [rows.groupby("batch_size")["seed"].agg(set) for rows in runs.series]
    return plan.ExternalLogs(
        path=runs.path,
        files=runs.table.files,
        sha256=runs.table.sha256,
        read_as=runs.table.read_as,
        rows=len(runs.rows),
        trainings=runs.rows["run"].nunique(),
        seeds=min(len(set.intersection(*seeds)) for seeds in by_size),
        columns=columns(runs),
        evaluated=not runs.ends,
        schedule=runs.schedule,
        table=runs,
    )


def vary(runs: Any) -> dict[str, tuple[Any, ...]]:
    sizes = tuple(sorted(runs.rows["batch_size"].unique().tolist()))
    return {"batch_size": sizes, **({"learning_rate": runs.rates} if runs.rates else {})}
