"""Plan the study of a call of Snakemake, and refuse the study name of another file.

A note in the folder of a study's tables names the file that owns them. Each call of Snakemake
writes it again, so that the latest note belongs to the study that ran last.
"""

import contextlib
import functools
import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope.core import disk, project_files
from batchscope.core.errors import ConfigError, UserError, check_folder
from batchscope.host import requirements
from batchscope.store import interims, jobs, paths, records, status
from batchscope.study import commands, plan, yaml_file
from batchscope.study import config as configuration

RESULTS = "results"
OWNER_FILE = "owner.json"


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
        return run.command if run else commands.Command()

    def definition(self, dataset: str) -> str:
        """Return the definition of a data set as JSON."""
        if dataset not in self.plan.datasets:
            expected = ", ".join(self.plan.datasets)
            sys.exit(f"{self.config_path}: no data set {dataset}; its data sets are: {expected}.")
        return json.dumps(self.plan.datasets[dataset], sort_keys=True)


def study_of_call(configfiles: list[Any], options: dict[str, Any]) -> CalledStudy:
    """Plan the study of a call of Snakemake; exit with the message if it has a problem.

    Args:
        configfiles: Files of `--configfile`; none for the default study.
        options: Options of `--config`.
    """
    try:
        check_folder(RESULTS)
        files = [str(file) for file in configfiles] or [project_files.DEFAULT_CONFIG]
        path = configuration.single_file(files)
        read = configuration.options(options)
        planned = plan_study(path, read.scale, RESULTS)
        study = CalledStudy(planned, path, read.scale, read.partial)
        check_owner(study.folder, study.plan.name, path)
        # The table of jobs reads every folder of results, so it is made only if necessary.
        needs = [run.needs for run in planned.commands.values()]
        for experiment in planned.experiments.values():
            needs += experiment.factors()
        waiting_jobs = study.table.waiting_jobs() if any(map(requirements.missing, needs)) else {}
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


def check_owner(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Check that the tables in a folder do not belong to another file with this study name.

    Raises:
        ConfigError: If they do, and the other file still has this name.
        UserError: If the note is damaged.
    """
    path = Path(folder) / OWNER_FILE
    if not path.exists():
        return
    owner = Path(folder, str(disk.read_json(path).get("config")))
    if not owner.is_file() or owner.samefile(config_path):
        return
    with contextlib.suppress(UserError):  # An unreadable file may have the study name.
        if yaml_file.read(owner).get("study") != study:
            return
    other = os.path.relpath(owner.resolve())
    text = (
        f"study: received '{study}', as in {other}, with tables in {Path(folder)}; a name that "
        f"no other file has is expected. Change `study:` in {config_path}, or delete {other}."
    )
    raise ConfigError([text])


def note_owner(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Write the note that a file owns a folder's tables; raise errors as `check_owner` does."""
    check_owner(folder, study, config_path)
    # The path is relative, so that a project can move with its results.
    path = os.path.relpath(Path(config_path).resolve(), Path(folder).resolve())
    disk.write_json(Path(folder) / OWNER_FILE, {"config": path})


def last_config(results: Path | str) -> tuple[str, str] | None:
    """Return configuration file and scale of the study that ran last; None before the first run."""
    owners = list(Path(results).glob(f"studies/*/{OWNER_FILE}"))
    if not owners:
        return None
    owner = max(owners, key=lambda path: path.stat().st_mtime)
    # `results` may be a link: only the system knows the parents of its folders.
    config_path = owner.parent / disk.read_json(owner, "config")["config"]
    scale = "reduced" if owner.parent.name.endswith("-reduced") else "full"
    return os.path.relpath(config_path.resolve()), scale
