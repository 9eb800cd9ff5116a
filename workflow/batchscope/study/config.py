"""Plan the study of a file, and read the options of `--config`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from batchscope.core.errors import ConfigError
from batchscope.study import plan, planner, schema_messages, yaml_file
from batchscope.study.model import Model


class Options(Model):
    """Options of `--config`: how a study runs. Its file states everything else."""

    scale: Literal["full", "reduced"] = "full"
    partial: bool = False


def study(path: Path | str, scale: str = "full", **context: Any) -> plan.Study:
    """Return the planned study of a file. `context` goes to `planner.make`.

    Raises:
        UserError: If the file cannot be read or is invalid.
    """
    return planner.make(yaml_file.read(path), scale, folder=Path(path).parent, **context)


def options(raw: Mapping[str, Any]) -> Options:
    """Return the options of `--config`.

    Raises:
        ConfigError: If there is another option, or one has an invalid value.
    """
    try:
        return Options.model_validate(dict(raw))
    except ValidationError as error:
        lines = [f"--config {problem.line}" for problem in schema_messages.problems(error, Options)]
        raise ConfigError(lines) from None
