"""External runs as the tables that runs here have: runs.csv and trajectories.csv.

A run's values are those of its last row, as our runs' are of their last weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas

from batchscope.analysis import run_series
from batchscope.external.log_runs import ExternalRuns
from batchscope.study import columns, own_columns, run_factors, tasks
from batchscope.study.registry import OF_OUTCOMES
from batchscope.study.specifications import Column

FIRST = ("run", *run_factors.FACTORS, "status")


def runs(external: ExternalRuns, study: str, experiment: str) -> pandas.DataFrame:
    """Returns one row per run, as `run_table.collect` does of runs here."""
    rows = external.rows.assign(study=study, experiment=experiment)
    rows = rows.reindex(columns=dict.fromkeys([*rows, *own_columns.outcomes()]))
    keys = [rows["run"], rows["machine"]]
    # Not every evaluation need be of everything.
    found = rows.groupby(["run", "machine"], sort=False).last().reset_index()
    for split in ("train", "validation"):
        finite = rows[f"{split}_loss"].where(np.isfinite(rows[f"{split}_loss"].astype(float)))
        found[f"best_{split}_loss"] = finite.groupby(keys, sort=False).min().to_numpy()
    used = found.pop("updates")  # in runs.csv it is a measure's
    target = found.pop("at_target").astype(bool)
    if external.single:
        at = own_columns.AT_TARGET, own_columns.AT_BUDGET
        found["stop_reason"] = np.where(target, *at)
        found["reached_target"] = used.notna().astype(int).where(target)
    found["steps_run"] = used.round().mask(target)
    if external.rates:
        scaled = found.get("learning_rate_scaling", pandas.Series("none", found.index)) != "none"
        found["effective_learning_rate"] = found["learning_rate"].mask(scaled)
    found["generalisation_gap"] = found["test_loss"] - found["train_loss"]
    for gap, metric in tasks.GAPS.items():
        found[gap] = found[f"train_{metric.name}"] - found[f"test_{metric.name}"]
    named = columns.of_measures(dict.fromkeys(OF_OUTCOMES, {}), external.tasks)
    named += filter(external.rows.__contains__, own_columns.of_metrics(tasks.USER_METRICS))
    return _table(found, named, {name: columns.describe(name) or Column("") for name in named})


def trajectories(external: ExternalRuns) -> pandas.DataFrame:
    """Returns one row per evaluation, as `long_tables.trajectories` does of runs here."""
    known = filter(external.rows.__contains__, own_columns.outcomes())
    named = [*FIRST, *tasks.kept({**columns.TRAJECTORIES, **dict.fromkeys(known)}, external.tasks)]
    rows = external.rows if external.single else external.rows.dropna(subset="updates")
    return _table(rows, named, columns.TRAJECTORIES)


def as_logged(external: ExternalRuns) -> pandas.DataFrame:
    known = ("batch_size", "seed", *external.factors, *own_columns.AXES, "epoch")
    names = [name for name in (*known, *own_columns.OUTCOMES, "status") if name in external.rows]
    return external.rows[names].rename(columns=lambda name: name.removeprefix(own_columns.OWN))


def _table(
    rows: pandas.DataFrame, named: Sequence[str], entries: Mapping[str, Column]
) -> pandas.DataFrame:
    """Returns some columns of rows, with the file's own factors before the status."""
    at = named.index("status")
    names = [*named[:at], *filter(own_columns.is_own, rows), *named[at:]]
    found = rows.reindex(columns=names).reset_index(drop=True)
    return run_series.typed(found, entries, errors="ignore")
