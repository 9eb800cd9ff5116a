"""What a rule says of its jobs by their wildcards: files, log, command, resources, tables' inputs.

A path that a rule is given is spelled here, or comes from `literal`.
"""

import functools
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from batchscope.store import job_files, memory_kills, paths, states
from batchscope.study import names, plan, run_factors, snapshot_epochs, tables, versions
from batchscope.study.specifications import MOST_REPEATS, REPEATS, Measure, Timing

RESULTS = "results"
STAND_INS = Path(".snakemake", "paths")


def literal(path: str) -> str:
    """Returns a path as a rule can have it: Snakemake takes braces and angle brackets for its own.

    A path that holds some is reached by a link.
    """
    if not set("{}<>").intersection(path):
        return path
    link = STAND_INS / f"{hashlib.sha256(path.encode()).hexdigest()[:16]}{Path(path).suffix}"
    target = os.path.abspath(path)
    if not link.is_symlink() or os.readlink(link) != target:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return link.as_posix()


def environment(folder: str) -> str:
    return f"{folder}/envs/batchscope.yaml".replace("{", "{{").replace("}", "}}")


def dataset_record(name: str) -> str:
    return paths.dataset_record(RESULTS, name.split("+")[0]).as_posix()


def arrays(dataset: str) -> list[str]:
    folder = paths.dataset_folder(RESULTS, dataset)
    return [(folder / name).as_posix() for name in paths.ARRAYS]


def named(wildcards: Any) -> str:
    names = (getattr(wildcards, each, None) for each in ("run", "timing", "sweep"))
    return next(filter(None, names))


def data(wildcards: Any) -> str:
    return dataset_record(named(wildcards))


def run_file(run: str = "{run}", file: str = paths.RECORD) -> str:
    return (paths.run_folder(RESULTS, run) / file).as_posix()


def trained() -> dict[str, str]:
    files = (paths.RECORD, *paths.RUN_FILES)
    return {Path(file).stem: run_file(file=file) for file in files}


def commanded() -> dict[str, str]:
    return {Path(file).stem: run_file(paths.COMMANDED, file) for file in paths.COMMAND_FILES}


def snapshot(run: str = "{run}", epoch: int | str = "{epoch}") -> str:
    return paths.snapshot_path(RESULTS, run, epoch).as_posix()


def experiment_tables(study: str = "{study}", experiment: str = "{experiment}") -> list[str]:
    folder = paths.study_folder(RESULTS, study) / experiment
    return [(folder / name).as_posix() for name in tables.FILES]


def default_targets(study: str = "{study}", experiment: str = "{experiment}") -> str:
    return (paths.study_folder(RESULTS, study) / experiment / paths.DEFAULT_TARGETS).as_posix()


def look_table() -> str:
    return paths.look_table(RESULTS, "{study}", "{look}").as_posix()


def figures_folder(study: str = "{study}", experiment: str = "{experiment}") -> str:
    return paths.figures_folder(RESULTS, study, experiment).as_posix()


def measured(entry: Measure) -> dict[str, str]:
    """Files of the run, or of both, that a measure reads: input's name -> path."""
    found = {}
    for prefix, run in (("", "{run}"), ("other_", "{other}"))[: 1 + entry.pairs]:
        found[f"{prefix}record"] = run_file(run)
        for weights in entry.weights:
            middle = weights == snapshot_epochs.MIDDLE
            path = snapshot(run, weights) if middle else run_file(run, f"{weights}.npz")
            found[f"{prefix}{weights}"] = path
        for file in entry.reads:
            found[prefix + Path(file).stem] = run_file(run, file)
    return found


def early(entry: Measure) -> Callable[[Any], list[str]]:
    """Returns, as a function of the wildcards, weights before a run's last; mostly none."""

    def read(wildcards: Any) -> list[str]:
        if wildcards.settings == "default":  # a dry-run asks several times for every job
            return []
        horizon = _factors(wildcards.run)["epochs"]
        epoch = job_files.epoch_read(entry.name, wildcards.settings, horizon)
        return [] if epoch is None else [snapshot(wildcards.run, epoch)]

    return read


def output(entry: Measure | Timing) -> str:
    name, run, settings = entry.name, "{run}", "{settings}"
    if isinstance(entry, Timing):
        machine, timed = (f"{{{subject}}}" for subject in entry.subjects)
        path = paths.timing_path(RESULTS, machine, timed, settings, name)
    elif entry.pairs:
        path = paths.pair_path(RESULTS, run, "{other}", name, settings)
    else:
        path = paths.measure_path(RESULTS, run, name, settings)
    return path.as_posix()


def beside(entry: Measure | Timing) -> list[str]:
    return [output(entry).removesuffix(".json") + suffix for suffix in entry.also_writes]


def log(record: str) -> str:
    return paths.log_path(RESULTS, record).as_posix()


def command(step: str) -> str:
    """The command that makes a measure or a timing; any change of it makes all again."""
    entry = versions.ENTRIES[step]
    words = [f"--{option} {{wildcards.{option}:q}}" for option in (*entry.subjects, "settings")]
    words += ["--model-file {input.model:q}"] if isinstance(entry, Timing) or entry.data else []
    written = "{output.record:q}" if entry.also_writes else "{output:q}"
    made = f"--output {written} > {{log:q}} 2>&1"
    return " ".join(["python workflow/run.py", entry.name, *words, made])


def of_study(step: str, words: str = "--output {output:q}") -> str:
    given = "--config {params.config:q} --scale {params.scale:q}"
    return f"python workflow/run.py {step} {given} {words} > {{log:q}} 2>&1"


def turn(timing: str) -> Callable[[Any], int]:
    """Returns, as a function of the wildcards, the priority of a timing job.

    The first jobs of every configuration stand before the second of any, and all before other jobs:
    without that, those that ask for the whole machine run last. The 101st stand beside the first.
    """

    def priority(wildcards: Any) -> int:
        parsed = names.parse_settings(timing, wildcards.settings)
        return MOST_REPEATS - (parsed[REPEATS.name] - 1) % MOST_REPEATS

    return priority


def run_memory_mb(run: str, megabytes: int) -> int:
    """Return the memory in MB to request for a training, or for a user's command.

    After the kernel has killed it for memory, that is twice its limit then. At four times the
    rule's memory, another kill is recorded as the result.
    """
    limit = memory_kills.noted_limit_mb(paths.run_folder(RESULTS, run))
    return megabytes if limit is None else min(4 * megabytes, math.ceil(2 * limit))


def gpus(name: str) -> int:
    return run_factors.gpus(_factors(name))


def measure_gpus(name: str) -> int:
    return int(_factors(name)["device"] == "gpu")


def threads(name: str) -> int:
    return _factors(name)["threads"] or -1


@functools.cache
def _factors(name: str) -> dict[str, Any]:
    # A timing configuration has the name of a sweep over its batch size.
    return names.parse_run(name) if "+seed=" in name else names.parse_sweep(name).factors


class Followed:
    """What the tables of a study's experiments follow."""

    def __init__(self, study: plan.Study, table: states.JobTable) -> None:
        self._study, self._table = study, table

    def records(self, experiment: str) -> list[str]:
        return list(dict.fromkeys(self._records(experiment)))

    def also(self, experiment: str) -> str:
        """Returns what an experiment's tables follow besides its records, as JSON.

        Epochs, other machines, margins, budgets, what the advice and the planned seeds say, and a
        document's numbers: a change of these trains nothing.
        """
        found = self._study.experiments[experiment]
        keys = found.keys
        followed: dict[str, Any] = {
            "at_epochs": found.at_epochs,
            "machines": self._study.machines,
            "margins": keys.margins,
            "budgets": keys.budgets,
            "slower": keys.advice.slower,
            "seeds_planned": keys.seeds_planned,
            "beside": keys.beside,
            "looks": found.looks,
        }
        if found.numbers:
            followed["published"] = {
                figure: [found.keys.published[figure].figure, *map(asdict, series)]
                for figure, series in found.numbers.items()
            }
        if found.own.path:  # a file of another content may be older
            followed["runs"] = found.own.sha256
        waiting = [state for state in self._table.experiments[experiment] if state.lacking]
        if waiting:  # what comes to be there, or was copied here, changes rows
            there = (each.job.path for each in waiting if each.job.path.exists())
            followed["left_out"] = {
                "why": sorted({each.lacking.status for each in waiting}),
                "there": sorted(path.as_posix() for path in there),
            }
        return json.dumps(followed, sort_keys=True)

    def _records(self, experiment: str) -> Iterator[str]:
        found = self._study.experiments[experiment]
        yield from map(literal, found.own.files)
        for other in found.keys.beside:
            yield from self._records(other)
        # What other machines measured is read, and never made.
        for folder, machine in self._study.machines.values():
            runs = (job_files.training_job(folder, run) for run in found.runs)
            for job in (*runs, *job_files.measure_jobs(found, folder, machine)):
                if job.path.exists():
                    yield literal(job.path.as_posix())
        beside = {name: entry.also_writes for name, entry in versions.ENTRIES.items()}
        made = (state.job for state in self._table.experiments[experiment] if not state.lacking)
        for job in made:
            yield job.path.as_posix()
            for suffix in beside.get(job.measure, ()):
                yield job.path.with_suffix(suffix).as_posix()
