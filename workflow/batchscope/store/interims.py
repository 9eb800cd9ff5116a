"""Read the interim analyses of a study, which alone determine its stage.

`tables.study_tables.write_interim` writes their tables, which list the open statements and the
seeds of their runs. A new column is read in `_parsed`. Before the first analysis, each
experiment is at its first stage.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from batchscope.core import disk, errors
from batchscope.store import paths
from batchscope.study.stages import AddedRate, Stage

_READ_COLUMNS = ("experiment", "planned", "seeds", "runs")


class InterimRow(NamedTuple):
    """A row of an interim analysis: an open statement, an added learning rate, or neither."""

    experiment: str
    planned: int  # largest planned number of seeds
    first: int  # first seed of the plan
    seeds: int  # seeds of the runs in the next stage; 0 if nothing is open
    runs: list[str]
    added_rates: tuple[AddedRate, ...]


def count(results: Path | str, study: str) -> int:
    """Return the number of interim analyses so far.

    Raises:
        UserError: If a table before the last one is missing, because its seeds are unknown.
    """
    folder = paths.interims_folder(results, study)
    numbers = sorted(int(path.stem) for path in folder.glob("*.csv") if path.stem.isdecimal())
    for number, expected in zip(numbers, range(1, len(numbers) + 1), strict=True):
        if number != expected:
            missing = paths.interim_table(results, study, expected)
            raise errors.UserError(
                f"{missing}: missing, though {number}.csv exists. Restore it, or delete {folder} "
                "and run snakemake again: all analyses are repeated with the same runs."
            )
    return len(numbers)


def rows(results: Path | str, study: str, number: int) -> list[InterimRow]:
    """Return the rows of an interim analysis; raise a `UserError` if its table is corrupt."""
    path = paths.interim_table(results, study, number)
    # Later analyses depend on earlier ones, so that only the last can be deleted alone.
    is_last = number == count(results, study)
    delete = None if is_last else paths.interims_folder(results, study)
    with errors.reading(path, "a table of an interim analysis", delete):
        table = disk.read_rows(path, *_READ_COLUMNS, path_to_delete=delete)
        if not table:
            raise ValueError("no row of any experiment")
        return [_parsed(row) for row in table]


def _parsed(row: Mapping[str, str]) -> InterimRow:
    rates = ()
    if row.get("rate"):
        sizes = tuple(map(int, json.loads(row["batch_sizes"])))
        rates = (AddedRate(float(row["edge"]), float(row["rate"]), sizes),)
    planned, first, seeds = int(row["planned"]), int(row.get("first") or 0), int(row["seeds"] or 0)
    runs = json.loads(row["runs"] or "[]")
    return InterimRow(row["experiment"], planned, first, seeds, runs, rates)


def stages(results: Path | str, study: str) -> Mapping[str, Stage]:
    """Return the stage of each experiment after all interim analyses."""
    by_experiment: dict[str, Stage] = {}
    for number in range(1, count(results, study) + 1):
        for row in rows(results, study, number):
            before = by_experiment.get(row.experiment, Stage())
            # A stage with another first seed belongs to an earlier plan.
            before = before if before.first == row.first else Stage()
            seeds = {**before.seeds}
            for run in row.runs:
                seeds[run] = max(seeds.get(run, 0), row.seeds)
            rates = (*before.added_rates, *row.added_rates)
            planned = before.planned or row.planned  # A later change of `at_most` stays visible.
            stage = Stage(planned, seeds, first=row.first, added_rates=rates)
            by_experiment[row.experiment] = stage
    return by_experiment


def last(results: Path | str, study: str) -> tuple[int, list[InterimRow]]:
    """Return number and rows of the last analysis; 0 and no rows if none exists yet."""
    number = count(results, study)
    return number, rows(results, study, number) if number else []


def is_open(results: Path | str, study: str) -> bool:
    """Return whether the last interim analysis needs more runs, or no analysis exists yet."""
    number, last_rows = last(results, study)
    return not number or any(row.seeds for row in last_rows)


def current_number(results: Path | str, study: str) -> int:
    """Return the number of the analysis that ends the present stage.

    It is the last analysis if that left nothing open, because experiments and claims may be new.
    """
    return count(results, study) + is_open(results, study)
