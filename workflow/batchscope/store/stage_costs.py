"""What a study whose seeds come in stages may take: at this stage, as expected, and at most."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from batchscope import wording
from batchscope.catalogue import stages
from batchscope.catalogue.stages import Stage
from batchscope.store import looks, status
from batchscope.study.plan import Study

Stages = Mapping[str, Stage]


def lines(
    study: Study, results: Path | str, planned: Callable[[Stages], Study], cores: int
) -> Iterator[str]:
    """Yields a line for `plan`; none of a study without stages, or that is looked at no more.

    Args:
        planned: From what looks have given to the study as it is then.
    """
    asked = {
        name: one.trainings.looks for name, one in study.experiments.items() if one.trainings.looks
    }
    known = looks.stages(results, study.folder_name)
    new = any(_begun(study, name, known) is None for name in asked)
    if not asked or not (new or looks.goes_on(results, study.folder_name)):
        return
    number = looks.last(results, study.folder_name) + 1
    found = [study, planned(_expected(study, results)), planned(_most(study, results))]
    runs = [len(each.runs) + len(each.commands) for each in found]
    left = [status.overview(each, results).wall_seconds(cores) for each in found]
    parts = (
        f"{wording.count(count, 'run')} ({wording.duration(seconds)} left){then}"
        for count, seconds, then in zip(runs, left, (" now", " expected", " at most"), strict=True)
    )
    yield f"Seeds in stages, before look {number} ({wording.listed(asked)}): {', '.join(parts)}."


def _expected(study: Study, results: Path | str) -> Stages:
    """Returns what looks are expected to give: where none was, as statements usually need."""

    def seeds(looked: dict[str, str], planned: tuple[int, ...]) -> int:
        wanted = float(looked["seeds_to_resolve"] or "inf")  # nothing of very many
        return stages.following(wanted - 1, planned) or planned[-1]

    return _given(study, results, seeds, stages.expected)


def _most(study: Study, results: Path | str) -> Stages:
    """Returns what looks give if nothing that is open is ever decided."""
    return _given(study, results, lambda looked, planned: planned[-1], max)


def _given(
    study: Study,
    results: Path | str,
    seeds: Callable[[dict[str, str], tuple[int, ...]], int],
    before: Callable[[tuple[int, ...]], int],
) -> Stages:
    """Returns the seeds of every configuration that the last look found open.

    Args:
        seeds: From a row of a look, and the looks, to the seeds that its runs get in the end.
        before: From the looks to the seeds of all, where there was no look yet.
    """
    last, found = looks.last(results, study.folder_name), {}
    known = looks.stages(results, study.folder_name)
    for name, one in study.experiments.items():
        if not (planned := one.trainings.looks):
            continue
        first, stage = one.trainings.seeds[0], _begun(study, name, known)
        if stage is None:
            found[name] = Stage(planned[-1], {}, before(planned), first)
            continue
        given = {**stage.seeds}
        for row in looks.rows(results, study.folder_name, last):
            if row["experiment"] == name and row["seeds"]:
                for run in json.loads(row["runs"]):
                    given[run] = max(given.get(run, 0), seeds(row, planned))
        found[name] = Stage(planned[-1], given, first=first)
    return found


def _begun(study: Study, experiment: str, known: Stages) -> Stage | None:
    """Returns the stage of an experiment; None where its seeds were not looked at yet."""
    stage = known.get(experiment)
    same = stage and stage.first == study.experiments[experiment].trainings.seeds[0]
    return stage if same else None
