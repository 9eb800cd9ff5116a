"""Total time of a training in parallel: epochs until it stopped, times the time of an epoch.

Replicas divide a batch and apply the gradient of all of it, so that a training takes as many epochs
on several of them as on one. Where one stopped on one device, its epochs count for all (as Chang
and Pathak 2020 multiply their Figures 7 and 8).
"""

from __future__ import annotations

import pandas

from batchscope import wording
from batchscope.analysis import intervals, run_series
from batchscope.analysis.outcome_answers import STOPS
from batchscope.catalogue import run_factors
from batchscope.store import records

# When a training ends at the latest, how it is watched and where it runs: not what it does.
_FREE = {"epochs", *STOPS, "update_norms", "evaluate_every", "replicas", "device", "threads"}
_DIGESTS = ("machine", "dataset_digest", "model_digest")


def totals(timed: pandas.DataFrame, trained: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the runs of which an epoch was timed, with the seconds until they would have stopped.

    `timed` are those of one experiment, `trained` any runs; of these count what patience stopped.
    """
    stopped = trained[trained["stop_reason"] == "patience"]
    same = [name for name in run_factors.FACTORS if name in timed and name not in _FREE]
    same += [name for name in _DIGESTS if name in timed]
    # One that another patience stopped elsewhere has no one length.
    stopped = stopped.drop_duplicates([*same, "epochs_run"]).drop_duplicates(same, keep=False)
    known = timed[(timed["status"] == records.FINISHED) & timed["seconds_per_epoch"].notna()]
    known = known.drop(columns="epochs_run")
    found = known.merge(stopped[[*same, "epochs_run"]], on=same)
    seconds = found["epochs_run"] * found["seconds_per_epoch"]
    return found[["device", "replicas", "batch_size", "seed"]].assign(seconds=seconds)


def sentence(timed: pandas.DataFrame, trained: pandas.DataFrame) -> str:
    """Returns how long the largest batch takes in parallel beside the smallest, until it stops.

    Of the most replicas on each device of this machine, where they are one series, and what of it
    cannot be tested where these are no GPUs. Empty where an experiment has no replicas; arguments
    as of `totals`.
    """
    timed = run_series.own(timed)
    replicas = timed["replicas"] if "replicas" in timed else pandas.Series(dtype=int)
    if not (replicas > 1).any():
        return ""
    found = totals(timed, trained)
    parts = []
    for device, several in found[found["replicas"] > 1].groupby("device"):
        most = int(several["replicas"].max())
        rows = several[several["replicas"] == most]
        if rows.duplicated(["seed", "batch_size"]).any():  # another rate, say: no one total
            continue
        table = rows.pivot(index="seed", columns="batch_size", values="seconds").dropna()
        if table.shape[0] and table.shape[1] > 1:
            parts.append(_sentence(table, f"{most} {'GPUs' if device == 'gpu' else 'replicas'}"))
    gpus = timed[(timed["device"] == "gpu") & (replicas > 1)]
    if not (gpus["status"] == records.FINISHED).any():
        parts.append(
            "What MirroredStrategy saves on several GPUs cannot be tested here, since "
            + ("there is no GPU." if len(gpus) else "replicas are logical devices of one CPU.")
        )
    return " ".join(parts)


def _sentence(table: pandas.DataFrame, where: str) -> str:
    """Returns the totals at both ends of the batch sizes, from a table of seeds by batch sizes."""
    small, large = table.columns[0], table.columns[-1]
    ends = [intervals.t_interval(table[size]) for size in (small, large)]
    seconds = wording.alike([end[:3] for end in ends], wording.Unit(" s"))
    ratio = intervals.ratio_interval(table[large], table[small])
    factor = wording.estimated(ratio.mean, ratio.low, ratio.high)
    pairs = wording.count(ratio.n, "seed")
    return (
        f"On {where}, epochs until the training stopped times the time per epoch gave {seconds[0]} "
        f"at batch size {small} and {seconds[1]} at {large} ({pairs}), a factor of {factor}."
    )
