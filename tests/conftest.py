"""Makes `batchscope` importable, whatever folder the tests are started from."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts with the files that take minutes: no process is left with one of them at the end."""

    def slow(item: pytest.Item) -> bool:
        return any(item.get_closest_marker(name) for name in ("slow", "slurm"))

    first = {item.path for item in items if slow(item)}
    items.sort(key=lambda item: item.path not in first)  # stable: a file stays in one piece


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A results folder with the tiny data set and the run of `measured_run`."""
    import measured_run

    folder = tmp_path_factory.mktemp("results")
    measured_run.write_dataset(folder)
    measured_run.write_run(folder)
    return folder
