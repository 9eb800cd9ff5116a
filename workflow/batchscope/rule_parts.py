"""What a rule says of one job by its wildcards: files, log, command, resources.

A path that a rule is given is spelled here, or comes from `literal`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope.catalogue import kept_epochs, run_factors, run_names, sweep_names, tables
from batchscope.catalogue.entries import MOST_REPEATS, REPEATS, Measure, Timing
from batchscope.store import job_files, paths

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


def bundle_made(study: str = "{study}", bundle: str = "{bundle}") -> str:
    folder = paths.bundles_folder(RESULTS, study)
    return paths.bundle_file(folder, bundle, paths.BUNDLE_MADE).as_posix()


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
            middle = weights == kept_epochs.MIDDLE
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
    """Path of a measure's or timing's record."""
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
    entry = run_names.ENTRIES[step]
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
        parsed = run_names.parse_settings(timing, wildcards.settings)
        return MOST_REPEATS - (parsed[REPEATS.name] - 1) % MOST_REPEATS

    return priority


def enough(memory_mb: int, attempt: int) -> int:
    """Returns the memory of an attempt at a run, MB.

    The last has no more than the one before: it records that this was not enough.
    """
    return memory_mb * 2 ** min(attempt - 1, 2)


def growing(memory_mb: int) -> Callable[[Any, int], int]:
    """Returns the memory that an attempt is given, MB: twice that of the attempt before."""
    return lambda wildcards, attempt: memory_mb * 2 ** (attempt - 1)


def gpus(name: str) -> int:
    return run_factors.gpus(_factors(name))


def measure_gpus(name: str) -> int:
    return int(_factors(name)["device"] == "gpu")


def threads(name: str) -> int:
    return _factors(name)["threads"] or -1


@functools.cache
def _factors(name: str) -> dict[str, Any]:
    # A timing configuration has the name of a sweep over its batch size.
    return run_names.parse_run(name) if "+seed=" in name else sweep_names.parse(name).factors
