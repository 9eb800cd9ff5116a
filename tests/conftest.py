"""Makes `batchscope` importable, whatever folder the tests are started from."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A results folder with the tiny data set and the run of `measured_run`."""
    import measured_run

    folder = tmp_path_factory.mktemp("results")
    measured_run.write_dataset(folder)
    measured_run.write_run(folder)
    return folder
