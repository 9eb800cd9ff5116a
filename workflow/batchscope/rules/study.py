"""Plan the study of a call of Snakemake when Snakemake reads the rules."""

from __future__ import annotations

import functools
import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchscope.core import project_files
from batchscope.core.errors import UserError, check_folder
from batchscope.host import requirements
from batchscope.store import interims, jobs, owners, paths, records, status
from batchscope.study import command_line, commands, plan
from batchscope.study import config as configuration

RESULTS = "results"


@dataclass(frozen=True)
class CalledStudy:
    """The study of a call of Snakemake."""

    plan: plan.Study
    config_path: str  # path of the file as the call states it
    scale: str  # `full` or `reduced`
    partial: bool  # whether only a report on existing results is made

    @functools.cached_property
    def table(self) -> jobs.JobTable:
        return jobs.JobTable(self.plan, RESULTS)

    @property
    def folder(self) -> str:
        return paths.study_folder(RESULTS, self.plan.folder_name).as_posix()

    @property
    def report(self) -> str:
        """The path of the report. The default study has it directly in the folder of results."""
        is_default = self._is_default and not self.plan.reduced
        return f"{RESULTS if is_default else self.folder}/report.html"

    @property
    def headline(self) -> str:
        return Path(self.report).with_suffix(".txt").as_posix()

    @property
    def options(self) -> str:
        file = "" if self._is_default else f" --configfile {shlex.quote(self.config_path)}"
        return file + (" --config scale=reduced" if self.scale == "reduced" else "")

    @property
    def _is_default(self) -> bool:
        return Path(self.config_path).resolve() == Path(project_files.DEFAULT_CONFIG).resolve()

    def command(self, wildcards: Any) -> commands.Command:
        run = self.plan.commands.get(wildcards.command)
        return run.command if run else commands.Command(())

    def definition(self, dataset: str) -> str:
        """Return the definition of a data set as JSON."""
        try:
            return json.dumps(self.plan.datasets[dataset], sort_keys=True)
        except KeyError:
            expected = ", ".join(self.plan.datasets)
            sys.exit(f"{self.config_path}: no data set {dataset}; its data sets are: {expected}.")

    def plan_again(self) -> CalledStudy:
        """Return the study with the runs that follow from the last interim analysis."""
        return replace(self, plan=plan_study(self.config_path, self.scale))


def study_of_call(configfiles: list[Any], options: dict[str, Any]) -> CalledStudy:
    """Plan the study of a call of Snakemake; exit with the message if it has a problem.

    Args:
        configfiles: Files of `--configfile`; none for the default study.
        options: Options of `--config`.
    """
    try:
        check_folder(RESULTS)
        files = [str(file) for file in configfiles] or [project_files.DEFAULT_CONFIG]
        path = command_line.single_file(files)
        read = configuration.options(options)
        planned = plan_study(path, read.scale, RESULTS)
        study = CalledStudy(planned, path, read.scale, read.partial)
        owners.check_owner(study.folder, study.plan.name, path)
        # The table of jobs reads every folder of results, so it is made only if necessary.
        is_lacking = any(map(requirements.missing, _needs_of_runs(study.plan)))
        waiting_jobs = study.table.waiting_jobs() if is_lacking else {}
    except UserError as error:
        sys.exit(str(error))  # An exception would add a traceback of the Snakefile.
    for line in (*study.plan.warnings, *status.requirement_lines(waiting_jobs)):
        print(line, file=sys.stderr)
    return study


def plan_study(path: Path | str, scale: str, results: Path | str = RESULTS) -> plan.Study:
    """Return the study of a file, planned with the prepared data and the last interim analysis.

    Raises:
        UserError: If the file has a problem.
    """
    recorded = functools.partial(records.training_size, results)
    stages = functools.partial(interims.stages, results)
    return configuration.study(path, scale, recorded=recorded, interim_results=stages)


def _needs_of_runs(study: plan.Study) -> Iterator[dict[str, Any]]:
    yield from (run.needs for run in study.commands.values())
    for experiment in study.experiments.values():
        yield from experiment.factors()
