"""External runs: logs that exist already, read and checked, in the columns of our tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.errors import UserError, raise_problems
from batchscope.external import log_checks, log_files, log_numbers, log_table
from batchscope.external.log_numbers import STATED
from batchscope.external.log_table import LogTable
from batchscope.store.records import CRASHED, DIVERGED, FINISHED, OFF_TARGET
from batchscope.study import budget_kinds, own_columns, tasks
from batchscope.study.log_keys import AT_TARGET, Logs
from batchscope.study.log_names import PROGRESS, RATE
from batchscope.study.own_columns import AXES, LEAST_SIZES, LOSSES, OUTCOMES
from batchscope.study.run_factors import FACTORS, FALLING

_RUN = ["batch_size", "seed"]
_COUNTED = ("run", "trial", "replicate", "repeat", "rep", "fold", "id", "seed")  # words of a seed
_MOST_SHOWN = 5  # names in a note
_PLURAL = {"epoch": "epochs"}


@dataclass(frozen=True)
class LoggedRuns:
    """Runs with results from logs: external runs, or runs of a command.

    Attributes:
        rows: One row per evaluation, run by run in order of progress, in the columns of our tables:
            `run`, `machine`, batch size, seed, factors, `status`, progress and outcomes.
        factors: Columns that may distinguish series.
        ends: Why each run ended if it has a single row: `own_columns.AT_TARGET` or `AT_END`.
        path: A file or a pattern, as the study names it.
        table: The logs.
        notes: Sentences about what was ignored or assumed.
    """

    rows: pandas.DataFrame
    factors: tuple[str, ...]
    ends: str = ""
    path: str = ""
    table: LogTable | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def distinguishing(self) -> list[str]:
        """The factors that distinguish series, without numbers that follow from the others."""
        kept = [name for name in self.factors if self.rows[name].nunique() > 1]
        for name in [name for name in kept if _is_numeric(self.rows[name])]:
            others = ["batch_size", *(other for other in kept if other != name)]
            if not self.rows[[*others, name]].drop_duplicates().duplicated(others).any():
                kept.remove(name)
        return kept

    @property
    def tasks(self) -> tuple[str, ...]:
        return tasks.of_columns(self.rows)

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
        at_target = self.ends == own_columns.AT_TARGET
        schedules = () if at_target or "schedule" not in self.rows else self.rows["schedule"]
        return next((schedule for schedule in schedules if schedule in FALLING), "")

    def is_filled(self, column: str) -> bool:
        return column in self.rows and bool(self.rows[column].notna().any())


def _is_numeric(values: pandas.Series) -> bool:
    return values.dtype.kind in "if"


def read(keys: Logs, folder: Path | str = ".", metrics: Iterable[str] = ()) -> LoggedRuns:
    """Return the runs in logs, with paths relative to a folder.

    Raises:
        ConfigError: If the logs are no runs; with every problem, at its place.
        UserError: If a log is missing or cannot be read, or leaves a question open.
    """
    paths = log_table.found_paths(keys.files, Path(folder))
    table = log_table.read(keys, paths, metrics)
    rows = log_numbers.read(table)
    notes = [*_ignored(table)]
    if "seed" not in rows:
        rows["seed"] = 0
        notes.append("no seed: every batch size has one run, seed 0")
    rows = log_numbers.without_copies(table, rows)
    factors, more = _factors(table, rows)
    notes += more
    rows = rows.assign(**factors)
    identity = [*_RUN, *factors]
    rows, repeated = log_numbers.joined(rows, identity)
    rows["order"] = rows.groupby(identity, sort=False).ngroup()
    raise_problems(_several_runs(table, rows, repeated))
    rows, more = log_numbers.epochs(table, rows, keys, rows["order"])
    notes += more
    rows, more = _evaluations(table, log_numbers.completed(rows, keys))
    notes += more
    rows = log_numbers.seconds(table, rows, rows["order"])
    rows.insert(0, "machine", own_columns.ELSEWHERE)
    rows.insert(0, "run", _run_names(table, rows[identity]))
    single = not rows["run"].duplicated().any()
    if keys.rows == AT_TARGET and not single:
        raise UserError(
            f"rows: received {AT_TARGET}, but {rows['run'].duplicated().idxmax()} is not the only "
            "row of its run; a single row of every run is expected."
        )
    ends = own_columns.AT_TARGET if keys.rows == AT_TARGET else own_columns.AT_END
    ends = ends if single else ""
    rows["status"] = _statuses(rows, ends)
    raise_problems(log_checks.problems(table, rows, keys.examples_per_epoch))
    sizes = sorted({*rows["batch_size"].tolist()})
    path = ", ".join(log_files.relative(os.path.join(folder, file)) for file in keys.files)
    path = table.files[0] if len(table.files) == len(keys.files) == 1 else path
    if len(sizes) < LEAST_SIZES:
        raise UserError(
            f"{path}, batch_size: received {wording.listed(map(str, sizes))}; at least "
            f"{LEAST_SIZES} different batch sizes are expected."
        )
    rows = rows.drop(columns=["order", STATED])
    runs = LoggedRuns(rows, tuple(factors), ends, path, table)
    if all(series["batch_size"].nunique() < LEAST_SIZES for series in runs.series):
        names = wording.listed(name.removeprefix(own_columns.OWN) for name in runs.distinguishing)
        raise UserError(
            f"{path}: received {len(runs.series)} series, distinguished by {names}, none with "
            f"{LEAST_SIZES} batch sizes; fewer factors are expected."
        )
    notes += [*_unequal_ends(runs)]
    return LoggedRuns(rows, tuple(factors), ends, path, table, tuple(notes))


def _ignored(table: LogTable) -> Iterator[str]:
    """Yield the note on columns that are not read."""
    if table.ignored:
        shown = wording.some([problems.clip(name) for name in table.ignored], most=_MOST_SHOWN)
        first = problems.clip(table.ignored[0])
        yield (
            f"not read: {shown} (`factors: [{first}]` reads a factor, `columns` or `metrics` an "
            "outcome)"
        )


def _factors(table: LogTable, rows: pandas.DataFrame) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the factors by their names in our tables, and notes.

    A column that changes within a run is no factor: within every run that the other columns tell
    apart, each value of the progress occurs once.

    Raises:
        UserError: If the user names such a column, and every log is of one run.
    """
    counter = next((name for name in PROGRESS if name in rows), None)
    texts = table.texts.loc[rows.index]
    run = pandas.concat([rows["batch_size"], rows["seed"]], axis=1)
    if table.of_runs:
        run["log"] = table.places["log"].loc[rows.index]
    factors, changing = {}, []
    for name in sorted(
        table.factors, key=lambda name: (name not in table.named, _may_change(name))
    ):
        groups = [run[key] for key in run]
        values = texts[name].where(texts[name] != "")
        changes = values.groupby(groups).nunique().max() > 1
        if changes and table.of_runs and name in table.named:
            raise UserError(
                f"{table.place(values.index[0])}, {table.name(name)}: received a factor that "
                "changes within a run; a column with one value per run is expected."
            )
        at = run if counter is None else run.assign(counter=rows[counter]).dropna()
        repeats = at[values.loc[at.index].notna()].duplicated().any()
        if changes and _may_change(name) and name not in table.named and not repeats:
            changing.append(name)
            continue
        filled = values if changes else values.groupby(groups).transform("first")
        factors[name] = filled.fillna("")
        run = run.assign(**{name: factors[name]})
    notes = []
    if changing:
        shown = wording.listed(table.name(name) for name in changing)
        notes.append(f"no factor, as it changes within a run: {shown} (`factors` names factors)")
    ordered = (name for name in table.factors if name in factors)
    pairs = (
        own_columns.factor(name, factors[name].replace("", own_columns.NOTHING)) for name in ordered
    )
    return dict(pairs), notes


def _may_change(name: str) -> bool:
    """Return whether a factor is a number that a schedule may change within a run."""
    return name in FACTORS and FACTORS[name].kind in ("int", "float")


def _several_runs(
    table: LogTable, rows: pandas.DataFrame, repeated: pandas.Series
) -> Iterator[str]:
    """Yield the question for what tells runs of one identity apart."""
    logs = table.places["log"].loc[rows.index]
    names = [name for name in own_columns.outcomes() if name in rows]
    for name in names or [None]:
        evaluated = logs if name is None else logs[rows[name].notna()]
        own = rows.loc[evaluated.index, "order"]
        several = evaluated.groupby(own).transform("nunique") > 1
        repeated = repeated | several.reindex(repeated.index, fill_value=False)
    if not repeated.any():
        return
    row = repeated.idxmax()
    counter = next((name for name in PROGRESS if name in rows), "order")
    same = rows[repeated & (rows["order"] == rows.at[row, "order"])]
    first, last = same.index[[0, 1]]
    at_once = same.index[same[counter] == same.at[last, counter]]
    yield (
        f"{table.place(last)}: received batch size {rows.at[row, 'batch_size']}, seed "
        f"{rows.at[row, 'seed']} again, as in {table.place(first)}: several runs of one identity. "
        f"Name what tells them apart: {_telling_apart(table, at_once)}."
    )


def _telling_apart(table: LogTable, index: pandas.Index) -> str:
    """Return the key for a column that differs between rows of several runs."""
    places = table.places.loc[index]
    log = table.logs[places["log"].iloc[0]]
    if places["log"].nunique() > 1:
        return "`files: .../seed{seed}/...`, or `columns: {seed: ...}` for a column of the logs"
    differ = log.rows.loc[places["line"], [name for name in log.rows if name in table.ignored]]
    names = [name for name in differ if len(differ) == differ[name].nunique() > 1]
    names.sort(key=lambda name: log.rows[name].nunique())
    counted = [name for name in names if {*re.split(r"[^a-z]+", name.lower())} & {*_COUNTED}]
    if counted:
        return f"`columns: {{seed: {counted[0]}}}`"
    return f"`factors: [{names[0]}]`" if names else "`columns: {seed: ...}`, a column of the logs"


def _evaluations(table: LogTable, rows: pandas.DataFrame) -> tuple[pandas.DataFrame, list[str]]:
    """Return rows run by run in order of progress, and notes.

    Rows without any evaluation, which only state the end of their run, are left out.
    """
    stated = rows[STATED].where(rows[STATED] != "")
    rows[STATED] = stated.groupby(rows["order"]).transform("last").fillna("")
    alone = rows.groupby("order")["order"].transform("size") == 1
    evaluated = [name for name in own_columns.outcomes() if name in rows]
    nothing = rows.reindex(columns=evaluated).isna().all(axis=1)
    used = [name for name in PROGRESS if name in rows]
    uncounted = rows.reindex(columns=used).isna().all(axis=1)
    tables = [at for at, log in enumerate(table.logs) if log.format in ("CSV", "Excel")]
    is_table = table.places["log"].loc[rows.index].isin(tables)
    logs = table.places["log"].loc[rows.index]
    raise_problems(
        f"{table.place(row)}: received no number of {used[0]}; one is expected."
        for row in rows.index[~alone & ~nothing & uncounted][:1]
    )
    rows = rows[alone | ~nothing | (is_table & ~uncounted)]
    if rows.empty:
        raise UserError(
            f"{table.place(0)}: no loss or metric: not in the columns "
            f"{log_table.listed(table.logs[0].rows)}; name one by "
            "`columns: {validation_loss: ...}`."
        )
    lost = [table.logs[at].path for at in logs.unique() if at not in {*logs.loc[rows.index]}]
    notes = []
    if lost:
        shown = wording.some(lost, most=_MOST_SHOWN)
        notes.append(f"{wording.count(len(lost), 'log')} without any outcome left out: {shown}")
    return rows.sort_values(["order", *used], kind="stable"), notes


def _run_names(table: LogTable, identity: pandas.DataFrame) -> list[str]:
    names = [name.removeprefix(own_columns.OWN) for name in identity]
    stem = Path(table.files[0]).stem if len(table.files) == 1 else "runs"
    first = f"{stem}-{table.sha256[:8]}"
    return [
        "+".join([first, *(f"{name}={value}" for name, value in zip(names, row, strict=True))])
        for row in identity.itertuples(index=False)
    ]


def _statuses(rows: pandas.DataFrame, ends: str) -> pandas.Series:
    """Return the status of each row's run: the stated one, else by its losses.

    A run that ends without an outcome that others have failed.
    """
    outcomes = [name for name in own_columns.outcomes() if name in rows]
    names = (*LOSSES, *own_columns.of_metrics(tasks.USER_METRICS))
    losses = rows.reindex(columns=names).astype(float)
    known, infinite = losses.notna().any(axis=1), np.isinf(losses).any(axis=1)
    last = infinite[known].groupby(rows["run"]).last()
    status = pandas.Series(FINISHED, rows.index).mask(rows["run"].isin(last.index[last]), DIVERGED)
    if ends == own_columns.AT_TARGET:
        status = status.mask(rows["updates"].isna(), OFF_TARGET)
    elif outcomes:
        empty = rows[outcomes].isna().all(axis=1).groupby(rows["run"]).transform("all")
        status = status.mask(empty, CRASHED)
    return status.mask(~rows[STATED].isin(("", FINISHED)), rows[STATED])


def _unequal_ends(runs: LoggedRuns) -> Iterator[str]:
    """Yield the question for a budget or a target if single rows are at no equal budget."""
    if runs.ends != own_columns.AT_END:
        return
    for rows in runs.series:
        finished = rows[rows["status"] == FINISHED]
        if finished["batch_size"].nunique() > 1 and budget_kinds.equal_budget(finished) is None:
            counter = next(name for name in PROGRESS if name in runs.table.texts)
            low, high = (wording.shortest(finished[counter].agg(end)) for end in ("min", "max"))
            yield (
                f"single rows are the ends of their runs, here after {low} to {high} "
                f"{_PLURAL.get(counter, counter)}: "
                "unequal ends are not compared; give rows at an equal budget, or `rows: at_target` "
                "if every run stopped at its target"
            )
            return
    if not any(runs.is_filled(name) for name in OUTCOMES):
        yield "no loss or metric: nothing is compared; name one by `columns` or `metrics`"


def as_logged(runs: LoggedRuns) -> pandas.DataFrame:
    """Return the rows under the names that logs have."""
    known = (*_RUN, *runs.factors, *AXES, "epoch", *own_columns.outcomes(), "status")
    names = [name for name in known if name in runs.rows]
    return runs.rows[names].rename(columns=lambda name: name.removeprefix(own_columns.OWN))
