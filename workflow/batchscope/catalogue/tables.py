"""The tables of an experiment: those of a measure or timing stand in its entry, all others here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from batchscope.catalogue import columns, decision_columns
from batchscope.catalogue.entries import Column, Integer, Table
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS

OVER_JOBS = "timing_tables.over_jobs"  # what makes the table over the jobs of a configuration
REPEAT = "repeat"  # the column that numbers the timing jobs of a configuration
_WHICH = Integer("Which of the timing jobs of its configuration, from 1 on.")


def by_job(name: str) -> str:
    """Returns the name of the table that has the rows of a table of timings for every job."""
    return f"{name}_by_job"


def _of_timings() -> Iterator[tuple[str, Table]]:
    """Yields the tables of timings, each after the one by job that it is made of."""
    for entry in TIMINGS.values():
        for name, table in entry.tables.items():
            if name not in entry.by_job:
                yield name, table
                continue
            found = {REPEAT: _WHICH, **table.columns}
            reads = tuple(map(by_job, table.reads))
            yield by_job(name), replace(table, columns=found, reads=reads, keys=None)
            # What follows from another table follows from it over all jobs too.
            over = {"rows": OVER_JOBS, "reads": tuple(map(by_job, (name, *table.beside)))}
            yield name, table if reads else replace(table, **over)


OF_TIMINGS = dict(_of_timings())
# Of a trajectory, whose rows lie at each run's own evaluations: a budget, of which the last row not
# beyond it is read.
BUDGETS = ("examples", "updates", "epoch", "seconds")
_TRAINED = ("runs", "trajectories")
_ADVISED = ("runs", "limits", "comparisons", "trends", "critical_batch_size")
# In the order in which they are written; each is a field of batchscope.figures.Tables.
TABLES: dict[str, Table] = {
    "runs": Table("run_table.collect", keys=()),
    "history": Table(
        "long_tables.histories", columns.HISTORY, keys=("epoch",), figures=("loss_curves",)
    ),
    "trajectories": Table(
        "long_tables.trajectories", columns.TRAJECTORIES, keys=BUDGETS, figures=("progress",)
    ),
    **dict(chain.from_iterable(entry.tables.items() for entry in MEASURES.values())),
    "at_epochs": Table(
        "long_tables.at_epochs",
        columns.AT_EPOCHS,
        keys=("at_epoch",),
        figures=("accuracy_by_epochs",),
    ),
    **OF_TIMINGS,
    "limits": Table("timing_tables.limits"),
    "comparisons": Table("decisions.held_equal", decision_columns.COMPARISONS, _TRAINED),
    "trends": Table("decisions.held_equal", decision_columns.TRENDS, _TRAINED),
    "critical_batch_size": Table("decisions.to_target", decision_columns.CRITICAL, _TRAINED),
    "to_target": Table("decisions.to_target", decision_columns.TO_TARGET, _TRAINED),
    "advice": Table("advice.rows", decision_columns.ADVICE, _ADVISED),
    "published": Table("run_table.published", reads=("runs", "utilisation", "throughput")),
}
FILES = tuple(f"{name}.csv" for name in TABLES)


def column(table: str, name: str) -> Column | None:
    """Returns what a column of a table holds, the one that has a label where one has."""
    own = TABLES[table].columns.get(name) if table in TABLES else None
    known = [each for each in (columns.describe(name), own) if each]
    return next((each for each in known if each.label), known[0] if known else None)
