"""Check of a study before its jobs: the user's data that are not prepared, and the user's models.

The study is planned again with the sizes of these data, because batches and settings of measures
may not fit the training set.

A user's model file may end its process, change its folder, or not end. So each model is built in a
process of its own, which has a time limit.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.errors import ConfigError, UserError
from batchscope.host import supervisor, tensorflow_start
from batchscope.store import jobs, records
from batchscope.study import names, planner

# Data set -> the shape of its examples; None if only its preparation finds it.
Looks = dict[str, Any]

_BUILD_SECONDS = 600.0  # time limit of building a model
_END_SECONDS = 60.0  # time limit of the end of a process after that


def check(study: Any, results: Path) -> None:
    """Read the user's data and build the user's models; raise a `ConfigError` with all problems."""
    table = jobs.JobTable(study, results)
    models = sorted(table.own_models())
    wanted = {*table.own_data(), *(dataset for dataset, _ in models)}
    # TensorFlow reads some data, and must not start in a process that forks others.
    looks, sizes, problems = in_process(_looks, study, results, wanted)
    try:
        planner.make(study.written, recorded=sizes.get, folder=study.folder)
    except ConfigError as error:
        problems += error.problems
    waiting = [(dataset, model) for dataset, model in models if looks.get(dataset)]
    if waiting and importlib.util.find_spec("tensorflow") is None:
        text = "not checked before their first job: TensorFlow is in the jobs' environment only"
        print(f"models: {text}.", file=sys.stderr)
        waiting = []
    if waiting:
        tensorflow_start.load()  # once, for all the forks
    for dataset, model in waiting:
        file = study.models[model]
        try:
            in_process(_build, model, looks[dataset], file, seconds=_BUILD_SECONDS)
        except UserError as error:
            problems.append(str(error))
        except EOFError:
            problems.append(f"{file}: ended the process; a file that returns a model is expected.")
        except TimeoutError:
            problems.append(
                f"{file}: did not end within {_BUILD_SECONDS + _END_SECONDS:.0f} s; a file that "
                "only builds a model, and whose threads are daemons, is expected."
            )
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _looks(
    study: Any, results: Path, wanted: set[str]
) -> tuple[Looks, dict[str, int | None], list[str]]:
    """Return the looks of data sets, their training examples, and the problems of their files."""
    from batchscope import datasets
    from batchscope.datasets import model_inputs

    looks: Looks = {}
    sizes: dict[str, int | None] = {}
    problems: list[str] = []
    for dataset in filter(wanted.__contains__, study.datasets):
        try:
            sizes[dataset] = records.training_images(results, dataset)
            if sizes[dataset] is None:
                name = names.split_token(dataset)[0]
                looks[dataset], sizes[dataset] = model_inputs.sized(name, study.datasets[dataset])
            else:
                looks[dataset] = datasets.look(results, dataset, study.datasets[dataset])
        except UserError as error:
            problems += str(error).splitlines()
    return looks, sizes, problems


def _build(model: str, look: Any, file: str) -> None:
    steps.start({"threads": 1, "device": "cpu"})
    from batchscope.training import models

    folder = os.getcwd()
    models.build(model, look, 0, file)
    if os.getcwd() != folder:
        raise UserError(f"{file}: changes the working directory; a file that keeps it is expected.")


def in_process(function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
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
