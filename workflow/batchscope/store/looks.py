"""The looks at a study: what each found open, and how many seeds its runs got next.

Their tables are all that the stage of a study is known by: without any every experiment is at its
first look.
"""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

from batchscope import disk, errors
from batchscope.store import paths
from batchscope.study.stages import Stage

_READ = ("experiment", "planned", "seeds_to_resolve", "seeds", "runs")


def last(results: Path | str, study: str) -> int:
    numbers = itertools.count(1)
    made = (number for number in numbers if not paths.look_table(results, study, number).exists())
    return next(made) - 1


def rows(results: Path | str, study: str, look: int) -> list[dict[str, str]]:
    return disk.read_rows(paths.look_table(results, study, look), *_READ)


def stages(results: Path | str, study: str) -> Mapping[str, Stage]:
    """Returns experiment -> what the looks at it have given."""
    found: dict[str, Stage] = {}
    for look in range(1, last(results, study) + 1):
        with errors.reading(paths.look_table(results, study, look), "a table of a look"):
            for row in rows(results, study, look):
                before, first = found.get(row["experiment"], Stage()), int(row.get("first") or 0)
                seeds = {**before.seeds} if before.first == first else {}
                for run in json.loads(row["runs"] or "[]"):
                    seeds[run] = max(seeds.get(run, 0), int(row["seeds"]))
                found[row["experiment"]] = Stage(int(row["planned"]), seeds, first=first)
    return found


def goes_on(results: Path | str, study: str) -> bool:
    at = last(results, study)
    return not at or any(row["seeds"] for row in rows(results, study, at))
