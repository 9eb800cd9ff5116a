"""Where trainings ended, and what stopped them."""

from __future__ import annotations

import pandas

from batchscope.analysis import run_series
from batchscope.store.records import FINISHED

STOPS = ("patience", "target_train_loss")  # factors that stop a training where they are above 0


def all_ran_out(rows: pandas.DataFrame) -> bool:
    """Returns whether some runs finished, and all of them after all their epochs."""
    finished = run_series.finished(rows)
    return bool(len(finished) and (finished["epochs_run"] == finished["epochs"]).all())


def epochs_chosen(rows: pandas.DataFrame) -> bool:
    """Returns whether all finished runs ran all their epochs since nothing could stop them."""
    return all_ran_out(rows) and not unstopped(rows).any()


def unstopped(rows: pandas.DataFrame) -> pandas.Series:
    """Returns which finished runs ran all their epochs though something could have stopped them."""
    ran = rows["status"].eq(FINISHED) & (rows["epochs_run"] == rows["epochs"]).fillna(False)
    return ran & (rows[[name for name in STOPS if name in rows]] > 0).any(axis=1)
