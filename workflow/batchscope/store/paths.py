"""Paths of data sets, runs, measures, timings and studies below `results`, and of the logs of jobs.

The files of a study's tables, figures and report are named in `rules.inputs`. The workflow's rules
call the same functions with a wildcard such as `{run}` instead of a name.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from batchscope.study import names

RECORD = "record.json"  # record of a data set or a run; it is written after all other files
SPLITS = ("train", "validation", "test")
ARRAYS = tuple(f"{split}_{content}.npy" for split in SPLITS for content in ("images", "labels"))
RUN_FILES = ("history.csv", "final.npz", "best.npz", "initial.npz", "updates.npz")
TRAJECTORY = "trajectory.csv"  # evaluations of a run within its epochs, or of a command
DEFAULT_TARGETS = "default_targets.json"  # file in the folder of an experiment's tables
CHECKPOINT = "checkpoint.npz"  # checkpoint of a training that has not ended
SNAPSHOTS = "epochs"  # folder of a run's weights before the last epoch
# Files of a run of a command: the results, the planned command, its output, and its folder.
COMMAND_FILES = (RECORD, TRAJECTORY)
COMMAND_NOTE, COMMAND_OUTPUT, COMMAND_FOLDER = "command.json", "output.txt", "files"


def dataset_folder(results: Path | str, dataset: str) -> Path:
    return Path(results) / "data" / dataset


def dataset_record(results: Path | str, dataset: str) -> Path:
    return dataset_folder(results, dataset) / RECORD


def run_folder(results: Path | str, run: str) -> Path:
    return Path(results) / "runs" / run


def run_record(folder: Path | str) -> Path:
    return Path(folder) / RECORD


def run_files(factors: dict[str, Any]) -> tuple[str, ...]:
    return (RECORD, *RUN_FILES, *([TRAJECTORY] if factors["evaluate_every"] else []))


def snapshot_path(results: Path | str, run: str, epoch: int | str) -> Path:
    return run_folder(results, run) / SNAPSHOTS / f"{epoch}.npz"


def measure_path(results: Path | str, run: str, measure: str, settings: str) -> Path:
    return run_folder(results, run) / measure / f"{settings}.json"


def pair_path(results: Path | str, run: str, other: str, measure: str, settings: str) -> Path:
    return run_folder(results, run) / f"{measure}_to" / other / f"{settings}.json"


def timing_path(
    results: Path | str, machine: str, configuration: str, settings: str, timing: str
) -> Path:
    """Return the path of a timing's record; `configuration` may be the name of a sweep."""
    return Path(results) / "timing" / machine / configuration / timing / f"{settings}.json"


def initial_name(model: str, input_shape: Iterable[int], classes: int) -> str:
    return f"{model}+{'x'.join(map(str, input_shape))}+{classes}"


def study_folder(results: Path | str, study: str) -> Path:
    return Path(results) / "studies" / study


def interims_folder(results: Path | str, study: str) -> Path:
    return study_folder(results, study) / "interims"


def interim_table(results: Path | str, study: str, number: int) -> Path:
    return interims_folder(results, study) / f"{number}.csv"


def epochs_note(results: Path | str) -> Path:
    return Path(results) / "epochs_read.json"


def seconds_note(results: Path | str) -> Path:
    return Path(results) / "job_seconds.csv"


def log_path(results: Path | str, output: Path | str) -> Path:
    """Return the path of the log of the job that writes a record or a snapshot."""
    kind, *folders, file = Path(output).relative_to(results).parts
    if file == RECORD:
        *folders, file = folders
        run_step = "run_command" if names.is_command(file) else "train"
        step = "prepare_data" if kind == "data" else run_step
    else:
        step = folders.pop(1 if kind == "runs" else 2).removesuffix("_to")
        step = "snapshot" if step == SNAPSHOTS else step
        file = file.removesuffix(".json").removesuffix(".npz")
    return Path(results).parent.joinpath("logs", step, *folders, f"{file}.log")
