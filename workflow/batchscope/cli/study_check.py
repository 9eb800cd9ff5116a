"""Check a study before its first job: user data that are not prepared, and user models.

The sizes of the data show whether batches and settings of measures fit the training set. A user's
model file may end its process, change its folder, or run forever. So each model is built and
trained for one step in another process with a time limit.
"""

from __future__ import annotations

import importlib.util
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
from batchscope.store import jobs, records
from batchscope.study import names, planner

Inputs = dict[str, Any]  # map of a data set to its `ModelInput`; None before its download

_BUILD_SECONDS = 600.0  # longest time to build a model
_END_SECONDS = 60.0  # longest time in which a process ends after that


def check(study: Any, results: Path) -> None:
    """Read the user's data and build the user's models.

    Raises:
        ConfigError: If there are problems. It has a line for each.
    """
    table = jobs.JobTable(study, results)
    models = sorted(table.user_models_of_missing_jobs())
    datasets = {*table.incomplete_user_data(), *(dataset for dataset, _ in models)}
    # TensorFlow reads some data. It must not start in this process, because forks follow.
    inputs, sizes, problems = run_in_fork(_read_data, study, results, datasets)
    try:
        planner.make(study.written, recorded=sizes.get, folder=study.folder)
    except ConfigError as error:
        problems += error.problems
    models = [(dataset, model) for dataset, model in models if inputs.get(dataset)]
    if models and importlib.util.find_spec("tensorflow") is None:
        text = "not checked before their first job: TensorFlow is in the jobs' environment only"
        print(f"models: {text}.", file=sys.stderr)
        models = []
    if models:
        tensorflow_start.import_keras()  # All forks share one import.
    notes: list[str] = []
    for dataset, model in models:
        file = study.models[model]
        try:
            notes += run_in_fork(_check_model, model, inputs[dataset], file, seconds=_BUILD_SECONDS)
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


def check_data(study: Any, results: Path) -> None:
    """Read the user's data; raise a `ConfigError` with all problems."""
    datasets = jobs.JobTable(study, results).incomplete_user_data()
    if problems := _read_data(study, results, datasets)[2]:
        raise ConfigError(problems)


def _read_data(
    study: Any, results: Path, dataset_names: Collection[str]
) -> tuple[Inputs, dict[str, int | None], list[str]]:
    """Return the inputs of models and the training set sizes by data set, and the problems."""
    from batchscope import datasets
    from batchscope.datasets import model_inputs

    inputs: Inputs = {}
    sizes: dict[str, int | None] = {}
    problems: list[str] = []
    for dataset, definition in study.datasets.items():
        if dataset not in dataset_names:
            continue
        try:
            sizes[dataset] = records.training_size(results, dataset)
            if sizes[dataset] is None:
                name = names.split_token(dataset)[0]
                inputs[dataset], sizes[dataset] = model_inputs.input_and_size(name, definition)
            else:
                inputs[dataset] = datasets.complete_model_input(results, dataset, definition)
        except UserError as error:
            problems += str(error).splitlines()
    return inputs, sizes, problems


def _check_model(token: str, model_input: Any, file: str) -> list[str]:
    steps.start_tensorflow({"threads": 1, "device": "cpu"})
    from batchscope.training import model_checks

    return model_checks.check(token, model_input, file)


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
