"""Snakemake's command line: the study that it names, and the options of `--config`.

Snakemake reads the files of `--configfile` before the Snakefile. It reports no line of an invalid
file, or prints a traceback. The default profile, a YTE template with Python, is read even earlier:
it calls `check_options`. Planning is imported only by `study`, since commands start without it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from batchscope.core import project_files
from batchscope.core.errors import ConfigError, UserError
from batchscope.study import yaml_file
from batchscope.study.model import Model

if TYPE_CHECKING:
    from batchscope.study.plan import Study

# These options choose the printed lines, or another place for jobs. They exclude progress bars,
# whose logger prints a traceback if a remote job ends before it has a log.
_PRINTING_OPTIONS = re.compile(
    r"--printshellcmds|--quiet(=.*)?|-[a-zA-Z]*[pq][a-zA-Z]*|--(profile|executor)(=.*)?|-e.*"
)


class Options(Model):
    """Options of `--config`: how a study runs. Its file states everything else."""

    scale: Literal["full", "reduced"] = "full"
    partial: bool = False


def options(raw: Mapping[str, Any]) -> Options:
    """Return the options of `--config`.

    Raises:
        ConfigError: If there is another option, or one has an invalid value.
    """
    from batchscope.study import schema_messages

    try:
        return Options.model_validate(dict(raw))
    except ValidationError as error:
        lines = [f"--config {problem.line}" for problem in schema_messages.problems(error, Options)]
        raise ConfigError(lines) from None


def study(path: Path | str, scale: str = "full", **context: Any) -> Study:
    """Return the planned study of a file. `context` goes to `planner.make`.

    Raises:
        UserError: If the file cannot be read or is invalid.
    """
    from batchscope.study import planner

    return planner.make(yaml_file.read(path), scale, folder=Path(path).parent, **context)


def check_options(arguments: Sequence[str]) -> None:
    """End the process with the problem of `--configfile`, if it has one."""
    try:
        if files := _parsed(arguments).configfile:
            yaml_file.read(single_file(files))
    except UserError as error:
        sys.exit(str(error))


def study_of_command(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the configuration file and the scale of the study of a command."""
    parsed = _parsed(arguments)
    entries = dict(entry.partition("=")[::2] for entry in parsed.config)
    path = single_file(parsed.configfile or [project_files.DEFAULT_CONFIG])
    return path, options(entries).scale


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in (("--configfile", "--configfiles"), ("--config", "-C")):
        parser.add_argument(*names, nargs="*", action="extend", default=[])
    return parser.parse_known_args(arguments)[0]


def wants_every_line(arguments: Sequence[str]) -> bool:
    return "SNAKEMAKE_PROFILE" in os.environ or any(map(_PRINTING_OPTIONS.fullmatch, arguments))


def single_file(files: Sequence[str]) -> str:
    """Return the only configuration file.

    Raises:
        UserError: If there are several. A target after `--configfile` counts as a file too.
    """
    first, *further = dict.fromkeys(files)
    if further:
        text = f"--configfile: received {1 + len(further)} files ({', '.join([first, *further])}); "
        text += "one study at a time is expected. Write targets before it: snakemake TARGET "
        raise UserError(f"{text}--configfile {first}.")
    return first
