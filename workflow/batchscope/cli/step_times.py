"""Time a step of each kind of missing training without a known time.

The steps run in another process, because a user's model file may end its process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
from pathlib import Path
from typing import Any

from batchscope.cli import steps, study_check
from batchscope.core.errors import UserError
from batchscope.store import estimates, status
from batchscope.study import names, run_factors
from batchscope.study.plan import Study

_LARGEST = 1024  # batch size above which an epoch takes about as long


def note(study: Study, results: Path) -> None:
    """Time a step at the smallest and the largest batch size, and note the seconds of an epoch.

    Trainings on GPUs or on several replicas stay unknown.
    """
    if importlib.util.find_spec("tensorflow") is None:  # only the environment of the jobs has it
        return
    kinds: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for row in status.rows(study, results):
        if row.job.measure != "train" or not row.due or row.seconds is not None:
            continue
        factors = study.runs[row.job.subject]
        if (factors["device"], factors["replicas"]) == ("cpu", 1):
            size = min(factors["batch_size"], _LARGEST)
            by_size = kinds.setdefault(estimates.epoch_kind(factors), {})
            by_size[size] = {**factors, "batch_size": size}
    timed = [by_size[size] for by_size in kinds.values() for size in {min(by_size), max(by_size)}]
    for threads in {factors["threads"] for factors in timed}:  # fixed when TensorFlow starts
        group = [factors for factors in timed if factors["threads"] == threads]
        with contextlib.suppress(EOFError, TimeoutError, UserError):
            study_check.in_process(_time, study, results, group)


def _time(study: Study, results: Path, timed: list[dict[str, Any]]) -> None:
    steps.start(timed[0])
    from batchscope.datasets import model_inputs
    from batchscope.training import step_times

    @functools.cache
    def sized(dataset: str) -> tuple[Any, Any]:
        return model_inputs.sized(names.split_token(dataset)[0], study.datasets[dataset])

    for factors in timed:
        # Times stay unknown if the number of examples is, or if data or a model are invalid, which
        # the check before the jobs reports.
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            model_input, count = sized(factors["dataset"])
            seconds = step_times.seconds(factors, model_input, study.models[factors["model"]])
            examples = count * run_factors.training_copies(factors)
            estimates.note_epoch(results, factors, seconds * examples / factors["batch_size"])
