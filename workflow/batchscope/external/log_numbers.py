"""The numbers of logs: progress, outcomes and status of each row, in the units of our tables."""

from __future__ import annotations

import math

import numpy as np
import pandas

from batchscope.core import display, problems
from batchscope.core.errors import raise_problems
from batchscope.external.log_table import LogTable
from batchscope.store import records
from batchscope.study import external_columns, tasks
from batchscope.study.external_columns import LOSSES, METRICS
from batchscope.study.log_keys import LogFormat
from batchscope.study.log_names import MULTIPLIERS, PROGRESS

STATED = "stated"  # column of the status that a row states
_ABSENT = ("", "na", "n/a", "#n/a", "<na>", "null", "none", "-")  # cells without a number
# Word instead of a number -> status of the run.
_STATUSES = {
    **dict.fromkeys(("failed", "fail", "error", "crashed", "crash"), records.CRASHED),
    **dict.fromkeys(("killed", "timeout"), "killed"),
    **dict.fromkeys(("oom", "out of memory", "out_of_memory"), records.OUT_OF_MEMORY),
    "diverged": records.DIVERGED,
}
_REQUIRED = ("batch_size", "seed")
_AMOUNTS = (*PROGRESS, "seconds", "seconds_per_epoch", *MULTIPLIERS)
_ROUNDING = 1e-9  # of a number of epochs


def read(table: LogTable) -> pandas.DataFrame:
    """Return the numbers of all rows, and the status that each row states.

    Raises:
        ConfigError: With a sentence for every column that has a cell without a number.
    """
    texts = table.texts
    statuses = texts["status"].str.lower() if "status" in texts else pandas.Series("", texts.index)
    statuses = statuses.map(lambda text: _STATUSES.get(text, text))
    rows, wrong = pandas.DataFrame(index=texts.index), []
    for name in texts:
        if name not in (*_REQUIRED, *_AMOUNTS, *table.outcomes):
            continue
        values, invalid = {}, []
        for text in texts[name].unique():
            values[text], word = math.nan, text.lower()
            if word in _STATUSES and name not in _REQUIRED:
                statuses = statuses.mask((texts[name] == text) & (statuses == ""), _STATUSES[word])
            elif name in _REQUIRED or word not in _ABSENT:
                try:
                    values[text] = _number(name, text, table)
                except (ValueError, OverflowError):
                    invalid.append(text)
        if invalid:
            wrong.append(_invalid(table, name, texts.index[texts[name].isin(invalid)]))
        rows[name] = [values[text] for text in texts[name]]
    raise_problems(wrong)
    rows = rows.dropna(axis=1, how="all").assign(**{STATED: statuses})
    size_name = table.names.get("batch_size", "").lower()
    if not any(word in size_name for word in ("global", "effective", "total")):
        for name in {*MULTIPLIERS} & {*rows}:  # micro-batches and devices of an update
            rows["batch_size"] *= rows[name].fillna(1).clip(lower=1).astype(int)
    return rows


def _number(name: str, text: str, table: LogTable) -> float:
    """Return the number of a cell; ValueError if it is none.

    Infinity is used for a loss that is NaN, and NaN for an amount that is infinite, as of a target
    that was never reached. A user-defined metric that is not finite has its worst value.
    """
    if name in _REQUIRED:
        try:
            number = int(text)
        except ValueError:  # 3.0, which is exact below 2^53 alone
            number = int(float(text)) if float(text).is_integer() and float(text) < 2**53 else -1
        if not (name == "batch_size") <= number < 2**63:  # which the tables do not hold
            raise ValueError
        return number
    plain = text.removesuffix("%")
    value = float(plain) / 100 if name in table.percent or plain != text else float(text)
    user_metric = tasks.user_metric(name, table.metrics)
    metric = METRICS.get(name) or user_metric
    least, most = (metric.least, metric.most) if metric else (0.0, math.inf)
    if value < least or value > most or (math.isnan(value) and name in _AMOUNTS):
        raise ValueError
    if not math.isfinite(value) and (name in LOSSES or user_metric):
        return tasks.falling(math.inf, name, table.metrics)
    return math.nan if math.isinf(value) and name in _AMOUNTS else value


def _invalid(table: LogTable, name: str, places: pandas.Index) -> str:
    """Return the sentence about a column that has cells without a number."""
    cell = problems.show(table.texts.at[places[0], name])
    like_it = (
        f", and {display.count(len(places) - 1, 'more row')} like it" if len(places) > 1 else ""
    )
    metric = METRICS.get(name) or tasks.user_metric(name, table.metrics)
    expected = metric.expected if metric else "a number from 0 on"
    if name in _REQUIRED:
        expected = f"a whole number from {int(name == 'batch_size')} on"
    if metric and metric.share:
        expected += f" (`percent: [{table.name(name)}]` if it is in per cent)"
    place = f"{table.place(places[0])}, {table.name(name)}"
    return f"{place}: received {cell}{like_it}; {expected} is expected."


def completed(table: LogTable, rows: pandas.DataFrame, keys: LogFormat) -> pandas.DataFrame:
    """Return rows in order of progress with updates, examples, epochs and seconds, if known.

    An epoch has a last, smaller batch if the batch size does not divide its examples, as in Keras.
    Epochs alone state neither updates nor examples.

    Args:
        rows: Rows with the column `order`, which numbers the runs.
    """
    rows = _with_epochs(table, rows, keys)
    nothing = pandas.Series(math.nan, rows.index)
    updates, examples, epochs = (rows.get(name, nothing) for name in PROGRESS)
    if keys.updates_per_epoch is not None:
        updates = updates.fillna(epochs * keys.updates_per_epoch)
    examples = examples.fillna(updates * rows["batch_size"])
    if (size := keys.examples_per_epoch) is not None:
        examples = examples.fillna(epochs * size)
        rows = rows.assign(epoch=epochs.fillna(examples / size))
        full_epochs = np.floor(examples / size + _ROUNDING)
        remainder = (examples - full_epochs * size).clip(lower=0)
        of_epoch = np.ceil(size / rows["batch_size"])
        updates = updates.fillna(full_epochs * of_epoch + remainder / rows["batch_size"])
    rows = rows.assign(updates=updates.fillna(examples / rows["batch_size"]), examples=examples)
    used = [name for name in PROGRESS if name in rows]
    rows = rows.sort_values(["order", *used], kind="stable")
    of_epoch = rows.pop("seconds_per_epoch") if "seconds_per_epoch" in rows else None
    if of_epoch is not None and "seconds" not in rows and "epoch" in rows:
        since = rows["epoch"].groupby(rows["order"]).diff().fillna(rows["epoch"])
        rows["seconds"] = (of_epoch * since).groupby(rows["order"]).cumsum()
    return rows


def _with_epochs(table: LogTable, rows: pandas.DataFrame, keys: LogFormat) -> pandas.DataFrame:
    """Return rows with finished epochs.

    A log that begins with epoch 0 counts finished epochs from 0: epoch 0 has used one pass over the
    data. A row without any update at epoch 0 precedes the training instead. Examples that are
    computed from the epochs count one pass more, too.
    """
    if "epoch" not in rows:
        return rows
    epochs, run = rows["epoch"], rows["order"]
    if {"updates", "examples"} & {*rows} and epochs.groupby(run).diff().eq(0).any():
        text = f"not read: {table.name('epoch')}, since several rows of a run have the same epoch"
        table.notes.append(text)
        return rows.drop(columns="epoch")
    later, passes = epochs > 0, None
    if "examples" in rows and (ratios := {*(rows["examples"] / epochs)[later].dropna()}):
        passes = ratios.pop() if len(ratios) == 1 else None
    logs = table.places["log"].loc[rows.index]
    from_zero = epochs.eq(0).groupby(logs).transform("any")
    from_zero &= epochs.mod(1).fillna(0).eq(0).groupby(logs).transform("all")
    counter = next(name for name in PROGRESS if name in rows)
    if counter == "updates" or (counter == "examples" and passes is None):
        before = epochs.eq(0) & rows[counter].eq(0)
        from_zero &= ~before.groupby(logs).transform("any")
    shift = (
        from_zero if keys.first_epoch is None else pandas.Series(not keys.first_epoch, run.index)
    )
    if keys.first_epoch is None and shift.any():
        text = "epochs count from 0: epoch 0 has used one pass over the data"
        table.notes.append(f"{text} (`first_epoch: 1` if it has not)")
    if counter == "examples" and passes is not None:
        rows = rows.assign(examples=rows["examples"] + passes * shift)
    return rows.assign(epoch=epochs + shift)


def status(rows: pandas.DataFrame, metrics: tasks.Metrics) -> str:
    """Return the status of a run that its rows state, or `diverged` if it ends with no number."""
    statuses = [text for text in rows[STATED] if text and text != records.FINISHED]
    return statuses[-1] if statuses else records.DIVERGED if diverged(rows, metrics) else ""


def diverged(rows: pandas.DataFrame, metrics: tasks.Metrics) -> bool:
    names = (*LOSSES, *external_columns.metric_columns(metrics))
    losses = rows.reindex(columns=names).dropna(how="all")
    return len(losses) > 0 and bool(np.isinf(losses.iloc[-1].astype(float)).any())
