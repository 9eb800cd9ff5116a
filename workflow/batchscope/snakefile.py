"""What the workflow's rules ask about a study: inputs, targets, what is left to make."""

from __future__ import annotations

import functools
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from batchscope import disk, figures, project_files, rule_parts, wording
from batchscope.errors import UserError, check_folder
from batchscope.host import interruption, memory_limits, requirements
from batchscope.rule_parts import RESULTS
from batchscope.store import (
    bundles,
    job_files,
    looks,
    owners,
    paths,
    records,
    states,
    status,
)
from batchscope.study import command_line, commands, plan
from batchscope.study import config as configuration

FIGURES_OF_ONE = 6  # two processes would import as much each, and keep a core from other jobs

# Code that cheap rules depend on: an edit there draws again. The costly ones have versions.
TABLE_CODE = project_files.code_of("tables")
FIGURE_CODE = project_files.code_of("figures")
REPORT_CODE = [*project_files.code_of("report"), *project_files.templates()]


def activate(gpus: bool, scheduled: bool = False) -> None:
    """Lets jobs find the Python that runs Snakemake, whether or not its venv is activated.

    A rule's conda environment still comes before it.

    Args:
        gpus: Whether jobs may find a GPU that is not here.
        scheduled: Whether a scheduler started this process: another attempt may have more memory.
    """
    if scheduled:
        os.environ[memory_limits.SCHEDULED] = "true"
    # Where Snakemake was given none, what this process inherited stays: a job on a cluster's node
    # has it from the process that sent it.
    if gpus:
        os.environ[requirements.REMOTE_GPUS] = "true"
    folder = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", "")
    if path.partition(os.pathsep)[0] != folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{path}"


def deserves_a_line(record: logging.LogRecord) -> bool:
    """Filter Snakemake's log: no errors after Ctrl-C, and no warning about weights that exist.

    A training may keep the weights that a `snapshot` job would make.
    """
    if record.levelno >= logging.ERROR and interruption.is_interrupted():
        return False
    return "rule snapshot were not present when the DAG was created" not in record.getMessage()


@dataclass(frozen=True)
class Jobs:
    """A study as the rules see it."""

    study: plan.Study
    config_path: str  # as it was given
    scale: str  # `full` or `reduced`
    partial: bool  # whether to report on whatever exists, and to compute nothing
    look: int = 0  # which one was the last, as it was planned
    runs_per_job: int | str = 1  # or AUTO
    cluster: bool = False  # whether jobs go to one

    @classmethod
    def of(
        cls,
        configfiles: list[Any],
        given: dict[str, Any],
        cluster: bool = False,
        remote: bool = False,
    ) -> Jobs:
        """Plans the study of Snakemake's configuration; ends the process on a problem in it.

        Args:
            configfiles: Files of `--configfile`; none for the default study.
            given: Options of `--config`.
            cluster: Whether jobs go to a cluster.
            remote: Whether this is one of these jobs: it is of what was planned before.
        """
        try:
            check_folder(RESULTS)
            files = list(map(str, configfiles)) or [project_files.DEFAULT_CONFIG]
            path = command_line.one_file(files)
            options = configuration.options(given)
            here = not (cluster or remote or options.partial)
            study = _planned(path, options.scale, here)
            look = looks.last(RESULTS, study.folder_name)
            runs_per_job = 1 if remote else options.runs_per_job
            made = cls(study, path, options.scale, options.partial, look, runs_per_job, cluster)
            owners.check(made.folder, study.name, path)
            # A job of a cluster, which reads this too, looks at no file of the others.
            every = [run.needs for run in study.commands.values()]
            every += chain.from_iterable(one.factors() for one in study.experiments.values())
            absent = made.table.absent() if any(map(requirements.missing, every)) else {}
        except UserError as error:
            sys.exit(str(error))  # an exception would add a traceback of the Snakefile
        for line in (*study.warnings, *status.absence_lines(absent)):
            print(line, file=sys.stderr)
        return made

    def planned_anew(self) -> Jobs:
        """Returns the study as it is by now: looks may have given it more seeds."""
        if not self._staged:
            return replace(self)
        try:
            study = _planned(self.config_path, self.scale)
        except UserError as error:
            sys.exit(str(error))
        return replace(self, study=study, look=looks.last(RESULTS, study.folder_name))

    @property
    def _staged(self) -> bool:
        return any(one.looks for one in self.study.experiments.values())

    @functools.cached_property
    def table(self) -> states.JobTable:
        return states.JobTable(self.study, RESULTS)

    @property
    def bundled(self) -> bool:
        if self.runs_per_job == configuration.AUTO:
            return self.cluster or len(self.study.runs) >= bundles.LARGE
        return self.runs_per_job != 1

    @functools.cached_property
    def bundles(self) -> rule_parts.Planned:
        """What is left to make, in bundles; ends the process on a damaged record."""
        if not self.bundled or self.partial:
            return rule_parts.Planned(self.study.folder_name)
        try:
            left = status.overview(self.study, RESULTS, self.table)
        except UserError as error:
            sys.exit(str(error))
        found = bundles.planned(self.study, RESULTS, left, self.runs_per_job)
        return rule_parts.Planned(self.study.folder_name, found)

    def check(self) -> None:
        """Reads own data and builds own models before any job; ends the process on a fault.

        Models need no data that are prepared. Nothing is read or built of which all is made.
        """
        if self.partial or not (self.table.own_data() or self.table.own_models()):
            return
        step = [str(project_files.CLI), "check", "--config", self.config_path]
        if subprocess.run([sys.executable, *step, "--scale", self.scale]).returncode:
            sys.exit(1)

    @property
    def folder(self) -> str:
        return paths.study_folder(RESULTS, self.study.folder_name).as_posix()

    @property
    def report(self) -> str:
        """The study's report: the default configuration's lies where anyone finds it."""
        default = Path(project_files.DEFAULT_CONFIG).resolve()
        if Path(self.config_path).resolve() == default and not self.study.reduced:
            return f"{RESULTS}/report.html"
        return f"{self.folder}/report.html"

    @property
    def headline(self) -> str:
        return Path(self.report).with_suffix(".txt").as_posix()

    def news(self, since: float) -> str:
        headline = Path(self.headline)
        new = headline.exists() and headline.stat().st_mtime >= since
        return f"{self.report}: {headline.read_text(encoding='utf-8').strip()}" if new else ""

    def remedy(self) -> str:
        """Returns what mends files dated in the future: Snakemake stops the jobs that read them."""
        own = chain.from_iterable(one.own.files for one in self.study.experiments.values())
        given = {self.config_path, *filter(None, (*self.study.models.values(), *own))}
        roots = [RESULTS, os.path.relpath(project_files.WORKFLOW), *sorted(given)]
        return disk.remedy_for_future_dates(roots)

    def data_records(self) -> list[str]:
        return [*map(rule_parts.dataset_record, self.study.datasets)]

    def run_records(self) -> list[str]:
        """Records of the study's runs, but of those that need what is not here.

        Where jobs are bundled, what the bundles of trainings leave, which measures are part of.
        """
        if self.bundles:
            return self.bundles.trained
        runs = self.study.runs.items()
        needs = [*runs, *((name, run.needs) for name, run in self.study.commands.items())]
        here = (run for run, needed in needs if not requirements.missing(needed))
        return [*map(rule_parts.run_file, here)]

    def table_inputs(self, experiment: str) -> list[str]:
        """Records behind an experiment's tables; in a partial report those that exist.

        A partial table also follows the configuration: it has a row for what is missing.
        """
        found = self._followed.records(experiment)
        if self.partial:
            return [rule_parts.literal(self.config_path), *filter(os.path.exists, found)]
        if not self.bundled:
            return found
        # Bundles are of a target of its own; the whole study makes them before.
        return [*self._followed.not_bundled(experiment), *self.bundles.made]

    def also(self, experiment: str) -> str:
        return self._followed.also(experiment, dates=self.bundled and not self.partial)

    @functools.cached_property
    def _followed(self) -> rule_parts.Followed:
        return rule_parts.Followed(self.study, self.table)

    def tables(self) -> list[str]:
        own, names = self.study.folder_name, self.study.experiments
        return [path for name in names for path in rule_parts.experiment_tables(own, name)]

    def default_targets(self) -> list[str]:
        study = self.study.folder_name
        return [rule_parts.default_targets(study, name) for name in self.study.experiments]

    @property
    def claims(self) -> str:
        return f"{self.folder}/claims.csv"

    def stated(self) -> list[str]:
        return [self.claims] if self.study.claims else []

    def claim_tables(self) -> list[str]:
        read = {(claim.test.experiment, claim.test.table) for claim in self.study.claims}
        return [f"{self.folder}/{experiment}/{table}.csv" for experiment, table in sorted(read)]

    def looked_at(self) -> list[str]:
        """The table of the look at this stage, where seeds come in stages.

        One that gave no seeds was at this stage: where a grid or a claim came to the study since,
        its tables are newer, and it is made again.
        """
        study = self.study.folder_name
        if self.partial or not self._staged:
            return []
        number = self.look + looks.goes_on(RESULTS, study)
        return [paths.look_table(RESULTS, study, number).as_posix()]

    def figure_processes(self, experiment: str) -> int:
        drawn = figures.drawn(self.study.experiments[experiment])
        return 2 if len(drawn) > FIGURES_OF_ONE else 1

    def figures(self) -> list[str]:
        own = self.study.folder_name
        return [rule_parts.figures_folder(own, name) for name in self.study.experiments]

    def targets(self) -> list[str]:
        """The report, and what is missing behind it: data, records, tables and figures.

        Of itself, Snakemake makes nothing again that is missing behind a report which is there. A
        partial report asks for no data and no records. Where data sets were deleted, they come
        first, alone (see `once_more`).
        """
        behind = [self.headline, *self.tables(), *self.stated(), *self.figures()]
        behind += self.default_targets()
        if not self.partial:
            if deleted := self._deleted_data():
                names = ", ".join(Path(path).parent.name for path in deleted)
                print(f"{names}: deleted; made first, and the rest after that.", file=sys.stderr)
                return deleted
            if self.bundles:
                return self._first()
            behind += self._lacking_data()
            behind += chain.from_iterable(map(self._followed.records, self.study.experiments))
        # All of them would be as many inputs of one job, which a dry-run of a large grid pays for.
        return [self.report, *self.looked_at(), *missing(behind)]

    def _first(self) -> list[str]:
        """What is made before all else where jobs are bundled: tables follow single records."""
        commanded = filter(rule_parts.is_commanded, self.table.every.values())
        single = [state.job.path.as_posix() for state in commanded if state.missing]
        jobs = wording.count(self.bundles.jobs, "job")
        text = f"{jobs} in {wording.count(len(self.bundles), 'bundle')} first"
        print(f"{text}; then tables, figures and the report.", file=sys.stderr)
        return [*self.bundles.made, *single, *self._lacking_data()]

    def damaged(self) -> set[str]:
        """Outputs that are there and lack a file of theirs: their jobs are to run again.

        The others of a run's or a data set's files, and single figures, are known by its record.
        """
        found = {folder for folder in self.figures() if not figures.whole(Path(folder))}
        if self.partial:
            return found
        data = filter(os.path.exists, self._lacking_data())
        runs = (
            state.job.path.as_posix()
            for state in self.table.every.values()
            if state.damaged and (not self.bundled or rule_parts.is_commanded(state))
        )
        return {*found, *runs, *data}

    def _deleted_data(self) -> list[str]:
        """Records of data sets that something here was made of, and that are not whole.

        Snakemake takes a file that it makes for a new one, and would make all of that again too.
        """
        lacking = self._lacking_data()
        jobs = (state.job for state in self.table.every.values() if lacking)
        used = {rule_parts.dataset_record(job.subject) for job in jobs if job.path.exists()}
        return [path for path in lacking if path in used]

    def _lacking_data(self) -> list[str]:
        found = (dataset for dataset, whole in self.table.data().items() if not whole)
        return [*map(rule_parts.dataset_record, found)]

    def quoted_logs(self) -> list[str]:
        """Logs of what a partial report lacks: it quotes them."""
        if not self.partial:
            return []
        wanted = [state.job.path for state in self.table.every.values() if not state.made]
        wanted += [Path(path) for path in missing(self.data_records())]
        logs = {paths.log_path(RESULTS, path) for path in wanted}
        return sorted(log.as_posix() for log in logs if log.exists())

    def claim(self) -> None:
        owners.claim(self.folder, self.study.name, self.config_path)

    def note_epochs(self) -> None:
        job_files.note_epochs(self.study, self.table.here(), RESULTS)

    def note_commands(self) -> None:
        """Notes which commands make the runs that are missing: no part of a job's own command.

        Where the study's file lies, or what a run needs, changes no result.
        """
        for state in self.table.every.values():
            run = self.study.commands.get(state.job.subject)
            if run and not state.made:
                disk.write_json(state.job.path.with_name(paths.COMMAND_NOTE), run.note())

    def command(self, wildcards: Any) -> commands.Command:
        run = self.study.commands.get(wildcards.command)
        return run.command if run else commands.Command(())

    def of_command(self, value_of: Callable[[commands.Command], Any]) -> Callable[[Any], Any]:
        return lambda wildcards: value_of(self.command(wildcards))

    def definition(self, dataset: str) -> str:
        """Definition of a data set, as JSON."""
        try:
            return json.dumps(self.study.datasets[dataset], sort_keys=True)
        except KeyError:
            known = ", ".join(self.study.datasets)
            sys.exit(f"{self.config_path}: no data set {dataset}; its data sets are: {known}.")

    def model_file(self, name: str) -> list[str]:
        path = self.study.models.get(name.split("+")[1])
        return [rule_parts.literal(path)] if path else []

    def shared(self, value_of: Callable[[str], Any]) -> Any:
        """Returns what is the same for each run and sweep, or else a function of the wildcards.

        Snakemake calls a function several times per job: a third of a large study's dry-run.
        """
        names = [*self.study.runs]
        for each in self.study.experiments.values():
            names += [job.subject for job in job_files.timing_jobs(each, RESULTS, "")]
        values = [*map(value_of, names)]
        if values and all(value == values[0] for value in values):
            return values[0]
        return lambda wildcards: value_of(rule_parts.named(wildcards))


def _planned(path: str, scale: str, here: bool = False) -> plan.Study:
    recorded = functools.partial(records.training_images, RESULTS)
    looked = functools.partial(looks.stages, RESULTS)
    return configuration.study(path, scale, recorded, looked, here)


def missing(wanted: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(wanted) if not os.path.exists(path)]
