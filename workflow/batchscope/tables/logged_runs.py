"""runs.csv and trajectories.csv of runs with results from logs.

Runs of a command have records and evaluations from their jobs. Logs of external runs are read when
the study is planned.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from batchscope.analysis import run_series
from batchscope.errors import UserError
from batchscope.external import log_checks
from batchscope.external.external_runs import LoggedRuns
from batchscope.store import paths, records
from batchscope.study import columns, factor_models, own_columns, tasks
from batchscope.study.registry import OF_OUTCOMES
from batchscope.study.specifications import Column
from batchscope.tables import long_tables

if TYPE_CHECKING:
    from batchscope.study.commands import CommandRun
    from batchscope.study.plan import Study

FIRST = long_tables.FIRST
_OF_RECORD = (
    *columns.OF_COMMANDS,
    *("message", "contended_seconds", "train_seconds", "examples_per_second"),
)


def read(results: Path | str, study: Study, experiment: str) -> LoggedRuns:
    """Return the runs of an experiment with results from logs."""
    planned = study.experiments[experiment]
    return planned.external_runs or _commanded(results, study, experiment)


def runs(logged: LoggedRuns, study: str, experiment: str) -> pandas.DataFrame:
    """Return one row per run with the values of its last row, as `run_table.collect` does."""
    rows = logged.rows.assign(study=study, experiment=experiment)
    rows = rows.reindex(columns=dict.fromkeys([*rows, *own_columns.outcomes(logged.metrics)]))
    keys = [rows["run"], rows["machine"]]
    # Not every evaluation has every outcome.
    table = rows.groupby(["run", "machine"], sort=False).last().reset_index()
    for split in ("train", "validation"):
        finite = rows[f"{split}_loss"].where(np.isfinite(rows[f"{split}_loss"].astype(float)))
        table[f"best_{split}_loss"] = finite.groupby(keys, sort=False).min().to_numpy()
    used = table.pop("updates")  # a column of a measure in runs.csv
    if logged.ends:
        table["stop_reason"] = logged.ends
    if logged.ends == own_columns.AT_TARGET:
        table["reached_target"] = used.notna().astype(int)
    else:
        table["steps_run"] = used.round()
    if logged.rates:
        scaled = table.get("learning_rate_scaling", pandas.Series("none", table.index)) != "none"
        table["effective_learning_rate"] = table["learning_rate"].mask(scaled)
    table["generalisation_gap"] = table["test_loss"] - table["train_loss"]
    for gap, metric in tasks.GAPS.items():
        table[gap] = table[f"train_{metric.name}"] - table[f"test_{metric.name}"]
    names = columns.of_measures(dict.fromkeys(OF_OUTCOMES, {}), tasks.of_columns(logged.rows))
    names += filter(logged.rows.__contains__, own_columns.of_metrics(logged.metrics))
    return _table(table, names, {name: columns.describe(name) or Column("") for name in names})


def trajectories(logged: LoggedRuns) -> pandas.DataFrame:
    """Return one row per evaluation, as `long_tables.trajectories` does."""
    logged_outcomes = filter(logged.rows.__contains__, own_columns.outcomes(logged.metrics))
    outcomes = dict.fromkeys([*columns.TRAJECTORIES, *logged_outcomes])
    names = [*FIRST, *tasks.kept(outcomes, tasks.of_columns(logged.rows))]
    used = [name for name in ("updates", "epoch") if name in logged.rows]
    rows = logged.rows if logged.ends else logged.rows.dropna(subset=used, how="all")
    return _table(rows, names, columns.TRAJECTORIES)


def _table(
    rows: pandas.DataFrame, names: Sequence[str], entries: Mapping[str, Column]
) -> pandas.DataFrame:
    """Return some columns of rows, with the user's factors before the status."""
    at = names.index("status")
    names = [*names[:at], *filter(own_columns.is_own, rows), *names[at:]]
    table = rows.reindex(columns=names).reset_index(drop=True)
    return run_series.typed(table, entries, errors="ignore")


def _commanded(results: Path | str, study: Study, experiment: str) -> LoggedRuns:
    """Return the runs of a command; a run without a record has a row without numbers."""
    planned, parts = study.experiments[experiment], []
    runs, metrics = planned.commands, planned.metrics
    factors = pandas.DataFrame(dict(_factors(runs)), index=list(runs), dtype=object)
    needs = {name: run.needs for name, run in runs.items()}
    for place, name, record, status in long_tables.recorded(results, study, needs):
        first: dict[str, Any] = {"run": name, "machine": place.machine, "status": status}
        first |= {factor: runs[name].factors[factor] for factor in ("batch_size", "seed")}
        first |= factors.loc[name]
        rows = _evaluations(paths.run_folder(place.results, name)) if record else pandas.DataFrame()
        names = dict.fromkeys([*own_columns.AXES[:2], *rows])
        rows = rows.reindex(range(max(1, len(rows))), columns=names)
        of_record = {column: (record or {}).get(column) for column in _OF_RECORD}
        parts.append(rows.assign(**first | of_record))
    table = pandas.concat(parts, ignore_index=True)
    finished = table[table["updates"].notna() & table["status"].eq(records.FINISHED)]
    keys = ["machine", "batch_size", *factors]
    if pair := log_checks.copied(finished, ["run", "machine"], keys, own_columns.outcomes(metrics)):
        raise UserError(
            f"{pair[0][0]}: received the very numbers of {pair[1][0]}; another training for each "
            "seed is expected. Does the command use its seed?"
        )
    return LoggedRuns(table, tuple(factors), metrics=metrics)


def _factors(runs: Mapping[str, CommandRun]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the factors under their names in our tables, each with its value in every run."""
    factors = [run.factors for run in runs.values()]
    for name in factors[0].keys() - {"batch_size", "seed"}:
        texts = [factor_models.word(values[name]) for values in factors]
        yield own_columns.factor(name, [text or own_columns.NOTHING for text in texts])


def _evaluations(folder: Path) -> pandas.DataFrame:
    text = records.RunFiles(folder).text(paths.TRAJECTORY, *own_columns.AXES[:1])
    return pandas.read_csv(io.StringIO(text))
