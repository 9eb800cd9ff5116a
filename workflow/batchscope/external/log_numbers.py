"""Read the numbers of logs: texts in, progress, outcomes and status per row out, in our units."""

import math

import numpy as np
import pandas

from batchscope.core import display, problems
from batchscope.core.errors import raise_problems
from batchscope.external.log_table import LogTable
from batchscope.store import records
from batchscope.study import log_format, tasks
from batchscope.study.log_format import LOSS_COLUMNS, METRICS, MULTIPLIERS, PROGRESS, LogFormat

STATED_STATUS = "stated"  # column of the status in a row; empty if the row has none
_EMPTY_CELLS = ("", "na", "n/a", "#n/a", "<na>", "null", "none", "-")
# Map of a word in place of a number to the status of the run.
_STATUSES = {
    **dict.fromkeys(("failed", "fail", "error", "crashed", "crash"), records.CRASHED),
    **dict.fromkeys(("killed", "timeout"), "killed"),
    **dict.fromkeys(("oom", "out of memory", "out_of_memory"), records.OUT_OF_MEMORY),
    "diverged": records.DIVERGED,
}
_REQUIRED = ("batch_size", "seed")
_AMOUNTS = (*PROGRESS, "seconds", *MULTIPLIERS)
_EPOCH_TOLERANCE = 1e-9  # rounding error of a number of epochs


def read(table: LogTable) -> pandas.DataFrame:
    """Return the numbers of all rows, and the status that each row states.

    Raises:
        ConfigError: If cells are no numbers. It has a sentence for every such column.
    """
    texts = table.texts
    statuses = texts["status"].str.lower() if "status" in texts else pandas.Series("", texts.index)
    statuses = statuses.map(lambda text: _STATUSES.get(text, text))
    rows, wrong = pandas.DataFrame(index=texts.index), []
    numeric = (*_REQUIRED, *_AMOUNTS, *table.outcomes)
    for name in filter(numeric.__contains__, texts):
        if name not in _REQUIRED:
            words = texts[name].str.lower().map(_STATUSES)
            statuses = statuses.mask((statuses == "") & words.notna(), words)
        numbers = {text: _parse_cell(name, text, table) for text in texts[name].unique()}
        invalid = [text for text, number in numbers.items() if number is None]
        if invalid:
            wrong.append(_invalid_cells(table, name, texts.index[texts[name].isin(invalid)]))
        rows[name] = [numbers[text] for text in texts[name]]
    raise_problems(wrong)
    rows = rows.dropna(axis=1, how="all").assign(**{STATED_STATUS: statuses})
    size_name = table.names.get("batch_size", "").lower()
    if not any(word in size_name for word in ("global", "effective", "total")):
        # The batch of an update is divided among micro-batches and devices.
        for name in {*MULTIPLIERS} & {*rows}:
            rows["batch_size"] *= rows[name].fillna(1).clip(lower=1).astype(int)
    return rows


def _parse_cell(name: str, text: str, table: LogTable) -> float | None:
    """Return the number of a cell, NaN for an empty cell or a status; None if it is invalid.

    A loss that is NaN becomes infinite. A user-defined metric that is not finite becomes its worst
    value.
    """
    if name not in _REQUIRED and text.lower() in (*_STATUSES, *_EMPTY_CELLS):
        return math.nan
    plain = text.removesuffix("%")
    try:
        number = float(plain)  # exact below 2^53
    except ValueError:
        return None
    if name in _REQUIRED:
        is_valid = number.is_integer() and (name == "batch_size") <= number < 2**53
        return int(number) if is_valid and plain == text else None
    value = number if plain == text else number / 100
    user_metric = tasks.user_metric(name, table.metrics)
    metric = METRICS.get(name) or user_metric
    least, most = (metric.minimum, metric.maximum) if metric else (0.0, math.inf)
    if value < least or value > most or (name in _AMOUNTS and not math.isfinite(value)):
        return None
    if name in MULTIPLIERS and not value.is_integer():
        return None
    if not math.isfinite(value) and (name in LOSS_COLUMNS or user_metric):
        return tasks.where_lower_is_better(math.inf, name, table.metrics)
    return value


def _invalid_cells(table: LogTable, name: str, places: pandas.Index) -> str:
    """Return the message about a column with cells that are no valid numbers."""
    cell = problems.show(table.texts.at[places[0], name])
    metric = METRICS.get(name) or tasks.user_metric(name, table.metrics)
    expected = metric.expected if metric else "a number from 0 on"
    if name in (*_REQUIRED, *MULTIPLIERS):
        expected = f"a whole number from {int(name == 'batch_size')} on"
    place = f"{table.place(places[0])}, {table.name(name)}"
    return (
        f"{place}: received {cell}, in {display.count(len(places), 'row')}; {expected} is expected."
    )


def complete_progress(table: LogTable, rows: pandas.DataFrame, keys: LogFormat) -> pandas.DataFrame:
    """Return rows in order of progress with updates, examples, epochs and seconds, if known.

    As in Keras, an epoch has a smaller last batch if the batch size does not divide its examples.
    Without `examples_per_epoch`, epochs determine neither updates nor examples.

    Args:
        rows: Rows with the column `order`, which numbers the runs.
    """
    rows = _with_epochs(table, rows)
    unknown = pandas.Series(math.nan, rows.index)
    updates, examples, epochs = (rows.get(name, unknown) for name in PROGRESS)
    examples = examples.fillna(updates * rows["batch_size"])
    if (size := keys.examples_per_epoch) is not None:
        examples = examples.fillna(epochs * size)
        rows = rows.assign(epoch=epochs.fillna(examples / size))
        full_epochs = np.floor(examples / size + _EPOCH_TOLERANCE)
        remainder = (examples - full_epochs * size).clip(lower=0)
        updates_per_epoch = np.ceil(size / rows["batch_size"])
        updates = updates.fillna(full_epochs * updates_per_epoch + remainder / rows["batch_size"])
    rows = rows.assign(updates=updates.fillna(examples / rows["batch_size"]), examples=examples)
    used = [name for name in PROGRESS if name in rows]
    return rows.sort_values(["order", *used], kind="stable")


def _with_epochs(table: LogTable, rows: pandas.DataFrame) -> pandas.DataFrame:
    """Return rows with the number of finished epochs.

    If a log begins with epoch 0, epoch 0 is one pass over the data, so all its epochs are raised by
    one. The exception is a row at epoch 0 without updates or examples, which precedes the training.
    """
    if "epoch" not in rows:
        return rows
    epochs = rows["epoch"]
    counter = next(name for name in PROGRESS if name in rows)
    ordered = rows.dropna(subset="epoch").sort_values(["order", counter], kind="stable")
    if counter != "epoch" and ordered.groupby("order")["epoch"].diff().eq(0).any():
        text = f"not read: {table.name('epoch')}, since several rows of a run have the same epoch"
        table.notes.append(text)
        return rows.drop(columns="epoch")
    logs = table.positions["log"].loc[rows.index]
    from_zero = epochs.eq(0).groupby(logs).transform("any")
    from_zero &= epochs.mod(1).fillna(0).eq(0).groupby(logs).transform("all")
    if counter != "epoch":
        before = epochs.eq(0) & rows[counter].eq(0)
        from_zero &= ~before.groupby(logs).transform("any")
    if from_zero.any():
        text = "epochs count from 0: epoch 0 has used one pass over the data"
        table.notes.append(f"{text} (leave its rows out if it has not)")
    return rows.assign(epoch=epochs + from_zero)


def run_status(rows: pandas.DataFrame, metrics: tasks.Metrics) -> str:
    """Return the status in the rows of a run, or `diverged`; an empty text if it finished."""
    statuses = [text for text in rows[STATED_STATUS] if text and text != records.FINISHED]
    if statuses:
        return statuses[-1]
    names = (*LOSS_COLUMNS, *log_format.metric_columns(metrics))
    last_losses = rows.reindex(columns=names).dropna(how="all").tail(1).astype(float)
    return records.DIVERGED if np.isinf(last_losses).any(axis=None) else ""
