"""The evaluations of one run, as its log has them, in the columns of our tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from batchscope.catalogue.own_columns import AXES, LOSSES
from batchscope.errors import UserError
from batchscope.study import external_runs


def read(path: Path, log: Mapping[str, Any], batch_size: int) -> pandas.DataFrame:
    """Returns a row per evaluation, in order; raises `UserError` where the log has none.

    Args:
        log: Keys of the log that the study states.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); a log is expected.") from None
    cells = external_runs._cells(path, content)
    cells = cells.rename(columns={theirs: ours for ours, theirs in log.get("columns", {}).items()})
    rows = external_runs._numbers(path, cells.assign(batch_size=str(batch_size)), single=False)
    return rows.drop(columns="batch_size")


def diverged(rows: pandas.DataFrame) -> bool:
    """Whether the last value of a loss is no number any more."""
    losses = rows.reindex(columns=[name for name in LOSSES if name in rows])
    last = losses.ffill().tail(1).to_numpy(float)
    return bool(np.isinf(last).any())


def timed(rows: pandas.DataFrame, seconds: float | None) -> pandas.DataFrame:
    """Returns the evaluations with the seconds until each, of a run that took some in all.

    Those of the log, where it has them; else each example is taken to have lasted as long.
    """
    if seconds is None or rows.empty:
        return rows.drop(columns="seconds", errors="ignore")
    if "seconds" in rows and rows["seconds"].notna().any():
        return rows
    used = rows[AXES[1]]
    return rows.assign(seconds=seconds * used / used.iloc[-1])
