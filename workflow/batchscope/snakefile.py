"""What the workflow's rules ask about a study: paths, inputs, threads. No Snakemake in it."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchscope import project_files
from batchscope.catalogue import run_names, sweep_names
from batchscope.errors import ConfigError, UserError
from batchscope.host import absence, warm_process
from batchscope.store import job_files, records, status
from batchscope.study import config as configuration
from batchscope.study import plan

RESULTS = "results"
DEFAULT_CONFIG = "config.yaml"
TABLES = (
    "runs.csv",
    "history.csv",
    "layers.csv",
    "updates.csv",
    "alignment.csv",
    "lines.csv",
    "landscapes.csv",
    "at_epochs.csv",
    "margins.csv",
    "limits.csv",
    "throughput.csv",
    "sweeps.csv",
    "utilisation.csv",
    "samples.csv",
    "largest.csv",
    "profiles.csv",
    "training_times.csv",
    "published.csv",
)


def _code(room: str) -> list[str]:
    """Returns the modules behind a cheap step: its room, what it computes, and its words.

    An edit there runs the step again. The costly ones have versions.
    """
    library = Path(__file__).parent
    rooms = ("catalogue", "analysis", room)
    found = [path for each in rooms for path in (library / each).rglob("*.py")]
    return sorted(os.path.relpath(path) for path in found)


TABLE_CODE = _code("tables")
FIGURE_CODE = _code("figures")
REPORT_CODE = [
    *_code("report"),
    *sorted(os.path.relpath(path) for path in project_files.TEMPLATES.iterdir()),
]


def activate(gpus: bool) -> None:
    """Lets jobs find the Python that runs Snakemake, whether or not its venv is activated.

    A rule's conda environment still comes before it.

    Args:
        gpus: Whether Snakemake was told of GPUs: jobs may find one that is not here. Where it was
            not, what this process inherited stays: a job on a cluster's node was told by the
            process that sent it.
    """
    if gpus:
        os.environ[absence.VARIABLE] = "true"
    folder = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", "")
    if path.partition(os.pathsep)[0] != folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{path}"


def prepare() -> None:
    """Starts the process that local jobs fork from (see batchscope.host.warm_process)."""
    warm_process.launch(project_files.WORKFLOW)


@dataclass(frozen=True)
class Jobs:
    """A study as the rules see it.

    Attributes:
        study: The plan.
        config_path: The configuration file, as it was given.
        scale: `full` or `reduced`.
        partial: Whether to report on whatever exists, and to compute nothing.
    """

    study: plan.Study
    config_path: str
    scale: str
    partial: bool

    @classmethod
    def of(cls, configfiles: list[Any], given: dict[str, Any]) -> Jobs:
        """Plans the study of Snakemake's configuration; ends the process on a problem in it.

        Args:
            configfiles: Files that Snakemake read; one is expected.
            given: What Snakemake made of them and of `--config`.
        """
        try:
            return cls._of([str(path) for path in configfiles], given)
        except UserError as error:
            sys.exit(str(error))  # an exception would add a traceback of the Snakefile

    @classmethod
    def _of(cls, configfiles: list[str], given: dict[str, Any]) -> Jobs:
        paths = list(dict.fromkeys(configfiles))
        if len(paths) != 1:
            raise ConfigError(
                [f"--configfile: received {len(paths)} files; one study at a time is expected."]
            )
        raw = configuration.read(paths[0])
        options = configuration.check_overrides(given, raw)
        recorded = functools.partial(records.training_images, RESULTS)
        study = configuration.study(paths[0], options["scale"], recorded)
        for line in (*study.warnings, *status.told(job_files.absent(study, RESULTS))):
            print(line, file=sys.stderr)
        return cls(study, paths[0], options["scale"], options["partial"])

    # Files ---------------------------------------------------------------------------------

    @property
    def folder(self) -> str:
        """Folder of the study's tables and figures."""
        return f"{RESULTS}/studies/{self.study.folder_name}"

    @property
    def report(self) -> str:
        """The study's report: the default configuration's lies where anyone finds it."""
        default = Path(self.config_path).resolve() == Path(DEFAULT_CONFIG).resolve()
        if default and not self.study.reduced:
            return f"{RESULTS}/report.html"
        return f"{self.folder}/report.html"

    def data_records(self) -> list[str]:
        """Records of the study's data sets."""
        return [f"{RESULTS}/data/{token}/record.json" for token in self.study.datasets]

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

        Epochs, other machines, margins and a document's numbers: a change of these trains nothing.
        """
        found = self.study.experiments[experiment]
        followed: dict[str, Any] = {"at_epochs": found.at_epochs, "machines": self.study.machines}
        # Left out where there are none, so that no older table is made again.
        if found.margins:
            followed["margins"] = found.margins
        if found.beside:
            followed["beside"] = found.beside
        if found.numbers:
            followed["published"] = {
                figure: [found.published[figure]["figure"], *map(asdict, series)]
                for figure, series in found.numbers.items()
            }
        waiting = list(job_files.left_out(self.study, found, RESULTS))
        if waiting:  # what comes to be there, or was copied here, changes rows
            followed["left_out"] = {
                "why": sorted({what.status for what, _ in waiting}),
                "there": sorted(job.path.as_posix() for _, job in waiting if job.path.exists()),
            }
        return json.dumps(followed, sort_keys=True)

    def _records(self, experiment: str) -> Iterator[str]:
        found = self.study.experiments[experiment]
        for other in found.beside:
            yield from self._records(other)
        for run in found.runs:
            yield from self._run_record(run)
        # What other machines measured is read, and never made.
        for folder, machine in self.study.machines.values():
            runs = [records.run_folder(folder, run) / "record.json" for run in found.runs]
            jobs = job_files.measure_jobs(self.study, found, folder, machine)
            for path in (*runs, *(job.path for job in jobs)):
                if path.exists():
                    yield path.as_posix()
        for path, measure in job_files.measure_files(self.study, found, RESULTS).items():
            yield path.as_posix()
            if measure == "landscape":  # its arrays lie beside the record
                yield path.with_suffix(".npz").as_posix()

    def _run_record(self, run: str) -> Iterator[str]:
        if not absence.of(self.study.runs[run].factors):
            yield f"{RESULTS}/runs/{run}/record.json"

    def tables(self) -> list[str]:
        """Tables of every experiment."""
        return [
            f"{self.folder}/{name}/{table}" for name in self.study.experiments for table in TABLES
        ]

    def figures(self) -> list[str]:
        """Figure folders of every experiment."""
        return [f"{self.folder}/{name}/figures" for name in self.study.experiments]

    # Per job -------------------------------------------------------------------------------

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

        Snakemake calls a function several times per job, which is a third of a dry-run's time
        in a large study; most studies have one model, no GPU and one number of threads.
        """
        values = [value_of(run) for run in self.study.runs]
        if values and all(value == values[0] for value in values):
            return values[0]
        return lambda wildcards: value_of(getattr(wildcards, wildcard))


def dataset_record(name: str) -> str:
    """Record of the data set of a run or of a timing configuration."""
    return f"{RESULTS}/data/{name.split('+')[0]}/record.json"


def gpus(name: str) -> int:
    """GPUs that a training or a timing configuration needs: one per replica."""
    return _gpus(_factors(name))


def measure_gpus(name: str) -> int:
    """GPUs that a measure of a run needs."""
    return int(_factors(name)["device"] == "gpu")


def threads(name: str) -> int:
    """Threads of a run or a timing configuration."""
    return _factors(name)["threads"]


def sweep_gpus(name: str) -> int:
    """GPUs that a timing sweep needs: one per replica."""
    return _gpus(sweep_names.parse(name).factors)


def sweep_threads(name: str) -> int:
    """Threads that a cluster is asked for; below zero, it is asked for none in particular.

    A sweep on all threads has a node for itself, and a number would limit it to so many of the
    node's cores.
    """
    return sweep_names.parse(name).factors["threads"] or -1


def _gpus(factors: dict[str, Any]) -> int:
    return factors["replicas"] if factors["device"] == "gpu" else 0


@functools.cache
def _factors(name: str) -> dict[str, Any]:
    return run_names.parse_run(name) if "+seed=" in name else run_names.parse_timing(name)
