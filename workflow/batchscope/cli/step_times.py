"""Time a step of each kind of missing training whose time is unknown.

The steps run in a forked process, since a user's model file may end its process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import multiprocessing
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.store import estimates, records, status
from batchscope.study import names, run_factors
from batchscope.study.plan import Study

_LARGEST = 1024  # largest timed batch size; above it, the time of an example is about constant


def note(study: Study, results: Path) -> None:
    """Time a step at the smallest and the largest batch size, and note the seconds of an epoch.

    Trainings on GPUs or on several replicas stay unknown.
    """
    if importlib.util.find_spec("tensorflow") is None:  # only the environment of the jobs has it
        return
    batch_sizes: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for row in status.rows(study, results):
        if row.job.measure == "train" and row.due and row.seconds is None:
            factors = study.runs[row.job.subject]
            if (factors["device"], factors["replicas"]) == ("cpu", 1):
                size = min(factors["batch_size"], _LARGEST)
                key = estimates.epoch_kind(factors)
                batch_sizes.setdefault(key, {})[size] = {**factors, "batch_size": size}
    timed = [
        by_size[size] for by_size in batch_sizes.values() for size in {min(by_size), max(by_size)}
    ]
    for threads in {factors["threads"] for factors in timed}:  # TensorFlow starts with a number
        chosen = [factors for factors in timed if factors["threads"] == threads]
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=_time, args=(study, results, chosen))
        process.start()
        process.join()


def _time(study: Study, results: Path, timed: list[dict[str, Any]]) -> None:
    steps.start(timed[0])
    from batchscope import datasets
    from batchscope.datasets import model_inputs
    from batchscope.training import step_times

    for factors in timed:
        dataset, definition = factors["dataset"], study.datasets[factors["dataset"]]
        # The check before the jobs reports invalid data and models.
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            count = records.training_images(results, dataset)
            if count:
                model_input = datasets.look(results, dataset, definition)
            else:
                name = names.split_token(dataset)[0]
                model_input, count = model_inputs.sized(name, definition)
            if count:
                seconds = step_times.seconds(factors, model_input, study.models[factors["model"]])
                steps_per_epoch = count * run_factors.training_copies(factors)
                steps_per_epoch /= factors["batch_size"]
                estimates.note_epoch(results, factors, seconds * steps_per_epoch)
