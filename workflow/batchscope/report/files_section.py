"""The section on how to repeat a study: its tables, configuration and commands."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.core import project_files
from batchscope.report.report_inputs import ReportInputs
from batchscope.report.unfinished import snakemake_command

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def build(study: Study, inputs: ReportInputs, folder: Path | str) -> dict[str, Any]:
    """Return tables with links relative to `folder`, the configuration, and commands."""
    name = inputs.config_name
    config = "" if name == project_files.DEFAULT_CONFIG else f" {shlex.quote(name)}"
    commands = {
        "The plan, with times and disk space": f"python workflow/run.py plan{config}",
        "The whole study": snakemake_command(study, name),
        "On a SLURM cluster": snakemake_command(study, name, options="--profile slurm"),
    }
    if run := next(iter([*study.runs, *study.commands]), None):
        commands["A single run"] = snakemake_command(study, name, f"results/runs/{run}/record.json")
    return {
        "tables": [
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        "config_name": name,
        "config_text": inputs.config_text,
        "commands": commands,
    }
