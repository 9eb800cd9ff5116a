"""The numbers of logs: progress, outcomes and status of each row, in the units of our tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.errors import UserError, raise_problems
from batchscope.external import log_table
from batchscope.external.log_table import LogTable
from batchscope.store import records
from batchscope.study import own_columns, tasks
from batchscope.study.log_keys import LogFormat
from batchscope.study.log_names import MULTIPLIERS, PROGRESS
from batchscope.study.own_columns import AXES, LOSSES, METRICS

STATED = "stated"  # column of the status that a row states
KILLED = "killed"
_ABSENT = ("", "na", "n/a", "#n/a", "<na>", "null", "none", "-")  # cells without a number
# Words in place of a number -> status of the run.
_STATUSES = {
    **dict.fromkeys(("failed", "fail", "error", "crashed", "crash"), records.CRASHED),
    **dict.fromkeys((KILLED, "timeout"), KILLED),
    **dict.fromkeys(("oom", "out of memory", "out_of_memory"), records.OUT_OF_MEMORY),
    **dict.fromkeys((records.DIVERGED, "nan loss"), records.DIVERGED),
    **dict.fromkeys((records.FINISHED, "ok", "done", "completed"), records.FINISHED),
}
_ROUNDING = 1e-9  # of a number of epochs


class _Kind(NamedTuple):
    convert: Callable[[str], float]
    expected: str
    required: bool = False


def _whole(text: str, least: int = 0) -> int:
    try:
        value = int(text)
    except ValueError:  # 3.0, which is exact below 2^53 alone
        value = float(text)
        if value != int(value) or value >= 2**53:
            raise ValueError from None
    if not least <= value < 2**63:  # which the tables do not hold
        raise ValueError
    return int(value)


def _number(text: str, least: float = 0.0, most: float = math.inf) -> float:
    value = float(text)
    if value < least or value > most:
        raise ValueError
    return value


def _amount(text: str) -> float:
    """Return an amount; NaN for infinity, which a target that was never reached takes."""
    value = _number(text)
    if math.isnan(value):
        raise ValueError
    return value if value < math.inf else math.nan


def _loss(text: str) -> float:
    value = _number(text)
    return math.inf if math.isnan(value) else value


def _metric(text: str, worst: float) -> float:
    """Return a user-defined metric, or its worst value for NaN."""
    value = float(text)
    if math.isinf(value):
        raise ValueError
    return worst if math.isnan(value) else value


def _kind(name: str) -> _Kind | None:
    """Return how a column is read; None if it is no number of ours."""
    if name == "batch_size":
        return _Kind(partial(_whole, least=1), "a whole number from 1 on, below 2^63,", True)
    if name == "seed":
        return _Kind(_whole, "a whole number from 0 on, below 2^63,", True)
    if name in (*PROGRESS, "seconds", "seconds_per_epoch", *MULTIPLIERS):
        return _Kind(_amount, "a number from 0 on")
    if name in LOSSES:
        return _Kind(_loss, "a number from 0 on, nan if it diverged, or nothing")
    if name in METRICS:
        metric = METRICS[name]
        convert = partial(_number, least=metric.least, most=metric.most)
        return _Kind(convert, f"{metric.expected}, or nothing")
    if tasks.user_metric(name):
        convert = partial(_metric, worst=tasks.falling(math.inf, name))
        return _Kind(convert, "a finite number, nan if it diverged, or nothing")
    return None


def read(table: LogTable) -> pandas.DataFrame:
    """Return the numbers of all rows, and the status that each row states.

    Raises:
        ConfigError: With a sentence for every column that has a cell without a number.
    """
    texts = table.texts
    stated = texts["status"].str.lower() if "status" in texts else pandas.Series("", texts.index)
    stated = stated.map(lambda text: _STATUSES.get(text, text))
    rows, wrong = pandas.DataFrame(index=texts.index), []
    for name in texts:
        kind = _kind(name)
        if kind is None:
            continue
        values, invalid = {}, []
        for text in texts[name].unique():
            values[text] = math.nan
            plain = text.removesuffix("%").strip()
            if (word := text.lower()) in _STATUSES and not kind.required:
                stated = stated.mask((texts[name] == text) & (stated == ""), _STATUSES[word])
            elif kind.required or word not in _ABSENT:
                percent = name in table.percent or plain != text
                try:
                    values[text] = kind.convert(repr(float(plain) / 100) if percent else text)
                except (ValueError, OverflowError):
                    invalid.append(text)
        if invalid:
            wrong.append(_invalid(table, name, invalid, kind.expected))
        rows[name] = [values[text] for text in texts[name]]
    raise_problems(wrong)
    empty = [name for name in rows if rows[name].isna().all()]
    rows = rows.drop(columns=empty).assign(**{STATED: stated})
    if "batch_size" in rows:
        rows["batch_size"] = _effective(table, rows)
    return rows


def _invalid(table: LogTable, name: str, invalid: list[str], expected: str) -> str:
    """Return the sentence about a column that has cells without a number."""
    places = table.texts.index[table.texts[name].isin(invalid)]
    shown = problems.show(table.texts.at[places[0], name])
    more = f", and {wording.count(len(places) - 1, 'more row')} like it" if len(places) > 1 else ""
    metric = METRICS.get(name)
    if metric and metric.share:
        expected += f" (`percent: [{table.name(name)}]` if it is in per cent)"
    place = f"{table.place(places[0])}, {table.name(name)}"
    return f"{place}: received {shown}{more}; {expected} is expected."


def _effective(table: LogTable, rows: pandas.DataFrame) -> pandas.Series:
    """Return the batch size of an update: of all micro-batches and devices.

    A column that already counts these, such as `global_batch_size`, is left as it is.
    """
    sizes = rows["batch_size"]
    words = table.names.get("batch_size", "").lower()
    if any(word in words for word in ("global", "effective", "total")):
        return sizes
    for name in MULTIPLIERS:
        if name in rows:
            sizes = sizes * rows[name].fillna(1).clip(lower=1).astype(int)
    return sizes


def without_copies(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return rows without those that equal a row of a longer log, such as a later checkpoint."""
    logs = table.places["log"].loc[rows.index]
    longest = logs.map(logs.value_counts()).sort_values(ascending=False, kind="stable").index
    bits = pandas.util.hash_pandas_object(rows.drop(columns=STATED), index=False)
    first = logs.loc[longest].groupby(bits.loc[longest], sort=False).transform("first")
    return rows[logs == first.loc[rows.index]]


def joined(rows: pandas.DataFrame, keys: list[str]) -> tuple[pandas.DataFrame, pandas.Series]:
    """Return rows in which those that complement each other are one, and whether one is repeated.

    Rows of a run at the same progress complement each other if each evaluates something else.
    Otherwise they are repeated.

    Args:
        keys: Columns of the identity of a run.
    """
    counter = next((name for name in PROGRESS if name in rows), None)
    repeated = pandas.Series(False, rows.index)
    if counter is None:
        return rows, repeated
    at = [*keys, counter]
    several = rows[at].duplicated(keep=False) & rows[counter].notna()
    part = rows[several]
    outcomes = [name for name in own_columns.outcomes() if name in rows]
    if part.empty:
        return rows, repeated
    group = part.groupby(at, sort=False).ngroup()
    counts = (
        part[outcomes].notna().groupby(group).sum() if outcomes else group.groupby(group).size()
    )
    merged = group.map((counts <= 1).all(axis=1) if outcomes else counts <= 1)
    repeated.loc[merged.index[~merged]] = True
    first = (
        part[merged].mask(part[merged] == "").groupby(group[merged], sort=False).transform("first")
    )
    keep = ~group[merged].duplicated()
    result = rows.drop(index=keep.index[~keep])
    result.loc[keep.index[keep], first.columns] = first[keep]
    return result.fillna({STATED: ""}), repeated.loc[result.index]


def epochs(
    table: LogTable, rows: pandas.DataFrame, keys: LogFormat, run: pandas.Series
) -> tuple[pandas.DataFrame, list[str]]:
    """Return rows with finished epochs, and notes.

    A log that begins with epoch 0 counts finished epochs from 0: epoch 0 has used one pass over the
    data. A row without any update at epoch 0 precedes the training instead. Examples that are
    computed from the epochs count one pass more, too.
    """
    if "epoch" not in rows:
        return rows, []
    counter = next(name for name in PROGRESS if name in rows)
    if counter != "epoch" and pandas.concat([run, rows["epoch"]], axis=1).duplicated().any():
        note = f"{table.name('epoch')} is not read: several rows of a run have the same epoch"
        return rows.drop(columns="epoch"), [note]
    logs = table.places["log"].loc[rows.index]
    passes = _passes(rows)
    by_log = rows["epoch"].groupby(logs)
    begins = (by_log.transform("min") == 0) & (rows["epoch"] % 1).groupby(logs).transform("max").eq(
        0
    )
    before = rows["epoch"].eq(0) & rows.get(counter, rows["epoch"]).eq(0)
    if counter == "updates" or (counter == "examples" and passes is None):
        begins &= ~before.groupby(logs).transform("any")
    shifted = begins if keys.first_epoch is None else begins | (keys.first_epoch == 0)
    if keys.first_epoch == 1 or not shifted.any():
        return rows, []
    rows = rows.assign(epoch=rows["epoch"] + shifted)
    if counter == "examples" and passes is not None:
        rows["examples"] += passes * shifted
    note = "epochs count from 0: epoch 0 has used one pass over the data (`first_epoch: 1` if not)"
    return rows, [note] if keys.first_epoch is None else []


def _passes(rows: pandas.DataFrame) -> float | None:
    """Return the examples of an epoch if the examples are epochs times a number."""
    if "examples" not in rows:
        return None
    later = rows["epoch"] > 0
    ratios = (rows["examples"] / rows["epoch"])[later].dropna().unique()
    start = rows.loc[rows["epoch"] == 0, "examples"]
    return float(ratios[0]) if len(ratios) == 1 and start.eq(0).all() else None


def completed(rows: pandas.DataFrame, keys: LogFormat) -> pandas.DataFrame:
    """Return rows with updates, examples and, where they are known, epochs.

    An epoch has a last, smaller batch if the batch size does not divide its examples, as in Keras.
    Epochs alone state neither updates nor examples.
    """
    nothing = pandas.Series(math.nan, rows.index)
    updates, examples = (rows.get(name, nothing) for name in ("updates", "examples"))
    if keys.updates_per_epoch is not None:
        updates = updates.fillna(rows.get("epoch", nothing) * keys.updates_per_epoch)
    examples = examples.fillna(updates * rows["batch_size"])
    if (size := keys.examples_per_epoch) is not None:
        examples = examples.fillna(rows.get("epoch", nothing) * size)
        rows = rows.assign(epoch=rows.get("epoch", nothing).fillna(examples / size))
        whole = np.floor(examples / size + _ROUNDING)
        rest = (examples - whole * size).clip(lower=0)
        of_epoch = np.ceil(size / rows["batch_size"])
        updates = updates.fillna(whole * of_epoch + rest / rows["batch_size"])
    return rows.assign(updates=updates.fillna(examples / rows["batch_size"]), examples=examples)


def seconds(table: LogTable, rows: pandas.DataFrame, run: pandas.Series) -> pandas.DataFrame:
    """Return rows in order of progress with seconds since the start, from those of an epoch."""
    if "seconds_per_epoch" not in rows:
        return rows
    of_epoch = rows.pop("seconds_per_epoch")
    if "seconds" in rows or "epoch" not in rows:
        return rows
    epochs_since = rows["epoch"].groupby(run).diff().fillna(rows["epoch"])
    return rows.assign(seconds=(of_epoch * epochs_since).groupby(run).cumsum())


class LoggedRun(NamedTuple):
    """The log of one run.

    Attributes:
        rows: Updates, examples, what else is known, losses and metrics, in order.
        status: What it states, `diverged` if its last loss is not finite, or nothing.
    """

    rows: pandas.DataFrame
    status: str
    table: LogTable


def of_run(path: str, batch_size: int, keys: LogFormat, metrics: tuple[str, ...] = ()) -> LoggedRun:
    """Return the log of one run with a known batch size. Of repeated rows the last one counts.

    Raises:
        UserError: If it cannot be read, or leaves a question open.
    """
    table = log_table.read(keys, {path: {"batch_size": str(batch_size), "seed": "0"}}, metrics)
    rows = read(table)
    names = [name for name in ("epoch", *AXES, *own_columns.outcomes()) if name in rows]
    if not {*names} & {*own_columns.outcomes()}:
        raise UserError(
            f"{table.place(0)}: no loss or metric: not in the columns "
            f"{log_table.listed(table.logs[0].rows)}; name one by `log.columns`, as in "
            "{validation_loss: ...}."
        )
    stated = [text for text in rows[STATED] if text and text != records.FINISHED]
    run = pandas.Series(0, rows.index)
    rows = rows.assign(batch_size=batch_size, run=run)
    counter = next((name for name in PROGRESS if name in rows), None)
    if counter is None:  # it failed before the first evaluation
        return LoggedRun(rows.iloc[:0], stated[-1], table)
    last = _repeated_last(rows, counter)
    rows, _ = epochs(table, last, keys, last["run"])
    rows = seconds(table, completed(rows, keys), rows["run"])
    raise_problems(_uncounted(table, rows, counter))
    names = [name for name in ("epoch", *AXES, *own_columns.outcomes()) if name in rows]
    status = stated[-1] if stated else records.DIVERGED if diverged(rows) else ""
    return LoggedRun(rows[names], status, table)


def _repeated_last(rows: pandas.DataFrame, counter: str) -> pandas.DataFrame:
    """Return rows in order of progress, each with the last values of those at its progress.

    A row without progress after all others is of the end.
    """
    after = rows[counter].isna() & (rows.index > max(rows.index[rows[counter].notna()], default=-1))
    used = [name for name in PROGRESS if name in rows]
    rows = rows.copy()
    for name in used:
        rows.loc[after, name] = rows[name].max()
    places = rows[counter].drop_duplicates(keep="last").dropna().sort_values().index
    last = rows.groupby(counter, as_index=False).last()[[*rows]].set_axis(places)
    return pandas.concat([last, rows[rows[counter].isna()]])


def _uncounted(table: LogTable, rows: pandas.DataFrame, counter: str) -> Iterator[str]:
    evaluated = rows.reindex(columns=[*own_columns.outcomes()]).notna().any(axis=1)
    for row in rows.index[rows[counter].isna() & evaluated]:
        yield f"{table.place(row)}: received no number of {counter}; one is expected."


def diverged(rows: pandas.DataFrame) -> bool:
    names = (*LOSSES, *own_columns.of_metrics(tasks.USER_METRICS))
    losses = rows.reindex(columns=names).dropna(how="all")
    return len(losses) > 0 and bool(np.isinf(losses.iloc[-1]).any())
