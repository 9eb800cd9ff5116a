"""Tables, configuration and commands of a study: how to repeat it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.core import project_files
from batchscope.report.content import Inputs
from batchscope.report.unfinished import snakemake

if TYPE_CHECKING:
    from batchscope.study.plan import Study


def build(study: Study, inputs: Inputs, folder: Path | str) -> dict[str, Any]:
    """Return the tables with their addresses from `folder`, the configuration, and commands."""
    name = inputs.config_name
    config = "" if name == project_files.DEFAULT_CONFIG else f" {shlex.quote(name)}"
    commands = {
        "The plan, with times and disk space": f"python workflow/run.py plan{config}",
        "The whole study": snakemake(study, name),
        "On a SLURM cluster": snakemake(study, name, options="--profile slurm"),
    }
    for run in [*study.runs, *study.commands][:1]:
        commands["A single run"] = snakemake(study, name, f"results/runs/{run}/record.json")
    return {
        "tables": [
            (f"{path.parent.name}/{path.name}", os.path.relpath(path, folder or path.parent))
            for path in inputs.files
        ],
        "config_name": name,
        "config_text": inputs.config_text,
        "commands": commands,
    }
