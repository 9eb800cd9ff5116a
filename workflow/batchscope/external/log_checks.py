"""What cannot be so in logs of trainings: each is a problem at its row, or a question."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.external import cells, numbers
from batchscope.external.cells import LogCells
from batchscope.study.own_columns import AXES, LOSSES, outcomes

_RUN = ["batch_size", "seed"]
# Columns of results, which no column that distinguishes series may be called.
_TAKEN = (
    *("target", "points", "residual", "lack_of_fit", "stray"),
    *("updates_min", "examples_min", "_loss"),
)
_SAME_EPOCHS = 1.5  # times as many updates as epochs have
_LEAST_FULL, _MOST_FULL = 0.5, 1.02  # share of full batches that the examples may be


def of_names(found: LogCells) -> Iterator[str]:
    """Yields the columns that are called as one of the result."""
    for name in filter(_TAKEN.__contains__, found.table):
        yield (
            f"{found.logs[0].path}: received the column {name}, which is one of the result; "
            "another name is expected."
        )


def no_seed(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the question for a seed, where none is known and a batch size has several trainings.

    Args:
        rows: With `order`, the number of each row's run as far as it is known.
    """
    log = found.places["run"]
    several = log.groupby(rows["order"]).transform("nunique") > 1
    several |= rows.duplicated(["order", "updates"])
    for name in filter(found.table.__contains__, cells.NUMBERS):
        several |= found.table[name].groupby(rows["batch_size"]).transform("nunique") > 1
    for row in several.index[several][:1]:
        log = found.logs[found.places.at[row, "log"]]
        size = rows.at[row, "batch_size"]
        yield f"{found.place(row)}: batch size {size} has several trainings, and there is " + (
            cells.question(log, "seed")
        )


def twice(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields a log of a training that another one is of too, and in what both differ."""
    log = found.places["run"]
    first = log.groupby(rows["order"]).transform("first")
    for row in log.index[log != first][:1]:
        before = log.index[log == first[row]][0]
        of_both = found.parameters.loc[found.places.loc[[before, row], "log"]].fillna("")
        differ = [problems.clip(name) for name in of_both if of_both[name].nunique() > 1]
        yield (
            f"{found.place(row)}: received batch size {rows.at[row, 'batch_size']}, seed "
            f"{rows.at[row, 'seed']} again, as in {found.place(before)}; a seed of its own is "
            "expected, or a factor named by `files` or `columns`"
            + (f" (they differ in {wording.listed(differ[:5])})." if differ else ".")
        )


def repeated(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the rows that say something of a run a second time."""
    first: dict[tuple[str, float], int] = {}
    for row, run, size, seed, updates in rows[["run", *_RUN, "updates"]].sort_index().itertuples():
        if (before := first.setdefault((run, updates), row)) != row:
            yield (
                f"{found.place(row)}: received batch size {size}, seed {seed} at "
                f"{wording.shortest(updates)} updates again, as in {found.place(before)}; one row "
                "for each evaluation is expected."
            )


def backwards(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the rows by which a run had used less than by an earlier one."""
    for name in (each for each in (*AXES, "epoch") if each in rows):
        known = rows.loc[rows[name].notna(), ["run", name]].rename_axis("row").reset_index()
        before = known.groupby("run")[["row", name]].shift()
        for at in known.index[known[name] < before[name]]:
            row = known.at[at, "row"]
            yield (
                f"{found.place(row)}, {found.name(row, name)}: received "
                f"{wording.shortest(known.at[at, name])}, less than the "
                f"{wording.shortest(before.at[at, name])} of "
                f"{found.place(int(before.at[at, 'row']))}, where the run had made fewer updates; "
                "what was used since its start is expected."
            )


def disagreeing(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the rows whose examples are not those of so many updates.

    An epoch's last batch may be smaller, and a run may drop it. Logs that state one of both cannot
    disagree.
    """
    if not {"updates", "examples"} <= {*found.table}:
        return
    full = rows["updates"] * rows["batch_size"]
    share = rows["examples"] / full.where(full > 0)
    for row in rows.index[share.notna() & ~share.between(_LEAST_FULL, _MOST_FULL)].sort_values():
        examples, updates = (wording.shortest(rows.at[row, name]) for name in AXES[1::-1])
        yield (
            f"{found.place(row)}, {found.name(row, 'examples')}: received {examples}, but "
            f"{updates} updates of batch size {rows.at[row, 'batch_size']} use "
            f"{wording.shortest(full[row])}; the same unit in all three is expected, or one of the "
            "columns updates and examples alone."
        )


def of_epochs(found: LogCells, rows: pandas.DataFrame, epoch: float | None) -> Iterator[str]:
    """Yields the runs whose epochs are not those of their updates: is a batch that of one device?

    An epoch may be counted at its beginning or its end, so that they may be one apart, and its last
    batch may be left out, or be all of the data.

    Args:
        epoch: Training examples of an epoch, where it is stated.
    """
    if epoch is None or "epoch" not in rows:
        return
    known = rows[rows["epoch"].notna() & rows["updates"].notna()]
    last = known.groupby("run", sort=False).tail(1)
    used = last["updates"] * last["batch_size"] / epoch
    fewest = (last["epoch"] - 1) * np.floor(epoch / last["batch_size"]).clip(lower=1)
    most = (last["epoch"] + 1) * np.ceil(epoch / last["batch_size"])
    off = ~last["updates"].between(fewest / _SAME_EPOCHS, most * _SAME_EPOCHS)
    for row in last.index[off]:
        shown = wording.shortest(last.at[row, "epoch"])
        yield (
            f"{found.place(row)}, {found.name(row, 'epoch')}: received {shown}, but "
            f"{wording.shortest(last.at[row, 'updates'])} updates of batch size "
            f"{last.at[row, 'batch_size']} are {wording.shortest(round(used[row], 2))} epochs of "
            f"{wording.shortest(epoch)} examples; the examples of one update are expected as the "
            "batch size, of all devices and micro-batches."
        )


def without_end(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the runs whose loss is empty to the end, where others go on: diverged, or not noted?

    pandas writes NaN as nothing. A loss that is evaluated now and then has gaps as long before.
    """
    table = found.places.loc[rows.index, "log"].map(lambda log: found.logs[log].format) == "csv"
    for loss in filter(rows.__contains__, LOSSES):
        empty = rows[loss].isna() & table & (rows[numbers.STATED] == "")
        by_run = empty.groupby(rows["run"], sort=False)
        tails = {run: _gaps(each.to_numpy()) for run, each in by_run}
        for run, (before, tail) in tails.items() if not by_run.last().all() else ():
            if tail > before >= 0:
                own = rows[rows["run"] == run]
                size, seed, updates = own.iloc[-tail - 1][[*_RUN, "updates"]]
                row = own.index[-tail]
                yield (
                    f"{found.place(row)}, {found.name(row, loss)}: received nothing of batch size "
                    f"{size}, seed {seed} after {wording.shortest(updates)} updates, where others "
                    "go on: diverged, or not recorded? nan is expected where it diverged (pandas "
                    "writes it with na_rep='nan'), no row where nothing was recorded."
                )


def _gaps(empty: np.ndarray) -> tuple[int, int]:
    """Returns the longest stretch of rows without a value before the last one, and the last.

    The first is -1 where there is no value at all.
    """
    known = np.flatnonzero(~empty)
    if not len(known):
        return -1, len(empty)
    gaps = np.diff(known, prepend=-1) - 1
    return int(gaps.max()), len(empty) - 1 - int(known[-1])


def identical(found: LogCells, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the replicates that equal another to the last bit, which no two trainings do.

    All single rows have to: several may reach a target at one evaluation.
    """
    evaluated = [name for name in outcomes() if name in rows]
    names = [name for name in (*AXES, *evaluated) if name in rows]
    known = rows[np.isfinite(rows[evaluated]).any(axis=1)] if evaluated else rows.iloc[:0]
    single = not known["run"].duplicated().any()
    bits = pandas.util.hash_pandas_object(known[names], index=False)
    runs = known.drop(columns="seed").groupby("run", sort=False).first()
    runs["bits"] = bits.groupby(known["run"]).agg(tuple)
    runs = runs[single | (runs["bits"].map(len) > 1)]
    keys = [
        name for name in runs if name not in (*names, "epoch", numbers.STATED, "order", "status")
    ]
    again = runs[runs.duplicated(keys)]
    groups = runs.drop_duplicates([name for name in keys if name != "bits"])
    if single and len(again) + len(groups) < len(runs):
        return
    if len(again):
        run = again.index[0]
        same = runs.index[(runs[keys] == runs.loc[run, keys]).all(axis=1)][0]
        row, first = (rows.index[rows["run"] == each][0] for each in (run, same))
        yield (
            f"{found.place(row)}: received batch size {rows.at[row, 'batch_size']}, seed "
            f"{rows.at[row, 'seed']} with the very numbers of seed {rows.at[first, 'seed']} "
            f"({found.place(first)}), as {wording.count(len(again), 'run')} of "
            f"{rows['run'].nunique()}; another training for each seed is expected."
        )
