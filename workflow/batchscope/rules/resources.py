"""Memory, threads, GPUs and priority of jobs, as values or as functions of wildcards."""

import functools
import math
from collections.abc import Callable
from typing import Any

from batchscope import figures
from batchscope.core import disk
from batchscope.host import memory_limits
from batchscope.rules.study import RESULTS, CalledStudy
from batchscope.store import paths
from batchscope.study import commands, names, run_factors
from batchscope.study.specifications import MAX_REPEATS, REPEATS

# No machine has as many threads. Snakemake caps them to --cores, so that a local job runs
# exclusively. On a cluster, cpus_per_task replaces them.
EXCLUSIVE = 4096
_MAX_FIGURES_OF_ONE_PROCESS = 6  # More figures are worth a second process with its imports.


def run_memory_mb(run: str, memory_mb: int) -> int:
    """Return the memory in MB to request for a training, or for a user's command.

    After a kill for memory, it is twice the limit of the killed job, but at most four times the
    rule's memory. Another kill at that limit is recorded as the result.
    """
    note = paths.run_folder(RESULTS, run) / memory_limits.KILL_NOTE
    if not note.exists():
        return memory_mb
    return min(4 * memory_mb, math.ceil(2 * disk.read_json(note)["limit_mb"]))


def training_memory(memory_mb: int) -> Callable[[Any], int]:
    return lambda wildcards: run_memory_mb(wildcards.run, memory_mb)


def command_memory(study: CalledStudy) -> Callable[[Any], int]:
    return lambda wildcards: run_memory_mb(wildcards.command, study.command(wildcards).memory_mb)


def command_resources(
    study: CalledStudy, value_of: Callable[[commands.Command], Any]
) -> Callable[[Any], Any]:
    return lambda wildcards: value_of(study.command(wildcards))


def command_threads(command: commands.Command) -> int:
    return EXCLUSIVE if command.alone else command.threads


def slurm_options(command: commands.Command) -> str:
    return f"{'--exclusive ' * command.alone}--signal=TERM@60"


def gpus(name: str) -> int:
    return run_factors.gpu_count(_factors(name))


def measure_gpus(name: str) -> int:
    return int(_factors(name)["device"] == "gpu")


def threads(name: str) -> int:
    """Return the threads of a run or a timing; -1, no number, for a sweep that uses all."""
    return _factors(name)["threads"] or -1


@functools.cache
def _factors(name: str) -> dict[str, Any]:
    # A timing configuration has the name of a sweep over its batch size.
    return names.parse_run(name) if "+seed=" in name else names.parse_sweep(name).factors


def timing_priority(timing: str) -> Callable[[Any], int]:
    """Return the priority of a timing job as a function of wildcards.

    The first jobs of all configurations come before the second jobs, and so on. All come before
    other jobs, because Snakemake would run jobs for the whole machine last. Job 101 has the
    priority of job 1.
    """

    def priority(wildcards: Any) -> int:
        repeat = names.parse_settings(timing, wildcards.settings)[REPEATS.name]
        return MAX_REPEATS - (repeat - 1) % MAX_REPEATS

    return priority


def figure_processes(study: CalledStudy, experiment: str) -> int:
    drawn = figures.figure_names(study.plan.experiments[experiment])
    return 2 if len(drawn) > _MAX_FIGURES_OF_ONE_PROCESS else 1
