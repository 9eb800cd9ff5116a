"""Makes `batchscope` importable, whatever folder the tests are started from."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))
gc.disable()  # until all is imported: nothing of that is garbage


# Fixtures that train, or start a process, and whatever test has them.
SLOW = {"checks", "copied", "digits", "dropout_run", "from_a_shell", "submissions"}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns two processes, or three with the slow tests: one of them is mostly waited for.

    For a cluster, for kills, and for limits of time.
    """
    return 2 if "not slow" in config.option.markexpr else 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as `slow` what a fixture makes so, and starts with the files that take minutes.

    So no process is left with one of them at the end. First of all with those that wait for a
    cluster, then with those that run the workflow.
    """
    for item in items:
        if SLOW & set(item.fixturenames):
            item.add_marker("slow")
    found = {
        name: {item.path for item in items if item.get_closest_marker(name)}
        for name in ("slurm", "slow")
    }
    found["workflow"] = {path for path in found["slow"] if path.parent.name == "workflow"}
    order = [found[name] for name in ("slurm", "workflow", "slow")]
    # Stable: a file stays in one piece.
    items.sort(key=lambda item: [item.path not in paths for paths in order])


def pytest_collection_finish() -> None:
    """Leaves libraries and tests out of the collector's rounds, which become rare.

    They stay to the end, and a round costs more than the memory that it finds.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _files_may_be_lost() -> Iterator[None]:
    """Waits for no disk: what a test writes need not outlive a machine's power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """A results folder with the digits prepared: to read, and to link (`with_digits`)."""
    from batchscope import datasets
    from digit_runs import DIGITS, run_name

    folder = tmp_path_factory.mktemp("digits")
    datasets.prepare(run_name().split("+")[0], DIGITS, folder)
    return folder


@pytest.fixture(scope="session")
def dropout_run(tmp_path_factory, digits) -> tuple[Path, str, str]:
    """A run through all that carries state: dropout, batch norm, Adam, patience, warm-up, norms.

    Returns:
        The results folder that it alone is in, to read; its name; its model's file.
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
