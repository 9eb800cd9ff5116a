"""The numbers of cells: what a run had used and evaluated by each row, in our tables' units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.errors import UserError, raise_problems
from batchscope.external import cells
from batchscope.external.cells import LogCells
from batchscope.study import tasks
from batchscope.study.log_source import Source, escaped
from batchscope.study.own_columns import AXES, LOSSES, METRICS, of_metrics, outcomes

STATED = "stated"  # column of what a row says became of its run
_ABSENT = ("", "na", "n/a", "#n/a", "<na>", "null", "none", "-")  # cells without a number
# Words in place of a number -> what became of the run.
_FATES = {
    **dict.fromkeys(("failed", "fail", "error", "crashed", "crash"), "failed"),
    **dict.fromkeys(("killed", "timeout"), "killed"),
    **dict.fromkeys(("oom", "out of memory", "out_of_memory"), "out_of_memory"),
    "diverged": "diverged",
}
_ROUNDING = 1e-9  # of a number of epochs
# The loss of the largest batch size over that of the smallest, from which on both have trained.
_APART = 1.1


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
    """Returns what was used; NaN where a target was never reached, which took forever."""
    value = _number(text)
    if math.isnan(value):
        raise ValueError
    return value if value < math.inf else math.nan


def _loss(text: str) -> float:
    value = _number(text)
    return math.inf if math.isnan(value) else value


def _metric(text: str, worst: float) -> float:
    """Returns a study's own metric: the worst where it is no number any more."""
    value = float(text)
    if math.isinf(value):
        raise ValueError
    return worst if math.isnan(value) else value


_AMOUNT = (_amount, "a number from 0 on")
_EVALUATED = "a finite number, nan where it diverged, or nothing"
_KINDS: dict[str, tuple[Callable[[str], float], str]] = {
    "batch_size": (partial(_whole, least=1), "a whole number from 1 on, below 2^63,"),
    "seed": (_whole, "a whole number from 0 on, below 2^63,"),
    **dict.fromkeys(("epoch", *AXES), _AMOUNT),
    **dict.fromkeys(LOSSES, (_loss, "a number from 0 on, nan where it diverged, or nothing")),
    **{
        name: (partial(_number, least=one.least, most=one.most), f"{one.expected}, or nothing")
        for name, one in METRICS.items()
    },
}
KNOWN = (*_KINDS, "run", "machine", "status")  # columns that distinguish no series by themselves


def read(found: LogCells) -> pandas.DataFrame:
    """Returns the numbers of all rows, and as `stated` what a row says became of its run.

    Raises:
        ConfigError: With every cell that is no number.
    """
    table, kinds = found.table, dict(_KINDS)
    for name in of_metrics(found.metrics):
        worst = tasks.falling(math.inf, name)
        kinds[name] = partial(_metric, worst=worst), _EVALUATED
    rows, wrong = pandas.DataFrame(index=table.index), []
    stated = table["status"].str.lower() if "status" in table else pandas.Series("", table.index)
    stated = stated.replace({word: _FATES[word] for word in ("oom", "out of memory")})
    for name in filter(kinds.__contains__, table):
        (convert, expected), needed = kinds[name], name in ("batch_size", "seed")
        values: dict[str, float] = {}
        bad = []
        for text in table[name].unique():
            values[text] = math.nan
            if text.lower() in _FATES and not needed:
                stated = stated.mask((table[name] == text) & (stated == ""), _FATES[text.lower()])
            elif needed or text.lower() not in _ABSENT:
                try:
                    values[text] = convert(text)
                except (ValueError, OverflowError):
                    bad.append(text)
        wrong += [
            (row, f"{found.name(row, name)}: received {problems.show(text)}; {expected}")
            for row, text in table.loc[table[name].isin(bad), name].items()
        ]
        rows[name] = [values[text] for text in table[name]]
    raise_problems(f"{found.place(row)}, {text} is expected." for row, text in sorted(wrong))
    for name in [each for each in AXES if each in rows and rows[each].isna().all()]:
        rows = rows.drop(columns=name)  # known of no run
    return rows.assign(**{STATED: stated})


def completed(found: LogCells, rows: pandas.DataFrame, epoch: float | None) -> pandas.DataFrame:
    """Returns rows with updates, examples and, where it is known, the epoch.

    An epoch has a last, smaller batch if the batch size does not divide its examples, as in Keras.

    Args:
        epoch: Training examples of an epoch.
    """
    if not {"updates", "examples"} & {*rows} and epoch is None:
        raise UserError(
            f"{found.place(0)}: received no updates or examples, but {found.name(0, 'epoch')} "
            "alone; `examples_per_epoch: N`, the training examples of an epoch, is expected."
        )
    rows = _by_ends(rows)
    nothing = pandas.Series(math.nan, rows.index)
    updates, examples = (rows.get(name, nothing) for name in ("updates", "examples"))
    examples = examples.fillna(updates * rows["batch_size"])
    if epoch is not None:
        examples = examples.fillna(rows.get("epoch", nothing) * epoch)
        rows = rows.assign(epoch=rows.get("epoch", nothing).fillna(examples / epoch))
        whole = np.floor(examples / epoch + _ROUNDING)
        rest = (examples - whole * epoch).clip(lower=0)
        of_epoch = np.ceil(epoch / rows["batch_size"])
        updates = updates.fillna(whole * of_epoch + rest / rows["batch_size"])
    return rows.assign(updates=updates.fillna(examples / rows["batch_size"]), examples=examples)


def _by_ends(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Count epochs from 1 if updates or examples grow with the epoch's number plus one.

    A log with 250 updates at epoch 0 and 500 at epoch 1 writes its rows at the ends of epochs.
    """
    counter = next((name for name in ("updates", "examples") if name in rows), None)
    if counter is None or "epoch" not in rows:
        return rows

    def proportional(epochs: pandas.Series) -> bool:
        ratios = (rows[counter] / epochs).groupby(rows["batch_size"])
        return bool((ratios.max() - ratios.min() <= _ROUNDING * ratios.min()).all())

    later = rows["epoch"] + 1
    from_zero = proportional(later) and not proportional(rows["epoch"])
    return rows.assign(epoch=later) if from_zero else rows


def apart(low: Any, high: Any) -> Any:
    return high - low > (_APART - 1) * abs(low)


def counted_from_zero(
    found: LogCells, rows: pandas.DataFrame, run: pandas.Series, epoch: float | None
) -> tuple[pandas.DataFrame, str]:
    """Returns rows by epochs that count from 0 as what was used by their ends, and a note on it.

    Untrained networks are alike at all batch sizes: where the loss at 0 rises with the batch size,
    it is the one after a first epoch.

    Args:
        run: Number of each row's run.
        epoch: Training examples of an epoch, where it is stated.

    Raises:
        UserError: If other columns do not say how much was used.
    """
    counter = next((name for name in ("updates", "examples", "epoch") if name in rows), None)
    loss = next((name for name in outcomes() if name in rows), None)
    if counter is None or loss is None or counter in found.stated:
        return rows, ""
    first = rows[(rows[counter] == 0) & np.isfinite(rows[loss])]
    by_size = first[loss].groupby(first["batch_size"]).median()
    ordered = tasks.falling(by_size, loss)
    steps = ordered.diff().dropna()
    if not len(steps) or not (steps > 0).all() or not apart(ordered.iloc[0], ordered.iloc[-1]):
        return rows, ""
    shown = wording.listed(map(wording.shortest, by_size))
    text = f"{found.name(first.index[0], loss)}: received {shown} of batch sizes "
    text += f"{wording.listed(by_size.index)} at {found.name(first.index[0], counter)} 0"
    place = found.place(first.index[0])
    used = rows.get("examples", pandas.Series(math.nan, rows.index))
    if epoch is None and "epoch" in rows:
        ratios = (used / rows["epoch"].where(rows["epoch"] > 0)).dropna().unique()
        epoch = ratios[0] if len(ratios) == 1 else None
    whole = "epoch" in rows and (rows["epoch"] == rows["epoch"].round()).all()
    if "updates" in rows and (rows.groupby(run)["updates"].diff().dropna() != 1).any():
        return rows, ""  # evaluated before the first update, whatever the weights were
    if not whole or epoch is None or "updates" in rows:
        raise UserError(
            f"{place}, {text}, where nothing is trained yet; if it counts epochs from 0, "
            f"`columns: {{epoch: {found.name(first.index[0], counter)}}}` and "
            "`examples_per_epoch: N` are expected, else the same under its own name."
        )
    counted = rows.assign(epoch=rows["epoch"] + 1, examples=(rows["epoch"] + 1) * epoch)
    return counted, f"{place}, {text}: epochs count from 0, and each has used one more by its end"


class Evaluated(NamedTuple):
    """What the log of one run says."""

    rows: pandas.DataFrame  # updates, examples, what else is known, losses and metrics, in order
    status: str  # what it states, `diverged` where its last loss is not finite, or nothing
    read_as: str  # what it was recognised as
    cells: LogCells  # in which the rows stand


def of_run(
    path: Path | str,
    batch_size: int,
    kind: str,
    columns: Mapping[str, str],
    examples_per_epoch: float | None = None,
    metrics: tuple[str, ...] = (),
) -> Evaluated:
    """Returns what the log of one run says, whose batch size is known.

    Raises:
        UserError: If it cannot be read, or leaves a question open.
    """
    source = Source((escaped(str(path)),), kind, (*columns.items(),), metrics=metrics)
    found = cells.gather(source, Path(), {"batch_size": str(batch_size), "seed": "0"})
    rows = completed(found, read(found), examples_per_epoch).sort_values("updates", kind="stable")
    names = [name for name in ("epoch", *AXES, *outcomes()) if name in rows]
    stated = [text for text in rows[STATED] if text]
    status = stated[-1] if stated else "diverged" if diverged(rows) else ""
    return Evaluated(rows[names], status, found.read_as, found)


def diverged(rows: pandas.DataFrame) -> bool:
    losses = rows.reindex(columns=(*LOSSES, *of_metrics(tasks.USER_METRICS))).dropna(how="all")
    return len(losses) > 0 and bool(np.isinf(losses.iloc[-1]).any())
