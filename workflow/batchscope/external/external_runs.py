"""Read external runs: existing logs in, checked rows in the columns of our tables out.

`read` is for the key `runs` of a study, `read_command_log` for one run of a user's command. `read`
finds the factors, numbers the runs in the column `order`, joins the rows of one evaluation, keeps
the evaluations with results, and adds names and statuses. A new check of the runs goes into
`_problems`; what is guessed or left out is a note of the table.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope.core import display, problems
from batchscope.core.errors import UserError, raise_problems
from batchscope.external import log_numbers, log_table, text_logs
from batchscope.external.log_numbers import STATED_STATUS
from batchscope.external.log_table import LogTable
from batchscope.store.records import CRASHED, DIVERGED, FINISHED
from batchscope.study import log_format
from batchscope.study.log_format import COST_COLUMNS, PROGRESS, RATE, LogFormat, Logs
from batchscope.study.outcomes import MIN_FIT_SIZES, equal_budget
from batchscope.study.run_factors import FACTORS, FALLING
from batchscope.study.tasks import Metrics

_RUN_KEYS = ["batch_size", "seed"]
_MACHINE = "elsewhere"  # name of the machine of external runs


@dataclass(frozen=True)
class LoggedRuns:
    """Runs with results from logs: external runs, or runs of a command.

    Attributes:
        rows: One row per evaluation, run by run in order of progress, in the columns of our tables:
            `run`, `machine`, batch size, seed, factors, `status`, progress and outcomes.
        factors: Columns that may distinguish series.
        has_single_rows: Whether every run has a single row, at its end.
        path: A file or a pattern, as the study names it.
        table: The logs, with notes on ignored columns and assumptions.
        metrics: User-defined metrics.
    """

    rows: pandas.DataFrame
    factors: tuple[str, ...]
    has_single_rows: bool = False
    path: str = ""
    table: LogTable | None = None
    metrics: Metrics = ()

    @cached_property
    def series_factors(self) -> list[str]:
        """The factors that distinguish series, without numbers that follow from other factors."""
        names = [name for name in self.factors if self.rows[name].nunique() > 1]
        for name in [name for name in names if _is_numeric(self.rows[name])]:
            other_columns = ["batch_size", *(other for other in names if other != name)]
            combinations = self.rows[[*other_columns, name]].drop_duplicates()
            if not combinations.duplicated(other_columns).any():
                names.remove(name)
        return names

    @property
    def tried_rates(self) -> tuple[float, ...]:
        tried = RATE in self.series_factors and _is_numeric(self.rows[RATE])
        return tuple(sorted(self.rows[RATE].unique().tolist())) if tried else ()

    @cached_property
    def series(self) -> list[pandas.DataFrame]:
        names = [name for name in self.series_factors if name != RATE]
        return [rows for _, rows in self.rows.groupby(names, sort=False)] if names else [self.rows]

    @property
    def schedule(self) -> str:
        """A schedule that falls towards the horizon. Runs are then compared at their ends."""
        schedules = self.rows.get("schedule", ())
        return next((schedule for schedule in schedules if schedule in FALLING), "")


def _is_numeric(values: pandas.Series) -> bool:
    return values.dtype.kind in "if"


def read(keys: Logs, folder: Path | str = ".", metrics: Metrics = ()) -> LoggedRuns:
    """Read the runs in logs, with paths relative to a folder.

    Raises:
        ConfigError: If the logs contradict themselves. It lists every problem with its place.
        UserError: If a log is missing, cannot be read, or is ambiguous.
    """
    table = log_table.read(keys, log_table.find_logs(keys.files, Path(folder)), metrics)
    if table.ignored:
        key = f"`factors: [{problems.clip(table.ignored[0])}]`"
        text = f"{log_table.listed_columns(table.ignored)} ({key}"
        table.notes.append(f"not read: {text}, `columns` and `metrics` name columns)")
    rows = log_numbers.read(table)
    if "seed" not in rows:
        rows["seed"] = 0
        table.notes.append("no seed: every batch size has one run, seed 0")
    factors = _factors(table, rows)
    identity = [*_RUN_KEYS, *factors]
    rows = rows.assign(**factors)
    rows["order"] = rows.groupby(identity, sort=False).ngroup()
    rows = log_numbers.complete_progress(table, _evaluations(table, _join_rows(table, rows)), keys)
    rows.insert(0, "machine", _MACHINE)
    rows.insert(0, "run", _run_names(table, rows[identity]))
    rows["status"] = _statuses(table, rows)
    raise_problems(_problems(table, rows))
    path = ", ".join(log_table.shown_path(os.path.join(folder, file)) for file in keys.files)
    rows = rows.drop(columns=["order", STATED_STATUS])
    runs = LoggedRuns(rows, tuple(factors), rows["run"].is_unique, path, table, metrics)
    _check_sizes(runs)
    table.notes.extend(_reasons_not_compared(runs))
    return runs


def read_command_log(
    path: str, batch_size: int, keys: LogFormat, metrics: Metrics
) -> tuple[pandas.DataFrame, str]:
    """Return the evaluations of one run in order, and its status; an empty text if it finished.

    The last values at the same progress count. Rows without progress after all other rows belong to
    the end. A run that ends with empty cells has diverged, since pandas writes NaN so.

    Raises:
        UserError: If the log cannot be read, is ambiguous, or contradicts itself.
    """
    table = log_table.read(keys, {path: {"batch_size": str(batch_size), "seed": "0"}}, metrics)
    rows = log_numbers.read(table).assign(order=0, batch_size=batch_size)
    outcomes = [name for name in table.outcomes if name in rows]
    if not outcomes:
        raise table.missing_outcome_error("log.columns")
    counter = next((name for name in PROGRESS if name in rows), None)
    if counter is None:
        return rows[outcomes], log_numbers.run_status(rows, metrics)
    last = rows.index > max(rows.index[rows[counter].notna()])
    used = [name for name in PROGRESS if name in rows]
    rows.loc[last, used] = rows[used].max().to_numpy()
    raise_problems(_rows_without_progress(table, rows[rows[outcomes].notna().any(axis=1)], counter))
    status, rows = log_numbers.run_status(rows, metrics), rows.dropna(subset=counter)
    places = rows[counter].drop_duplicates(keep="last").sort_values().index
    rows = rows.groupby(counter, as_index=False).last().set_axis(places)
    rows = log_numbers.complete_progress(table, rows, keys)
    checked = rows.assign(run="").drop(columns="seconds", errors="ignore")
    raise_problems(_decreasing_progress(table, checked))
    end = rows.tail(1)
    is_empty = end[outcomes].isna().all(axis=None) and _has_cells(table, end).all()
    if not status and is_empty and end[STATED_STATUS].ne(FINISHED).all():
        status = DIVERGED
    return rows[[name for name in ("epoch", *COST_COLUMNS, *outcomes) if name in rows]], status


def _rows_without_progress(table: LogTable, rows: pandas.DataFrame, counter: str) -> Iterator[str]:
    for row in rows.index[rows[counter].isna()][:1]:
        yield f"{table.place(row)}: received no number of {counter}; one is expected."


def _factors(table: LogTable, rows: pandas.DataFrame) -> dict[str, list[Any]]:
    """Return the values of the factors by their names in our tables.

    A number that changes within a run, such as a scheduled rate, is no factor, because the other
    factors distinguish all runs. An empty cell gets the value of its run.

    Raises:
        UserError: If a column that the user names changes within a log of one run.
    """
    counter = next((name for name in PROGRESS if name in rows), STATED_STATUS)
    run = rows[_RUN_KEYS].assign(counter=rows[counter])
    run["log"] = table.positions["log"].loc[rows.index] if table.has_one_run_per_log else 0
    texts, factors = table.texts.loc[rows.index].replace("", None), {}
    order = {name: (not named, _is_number_factor(name)) for name, named in table.factors.items()}
    for name in sorted(order, key=order.__getitem__):
        values, keys = texts[name], [run[key] for key in run if key != "counter"]
        changes = values.groupby(keys).nunique().max() > 1
        if changes and table.has_one_run_per_log and table.factors[name]:
            raise UserError(
                f"{table.place(rows.index[0])}, {table.name(name)}: received a factor that changes "
                "within a run; a column with one value per run is expected."
            )
        with_progress = run[values.notna() & run["counter"].notna()]
        if (
            changes
            and _is_number_factor(name)
            and not table.factors[name]
            and not with_progress.duplicated().any()
        ):
            text = f"no factor, as it changes within a run: {table.name(name)}"
            table.notes.append(f"{text} (`factors: [{table.name(name)}]` if it does not)")
            continue
        run[name] = values if changes else values.groupby(keys).transform("first")
        run[name] = run[name].fillna("")
        factors[name] = run[name].replace("", log_format.EMPTY_CELL)
    ordered = (name for name in table.factors if name in factors)
    return dict(log_format.series_column(name, factors[name]) for name in ordered)


def _is_number_factor(name: str) -> bool:
    return name in FACTORS and FACTORS[name].kind in ("int", "float")


def _join_rows(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Join the rows of a run with the same progress and different outcomes into one row.

    Raises:
        UserError: If an outcome is repeated or in several logs, so that these are several runs.
    """
    counter = next((name for name in PROGRESS if name in rows), None)
    if counter is None:
        return rows
    outcomes = [name for name in table.outcomes if name in rows] or [counter]
    groups = rows.groupby(["order", counter], sort=False, dropna=False).ngroup()
    run, logs = rows["order"], table.positions["log"].loc[rows.index]
    repeated = rows[outcomes].notna().groupby(groups[rows[counter].notna()]).transform("sum").gt(1)
    for name in outcomes:
        repeated[name] |= logs.where(rows[name].notna()).groupby(run).transform("nunique") > 1
    repeated = repeated.any(axis=1)
    if repeated.any():
        row = repeated.idxmax()
        is_conflicting = (groups == groups[row]) | (logs != logs[row])
        first, last = rows.index[repeated & is_conflicting & (run == run[row])][[0, 1]]
        size, seed = rows.loc[row, _RUN_KEYS].astype(int)
        raise UserError(
            f"{table.place(last)}: received batch size {size}, seed {seed} again, as in "
            f"{table.place(first)}: several runs of one identity. Name the column that tells them "
            f"apart, {log_table.listed_columns(table.ignored)}, by `columns: {{seed: ...}}` or "
            "`factors: [...]`; or name the seed in the path, `files: .../seed{seed}/...`."
        )
    index = rows.index[~groups.duplicated()]
    joined = rows.mask(rows == "").groupby(groups).first().set_axis(index)
    return joined.fillna({STATED_STATUS: ""}).infer_objects()


def _evaluations(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows with results. Rows that only state the end of their run are left out."""
    logged = rows[STATED_STATUS].where(rows[STATED_STATUS] != "")
    rows[STATED_STATUS] = logged.groupby(rows["order"]).transform("last").fillna("")
    is_single = ~rows["order"].duplicated(keep=False)
    used = [name for name in PROGRESS if name in rows]
    outcomes = [name for name in table.outcomes if name in rows]
    has_outcome = rows[outcomes].notna().any(axis=1)
    has_progress = rows[used].notna().any(axis=1)
    wrong = rows[~is_single & has_outcome]
    raise_problems(_rows_without_progress(table, wrong, used[0]) if used else ())
    logs = table.positions["log"].loc[rows.index]
    rows = rows[is_single | has_outcome | (_has_cells(table, rows) & has_progress)]
    if rows.empty:
        raise table.missing_outcome_error("columns")
    remaining_logs = {*logs.loc[rows.index]}
    if lost := [table.logs[log].path for log in logs.unique() if log not in remaining_logs]:
        count = display.count(len(lost), "log")
        table.notes.append(f"{count} without any outcome: {display.short_list(lost)}")
    return rows


def _has_cells(table: LogTable, rows: pandas.DataFrame) -> pandas.Series:
    """Return whether each row has cells for outcomes: an empty cell of a CSV table, or a null."""
    logs, texts = table.positions["log"].loc[rows.index], table.texts.loc[rows.index]
    is_csv = logs.map(lambda log_index: table.logs[log_index].format == text_logs.CSV)
    return is_csv | texts.reindex(columns=table.outcomes).eq(text_logs.NULL).any(axis=1)


def _run_names(table: LogTable, identity: pandas.DataFrame) -> list[str]:
    names = [name.removeprefix(log_format.USER_PREFIX) for name in identity]
    stem = Path(table.files[0]).stem if len(table.files) == 1 else "runs"
    first = f"{stem}-{table.sha256[:8]}"
    return [
        "+".join([first, *(f"{name}={value}" for name, value in zip(names, row, strict=True))])
        for row in identity.itertuples(index=False)
    ]


def _statuses(table: LogTable, rows: pandas.DataFrame) -> pandas.Series:
    """Return the status of each row's run: the stated status, else the status by its losses.

    A run that ends without any outcome has failed if other runs have outcomes.
    """
    by_run, outcomes = rows.groupby("run", sort=False), table.outcomes
    statuses = {
        run: log_numbers.run_status(part, table.metrics) or FINISHED for run, part in by_run
    }
    if {*outcomes} & {*rows}:
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
    if len(sizes) < MIN_FIT_SIZES:
        raise UserError(
            f"{runs.path}, batch_size: received {display.listed(map(str, sizes))}; at least "
            f"{MIN_FIT_SIZES} different batch sizes are expected."
        )
    if all(rows["batch_size"].nunique() < MIN_FIT_SIZES for rows in runs.series):
        names = display.listed(
            name.removeprefix(log_format.USER_PREFIX) for name in runs.series_factors
        )
        raise UserError(
            f"{runs.path}: received {len(runs.series)} series, distinguished by {names}, none with "
            f"{MIN_FIT_SIZES} batch sizes; fewer factors are expected."
        )


def _reasons_not_compared(runs: LoggedRuns) -> Iterator[str]:
    """Yield why runs are not compared: no outcome, or single rows at unequal budgets."""
    if not {*runs.table.outcomes} & {*runs.rows}:
        yield "no loss or metric: nothing is compared; name one by `columns` or `metrics`"
    for rows in runs.series if runs.has_single_rows else ():
        finished = rows[rows["status"] == FINISHED]
        if finished["batch_size"].nunique() > 1 and equal_budget(finished) is None:
            yield "single rows at unequal ends are not compared; give rows at an equal budget"
            return


def _problems(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the problems of runs.

    Args:
        rows: Rows in order of progress, with the column `run`.
    """
    yield from _decreasing_progress(table, rows)
    names = (
        *COST_COLUMNS,
        *table.outcomes,
        "run",
        "seed",
        "epoch",
        "order",
        "status",
        STATED_STATUS,
    )
    keys = [name for name in rows if name not in names]
    if pair := find_copied_run(rows, "run", keys, table.outcomes):
        row, first = (rows.index[rows["run"] == name][0] for name in pair)
        size, seed, other = rows.at[row, "batch_size"], rows.at[row, "seed"], rows.at[first, "seed"]
        yield (
            f"{table.place(row)}: received batch size {size}, seed {seed} with the very numbers of "
            f"seed {other} ({table.place(first)}); another training for each seed is expected."
        )


def _decreasing_progress(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the first row of every column in which the progress of a run decreases."""
    for name in (name for name in (*COST_COLUMNS, "epoch") if name in rows):
        amounts = rows[name].dropna()
        before = amounts.groupby(rows["run"]).shift()
        for row in amounts.index[amounts < before][:1]:
            received, last = (display.shortest(values[row]) for values in (amounts, before))
            yield (
                f"{table.place(row)}, {table.name(name)}: received {received} after {last}, where "
                "the run had made fewer updates; amounts since the start are expected."
            )


def find_copied_run(
    rows: pandas.DataFrame, run: str | list[str], keys: Sequence[str], outcomes: Sequence[str]
) -> Any:
    """Return a run and an earlier run with equal evaluations, bit for bit; None if there is none.

    Runs with a single row may be equal if they reach a target at the same evaluation. They are
    copies only if all replicates are equal.

    Args:
        run: Columns that identify a run.
        keys: Columns that are equal in replicates.
    """
    evaluated = [name for name in outcomes if name in rows]
    names = [name for name in (*COST_COLUMNS, *evaluated) if name in rows]
    evaluations = (
        rows[np.isfinite(rows[evaluated].astype(float)).any(axis=1)] if evaluated else rows[:0]
    )
    single = not evaluations.duplicated(run).any()
    bits = pandas.util.hash_pandas_object(evaluations[names], index=False)
    runs = evaluations.assign(bits=bits).groupby(run, sort=False)
    runs = runs.agg({**dict.fromkeys(keys, "first"), "bits": tuple})
    runs = runs[single | (runs["bits"].map(len) > 1)]
    again, groups = runs[runs.duplicated()], runs.drop_duplicates([*keys])
    if again.empty or (single and len(again) + len(groups) < len(runs)):
        return None
    return again.index[0], runs.index[(runs == again.iloc[0]).all(axis=1)][0]
