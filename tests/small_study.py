"""A small study as a map, for tests of planning."""

import errno
import os
from pathlib import Path

import pytest

from batchscope.core import disk
from batchscope.core.errors import ConfigError
from batchscope.store import jobs, paths
from batchscope.study import names, planner

DEFAULTS = {
    "dataset": "digits",
    "model": "small_cnn",
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "epochs": 2,
}
MODEL_FILE = Path(__file__).parent / "bad_configs" / "tiny_model.py"


def config(**changes):
    """A small study; `experiment` and `defaults` change those, the rest the top level."""
    experiment = {"vary": {"batch_size": [16, 32]}, "seeds": 2, **changes.pop("experiment", {})}
    defaults = DEFAULTS | changes.pop("defaults", {})
    return {"study": "s", "defaults": defaults, "experiments": {"a": experiment}, **changes}


def problems(raw, scale="full", folder=None):
    """Returns the lines of every problem that planning finds."""
    with pytest.raises(ConfigError) as raised:
        planner.make(raw, scale, folder=folder)
    return raised.value.problems


def timed(**experiment):
    """A study of times of MNIST, with two loops."""
    experiment = {
        "vary": {"batch_size": [32], "loop": ["graph", "eager"]},
        "timing": ["throughput", "utilisation"],
        **experiment,
    }
    defaults = {"dataset": "mnist", "model": "campbell_cnn", "optimizer": "sgd"}
    return {"study": "s", "defaults": defaults, "experiments": {"a": experiment}}


def finish_run(results, run, **record):
    """Write the files of a finished run; only its record has content."""
    folder, factors = paths.run_folder(results, run), names.parse_run(run)
    folder.mkdir(parents=True, exist_ok=True)
    record = {"status": "finished", "contended_seconds": 8.0, **record}
    disk.write_json(folder / paths.RECORD, {"epochs_run": factors["epochs"], **record})
    for name in paths.run_files(factors)[1:]:
        (folder / name).touch()


def finish(results, study, **versions):
    """Write every file of a study, with versions of the records by step; return the files."""
    files = [
        paths.dataset_folder(results, token) / name
        for token in study.datasets
        for name in (paths.RECORD, *paths.ARRAYS)
    ]
    table = jobs.JobTable(study, results)
    for state in table.by_record.values():
        job, version = state.job, versions.get(state.job.measure)
        if job.measure == "train":
            finish_run(results, job.runs[0], version=version)
        else:
            disk.write_json(job.path, {"version": version})
        files += table.files(job)
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return files


def forbid(monkeypatch, method="stat"):
    """Lets the system refuse a method of every path, as it may for anyone but root."""

    def refuse(path, **_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, method, refuse)
