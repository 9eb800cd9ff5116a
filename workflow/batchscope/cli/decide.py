"""Repeat a command of Snakemake until no stage of its study is open."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from batchscope.cli import options
from batchscope.core.errors import UserError
from batchscope.store import interims
from batchscope.study import command_line

_RESULTS = Path("results")


def run(arguments: Sequence[str]) -> None:
    """Run `snakemake ARGUMENTS` once per stage; end with its exit status if it fails.

    Raises:
        UserError: If the study has a problem, or a command made no interim analysis.
    """
    study = options.study(_RESULTS, *command_line.study_of_command(arguments))
    analyses = interims.count(_RESULTS, study.folder_name)
    while True:
        status = subprocess.run([sys.executable, "-m", "snakemake", *arguments]).returncode
        if status:
            sys.exit(status)
        if not study.has_stages or not interims.is_open(_RESULTS, study.folder_name):
            return
        before, analyses = analyses, interims.count(_RESULTS, study.folder_name)
        if analyses == before:
            raise UserError("decide: the command made no interim analysis, so it is not repeated.")
