"""A timed step of each kind of training that no finished one tells of, noted for estimates.

Like the check of models, steps run in a copy of this process, which a user's file may end.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import multiprocessing
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.host import absence
from batchscope.store import estimates, job_table, records
from batchscope.study import names, run_factors

_LARGEST = 1024  # examples of a timed batch: those above take about as long for each example


def note(study: Any, results: Path) -> None:
    """Times what is unknown, at the smallest and the largest batch size; notes it in results.

    What cannot be timed here, as on a GPU that is not there, stays unknown.
    """
    if importlib.util.find_spec("tensorflow") is None:  # it is in the jobs' environment only
        return
    statuses = job_table.statuses(job_table.JobTable(study, results))
    missing = [each for run, each in study.runs.items() if statuses[run] == records.MISSING]
    history = estimates.History(results, set(map(estimates.subject, missing)))
    unknown: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for factors in missing:
        if history.seconds(factors) is None and _here(factors):
            size = min(factors["batch_size"], _LARGEST)
            sizes = unknown.setdefault(estimates.setting(factors), {})
            sizes[size] = {**factors, "batch_size": size}
    chosen = [of[size] for of in unknown.values() for size in {min(of), max(of)}]
    for threads in {factors["threads"] for factors in chosen}:
        alike = [factors for factors in chosen if factors["threads"] == threads]
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=_time, args=(study, results, alike))
        process.start()
        process.join()


def _here(factors: dict[str, Any]) -> bool:
    return not absence.of(factors) and (factors["device"], factors["replicas"]) == ("cpu", 1)


def _time(study: Any, results: Path, chosen: list[dict[str, Any]]) -> None:
    steps.start(chosen[0])
    from batchscope import datasets
    from batchscope.datasets import model_inputs
    from batchscope.training import step_times

    @functools.cache
    def sized(dataset: str) -> tuple[Any, int | None]:
        definition = study.datasets[dataset]
        if count := records.training_images(results, dataset):
            return datasets.look(results, dataset, definition), count
        return model_inputs.sized(names.split_token(dataset)[0], definition)

    for factors in chosen:
        dataset, model = estimates.subject(factors)
        # Data or a model at fault, or memory that is refused: the jobs, or their check, say why.
        # The check of models prints their notes.
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            look, count = sized(dataset)
            if count is not None:
                taken = step_times.seconds(factors, look, study.models[model])
                examples = count * run_factors.training_copies(factors)
                estimates.note_epoch(results, factors, taken * examples / factors["batch_size"])
