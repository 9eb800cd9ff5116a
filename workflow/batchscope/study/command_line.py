"""Check Snakemake's command line, and find the study that it names.

Snakemake reads the files of `--configfile` before the Snakefile. It reports no line of an invalid
file, or prints a traceback. The default profile, a YTE template with Python, is read even earlier:
it calls `check_options`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from batchscope.core import project_files
from batchscope.core.errors import UserError
from batchscope.study import yaml_file

# These options choose the printed lines, or another place for jobs. They exclude progress bars,
# whose logger prints a traceback if a remote job ends before it has a log.
_PRINTING_OPTIONS = re.compile(
    r"--printshellcmds|--quiet(=.*)?|-[a-zA-Z]*[pq][a-zA-Z]*|--(profile|executor)(=.*)?|-e.*"
)


def check_options(arguments: Sequence[str]) -> None:
    """End the process with the problem of `--configfile`, if it has one."""
    options = _parsed_options(arguments)
    try:
        if options.configfile:
            yaml_file.read(single_file(options.configfile))
    except UserError as error:
        sys.exit(str(error))


def study_of_command(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the configuration file and the scale of the study of a command."""
    options = _parsed_options(arguments)
    entries = dict(entry.partition("=")[::2] for entry in options.config)
    path = single_file(options.configfile or [project_files.DEFAULT_CONFIG])
    return path, entries.get("scale", "full")


def _parsed_options(arguments: Sequence[str]) -> argparse.Namespace:
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
