"""The check of a study before its jobs: its own data that are not prepared, and its own models.

With the sizes of these data, the study is planned again: batches, and settings of measures, may not
fit the training set.

A user's model file may end the process or change its folder. So the models are built in a copy of
this process, which reports on each; a report that is missing tells of a file that ended it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.errors import ConfigError, UserError
from batchscope.store import records, states
from batchscope.study import names, planner

# Of a data set: what its examples look like, None where only its preparation finds it.
Looks = dict[str, Any]


def check(study: Any, results: Path) -> None:
    """Reads own data and builds own models; raises `ConfigError`, a line for each fault."""
    table = states.JobTable(study, results)
    models = sorted(table.own_models())
    wanted = {*table.own_data(), *(dataset for dataset, _ in models)}
    # In a copy too: some data are read by TensorFlow, which no later copy may have started.
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as copy:
        looks, sizes, problems = copy.submit(_looks, study, results, wanted).result()
    try:
        planner.make(study.written, recorded=sizes.get, folder=study.folder)
    except ConfigError as error:
        problems += error.problems
    waiting = [(dataset, model) for dataset, model in models if looks.get(dataset)]
    if waiting and importlib.util.find_spec("tensorflow") is None:
        text = "not checked before their first job: TensorFlow is in the jobs' environment only"
        print(f"models: {text}.", file=sys.stderr)
        waiting = []
    problems += _model_problems(study, looks, waiting)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def check_data(study: Any, results: Path) -> None:
    """Read the user's data; raise a `ConfigError` with all problems of the files."""
    if problems := _looks(study, results, states.JobTable(study, results).own_data())[2]:
        raise ConfigError(problems)


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


def _model_problems(study: Any, looks: Looks, waiting: list[tuple[str, str]]) -> list[str]:
    fork = multiprocessing.get_context("fork")
    problems: list[str] = []
    while waiting:
        reader, writer = fork.Pipe(duplex=False)
        process = fork.Process(target=_build, args=(study, looks, waiting, writer))
        process.start()
        writer.close()
        with contextlib.suppress(EOFError):
            while True:
                problems.append(reader.recv())
                waiting = waiting[1:]
        process.join()
        if waiting:
            file = study.models[waiting.pop(0)[1]]
            problems.append(f"{file}: ended the process; a file that returns a model is expected.")
    return [*filter(None, problems)]


def _build(study: Any, looks: Looks, models: list[tuple[str, str]], reports: Connection) -> None:
    """Sends a text for each model, empty of one that is well, until a file ends the process."""
    steps.start({"threads": 1, "device": "cpu"})
    from batchscope.training import models as training_models

    folder = os.getcwd()
    for dataset, model in models:
        problem, file = "", study.models[model]
        try:
            training_models.build(model, looks[dataset], 0, file)
        except UserError as error:
            problem = str(error)
        if os.getcwd() != folder:
            os.chdir(folder)
            problem = f"{file}: changes the working directory; a file that keeps it is expected."
        reports.send(problem)
