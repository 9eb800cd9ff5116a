"""Options that several commands share, and the study or the logs that they choose."""

from __future__ import annotations

import functools
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from batchscope.core import project_files
from batchscope.core.errors import unexpected
from batchscope.core.problems import show
from batchscope.store import interims, owners
from batchscope.study import log_keys

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def _shared(*name: str, **keywords: Any) -> ArgumentParser:
    parser = ArgumentParser(add_help=False)
    parser.add_argument(*name, **keywords)
    return parser


RESULTS = _shared("--results", type=Path, default=Path("results"), help="folder of the results")
SCALE = _shared("--scale", choices=("full", "reduced"), default="full")
CONFIG = _shared(
    "config", nargs="?", default=project_files.DEFAULT_CONFIG, help="file of the study"
)


def study(results: Path, config_path: str, scale: str, experiment: str | None = None) -> Study:
    """Return the study of a file; raise a `UserError` if it lacks the experiment."""
    from batchscope.study import config

    planned = config.study(
        config_path, scale, interim_results=functools.partial(interims.stages, results)
    )
    if experiment and experiment not in planned.experiments:
        expected = f"one of {', '.join(planned.experiments)}"
        raise unexpected("--experiment", show(experiment), expected)
    return planned


def keys_of_logs(arguments: Namespace) -> Any:
    """Return the keys of logs from the options of `import`. Existing paths are no patterns.

    Raises:
        UserError: If an option is invalid.
    """
    pairs = [word.partition("=") for word in arguments.columns]
    if invalid := ["".join(pair) for pair in pairs if not all(pair)]:
        raise unexpected("--columns", show(invalid[0]), "such as batch_size=bs")
    values = {
        **{name: vars(arguments)[name] for name in log_keys.Logs.model_fields if name in arguments},
        "files": [
            log_keys.escaped(file) if os.path.exists(file) else file for file in arguments.files
        ],
        "columns": {ours: theirs for ours, _, theirs in pairs},
        "pattern": yaml.safe_load(arguments.pattern or "") or {},
    }
    try:
        keys = {name: value for name, value in values.items() if value is not None}
        return log_keys.Logs.model_validate(keys)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        option = f"--{key.replace('_', '-')}"
        raise unexpected(option, show(values.get(key)), "another value") from None


def last_study(results: Path) -> Study | None:
    """Return the study that ran last; None before the first run."""
    from batchscope.study import config

    last = owners.last_config(results)
    return (
        config.study(*last, interim_results=functools.partial(interims.stages, results))
        if last
        else None
    )
