"""Time a step of each kind of missing training whose time is unknown, and note it for estimates.

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

_MAX_TIMED_SIZE = 1024  # Above this batch size, the time of an epoch is nearly constant.


def note_missing_times(study: Study, results: Path) -> None:
    """Time a step at the smallest and the largest batch size, and note the seconds of an epoch.

    Trainings on GPUs or on several replicas stay unknown.
    """
    if importlib.util.find_spec("tensorflow") is None:  # Only the jobs' environment may have it.
        return
    kinds: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for row in status.rows(study, results):
        if row.job.measure != "train" or not row.due or row.seconds is not None:
            continue
        factors = study.runs[row.job.subject]
        if (factors["device"], factors["replicas"]) == ("cpu", 1):
            size = min(factors["batch_size"], _MAX_TIMED_SIZE)
            by_size = kinds.setdefault(estimates.epoch_kind(factors), {})
            by_size[size] = {**factors, "batch_size": size}
    timed = [by_size[size] for by_size in kinds.values() for size in {min(by_size), max(by_size)}]
    # TensorFlow fixes the number of threads when it starts, so each number needs a process.
    for threads in {factors["threads"] for factors in timed}:
        group = [factors for factors in timed if factors["threads"] == threads]
        with contextlib.suppress(EOFError, TimeoutError, UserError):
            study_check.run_in_fork(_note_times, study, results, group)


def _note_times(study: Study, results: Path, timed: list[dict[str, Any]]) -> None:
    steps.start_tensorflow(timed[0])
    from batchscope.datasets import model_inputs
    from batchscope.training import step_times

    @functools.cache
    def sized(dataset: str) -> tuple[Any, Any]:
        return model_inputs.input_and_size(names.split_token(dataset)[0], study.datasets[dataset])

    for factors in timed:
        # The time stays unknown if the number of examples is unknown, or if data or model are
        # invalid. The check before the jobs reports this.
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            model_input, count = sized(factors["dataset"])
            seconds = step_times.step_seconds(factors, model_input, study.models[factors["model"]])
            examples = count * run_factors.training_copies(factors)
            estimates.note_epoch(results, factors, seconds * examples / factors["batch_size"])
