"""What the workflow's rules ask about a study: paths, inputs, threads. No Snakemake in it."""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from batchscope import disk, figures, project_files
from batchscope.catalogue import kept_epochs, run_factors, run_names, sweep_names, tables
from batchscope.catalogue.entries import REPEATS, Measure, Timing
from batchscope.errors import UserError, check_folder
from batchscope.host import absence, warm_process
from batchscope.store import job_files, owners, records, status
from batchscope.study import command_line, plan
from batchscope.study import config as configuration

RESULTS = "results"
TABLES = tables.FILES

FIGURES_OF_ONE = 6  # two processes would import as much each, and keep a core from other jobs

# Code that cheap rules depend on: an edit there draws again. The costly ones have versions.
TABLE_CODE = project_files.code_of("tables")
FIGURE_CODE = project_files.code_of("figures")
REPORT_CODE = [*project_files.code_of("report"), *project_files.templates()]


def activate(gpus: bool) -> None:
    """Lets jobs find the Python that runs Snakemake, whether or not its venv is activated.

    A rule's conda environment still comes before it.
    """
    # Jobs may find a GPU that is not here. Where Snakemake was given none, what this process
    # inherited stays: a job on a cluster's node has it from the process that sent it.
    if gpus:
        os.environ[absence.VARIABLE] = "true"
    folder = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", "")
    if path.partition(os.pathsep)[0] != folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{path}"


def deserves_a_line(record: logging.LogRecord) -> bool:
    """Filters Snakemake's log: that a training kept weights before their `snapshot` is expected."""
    return "rule snapshot were not present when the DAG was created" not in record.getMessage()


def prepare() -> None:
    """Starts the process that local jobs fork from (see batchscope.host.warm_process)."""
    warm_process.launch(project_files.WORKFLOW)


@dataclass(frozen=True)
class Jobs:
    """A study as the rules see it."""

    study: plan.Study
    config_path: str  # as it was given
    scale: str  # `full` or `reduced`
    partial: bool  # whether to report on whatever exists, and to compute nothing

    @classmethod
    def of(cls, configfiles: list[Any], given: dict[str, Any]) -> Jobs:
        """Plans the study of Snakemake's configuration; ends the process on a problem in it.

        Args:
            configfiles: Files of `--configfile`; none for the default study.
            given: What Snakemake made of them and of `--config`.
        """
        try:
            check_folder(RESULTS)
            files = list(map(str, configfiles)) or [project_files.DEFAULT_CONFIG]
            path = command_line.one_file(files)
            raw = configuration.read(path)
            options = configuration.check_overrides({**raw, **given}, raw)
            recorded = functools.partial(records.training_images, RESULTS)
            study = configuration.study(path, options["scale"], recorded)
            made = cls(study, path, options["scale"], options["partial"])
            owners.check(made.folder, study.name, path)
        except UserError as error:
            sys.exit(str(error))  # an exception would add a traceback of the Snakefile
        for line in (*study.warnings, *status.absence_lines(job_files.absent(study, RESULTS))):
            print(line, file=sys.stderr)
        return made

    def check_models(self) -> None:
        """Builds the user's own models before any job; ends the process on a fault in one.

        Their data need not be prepared. Nothing is built where all that is of them is made.
        """
        if self.partial or not job_files.own_models(self.study, RESULTS):
            return
        if importlib.util.find_spec("tensorflow") is None:
            text = "not checked before their first job: TensorFlow is in the jobs' environment only"
            print(f"models: {text}.", file=sys.stderr)
            return
        step = [str(project_files.CLI), "check_models", "--config", self.config_path]
        if subprocess.run([sys.executable, *step, "--scale", self.scale]).returncode:
            sys.exit(1)

    @property
    def folder(self) -> str:
        """Folder of the study's tables and figures."""
        return f"{RESULTS}/studies/{self.study.folder_name}"

    @property
    def report(self) -> str:
        """The study's report: the default configuration's lies where anyone finds it."""
        default = Path(project_files.DEFAULT_CONFIG).resolve()
        if Path(self.config_path).resolve() == default and not self.study.reduced:
            return f"{RESULTS}/report.html"
        return f"{self.folder}/report.html"

    @property
    def headline(self) -> str:
        """The file of the report's headline, beside it."""
        return Path(self.report).with_suffix(".txt").as_posix()

    def news(self, since: float) -> str:
        """Returns where the report is and its headline; nothing of a report that is older."""
        headline = Path(self.headline)
        if not headline.exists() or headline.stat().st_mtime < since:
            return ""
        return f"{self.report}: {headline.read_text(encoding='utf-8').strip()}"

    def remedy(self) -> str:
        """Returns what mends files dated in the future: Snakemake stops the jobs that read them."""
        own = [each.own.path for each in self.study.experiments.values()]
        given = {self.config_path, *filter(None, (*self.study.models.values(), *own))}
        roots = [RESULTS, os.path.relpath(project_files.WORKFLOW), *sorted(given)]
        return disk.remedy_for_future_dates(roots)

    def data_records(self) -> list[str]:
        """Records of the study's data sets."""
        return [_data_record(token) for token in self.study.datasets]

    def run_records(self) -> list[str]:
        """Records of the study's runs, but of those that need what is not here."""
        return [path for run in self.study.runs for path in self._run_record(run)]

    def table_inputs(self, experiment: str) -> list[str]:
        """Records behind an experiment's tables; in a partial report those that exist.

        A partial table also follows the configuration: it has a row for what is missing.
        """
        paths = list(dict.fromkeys(self._records(experiment)))
        if not self.partial:
            return paths
        return [self.config_path, *(path for path in paths if os.path.exists(path))]

    def also(self, experiment: str) -> str:
        """What an experiment's tables follow besides its records, as JSON.

        Epochs, other machines, margins, budgets, what the advice and the planned seeds say, and a
        document's numbers: a change of these trains nothing.
        """
        found = self.study.experiments[experiment]
        followed: dict[str, Any] = {"at_epochs": found.at_epochs, "machines": self.study.machines}
        usual = plan.Trainings()
        for name in ("margins", "budgets", "slower", "seeds_planned", "beside"):
            # Left out where there are none, so that no older table is made again.
            if (value := getattr(found.trainings, name)) != getattr(usual, name):
                followed[name] = value
        if found.numbers:
            followed["published"] = {
                figure: [found.published[figure]["figure"], *map(asdict, series)]
                for figure, series in found.numbers.items()
            }
        if found.own.path:  # a file of another content may be older
            followed["runs"] = found.own.sha256
        waiting = list(job_files.left_out(self.study, found, RESULTS))
        if waiting:  # what comes to be there, or was copied here, changes rows
            followed["left_out"] = {
                "why": sorted({what.status for what, _ in waiting}),
                "there": sorted(job.path.as_posix() for _, job in waiting if job.path.exists()),
            }
        return json.dumps(followed, sort_keys=True)

    def _records(self, experiment: str) -> Iterator[str]:
        found = self.study.experiments[experiment]
        if found.own.path:
            yield found.own.path
        for other in found.trainings.beside:
            yield from self._records(other)
        for run in found.trainings.runs:
            yield from self._run_record(run)
        # What other machines measured is read, and never made.
        for folder, machine in self.study.machines.values():
            runs = [records.run_folder(folder, run) / "record.json" for run in found.trainings.runs]
            jobs = job_files.measure_jobs(self.study, found, folder, machine)
            for path in (*runs, *(job.path for job in jobs)):
                if path.exists():
                    yield path.as_posix()
        for job in job_files.measure_jobs(self.study, found, RESULTS):
            yield job.path.as_posix()
            for suffix in run_names.ENTRIES[job.measure].also_writes:
                yield job.path.with_suffix(suffix).as_posix()

    def _run_record(self, run: str) -> Iterator[str]:
        if not absence.of(self.study.runs[run]):
            yield f"{RESULTS}/runs/{run}/record.json"

    def tables(self) -> list[str]:
        """Tables of every experiment."""
        return [
            f"{self.folder}/{name}/{table}" for name in self.study.experiments for table in TABLES
        ]

    @property
    def claims(self) -> str:
        """The table of what the study's documents state."""
        return f"{self.folder}/claims.csv"

    def stated(self) -> list[str]:
        """The same, where they state something."""
        return [self.claims] if self.study.claims else []

    def claim_tables(self) -> list[str]:
        """Tables that the study's claims read."""
        read = {(claim.test.experiment, claim.test.file) for claim in self.study.claims}
        return [f"{self.folder}/{experiment}/{table}.csv" for experiment, table in sorted(read)]

    def ledger_tables(self) -> list[str]:
        """Tables of claims of all studies that have one."""
        return sorted(path.as_posix() for path in Path(RESULTS, "studies").glob("*/claims.csv"))

    def figure_processes(self, experiment: str) -> int:
        """How many processes draw an experiment's figures: two, where they are many."""
        drawn = figures.drawn(self.study.experiments[experiment])
        return 2 if len(drawn) > FIGURES_OF_ONE else 1

    def figures(self) -> list[str]:
        """Folders of the figures of every experiment."""
        return [f"{self.folder}/{name}/figures" for name in self.study.experiments]

    def targets(self) -> list[str]:
        """The report, and what is missing behind it: data, records, tables and figures.

        Of itself, Snakemake makes nothing again that is missing behind a report which is there. A
        partial report asks for no data and no records. Where data sets were deleted, they alone.
        """
        behind = [*self.tables(), *self.stated(), *self.figures()]
        if not self.partial:
            if deleted := self._deleted_data():
                names = ", ".join(Path(path).parent.name for path in deleted)
                text = f"{names}: deleted; made alone now, the rest by the same command."
                print(text, file=sys.stderr)
                return deleted
            behind += [*self._needed_data(), *self._every_record()]
        # All of them would be as many inputs of one job, which a dry-run of a large grid pays for.
        return [self.report, *_missing(behind)]

    def _needed_data(self) -> list[str]:
        return [_data_record(token) for token in job_files.needed_data(self.study)]

    def _every_record(self) -> Iterator[str]:
        return chain.from_iterable(map(self._records, self.study.experiments))

    def _deleted_data(self) -> list[str]:
        """Records of missing data sets that something here was made of.

        Snakemake takes a file that it makes for a new one, and would make all of that again too.
        """
        missing = _missing(self._needed_data())
        made = [path for path in self._every_record() if os.path.exists(path)] if missing else []
        tokens = {part for path in made for part in re.findall(r"/([^/+]+)\+", path)}
        return [path for path in missing if Path(path).parent.name in tokens]

    def quoted_logs(self) -> list[str]:
        """Logs of what a partial report lacks: it quotes them."""
        if not self.partial:
            return []
        jobs = [job_files.training_job(RESULTS, run) for run in self.study.runs]
        for experiment in self.study.experiments.values():
            jobs += job_files.measure_jobs(self.study, experiment, RESULTS)
        wanted = [*(job.path for job in jobs), *map(Path, self.data_records())]
        logs = {job_files.log_path(RESULTS, path) for path in wanted if not path.exists()}
        return sorted(log.as_posix() for log in logs if log.exists())

    def note_epochs(self) -> None:
        """Notes for the trainings which weights before their last the study reads."""
        job_files.note_epochs(self.study, RESULTS)

    def definition(self, dataset: str) -> str:
        """Definition of a data set, as JSON."""
        try:
            return json.dumps(self.study.datasets[dataset], sort_keys=True)
        except KeyError:
            known = ", ".join(self.study.datasets)
            sys.exit(f"{self.config_path}: no data set {dataset}; its data sets are: {known}.")

    def model_file(self, name: str) -> list[str]:
        """The user's model file of a run or timing configuration; nothing if it is built in."""
        path = self.study.models.get(name.split("+")[1])
        return [path] if path else []

    def shared(self, value_of: Callable[[str], Any], wildcard: str = "run") -> Any:
        """Returns what is the same for every run, or else a function of the wildcards.

        Snakemake calls a function several times per job: a third of a large study's dry-run.
        """
        values = [value_of(run) for run in self.study.runs]
        if values and all(value == values[0] for value in values):
            return values[0]
        return lambda wildcards: value_of(getattr(wildcards, wildcard))


def dataset_record(name: str) -> str:
    """Record of the data set of a run or of a timing configuration."""
    return _data_record(name.split("+")[0])


def _data_record(token: str) -> str:
    return f"{RESULTS}/data/{token}/record.json"


def _missing(paths: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if not os.path.exists(path)]


def measured(entry: Measure) -> dict[str, str]:
    """Files of the run, or of both, that a measure reads: input's name -> path."""
    found = {}
    for prefix, run in (("", "{run}"), ("other_", "{other}"))[: 1 + entry.pairs]:
        folder = f"{RESULTS}/runs/{run}"
        found[f"{prefix}record"] = f"{folder}/record.json"
        for weights in entry.weights:
            inner = "epochs/" if weights == kept_epochs.MIDDLE else ""
            found[f"{prefix}{weights}"] = f"{folder}/{inner}{weights}.npz"
        for file in entry.reads:
            found[prefix + Path(file).stem] = f"{folder}/{file}"
    return found


def timed_data(entry: Timing) -> Callable[[Any], str]:
    """Returns, as a function of the wildcards, the record of the data set that is timed."""
    return lambda wildcards: dataset_record(getattr(wildcards, subject(entry)))


def early(entry: Measure) -> Callable[[Any], list[str]]:
    """Returns, as a function of the wildcards, weights before a run's last; mostly none."""

    def read(wildcards: Any) -> list[str]:
        if wildcards.settings == "default":  # a dry-run asks several times for every job
            return []
        run, horizon = wildcards.run, _factors(wildcards.run)["epochs"]
        epoch = job_files.epoch_read(entry.name, wildcards.settings, horizon)
        return [] if epoch is None else [job_files.snapshot_path(RESULTS, run, epoch).as_posix()]

    return read


def output(entry: Measure | Timing) -> str:
    """Path of a measure's or timing's record, without its ending."""
    if isinstance(entry, Timing):
        return f"{RESULTS}/timing/{{machine}}/{{{subject(entry)}}}/{entry.name}/{{settings}}"
    of = f"{entry.name}_to/{{other}}" if entry.pairs else entry.name
    return f"{RESULTS}/runs/{{run}}/{of}/{{settings}}"


def log(entry: Measure | Timing) -> str:
    """Path of a measure's or timing's log."""
    if isinstance(entry, Timing):
        return f"logs/{entry.name}/{{machine}}/{{{subject(entry)}}}/{{settings}}.log"
    other = "{other}/" if entry.pairs else ""
    return f"logs/{entry.name}/{{run}}/{other}{{settings}}.log"


def subject(entry: Timing) -> str:
    """The wildcard, and the option of the door, that say what is timed."""
    return "timing" if entry.trains else "sweep"


def command(step: str) -> str:
    """The call of the door that makes a measure or a timing; any change of it makes all again."""
    entry = run_names.ENTRIES[step]
    if isinstance(entry, Timing):
        options, data = ("machine", subject(entry)), True
    else:
        options, data = ("run", "other") if entry.pairs else ("run",), entry.data
    words = [f"--{option} {{wildcards.{option}:q}}" for option in (*options, "settings")]
    words += ["--model-file {input.model:q}"] if data else []
    written = "{output.record:q}" if entry.also_writes else "{output:q}"
    made = f"--output {written} > {{log:q}} 2>&1"
    return " ".join(["python workflow/run.py", entry.name, *words, made])


def installing(rule: str) -> str:
    """The call of the door that installs a framework, by the name of its rule."""
    words = f"install_framework --framework {rule.removeprefix('install_')}"
    return f"python workflow/run.py {words} --output {{output:q}} > {{log:q}} 2>&1"


def turn(timing: str) -> Callable[[Any], int]:
    """Returns, as a function of the wildcards, the priority of a timing job.

    The first jobs of every configuration stand before the second of any, and all before other jobs:
    without that, those that ask for the whole machine run last.
    """

    def priority(wildcards: Any) -> int:
        parsed = run_names.parse_settings(timing, wildcards.settings)
        return 1 + REPEATS.maximum - parsed[REPEATS.name]

    return priority


def growing(memory_mb: int) -> Callable[[Any, int], int]:
    """Returns the memory that an attempt is given, MB: twice that of the attempt before."""
    return lambda wildcards, attempt: memory_mb * 2 ** (attempt - 1)


def gpus(name: str) -> int:
    """GPUs that a training, a timing configuration or a sweep needs: one per replica."""
    return run_factors.gpus(_factors(name))


def measure_gpus(name: str) -> int:
    """GPUs that a measure of a run needs."""
    return int(_factors(name)["device"] == "gpu")


def threads(name: str) -> int:
    """Threads of a run or a timing configuration; of a sweep that uses all cores no number, -1."""
    return _factors(name)["threads"] or -1


@functools.cache
def _factors(name: str) -> dict[str, Any]:
    # A timing configuration has the name of a sweep over its batch size.
    return run_names.parse_run(name) if "+seed=" in name else sweep_names.parse(name).factors
