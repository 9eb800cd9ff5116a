"""Check a study before its first job, and time a step of its trainings.

The sizes of the user's data show whether batches and settings of measures fit the training set. A
user's model file may end its process, change its folder, or run forever. So each model is built and
trained in another process. A new check of a model goes into `training.trials.check_model`; keys are
checked in `study`.
"""

import contextlib
import functools
import importlib.util
import io
import multiprocessing
import os
import sys
from collections.abc import Callable, Collection
from multiprocessing import connection
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.core.errors import ConfigError, UserError
from batchscope.host import supervisor, tensorflow_start
from batchscope.store import estimates, jobs, status
from batchscope.study import planner, run_factors
from batchscope.study.plan import Study

_BUILD_SECONDS = 600.0  # longest time to build a model
_END_SECONDS = 60.0  # longest time in which a process ends after that
_MAX_TIMED_SIZE = 1024  # Above this batch size, the time of an epoch is nearly constant.


def check(study: Study, results: Path) -> None:
    """Read the user's data and build the user's models.

    Raises:
        ConfigError: If there are problems. It has a line for each.
    """
    table = jobs.JobTable(study, results)
    models = sorted(table.user_models_of_missing_jobs())
    datasets = {*table.incomplete_user_data(), *(dataset for dataset, _ in models)}
    # TensorFlow reads some data. It must not start in this process, because forks follow.
    facts, problems = run_in_fork(_read_data, study, results, datasets)
    sizes = {dataset: size for dataset, (_, size) in facts.items()}
    try:
        planner.make(study.written, recorded=sizes.get, folder=study.folder)
    except ConfigError as error:
        problems += error.problems
    models = [(dataset, model) for dataset, model in models if dataset in facts]
    if models and importlib.util.find_spec("tensorflow") is None:
        text = "not checked before their first job: TensorFlow is in the jobs' environment only"
        print(f"models: {text}.", file=sys.stderr)
        models = []
    if models:
        tensorflow_start.import_keras()  # All forks share one import.
    notes: list[str] = []
    for dataset, model in models:
        file, (model_input, _) = study.models[model], facts[dataset]
        try:
            notes += run_in_fork(_check_model, model, model_input, file, seconds=_BUILD_SECONDS)
        except UserError as error:
            problems.append(str(error))
        except EOFError:
            problems.append(f"{file}: The file ended the process. It must only build a model.")
        except TimeoutError:
            problems.append(
                f"{file}: did not end within {_BUILD_SECONDS + _END_SECONDS:.0f} s. It must only "
                "build a model, and its threads must be daemons."
            )
    for note in dict.fromkeys(notes):
        print(note, file=sys.stderr)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def check_data(study: Study, results: Path) -> None:
    """Read the user's data; raise a `ConfigError` with all problems."""
    datasets = jobs.JobTable(study, results).incomplete_user_data()
    _, problems = _read_data(study, results, datasets)
    if problems:
        raise ConfigError(problems)


def _read_data(
    study: Study, results: Path, dataset_names: Collection[str]
) -> tuple[dict[str, tuple[Any, int | None]], list[str]]:
    """Return the model input and the training set size by data set, and the problems."""
    from batchscope import datasets

    facts, problems = {}, []
    for dataset, definition in study.datasets.items():
        if dataset in dataset_names:
            try:
                facts[dataset] = datasets.input_and_size(results, dataset, definition)
            except UserError as error:
                problems += str(error).splitlines()
    return facts, problems


def _check_model(token: str, model_input: Any, file: str) -> list[str]:
    steps.start_tensorflow({"threads": 1, "device": "cpu"})
    from batchscope.training import trials

    return trials.check_model(token, model_input, file)


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
            run_in_fork(_note_times, study, results, group)


def _note_times(study: Study, results: Path, timed: list[dict[str, Any]]) -> None:
    steps.start_tensorflow(timed[0])
    from batchscope import datasets
    from batchscope.training import trials

    @functools.cache
    def sized(dataset: str) -> tuple[Any, Any]:
        return datasets.input_and_size(results, dataset, study.datasets[dataset])

    for factors in timed:
        # The time stays unknown if the number of examples is unknown, or if data or model are
        # invalid. The check before the jobs reports this.
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            model_input, count = sized(factors["dataset"])
            seconds = trials.step_seconds(factors, model_input, study.models[factors["model"]])
            examples = count * run_factors.training_copies(factors)
            estimates.note_epoch(results, factors, seconds * examples / factors["batch_size"])


def run_in_fork(function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
    """Call a function in a fork of this process; return its result or raise its UserError.

    Args:
        seconds: The time limit of the call.

    Raises:
        EOFError: If the function ends the process.
        TimeoutError: If the call, or a thread that it starts, does not end in time.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_send_result, args=(sender, os.getpid(), function, arguments))
    child.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TimeoutError
        result, error = receiver.recv()
        child.join(_END_SECONDS)
        if child.is_alive():
            raise TimeoutError
    finally:
        child.kill()
        child.join()
    if error:
        raise error
    return result


def _send_result(
    sender: connection.Connection, parent: int, function: Callable[..., Any], arguments: Any
) -> None:
    supervisor.set_parent_death_signal(parent)
    try:
        sender.send((function(*arguments), None))
    except UserError as error:
        sender.send((None, error))
