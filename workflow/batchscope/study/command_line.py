"""Snakemake's command line, as the default profile reads it before Snakemake does.

Snakemake reads the files of `--configfile` before the Snakefile. It reports no line of an
invalid file, or prints a traceback. A profile may hold Python (its YTE template), and is read
first.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from batchscope.core import project_files
from batchscope.core.errors import ConfigError, UserError
from batchscope.study import yaml_file

# Options that choose the printed lines, or another place for jobs. The logger of progress bars
# prints a traceback if a remote job ends before it has a log.
_EVERY_LINE = re.compile(
    r"--printshellcmds|--quiet(=.*)?|-[a-zA-Z]*[pq][a-zA-Z]*|--(profile|executor)(=.*)?|-e.*"
)


def check(arguments: Sequence[str]) -> None:
    """End the process with every problem of `--configfile` and `--config`."""
    options = _options(arguments)
    problems = [
        f"--config: received '{entry}'; KEY=VALUE is expected. "
        f"{_targets_first('--config KEY=VALUE')}"
        for entry in options.config
        if "=" not in entry
    ]
    try:
        if options.configfile:
            yaml_file.read(one_file(options.configfile))
    except UserError as error:
        problems.append(str(error))
    if problems:
        sys.exit("\n".join(problems))


def study(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the configuration file and the scale of the study of a command."""
    options = _options(arguments)
    entries = dict(entry.partition("=")[::2] for entry in options.config)
    path = one_file(options.configfile or [project_files.DEFAULT_CONFIG])
    return path, entries.get("scale", "full")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in (("--configfile", "--configfiles"), ("--config", "-C")):
        parser.add_argument(*names, nargs="*", action="extend", default=[])
    return parser.parse_known_args(arguments)[0]


def wants_every_line(arguments: Sequence[str]) -> bool:
    return "SNAKEMAKE_PROFILE" in os.environ or any(map(_EVERY_LINE.fullmatch, arguments))


def one_file(files: Sequence[str]) -> str:
    """Return the only configuration file.

    Raises:
        ConfigError: If there are several. A target after `--configfile` counts as a file too.
    """
    first, *further = dict.fromkeys(files)
    if further:
        text = f"--configfile: received {1 + len(further)} files ({', '.join([first, *further])}); "
        text += f"one study at a time is expected. {_targets_first(f'--configfile {first}')}"
        raise ConfigError([text])
    return first


def _targets_first(option: str) -> str:
    return f"Write targets before it: snakemake TARGET {option}."
