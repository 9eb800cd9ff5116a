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
    """Builds the models of a study that are files; raises `ConfigError`, a line for each fault."""
    waiting = sorted(states.Table(study, results).own_models())
    fork = multiprocessing.get_context("fork")
    problems: list[str] = []
    while waiting:
        reader, writer = fork.Pipe(duplex=False)
        process = fork.Process(target=_build, args=(study, results, waiting, writer))
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
    if any(problems):
        raise ConfigError(list(dict.fromkeys(filter(None, problems))))


def _build(study: Any, results: Path, models: list[tuple[str, str]], reports: Connection) -> None:
    """Sends a text for each model, empty of one that is well, until a file ends the process."""
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
