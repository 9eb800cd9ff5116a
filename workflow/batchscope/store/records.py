"""Parts of records and files below `results` that several packages share. `paths` has the names.

The job that makes a record writes it: `datasets.preparation`, `training.trainer`,
`external.command_runner`, `measures.measure_job` and `timing.timing_job`. Here are statuses, the
columns of histories, weights as npz, the checked reading of a run's files (`RunFiles`), and the
descriptions of packages and the machine. An entry of one kind of record belongs to its job; an
entry of all records is added here.
"""

import contextlib
import platform
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from batchscope.core import disk, display
from batchscope.host import requirements
from batchscope.store import paths
from batchscope.study import names, tasks
from batchscope.study.registry import VERSIONS

# Statuses of runs in records. Only external runs can have CRASHED.
FINISHED, DIVERGED, OUT_OF_MEMORY, CRASHED = "finished", "diverged", "out_of_memory", "failed"
# Statuses in tables: a finished run that missed its target_train_loss, and a run without a record.
OFF_TARGET, MISSING = "off_target", "missing"
FITS = "fits"  # status of a trial of a batch size
FAILED = (DIVERGED, OUT_OF_MEMORY, CRASHED)
UNSUCCESSFUL = (*FAILED, OFF_TARGET)
PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "snakemake")  # with versions in records


def history_columns(task: str) -> tuple[str, ...]:
    evaluated = *tasks.split_columns(task, "train"), *tasks.split_columns(task, "validation")
    distances = ("epoch_distance", "weight_distance")
    return ("epoch", "step", "learning_rate", *evaluated, "seconds", *distances)


def trajectory_columns(task: str) -> tuple[str, ...]:
    evaluated = *tasks.split_columns(task, "validation"), *tasks.split_columns(task, "test")
    return ("examples", "updates", "epoch", "train_loss", *evaluated)


def data_record(results: Path | str, dataset: str) -> dict[str, Any] | None:
    path = paths.dataset_record(results, dataset)
    return disk.read_json(path) if path.exists() else None


def dataset_task(results: Path | str, dataset: str) -> str | None:
    record = data_record(results, dataset)
    return None if record is None else record.get("task", tasks.CLASSIFICATION)


def data_warnings(dataset: str, record: dict[str, Any]) -> Iterator[str]:
    """Yield the warnings of a data set's record: skipped files, absent classes."""
    place = f"datasets.{names.split_token(dataset)[0]}"
    if count := record.get("skipped_count"):
        files = [f"{entry['file']} ({entry['reason']})" for entry in record.get("skipped") or []]
        text = display.count(count, "file was", "files were")
        yield f"{place}: {text} skipped: {display.short_list(files, count)}."
    counts, absent = record.get("class_counts") or {}, []
    by_class = zip(*counts.values(), strict=True)
    for name, class_counts in zip(record.get("class_names") or (), by_class, strict=False):
        if not all(class_counts):
            by_split = ", ".join(map("{} {}".format, counts, class_counts))
            absent.append(f"{name} ({by_split})")
    if absent:
        text = display.count(len(absent), "class has", "classes have")
        classes = display.short_list(absent)
        yield f"{place}: {text} no example in the validation or test set: {classes}."


def training_size(results: Path | str, dataset: str) -> int | None:
    return (data_record(results, dataset) or {}).get("counts", {}).get("train")


def write_weights(
    path: Path | str, trainable: dict[str, np.ndarray], state: dict[str, np.ndarray]
) -> None:
    """Write weights by their variables' paths, such as `conv_1/kernel`, as an npz.

    Args:
        state: Weights that are not trained, such as moving statistics.
    """
    disk.write_arrays(path, weight_members(trainable, state))


def weight_members(
    trainable: dict[str, np.ndarray], state: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    groups = ("trainable", trainable), ("state", state)
    return {f"{group}:{name}": array for group, arrays in groups for name, array in arrays.items()}


def file_sha256(folder: Path, files: Iterable[str]) -> dict[str, str]:
    return {file: disk.file_sha256(folder / file) for file in files if (folder / file).exists()}


class RunFiles:
    """The files of a run with a record. A missing or changed file raises a `UserError`.

    Each file is compared with the SHA-256 in the record when it is read. The record does not list
    snapshots, because other jobs make them. Their zip checksums protect them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record of the run, with at least `status` and the map `sha256` of its files."""
        return disk.read_json(paths.run_record(self._folder), "status", "sha256")

    def text(self, file: str, *columns: str) -> str:
        return disk.read_csv_text(self._folder / file, *columns, **self._written(file))

    def rows(self, file: str, *columns: str) -> list[dict[str, str]]:
        return disk.read_rows(self._folder / file, *columns, **self._written(file))

    def arrays(self, file: str, *members: str) -> dict[str, np.ndarray]:
        return disk.read_arrays(self._folder / file, *members, **self._written(file))

    def weights(self, which: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return trainable weights and state of `initial`, `final`, `best` or a snapshot."""
        groups: dict[str, dict[str, np.ndarray]] = {"trainable": {}, "state": {}}
        for key, array in self.arrays(f"{which}.npz").items():
            group, _, name = key.partition(":")
            groups[group][name] = array
        return groups["trainable"], groups["state"]

    def _written(self, file: str) -> dict[str, Any]:
        if file.startswith(f"{paths.SNAPSHOTS}/"):
            return {}
        record = paths.run_record(self._folder)
        return {"sha256": self.record["sha256"].get(file), "path_to_delete": record}


def other_version(step: str, record: dict[str, Any]) -> str | None:
    version = record.get("version")
    return version if version != VERSIONS[step] else None


def measure_record(
    measure: str,
    run: str,
    settings: dict[str, Any],
    status: str,
    values: dict[str, float | None],
    **details: Any,
) -> dict[str, Any]:
    """Return the record of a measure. Tables read its status and its values.

    Args:
        status: Status of the measured run.
    """
    return {
        "measure": measure,
        "version": VERSIONS[measure],
        "run": run,
        "settings": settings,
        "status": status,
        "values": values,
        **details,
    }


def package_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def machine_description() -> dict[str, Any]:
    """Return the CPU, cores, memory in GiB, NVIDIA GPUs and system of this machine."""
    import pynvml as nvml

    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = models[0] if models else cpu
    gpus: list[str] = []
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlInit()
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        gpus = [str(nvml.nvmlDeviceGetName(handle)) for handle in handles]
    return {
        "cpu": cpu,
        "cores": psutil.cpu_count(logical=False),
        "usable_cores": requirements.usable_cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": gpus,
        "platform": platform.platform(),
    }
