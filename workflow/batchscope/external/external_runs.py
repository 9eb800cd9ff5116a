"""External runs: logs that exist already, read and checked, in the columns of our tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas

from batchscope.core import display, problems
from batchscope.core.errors import UserError, raise_problems
from batchscope.external import csv_log, log_checks, log_files, log_numbers, log_table
from batchscope.external.log_numbers import STATED
from batchscope.external.log_table import LogTable
from batchscope.store.records import CRASHED, FINISHED, OFF_TARGET
from batchscope.study import budget_kinds, external_columns
from batchscope.study.external_columns import AXES, MIN_SIZES
from batchscope.study.log_keys import AT_TARGET, LogFormat, Logs
from batchscope.study.log_names import PROGRESS, RATE
from batchscope.study.run_factors import FACTORS, FALLING
from batchscope.study.tasks import Metrics

_RUN = ["batch_size", "seed"]
_COUNTED = ("run", "trial", "replicate", "repeat", "rep", "fold", "id", "seed")  # words of a seed


@dataclass(frozen=True)
class LoggedRuns:
    """Runs with results from logs: external runs, or runs of a command.

    Attributes:
        rows: One row per evaluation, run by run in order of progress, in the columns of our tables:
            `run`, `machine`, batch size, seed, factors, `status`, progress and outcomes.
        factors: Columns that may distinguish series.
        ends: Why each run ended if it has a single row: `external_columns.AT_TARGET` or `AT_END`.
        path: A file or a pattern, as the study names it.
        table: The logs, with notes on ignored columns and on assumptions.
        metrics: User-defined metrics.
    """

    rows: pandas.DataFrame
    factors: tuple[str, ...]
    ends: str = ""
    path: str = ""
    table: LogTable | None = None
    metrics: Metrics = ()

    @cached_property
    def distinguishing(self) -> list[str]:
        """The factors that distinguish series, without numbers that follow from the others."""
        kept = [name for name in self.factors if self.rows[name].nunique() > 1]
        for name in [name for name in kept if _is_numeric(self.rows[name])]:
            other_columns = ["batch_size", *(other for other in kept if other != name)]
            if (
                not self.rows[[*other_columns, name]]
                .drop_duplicates()
                .duplicated(other_columns)
                .any()
            ):
                kept.remove(name)
        return kept

    @property
    def rates(self) -> tuple[float, ...]:
        tried = RATE in self.distinguishing and _is_numeric(self.rows[RATE])
        return tuple(sorted(self.rows[RATE].unique().tolist())) if tried else ()

    @cached_property
    def series(self) -> list[pandas.DataFrame]:
        names = [name for name in self.distinguishing if name != RATE]
        return [rows for _, rows in self.rows.groupby(names, sort=False)] if names else [self.rows]

    @property
    def schedule(self) -> str:
        """A schedule that falls towards the horizon, so that runs are compared at their ends."""
        at_target = self.ends == external_columns.AT_TARGET
        schedules = () if at_target or "schedule" not in self.rows else self.rows["schedule"]
        return next((schedule for schedule in schedules if schedule in FALLING), "")


def _is_numeric(values: pandas.Series) -> bool:
    return values.dtype.kind in "if"


def read(keys: Logs, folder: Path | str = ".", metrics: Metrics = ()) -> LoggedRuns:
    """Return the runs in logs, with paths relative to a folder.

    Raises:
        ConfigError: If the logs are no runs; with every problem, at its place.
        UserError: If a log is missing or cannot be read, or leaves a question open.
    """
    table = log_table.read(keys, log_table.found_paths(keys.files, Path(folder)), metrics)
    if table.ignored:
        key = f"`factors: [{problems.clip(table.ignored[0])}]`"
        text = f"{log_table.listed(table.ignored)} ({key}"
        table.notes.append(f"not read: {text}, `columns` and `metrics` name columns)")
    rows = log_numbers.read(table)
    if "seed" not in rows:
        rows["seed"] = 0
        table.notes.append("no seed: every batch size has one run, seed 0")
    rows = _without_copies(table, rows)
    factors = _factors(table, rows)
    identity = [*_RUN, *factors]
    rows = rows.assign(**factors)
    rows["order"] = rows.groupby(identity, sort=False).ngroup()
    rows = log_numbers.completed(table, _evaluations(table, _joined(table, rows)), keys)
    rows.insert(0, "machine", external_columns.EXTERNAL_MACHINE)
    rows.insert(0, "run", _run_names(table, rows[identity]))
    several = rows["run"].duplicated()
    if keys.rows == AT_TARGET and several.any():
        raise UserError(
            f"{table.place(several.idxmax())}: received a further row of a run, and `rows: "
            f"{AT_TARGET}`; a single row of every run is expected."
        )
    ends = external_columns.AT_TARGET if keys.rows == AT_TARGET else external_columns.AT_END
    ends = "" if several.any() else ends
    rows["status"] = _statuses(table, rows, ends)
    raise_problems(log_checks.problems(table, rows))
    path = ", ".join(log_files.relative(os.path.join(folder, file)) for file in keys.files)
    rows = rows.drop(columns=["order", STATED])
    runs = LoggedRuns(rows, tuple(factors), ends, path, table, metrics)
    _check_sizes(runs)
    table.notes.extend(_not_compared(runs))
    return runs


def from_command(
    path: str, batch_size: int, keys: LogFormat, metrics: Metrics
) -> tuple[pandas.DataFrame, str]:
    """Return the evaluations of one run in order, and its status; an empty text if it finished.

    Of rows at the same progress the last values count. A row without progress after all others
    belongs to the end.

    Raises:
        UserError: If its log cannot be read, leaves a question open, or contradicts itself.
    """
    table = log_table.read(keys, {path: {"batch_size": str(batch_size), "seed": "0"}}, metrics)
    rows = log_numbers.read(table).assign(order=0, batch_size=batch_size)
    outcomes = [name for name in table.outcomes if name in rows]
    if not outcomes:
        raise table.no_outcome("log.columns")
    counter = next((name for name in PROGRESS if name in rows), None)
    if counter is None:
        return rows[outcomes], log_numbers.status(rows, metrics)
    last = rows.index > max(rows.index[rows[counter].notna()])
    used = [name for name in PROGRESS if name in rows]
    rows.loc[last, used] = rows[used].max().to_numpy()
    raise_problems(_uncounted(table, rows[rows[outcomes].notna().any(axis=1)], counter))
    status, rows = log_numbers.status(rows, metrics), rows.dropna(subset=counter)
    places = rows[counter].drop_duplicates(keep="last").sort_values().index
    rows = rows.groupby(counter, as_index=False).last().set_axis(places)
    rows = log_numbers.completed(table, rows, keys)
    checked = rows.assign(run="").drop(columns="seconds", errors="ignore")
    raise_problems(log_checks.backwards(table, checked))
    raise_problems(log_checks.disagreeing(table, checked))
    return rows[[name for name in ("epoch", *AXES, *outcomes) if name in rows]], status


def _uncounted(table: LogTable, rows: pandas.DataFrame, counter: str) -> Iterator[str]:
    for row in rows.index[rows[counter].isna()][:1]:
        yield f"{table.place(row)}: received no number of {counter}; one is expected."


def _without_copies(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return rows without those that equal a row of a longer log, such as a later checkpoint."""
    logs = table.places["log"]
    longest = logs.map(logs.value_counts()).sort_values(ascending=False, kind="stable").index
    bits = pandas.util.hash_pandas_object(rows.drop(columns=STATED), index=False)
    first = logs.loc[longest].groupby(bits.loc[longest], sort=False).transform("first")
    return rows[logs == first.loc[rows.index]]


def _factors(table: LogTable, rows: pandas.DataFrame) -> dict[str, list[Any]]:
    """Return the factors by their names in our tables.

    A number that changes within a run, such as a scheduled rate, is no factor: the other factors
    tell all rows apart. An empty cell has the value of its run.

    Raises:
        UserError: If the user names such a column, and every log has one run.
    """
    run = rows[_RUN].assign(counter=rows.get(next(iter({*PROGRESS} & {*rows}), STATED)))
    run["log"] = table.places["log"].loc[rows.index] if table.of_runs else 0
    texts, factors = table.texts.loc[rows.index].replace("", None), {}
    for name in sorted(table.factors, key=lambda name: (not table.factors[name], _may_vary(name))):
        values, keys = texts[name], [run[key] for key in run if key != "counter"]
        changes = values.groupby(keys).nunique().max() > 1
        if changes and table.of_runs and table.factors[name]:
            raise UserError(
                f"{table.place(rows.index[0])}, {table.name(name)}: received a factor that changes "
                "within a run; a column with one value per run is expected."
            )
        counted = run[values.notna() & run["counter"].notna()]
        if (
            changes
            and _may_vary(name)
            and not table.factors[name]
            and not counted.duplicated().any()
        ):
            text = f"no factor, as it changes within a run: {table.name(name)}"
            table.notes.append(f"{text} (`factors: [{table.name(name)}]` if it does not)")
            continue
        run[name] = values if changes else values.groupby(keys).transform("first")
        run[name] = run[name].fillna("")
        factors[name] = run[name].replace("", external_columns.EMPTY)
    ordered = (name for name in table.factors if name in factors)
    return dict(external_columns.factor(name, factors[name]) for name in ordered)


def _may_vary(name: str) -> bool:
    return name in FACTORS and FACTORS[name].kind in ("int", "float")


def _joined(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Join the rows of one run that have the same progress and different outcomes.

    Raises:
        UserError: If an outcome is repeated, or in several logs: these are several runs.
    """
    counter = next((name for name in PROGRESS if name in rows), None)
    if counter is None:
        return rows
    outcomes = [name for name in table.outcomes if name in rows] or [counter]
    at = rows.groupby(["order", counter], sort=False, dropna=False).ngroup()
    run, logs = rows["order"], table.places["log"].loc[rows.index]
    repeated = rows[outcomes].notna().groupby(at[rows[counter].notna()]).transform("sum").gt(1)
    for name in outcomes:
        repeated[name] |= logs.where(rows[name].notna()).groupby(run).transform("nunique") > 1
    repeated = repeated.any(axis=1)
    if repeated.any():
        row = repeated.idxmax()
        same = rows[repeated & (rows["order"] == rows.at[row, "order"])]
        first, last = same.index[[0, 1]]
        size, seed = rows.loc[row, _RUN].astype(int)
        key = _telling_apart(table, same.index[same[counter] == same.at[last, counter]])
        raise UserError(
            f"{table.place(last)}: received batch size {size}, seed {seed} again, as in "
            f"{table.place(first)}: several runs of one identity. Name what tells them apart: "
            f"{key}."
        )
    index = rows.index[~at.duplicated()]
    merged = rows.mask(rows == "").groupby(at).first().set_axis(index)
    return merged.fillna({STATED: ""}).infer_objects()


def _telling_apart(table: LogTable, index: pandas.Index) -> str:
    """Return the key for a column that differs between rows of several runs."""
    places = table.places.loc[index]
    log = table.logs[places["log"].iloc[0]]
    if len(index) < 2 or places["log"].nunique() > 1:
        return "`files: .../seed{seed}/...`, or `columns: {seed: ...}`, a column of the logs"
    differ = log.rows.loc[places["line"], [name for name in log.rows if name in table.ignored]]
    names = [name for name in differ if differ[name].nunique() == len(differ)]
    names.sort(key=lambda name: log.rows[name].nunique())
    counted = [name for name in names if {*re.split(r"[^a-z]+", name.lower())} & {*_COUNTED}]
    if counted:
        return f"`columns: {{seed: {counted[0]}}}`"
    return f"`factors: [{names[0]}]`" if names else "`columns: {seed: ...}`, a column of the logs"


def _evaluations(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return rows without those that only state the end of their run."""
    logged = rows[STATED].where(rows[STATED] != "")
    rows[STATED] = logged.groupby(rows["order"]).transform("last").fillna("")
    alone = ~rows["order"].duplicated(keep=False)
    used = [name for name in PROGRESS if name in rows]
    outcomes = [name for name in table.outcomes if name in rows]
    nothing, uncounted = rows[outcomes].isna().all(axis=1), rows[used].isna().all(axis=1)
    raise_problems(_uncounted(table, rows[~alone & ~nothing], used[0]) if used else ())
    logs = table.places["log"].loc[rows.index]
    is_table = logs.map(lambda at: table.logs[at].format == csv_log.FORMAT)
    rows = rows[alone | ~nothing | (is_table & ~uncounted)]
    if rows.empty:
        raise table.no_outcome("columns")
    if lost := [table.logs[at].path for at in logs.unique() if at not in {*logs.loc[rows.index]}]:
        count = display.count(len(lost), "log")
        table.notes.append(f"{count} without any outcome: {display.some(lost)}")
    return rows


def _run_names(table: LogTable, identity: pandas.DataFrame) -> list[str]:
    names = [name.removeprefix(external_columns.PREFIX) for name in identity]
    stem = Path(table.files[0]).stem if len(table.files) == 1 else "runs"
    first = f"{stem}-{table.sha256[:8]}"
    return [
        "+".join([first, *(f"{name}={value}" for name, value in zip(names, row, strict=True))])
        for row in identity.itertuples(index=False)
    ]


def _statuses(table: LogTable, rows: pandas.DataFrame, ends: str) -> pandas.Series:
    """Return the status of each row's run: the stated one, else by its losses.

    A run that ends without any outcome has failed, if others have outcomes.
    """
    by_run, outcomes = rows.groupby("run", sort=False), table.outcomes
    statuses = {run: log_numbers.status(part, table.metrics) or FINISHED for run, part in by_run}
    if ends == external_columns.AT_TARGET:
        missed = by_run["updates"].last().isna()
        statuses |= {run: OFF_TARGET for run in missed.index[missed]}
    elif {*outcomes} & {*rows}:
        last = rows.reindex(columns=outcomes).isna().all(axis=1).groupby(rows["run"]).last()
        empty = [run for run in last.index[last] if statuses[run] == FINISHED]
        statuses |= dict.fromkeys(empty, CRASHED)
        for run in empty[:1]:
            row = rows.index[rows["run"] == run][-1]
            count = display.count(len(empty), "run")
            text = f"failed, as they end without any loss or metric: {count}"
            table.notes.append(f"{text} ({table.place(row)}; no row if nothing was recorded)")
    return rows["run"].map(statuses)


def _check_sizes(runs: LoggedRuns) -> None:
    """Raise if no series has enough batch sizes."""
    sizes = sorted({*runs.rows["batch_size"].tolist()})
    if len(sizes) < MIN_SIZES:
        raise UserError(
            f"{runs.path}, batch_size: received {display.listed(map(str, sizes))}; at least "
            f"{MIN_SIZES} different batch sizes are expected."
        )
    if all(rows["batch_size"].nunique() < MIN_SIZES for rows in runs.series):
        names = display.listed(
            name.removeprefix(external_columns.PREFIX) for name in runs.distinguishing
        )
        raise UserError(
            f"{runs.path}: received {len(runs.series)} series, distinguished by {names}, none with "
            f"{MIN_SIZES} batch sizes; fewer factors are expected."
        )


def _not_compared(runs: LoggedRuns) -> Iterator[str]:
    """Yield why nothing is compared: no outcome, or single rows at no equal budget."""
    if runs.ends != external_columns.AT_TARGET and not {*runs.table.outcomes} & {*runs.rows}:
        yield "no loss or metric: nothing is compared; name one by `columns` or `metrics`"
    for rows in runs.series if runs.ends == external_columns.AT_END else ():
        finished = rows[rows["status"] == FINISHED]
        if finished["batch_size"].nunique() > 1 and budget_kinds.equal_budget(finished) is None:
            counter = next(name for name in PROGRESS if name in runs.table.texts)
            low, high = (display.shortest(finished[counter].agg(end)) for end in ("min", "max"))
            yield (
                f"single rows are the ends of their runs, here at {counter} {low} to {high}: "
                "unequal ends are not compared; give rows at an equal budget, or `rows: at_target` "
                "if every run stopped at its target"
            )
            return


def as_logged(runs: LoggedRuns) -> pandas.DataFrame:
    columns = (
        *_RUN,
        *runs.factors,
        *AXES,
        "epoch",
        *external_columns.outcomes(runs.metrics),
        "status",
    )
    names = [name for name in columns if name in runs.rows]
    return runs.rows[names].rename(columns=lambda name: name.removeprefix(external_columns.PREFIX))
