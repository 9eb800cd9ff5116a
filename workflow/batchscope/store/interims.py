"""Interim analyses of a study: their tables hold the open statements and the seeds of their runs.

These tables alone determine the stage of a study. Without any, each experiment is at its first
stage.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from batchscope.core import disk, errors
from batchscope.store import paths
from batchscope.study.stages import AddedRate, Stage

_READ = ("experiment", "planned", "seeds_to_resolve", "seeds", "runs")


def count(results: Path | str, study: str) -> int:
    """Return the number of interim analyses so far.

    Raises:
        UserError: If a table is missing before the last one: its seeds are unknown.
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


def rows(results: Path | str, study: str, number: int) -> list[dict[str, str]]:
    """Return the rows of an interim analysis; raise `UserError` if its table is corrupt."""
    path = paths.interim_table(results, study, number)
    # Later analyses follow from earlier ones, so that only the last can be deleted alone.
    is_last = number == count(results, study)
    delete = None if is_last else paths.interims_folder(results, study)
    with errors.reading(path, "a table of an interim analysis", delete):
        table = disk.read_rows(path, *_READ, delete=delete)
        if not table:
            raise ValueError("no row of any experiment")
        for row in table:
            int(row["planned"]), int(row.get("first") or 0), int(row["seeds"] or 0)
            json.loads(row["runs"] or "[]")
            _added_rates(row)
    return table


def stages(results: Path | str, study: str) -> Mapping[str, Stage]:
    """Return experiment -> its stage after all interim analyses."""
    by_experiment: dict[str, Stage] = {}
    for number in range(1, count(results, study) + 1):
        for row in rows(results, study, number):
            before = by_experiment.get(row["experiment"], Stage())
            first = int(row.get("first") or 0)
            before = before if before.first == first else Stage()  # the stage of another plan
            seeds = {**before.seeds}
            for run in json.loads(row["runs"] or "[]"):
                seeds[run] = max(seeds.get(run, 0), int(row["seeds"]))
            rates = (*before.added_rates, *_added_rates(row))
            stage = Stage(int(row["planned"]), seeds, first=first, added_rates=rates)
            by_experiment[row["experiment"]] = stage
    return by_experiment


def _added_rates(row: Mapping[str, str]) -> Iterator[AddedRate]:
    if row.get("rate"):
        sizes = tuple(map(int, json.loads(row["batch_sizes"])))
        yield AddedRate(float(row["edge"]), float(row["rate"]), sizes)


def is_open(results: Path | str, study: str) -> bool:
    """Return whether runs have to follow the last interim analysis, or none was made yet."""
    number = count(results, study)
    return not number or any(row["seeds"] for row in rows(results, study, number))


def current(results: Path | str, study: str) -> int:
    """Return the number of the analysis that ends the present stage.

    The last analysis is repeated if it left nothing open: experiments and claims may be new.
    """
    return count(results, study) + is_open(results, study)
