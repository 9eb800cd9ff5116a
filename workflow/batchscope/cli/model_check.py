"""The check of a study's own models before their data: each is built, apart from this process.

A user's file may end the process or change its folder. So the models are built in a copy of this
process, which reports on each; a report that is missing tells of a file that ended it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from batchscope.cli import steps
from batchscope.errors import ConfigError, UserError
from batchscope.store import states


def check(study: Any, results: Path) -> None:
    """Builds the models of a study that are files.

    Raises:
        ConfigError: With a line for each file that fails.
    """
    waiting = sorted(states.Table(study, results).own_models())
    problems: list[str] = []
    while waiting:
        found = _reports(study, results, waiting)
        problems += filter(None, found)
        waiting = waiting[len(found) :]
        if waiting:
            file = study.models[waiting.pop(0)[1]]
            problems.append(f"{file}: ended the process; a file that returns a model is expected.")
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _reports(study: Any, results: Path, models: list[tuple[str, str]]) -> list[str]:
    """Returns a text for each model, empty of one that is well, until a file ends the process."""
    fork = multiprocessing.get_context("fork")
    reader, writer = fork.Pipe(duplex=False)
    process = fork.Process(target=_build, args=(study, results, models, writer))
    process.start()
    writer.close()
    found = []
    with contextlib.suppress(EOFError):
        while True:
            found.append(reader.recv())
    process.join()
    return found


def _build(study: Any, results: Path, models: list[tuple[str, str]], reports: Connection) -> None:
    steps.start({"threads": 1, "device": "cpu"})
    from batchscope import datasets
    from batchscope.training import models as training_models

    folder = os.getcwd()
    for dataset, model in models:
        problem, file = "", study.models[model]
        try:
            look = datasets.look(results, dataset, study.datasets[dataset])
            if look is not None:
                training_models.build(model, look, 0, file)
        except UserError as error:
            problem = str(error)
        if os.getcwd() != folder:
            os.chdir(folder)
            problem = f"{file}: changes the working directory; a file that keeps it is expected."
        reports.send(problem)
