"""Where every file below `results` lies, and every log beside it; the one place that spells a path.

The workflow's rules use the same functions: a wildcard such as `{run}` stands for a name there.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from batchscope.study import names

RECORD = "record.json"  # of a data set and of a run: written last, so that what has one is whole
SPLITS = ("train", "validation", "test")
ARRAYS = tuple(f"{split}_{what}.npy" for split in SPLITS for what in ("images", "labels"))
RUN_FILES = ("history.csv", "final.npz", "best.npz", "initial.npz", "updates.npz")
TRAJECTORY = "trajectory.csv"  # of a run that is evaluated within its epochs, or by a command
DEFAULT_TARGETS = "default_targets.json"  # beside the tables of an experiment
SNAPSHOTS = "epochs"  # folder of a run's weights before its last
# Of a run that a command makes: what its job leaves, what makes it, its output, its own files.
COMMAND_FILES = (RECORD, TRAJECTORY)
COMMAND_NOTE, COMMAND_OUTPUT, COMMAND_FOLDER = "command.json", "output.txt", "files"
COMMANDED = "{command}"  # stands for its name


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
    results: Path | str, machine: str, timing: str, settings: str, measure: str
) -> Path:
    return Path(results) / "timing" / machine / timing / measure / f"{settings}.json"


def initial_name(model: str, input_shape: Iterable[int], classes: int) -> str:
    return f"{model}+{'x'.join(map(str, input_shape))}+{classes}"


def study_folder(results: Path | str, study: str) -> Path:
    return Path(results) / "studies" / study


def interims_folder(results: Path | str, study: str) -> Path:
    return study_folder(results, study) / "interims"


def interim_table(results: Path | str, study: str, number: int) -> Path:
    return interims_folder(results, study) / f"{number}.csv"


def figures_folder(results: Path | str, study: str, experiment: str) -> Path:
    return study_folder(results, study) / experiment / "figures"


def epochs_note(results: Path | str) -> Path:
    return Path(results) / "epochs_read.json"


def seconds_note(results: Path | str) -> Path:
    return Path(results) / "job_seconds.csv"


def epoch_seconds_note(results: Path | str) -> Path:
    return Path(results) / "epoch_seconds.json"


def log_path(results: Path | str, output: Path | str) -> Path:
    """Returns the log of the job that writes a record, of data, a run, a measure or a timing.

    Or weights before a run's last.
    """
    kind, *folders, file = Path(output).relative_to(results).parts
    if file == RECORD:
        *folders, file = folders
        commanded = file == COMMANDED or names.is_command(file)
        made = "run_command" if commanded else "train"
        step = {"data": "prepare_data", "runs": made}[kind]
    else:
        step = folders.pop(1 if kind == "runs" else 2).removesuffix("_to")
        step = "snapshot" if step == SNAPSHOTS else step
        file = file.removesuffix(".json").removesuffix(".npz")
    return Path(results).parent.joinpath("logs", step, *folders, f"{file}.log")
