"""A study whose jobs are bundled: the same files as without, whatever fails or is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import project

BUNDLED = ("--config", "runs_per_job=2")
EXPERIMENT = project.TINY["experiments"]["batch_size"]
MEASURES = {**EXPERIMENT["measure"], "line": {"between": {"batch_size": [64, 256]}}}

# Made once more without bundles: they follow single records then.
TABLES = {"tabulate": 1, "figures": 1, "report": 1}

pytestmark = pytest.mark.slow


def configured(folder: Path, **changes: object) -> None:
    experiment = {**EXPERIMENT, "measure": MEASURES, **changes}
    project.write_config(folder, {**project.TINY, "experiments": {"batch_size": experiment}})


@pytest.fixture(scope="module")
def bundled(tmp_path_factory) -> Path:
    """A study that was made by bundles to its report, by one command."""
    folder = project.copy(tmp_path_factory.mktemp("bundled") / "project")
    configured(folder)
    project.run(folder, *BUNDLED)
    return folder


def records(folder: Path) -> dict[str, int]:
    found = [*folder.glob("results/runs/**/*.json"), *folder.glob("results/timing/**/*.json")]
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in found}


def test_nothing_is_to_be_done_after_it_with_bundles_or_without(bundled):
    rows = project.rows(bundled, "tiny/batch_size")
    assert [row["status"] for row in rows] == ["finished"] * 4
    assert all(float(row["sharpness_full_0.001"]) >= 0 for row in rows)
    assert "Does the whole pipeline run?" in project.report(bundled)
    assert project.planned(bundled, *BUNDLED) == {}
    assert project.planned(bundled) == TABLES


def test_what_is_deleted_is_made_again_with_what_follows_and_nothing_else(bundled):
    before = records(bundled)
    run = sorted(bundled.glob("results/runs/*"))[0]
    (run / "record.json").unlink()
    assert project.planned(bundled, *BUNDLED) == {"bundle": 2}  # it and its line to another
    project.run(bundled, *BUNDLED)
    after = records(bundled)
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name] != before[name]}
    lines = {name for name in after if "/line_to/" in name and run.name in name}
    own = {name for name in after if f"runs/{run.name}/" in name}
    assert changed == own | lines
    assert project.planned(bundled, *BUNDLED) == {}
    assert project.planned(bundled) == TABLES


def test_a_job_that_fails_takes_nothing_with_it(bundled):
    configured(bundled, measure={**MEASURES, "hessian": None})
    damaged = sorted(bundled.glob("results/runs/*/best.npz"))[0]
    content = damaged.read_bytes()
    damaged.write_bytes(b"no weights")
    done = project.snakemake(bundled, "--cores", "2", "--keep-going", *BUNDLED)
    assert done.returncode != 0 and damaged.parent.name in done.stdout
    assert len([*bundled.glob("results/runs/*/hessian/*.json")]) == 3
    stamp = damaged.stat().st_mtime_ns
    damaged.write_bytes(content)
    os.utime(damaged, ns=(stamp, stamp))
    project.run(bundled, *BUNDLED)
    assert len([*bundled.glob("results/runs/*/hessian/*.json")]) == 4
    assert project.planned(bundled, *BUNDLED) == {}


def test_killed_it_goes_on(tmp_path):
    """kill -9 of everything while a bundle trains; what was finished is not done again."""
    folder = project.copy(tmp_path / "project")
    configured(folder, set={"epochs": 400}, measure=["evaluate"], at_epochs=[1])
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *BUNDLED]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, start_new_session=True, **quiet)
    end = time.monotonic() + 240
    while len([*folder.glob("results/runs/*/epochs/1.npz")]) < 2:  # one is trained by then
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = records(folder)
    assert any(name.endswith("/record.json") for name in before)
    project.run(folder, "--unlock")
    project.run(folder, *BUNDLED)
    after = records(folder)
    assert {name: after[name] for name in before} == before
    assert [row["status"] for row in project.rows(folder, "tiny/batch_size")] == ["finished"] * 4
