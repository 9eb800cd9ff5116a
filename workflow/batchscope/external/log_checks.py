"""Contradictions in the logs of runs: each is a problem at its row, or a question."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas

from batchscope import wording
from batchscope.external.log_numbers import STATED
from batchscope.external.log_table import LogTable
from batchscope.study.own_columns import AXES, LOSSES, outcomes

_SAME_EPOCHS = 1.5  # times as many updates as epochs have
_LEAST_FULL, _MOST_FULL = 0.5, 1.02  # share of full batches that the examples may be


def problems(table: LogTable, rows: pandas.DataFrame, epoch: float | None) -> Iterator[str]:
    """Yield the problems of numbered runs with their rows in order of progress.

    Args:
        rows: With the column `run`.
        epoch: Training examples of an epoch, if the user states them.
    """
    yield from of_progress(table, rows, epoch)
    yield from _without_end(table, rows)
    yield from _identical(table, rows)


def of_progress(table: LogTable, rows: pandas.DataFrame, epoch: float | None) -> Iterator[str]:
    yield from _backwards(table, rows)
    yield from _disagreeing(table, rows)
    yield from _of_epochs(table, rows, epoch)


def _backwards(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the first row of every column by which a run had used less than by an earlier row."""
    for name in (name for name in (*AXES, "epoch") if name in rows):
        known = rows.loc[rows[name].notna(), ["run", name]].rename_axis("row").reset_index()
        before = known.groupby("run")[["row", name]].shift()
        for at in known.index[known[name] < before[name]][:1]:
            row, first = known.at[at, "row"], int(before.at[at, "row"])
            hint = " (`columns: {seconds_per_epoch: ...}`, if it is the time of one epoch)"
            yield (
                f"{table.place(row)}, {table.name(name)}: received "
                f"{wording.shortest(known.at[at, name])}, less than the "
                f"{wording.shortest(before.at[at, name])} of {table.place(first)}, earlier in the "
                f"run; amounts since the start are expected{hint if name == 'seconds' else ''}."
            )


def _disagreeing(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the first row with other examples than those of so many updates.

    The last batch of an epoch may be smaller, or left out. Logs with one of both cannot disagree.
    """
    if not {"updates", "examples"} <= {*table.texts}:
        return
    full = rows["updates"] * rows["batch_size"]
    share = rows["examples"] / full.where(full > 0)
    for row in rows.index[share.notna() & ~share.between(_LEAST_FULL, _MOST_FULL)][:1]:
        examples, updates = (wording.shortest(rows.at[row, name]) for name in AXES[1::-1])
        yield (
            f"{table.place(row)}, {table.name('examples')}: received {examples}, but {updates} "
            f"updates of batch size {rows.at[row, 'batch_size']} use "
            f"{wording.shortest(full[row])}; the same unit in all three is expected, or one of the "
            "columns updates and examples."
        )


def _of_epochs(table: LogTable, rows: pandas.DataFrame, epoch: float | None) -> Iterator[str]:
    """Yield the first run with other epochs than those of its updates, as if on one device.

    An epoch may be counted at its beginning or its end, and its last batch may be left out.
    """
    if epoch is None or not {"epoch", "updates"} <= {*table.texts} or "epoch" not in rows:
        return
    known = rows[rows["epoch"].notna() & rows["updates"].notna()]
    last = known.groupby("run", sort=False).tail(1)
    fewest = (last["epoch"] - 1) * np.floor(epoch / last["batch_size"]).clip(lower=1)
    most = (last["epoch"] + 1) * np.ceil(epoch / last["batch_size"])
    wrong = ~last["updates"].between(fewest / _SAME_EPOCHS, most * _SAME_EPOCHS)
    for row in last.index[wrong][:1]:
        size, updates, count = last.loc[row, ["batch_size", "updates", "epoch"]]
        passes = wording.shortest(round(updates * size / epoch, 2))
        yield (
            f"{table.place(row)}, {table.name('epoch')}: received {wording.shortest(count)}, but "
            f"{wording.shortest(updates)} updates of batch size {size:.0f} are {passes} epochs of "
            f"{wording.shortest(epoch)} examples; the examples of one update, on all devices, are "
            "expected as the batch size."
        )


def _without_end(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the first run with a loss that is empty to the end while others go on.

    pandas writes NaN as nothing. A loss that is evaluated now and then has earlier gaps as long.
    """
    for loss in filter(rows.__contains__, LOSSES):
        empty = rows[loss].isna() & (rows[STATED] == "")
        by_run = empty.groupby(rows["run"], sort=False)
        ends = by_run.last()
        gaps = {run: _gaps(part.to_numpy()) for run, part in by_run if ends[run]}
        wrong = [run for run, (before, tail) in gaps.items() if tail > before >= 0]
        if ends.all() or not wrong:
            continue
        row = rows.index[rows["run"] == wrong[0]][-gaps[wrong[0]][1]]
        yield (
            f"{table.place(row)}, {table.name(loss)}: received nothing of batch size "
            f"{rows.at[row, 'batch_size']}, seed {rows.at[row, 'seed']} to the end, where others "
            "go on: diverged, or not recorded? nan is expected where it diverged (pandas writes it "
            "with na_rep='nan'), no row where nothing was recorded."
        )


def _gaps(empty: np.ndarray) -> tuple[int, int]:
    """Return the longest stretch of rows without a value before the last one, and the last.

    The first is -1 if there is no value.
    """
    known = np.flatnonzero(~empty)
    if not len(known):
        return -1, len(empty)
    return int((np.diff(known, prepend=-1) - 1).max()), len(empty) - 1 - int(known[-1])


def _identical(table: LogTable, rows: pandas.DataFrame) -> Iterator[str]:
    """Yield the first replicate that equals another to the last bit, as no two runs do.

    Several single rows may reach a target at one evaluation, but not all of them.
    """
    evaluated = [name for name in outcomes() if name in rows]
    names = [name for name in (*AXES, *evaluated) if name in rows]
    known = rows[np.isfinite(rows[evaluated]).any(axis=1)] if evaluated else rows.iloc[:0]
    single = not known["run"].duplicated().any()
    bits = pandas.util.hash_pandas_object(known[names], index=False)
    runs = known.drop(columns="seed").groupby("run", sort=False).first()
    runs["bits"] = bits.groupby(known["run"]).agg(tuple)
    runs = runs[single | (runs["bits"].map(len) > 1)]
    keys = [name for name in runs if name not in (*names, "epoch", STATED, "order", "status")]
    again = runs[runs.duplicated(keys)]
    groups = runs.drop_duplicates([name for name in keys if name != "bits"])
    if again.empty or (single and len(again) + len(groups) < len(runs)):
        return
    run = again.index[0]
    same = runs.index[(runs[keys] == runs.loc[run, keys]).all(axis=1)][0]
    row, first = (rows.index[rows["run"] == name][0] for name in (run, same))
    yield (
        f"{table.place(row)}: received batch size {rows.at[row, 'batch_size']}, seed "
        f"{rows.at[row, 'seed']} with the very numbers of seed {rows.at[first, 'seed']} "
        f"({table.place(first)}), as {wording.count(len(again), 'run')} of "
        f"{rows['run'].nunique()}; another training for each seed is expected."
    )
