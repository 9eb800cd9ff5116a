"""External runs, from logs or by a command, as runs.csv and trajectories.csv.

The last row of a run has its values, as the last weights of our trainings have theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas

from batchscope import disk, errors
from batchscope.analysis import run_series
from batchscope.errors import UserError
from batchscope.external.log_runs import ExternalRuns
from batchscope.store import paths, records
from batchscope.study import columns, command_factors, own_columns, run_factors, tasks
from batchscope.study.registry import OF_OUTCOMES
from batchscope.study.specifications import Column
from batchscope.tables import long_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

FIRST = ("run", *run_factors.FACTORS, "status")
_OF_RECORD = (
    *columns.OF_COMMANDS,
    *("message", "contended_seconds", "train_seconds", "examples_per_second"),
)


class CommandRuns(ExternalRuns):
    """Runs that a command made. A last row means the same however many rows there are."""

    single = False


def read(results: Path | str, study: Study, experiment: str) -> ExternalRuns:
    """Return the external runs of an experiment.

    A run of a command without a record has a row without any numbers.
    """
    planned = study.experiments[experiment]
    if not planned.commands:
        return planned.own.table
    commands = planned.commands
    factors: dict[str, dict[str, str]] = {}  # column -> run -> value
    for name in next(iter(commands.values())).factors.keys() - {"batch_size", "seed"}:
        words = [command_factors.word(run.factors[name]) for run in commands.values()]
        column, values = own_columns.factor(name, [word or own_columns.NOTHING for word in words])
        factors[column] = dict(zip(commands, values, strict=True))
    found = []
    needs = {name: run.needs for name, run in commands.items()}
    for place, name, record, status in long_tables.recorded(results, study, needs):
        configured = commands[name].factors
        folder = paths.run_folder(place.results, name)
        rows = _evaluations(folder) if record else pandas.DataFrame()
        named = dict.fromkeys([*own_columns.AXES[:2], *rows])
        rows = rows.reindex(range(max(1, len(rows))), columns=named)
        found.append(
            rows.assign(
                run=name,
                machine=place.machine,
                batch_size=configured["batch_size"],
                seed=configured["seed"],
                **{column: values[name] for column, values in factors.items()},
                status=status,
                **{column: (record or {}).get(column) for column in _OF_RECORD},
            )
        )
    table = pandas.concat(found, ignore_index=True)
    _check_replicates(table, ["machine", "batch_size", *factors])
    return CommandRuns("", None, table.assign(at_target=False), tuple(factors), ())


def _check_replicates(table: pandas.DataFrame, keys: list[str]) -> None:
    """Raise if a finished run equals another one of its series to the last bit."""
    known = table[table["updates"].notna() & table["status"].eq(records.FINISHED)]
    names = [name for name in ("updates", *own_columns.outcomes()) if name in known]
    bits = pandas.util.hash_pandas_object(known[names], index=False)
    by_run = known.assign(bits=bits).groupby(["run", "machine"], sort=False)
    runs = by_run.agg({**dict.fromkeys(keys, "first"), "bits": tuple})
    runs = runs[runs["bits"].map(len) > 1]
    for run in runs.index[runs.duplicated()][:1]:
        first = runs.index[(runs == runs.loc[run]).all(axis=1)][0]
        raise UserError(
            f"{run[0]}: received the very numbers of {first[0]}; another training for each seed is "
            "expected. Does the command use its seed?"
        )


def _evaluations(folder: Path) -> pandas.DataFrame:
    path, record = folder / paths.TRAJECTORY, paths.run_record(folder)
    disk.read_csv(path, *own_columns.AXES[:1], delete=record)
    with errors.reading(path, "a CSV table", record):
        return pandas.read_csv(path)


def runs(external: ExternalRuns, study: str, experiment: str) -> pandas.DataFrame:
    """Returns one row per run, as `run_table.collect` does of runs here."""
    rows = external.rows.assign(study=study, experiment=experiment)
    rows = rows.reindex(columns=dict.fromkeys([*rows, *own_columns.outcomes()]))
    keys = [rows["run"], rows["machine"]]
    # Not every evaluation need be of everything.
    found = rows.groupby(["run", "machine"], sort=False).last().reset_index()
    for split in ("train", "validation"):
        finite = rows[f"{split}_loss"].where(np.isfinite(rows[f"{split}_loss"].astype(float)))
        found[f"best_{split}_loss"] = finite.groupby(keys, sort=False).min().to_numpy()
    used = found.pop("updates")  # in runs.csv it is a measure's
    target = found.pop("at_target").astype(bool)
    if external.single:
        at = own_columns.AT_TARGET, own_columns.AT_BUDGET
        found["stop_reason"] = np.where(target, *at)
        found["reached_target"] = used.notna().astype(int).where(target)
    found["steps_run"] = used.round().mask(target)
    if external.rates:
        scaled = found.get("learning_rate_scaling", pandas.Series("none", found.index)) != "none"
        found["effective_learning_rate"] = found["learning_rate"].mask(scaled)
    found["generalisation_gap"] = found["test_loss"] - found["train_loss"]
    for gap, metric in tasks.GAPS.items():
        found[gap] = found[f"train_{metric.name}"] - found[f"test_{metric.name}"]
    named = columns.of_measures(dict.fromkeys(OF_OUTCOMES, {}), external.tasks)
    named += filter(external.rows.__contains__, own_columns.of_metrics(tasks.USER_METRICS))
    return _table(found, named, {name: columns.describe(name) or Column("") for name in named})


def trajectories(external: ExternalRuns) -> pandas.DataFrame:
    """Returns one row per evaluation, as `long_tables.trajectories` does of runs here."""
    known = filter(external.rows.__contains__, own_columns.outcomes())
    named = [*FIRST, *tasks.kept({**columns.TRAJECTORIES, **dict.fromkeys(known)}, external.tasks)]
    rows = external.rows if external.single else external.rows.dropna(subset="updates")
    return _table(rows, named, columns.TRAJECTORIES)


def as_logged(external: ExternalRuns) -> pandas.DataFrame:
    known = ("batch_size", "seed", *external.factors, *own_columns.AXES, "epoch")
    names = [name for name in (*known, *own_columns.OUTCOMES, "status") if name in external.rows]
    return external.rows[names].rename(columns=lambda name: name.removeprefix(own_columns.OWN))


def _table(
    rows: pandas.DataFrame, named: Sequence[str], entries: Mapping[str, Column]
) -> pandas.DataFrame:
    """Returns some columns of rows, with the file's own factors before the status."""
    at = named.index("status")
    names = [*named[:at], *filter(own_columns.is_own, rows), *named[at:]]
    found = rows.reindex(columns=names).reset_index(drop=True)
    return run_series.typed(found, entries, errors="ignore")
