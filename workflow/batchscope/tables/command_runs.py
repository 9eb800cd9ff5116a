"""Records and evaluations of runs that a command makes -> what external runs are known by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import disk, errors
from batchscope.errors import UserError
from batchscope.external.log_runs import ExternalRuns
from batchscope.store import job_table, paths, records
from batchscope.study import columns, command_factors, own_columns
from batchscope.tables import long_tables

_OF_RECORD = (
    *columns.OF_COMMANDS,
    *("message", "contended_seconds", "train_seconds", "examples_per_second"),
)
if TYPE_CHECKING:
    from batchscope.study.commands import CommandRun
    from batchscope.study.plan import Study


class CommandRuns(ExternalRuns):
    """Runs that a command made."""

    single = False  # what their last row is does not depend on how many there are


def read(results: Path | str, study: Study, experiment: str) -> CommandRuns:
    """Returns the runs of an experiment; one without a record has a row without any numbers.

    Of another machine only the runs that its results hold have rows.
    """
    runs, found = study.experiments[experiment].commands, []
    factors = dict(_factors(runs))
    for place in job_table.places(study, results):
        for at, (name, run) in enumerate(runs.items()):
            folder = paths.run_folder(place.results, name)
            record = long_tables.read_record(paths.run_record(folder), "status")
            if record is None and place.machine != study.machine:
                continue
            first: dict[str, Any] = {"run": name, "machine": place.machine}
            first |= {each: run.factors[each] for each in ("batch_size", "seed")}
            first |= {column: values[at] for column, values in factors.items()}
            first["status"] = record["status"] if record else job_table.unrecorded(run.needs)
            rows = _evaluations(folder) if record else pandas.DataFrame()
            named = dict.fromkeys([*own_columns.AXES[:2], *rows])
            rows = rows.reindex(range(max(1, len(rows))), columns=named)
            of_record = {each: (record or {}).get(each) for each in _OF_RECORD}
            found.append(rows.assign(**first | of_record))
    table = pandas.concat(found, ignore_index=True)
    _check_replicates(table, ["machine", "batch_size", *factors])
    return CommandRuns("", None, table.assign(at_target=False), tuple(factors), ())


def _check_replicates(table: pandas.DataFrame, keys: list[str]) -> None:
    """Raises where a finished run equals another one of its series to the last bit."""
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


def _factors(runs: Mapping[str, CommandRun]) -> Iterator[tuple[str, list[Any]]]:
    """Yields the factors under their names in our tables, each with its value in every run."""
    every = [run.factors for run in runs.values()]
    for name in every[0].keys() - {"batch_size", "seed"}:
        texts = [command_factors.word(each[name]) for each in every]
        yield own_columns.factor(name, [text or own_columns.NOTHING for text in texts])


def _evaluations(folder: Path) -> pandas.DataFrame:
    path, record = folder / paths.TRAJECTORY, paths.run_record(folder)
    disk.read_csv(path, *own_columns.AXES[:1], delete=record)
    with errors.reading(path, "a CSV table", record):
        return pandas.read_csv(path)
