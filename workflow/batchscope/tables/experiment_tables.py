"""All tables of an experiment, and of a study the one of its claims: made, and written as CSV."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pandas

from batchscope.analysis import claims
from batchscope.catalogue.tables import TABLES
from batchscope.study import external_runs
from batchscope.tables import (
    advice,
    csv_tables,
    decisions,
    external_tables,
    long_tables,
    published,
    run_table,
    timing_tables,
)

if TYPE_CHECKING:
    from batchscope.study.plan import Study

Tables = dict[str, pandas.DataFrame]


def make(results: Path | str, study: Study, experiment: str) -> Tables:
    """Returns all tables of an experiment by name, in the order of the registry."""
    chosen, at = study.experiments[experiment], (results, study, experiment)
    if chosen.own.path:
        external = external_runs.read(chosen.own.path)
        runs = external_tables.runs(external, study.name, experiment)
        trajectories = external_tables.trajectories(external)
    else:
        runs, trajectories = run_table.collect(*at), long_tables.trajectories(*at)
    made = {
        "runs": runs,
        "history": long_tables.histories(*at),
        "trajectories": trajectories,
        **long_tables.of_measures(*at),
        "at_epochs": long_tables.at_epochs(*at),
        **_timings(*at),
        "limits": timing_tables.limits(*at),
        **decisions.held_equal(study, experiment, runs, trajectories),
        **decisions.to_target(chosen.trainings, runs, trajectories),
    }
    made["advice"] = advice.rows(results, chosen, made)
    made["published"] = published.table(chosen, made)
    return {name: made[name] for name in TABLES}


def _timings(results: Path | str, study: Study, experiment: str) -> Tables:
    """Returns the tables of timings, with a row per timing job."""
    at = (results, study, experiment)
    throughput = timing_tables.throughput(*at)
    return {
        "throughput": throughput,
        "sweeps": timing_tables.summaries(*at),
        "utilisation": timing_tables.utilisation(*at),
        "profiles": timing_tables.profiles(*at),
        "samples": timing_tables.samples(*at),
        "largest": timing_tables.largest(*at),
        "training_times": timing_tables.training_times(*at, throughput=throughput),
    }


def write(results: Path | str, study: Study, experiment: str, folder: Path | str) -> None:
    """Writes all tables of an experiment, each atomically."""
    for name, frame in make(results, study, experiment).items():
        csv_tables.write(frame, Path(folder) / f"{name}.csv")


def stated(study: Study, folder: Path | str) -> pandas.DataFrame:
    """Returns one row per claim of a study, from the folder of its experiments' tables.

    Raises:
        UserError: If a table is missing or damaged.
    """

    @functools.cache
    def read(experiment: str, table: str) -> pandas.DataFrame:
        return csv_tables.read(Path(folder) / experiment / f"{table}.csv")

    return claims.table(study.claims, read, study.machine)


def write_claims(study: Study, folder: Path | str, output: Path | str) -> None:
    """Writes the claims of a study, atomically."""
    csv_tables.write(stated(study, folder), Path(output))
