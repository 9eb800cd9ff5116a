"""Make `batchscope` importable from any folder; order the tests; the runs that tests share."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))
gc.disable()  # until all modules are imported: they are no garbage

# Fixtures that train or start a process.
SLOW = {"digits", "dropout_run"}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two workers, or three with the slow tests: one mostly waits for other processes."""
    return 2 if "not slow" in config.option.markexpr else 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with slow fixtures, and begin with the files that take minutes.

    First the cluster, then the workflow, then other slow tests; so they overlap. A file stays in
    one piece.
    """
    for item in items:
        if SLOW & set(item.fixturenames):
            item.add_marker("slow")
    slurm, slow = (
        {item.path for item in items if item.get_closest_marker(name)} for name in ("slurm", "slow")
    )
    items.sort(
        key=lambda item: (
            item.path not in slurm,
            item.path not in slow,
            item.path.parent.name != "workflow",
        )
    )


def pytest_collection_finish() -> None:
    """Exclude imported modules from garbage collection, and collect rarely."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _no_fsync() -> Iterator[None]:
    """Do not wait for the disk: no test's files need to outlive a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """A results folder with the prepared digits, to read and to link (`with_digits`)."""
    from batchscope import datasets
    from digit_runs import DIGITS, run_name

    folder = tmp_path_factory.mktemp("digits")
    datasets.prepare(run_name().split("+")[0], DIGITS, folder)
    return folder


@pytest.fixture(scope="module")
def digit_results(tmp_path_factory, digits) -> Path:
    """A results folder with the digits, for the trainings of a module."""
    from digit_runs import with_digits

    return with_digits(digits, tmp_path_factory.mktemp("digit_results") / "results")


@pytest.fixture(scope="session")
def dropout_run(tmp_path_factory, digits) -> tuple[Path, str, str]:
    """A run of everything that has state: dropout, batch norm, Adam, patience, warm-up, norms.

    Returns:
        The results folder of this run, to read; its name; its model's file.
    """
    from batchscope.study import model_files
    from digit_runs import keep, run_name, train, with_digits
    from project import ROOT

    results = with_digits(digits, tmp_path_factory.mktemp("dropout") / "results")
    model = ROOT / "tests" / "data" / "noisy_model.py"
    run = run_name(
        model=model_files.token("noisy", str(model)),
        optimizer="adam",
        learning_rate=0.001,
        patience=50,
        epochs=6,
        learning_rate_scaling="linear",
        warmup_epochs=4,
        update_norms=True,
    )
    keep(results, run, 1, 2, "middle")
    train(results, run, "--model-file", str(model))
    return results, run, str(model)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A results folder with the tiny data set and the run of `measured_run`."""
    import measured_run

    folder = tmp_path_factory.mktemp("results")
    measured_run.write_dataset(folder)
    measured_run.write_run(folder)
    return folder
