"""Snakemake's command line, as the default profile reads it before Snakemake does.

Snakemake reads the files of `--configfile` before the Snakefile: of a broken one it names no
line, and of some it prints a traceback. A profile may hold Python (its YTE template), and comes
first.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from batchscope.errors import ConfigError, UserError
from batchscope.study import yaml_file

# Each job's command, some lines alone; another place for jobs: one that dies there before it has
# a log makes the logger of bars print a traceback.
_EVERY_LINE = re.compile(
    r"--printshellcmds|--quiet(=.*)?|-[a-zA-Z]*[pq][a-zA-Z]*|--(profile|executor)(=.*)?|-e.*"
)


def check(words: Sequence[str]) -> None:
    """Ends the process, with every problem, if a configuration is not given as it must be."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="*", action="extend")
    parser.add_argument("--config", "-C", nargs="*", action="extend")
    given, _ = parser.parse_known_args(words)
    problems = [
        f"--config: received '{entry}'; KEY=VALUE is expected. "
        f"{_targets_first('--config KEY=VALUE')}"
        for entry in given.config or ()
        if "=" not in entry
    ]
    try:
        if given.configfile:
            yaml_file.read(one_file(given.configfile))
    except UserError as error:
        problems.append(str(error))
    if problems:
        sys.exit("\n".join(problems))


def wants_every_line(words: Sequence[str]) -> bool:
    return "SNAKEMAKE_PROFILE" in os.environ or any(map(_EVERY_LINE.fullmatch, words))


def one_file(files: Sequence[str]) -> str:
    """Returns the one configuration file.

    Raises:
        ConfigError: If there are several: also a target behind `--configfile` is taken for one.
    """
    first, *others = dict.fromkeys(files)
    if others:
        text = f"--configfile: received {1 + len(others)} files ({', '.join([first, *others])}); "
        text += f"one study at a time is expected. {_targets_first(f'--configfile {first}')}"
        raise ConfigError([text])
    return first


def _targets_first(option: str) -> str:
    return f"What is to be made stands before it: snakemake TARGET {option}."
