"""Where trainings ended: what stopped them, what they have in common there, and total times."""

from __future__ import annotations

import math

import pandas

from batchscope.analysis import run_series
from batchscope.catalogue import run_factors
from batchscope.store.records import FINISHED

STOPS = ("patience", "target_train_loss")  # factors that stop a training where they are above 0
# When a training ends at the latest, how it is watched and where it runs: not what it does.
_FREE = {"epochs", *STOPS, "update_norms", "evaluate_every", "replicas", "device", "threads"}
_DIGESTS = ("machine", "dataset_digest", "model_digest")


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


def ran_out(rows: pandas.DataFrame) -> dict[int, tuple[int, int]]:
    """Returns batch size -> how many of how many finished runs were not stopped, where some."""
    finished = run_series.finished(rows)
    counts = unstopped(finished).groupby(finished["batch_size"]).agg(["sum", "count"])
    found = zip(counts.index, counts["sum"], counts["count"], strict=True)
    return {int(size): (int(some), int(all_)) for size, some, all_ in found if some}


def held_equal(rows: pandas.DataFrame) -> tuple[str, float]:
    """Returns the column that the finished runs of a series have in common, and its value.

    Which batch size is better depends on it: a training loss, epochs or updates; else the patience
    that could stop all of them alike, or nothing.
    """
    finished = run_series.finished(rows)
    for column in ("target_train_loss", "epochs_run", "steps_run", "patience"):
        values = finished[column].dropna().unique() if column in finished else ()
        if len(values) == 1 and values[0] > 0:
            return column, float(values[0])
    return "", math.nan


def parallel_totals(timed: pandas.DataFrame, trained: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the runs of which an epoch was timed, with the seconds until they would have stopped.

    Replicas divide a batch and apply the gradient of all of it: a training takes as many epochs on
    several as on one. Where it stopped on one device, its epochs count for all (as Chang and Pathak
    2020 multiply their Figures 7 and 8).

    Args:
        timed: Runs of one experiment.
        trained: Any runs; those that patience stopped count.
    """
    stopped = trained[trained["stop_reason"] == "patience"]
    same = [name for name in run_factors.FACTORS if name in timed and name not in _FREE]
    same += [name for name in _DIGESTS if name in timed]
    # One that another patience stopped elsewhere has no one length.
    stopped = stopped.drop_duplicates([*same, "epochs_run"]).drop_duplicates(same, keep=False)
    known = run_series.finished(timed).dropna(subset="seconds_per_epoch").drop(columns="epochs_run")
    found = known.merge(stopped[[*same, "epochs_run"]], on=same)
    seconds = found["epochs_run"] * found["seconds_per_epoch"]
    return found[["device", "replicas", "batch_size", "seed"]].assign(seconds=seconds)
