"""Options that several commands share, and the study that a command is about."""

from __future__ import annotations

import functools
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope import project_files
from batchscope.errors import unexpected
from batchscope.problems import show
from batchscope.store import interims, owners

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def _shared(*name: str, **keywords: Any) -> ArgumentParser:
    parser = ArgumentParser(add_help=False)
    parser.add_argument(*name, **keywords)
    return parser


RESULTS = _shared("--results", type=Path, default=Path("results"), help="the folder of the results")
SCALE = _shared("--scale", choices=("full", "reduced"), default="full")
CONFIG = _shared("config", nargs="?", default=project_files.DEFAULT_CONFIG, help="a study's file")


def study(results: Path, config_path: str, scale: str, experiment: str | None = None) -> Study:
    """Return the study of a file; raise `UserError` if it lacks an experiment."""
    from batchscope.study import config

    planned = config.study(config_path, scale, looked=functools.partial(interims.stages, results))
    if experiment and experiment not in planned.experiments:
        expected = f"one of {', '.join(planned.experiments)}"
        raise unexpected("--experiment", show(experiment), expected)
    return planned


def last_study(results: Path) -> Study | None:
    """Return the study that ran last; None before the first run."""
    from batchscope.study import config

    last = owners.last(results)
    return config.study(*last, looked=functools.partial(interims.stages, results)) if last else None
