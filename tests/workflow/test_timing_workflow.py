"""A timing experiment as a user runs it: to its report, and only what is missing."""

import json
import shutil
from pathlib import Path

import pytest

import project

pytestmark = pytest.mark.slow

MACHINE = {
    "question": "What does the batch size do to this machine?",
    "vary": {"batch_size": [4, 16, 64]},
    "at_epochs": [1, 3],
    "timing": {
        "throughput": {"blocks": 4, "block_seconds": 0.02},
        "utilisation": {"seconds": 0.3, "pause_seconds": 0.1},
        "max_batch_size": {"most": 2},
        "profile": {"steps": 3},
    },
}
TOKENS = {
    "question": "Is a sequence timed as an image is?",
    "set": {"dataset": "numpy_docs", "model": "tiny_transformer", "optimizer": "adam"},
    "vary": {"batch_size": [8]},
    "timing": {"throughput": {"blocks": 4, "block_seconds": 0.02}},
}
TIMED = {
    "study": "timed",
    "machine": "desktop",
    "defaults": {"dataset": "digits", "model": "small_cnn", "optimizer": "sgd"},
    "experiments": {"machine": MACHINE, "tokens": TOKENS},
}
DRAWN = {"tabulate": 1, "figures": 1, "report": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The tiny study of times, run to its report."""
    folder = project.copy(tmp_path_factory.mktemp("project"))
    project.write_config(folder, TIMED)
    project.run(folder)
    return folder


def rows(folder: Path, table: str, experiment: str = "machine") -> list[dict[str, str]]:
    return project.rows(folder, f"timed/{experiment}", table)


def test_the_machine_was_timed(finished):
    assert not (finished / "results" / "runs").exists()  # nothing was trained
    seconds = (finished / "results" / "job_seconds.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in seconds} == {*MACHINE["timing"]}
    speeds = rows(finished, "throughput")
    assert [row["batch_size"] for row in speeds] == ["4", "16", "64"]
    assert all(float(row["examples_per_second"]) > 0 and row["blocks"] == "4" for row in speeds)
    (sweep,) = rows(finished, "sweeps")
    assert (sweep["max_batch_size"], sweep["max_batch_size_bound"]) == ("2", "most_fits")
    assert [row["outcome"] for row in rows(finished, "largest")] == ["fits"] * 2
    assert {row["batch_size"] for row in rows(finished, "samples")} == {"", "4", "16", "64"}
    for row in rows(finished, "profiles"):
        assert sum(float(row[part]) for part in ("compute", "input", "host")) == pytest.approx(1)
    times = rows(finished, "training_times")
    assert [row["at_epoch"] for row in times] == ["1", "3"] * 3
    assert float(times[1]["train_seconds"]) == pytest.approx(3 * float(times[0]["train_seconds"]))
    (speed,) = rows(finished, "throughput", "tokens")
    assert float(speed["examples_per_second"]) > 0
    timing = finished / "results" / "timing" / "desktop"
    records = {path.parent.name: json.loads(path.read_text()) for path in timing.rglob("*.json")}
    assert set(records) == set(MACHINE["timing"])
    samples = records["utilisation"]["samples"]
    assert {"seconds", "process_percent", "machine_percent", "memory_mb"} <= set(samples)
    assert len({len(values) for values in samples.values()}) == 1
    for table in ("utilisation", "profiles"):
        assert all(0 < float(row["process_percent"]) < 150 for row in rows(finished, table))
    assert len(list(timing.glob("*/profile/*/plugins/profile/*/*.xplane.pb"))) == 3  # TensorBoard's


def test_the_report_has_its_answer_and_figures(finished):
    page = project.report(finished)
    for words in ("Highest throughput", "Fixed cost of a step", "at least 2", "desktop"):
        assert words in page
    figures = finished / "results" / "studies" / "timed" / "machine" / "figures"
    assert {path.stem for path in figures.glob("*.svg")} == {
        *("throughput", "step_time", "training_time", "max_batch_size", "profile"),
        *("utilisation", "utilisation_over_time"),
    }


def test_only_what_an_edit_changes_is_timed_again_beside_another_machine(finished):
    def plan(top=(), **keys) -> dict[str, int]:
        machine = {"machine": {**MACHINE, **keys}}
        project.write_config(finished, {**TIMED, "experiments": machine, **dict(top)})
        return project.planned(finished)

    assert project.planned(finished) == {}
    # In turns; the largest that fits does not depend on the list, and a profile is of one size.
    timed = {"throughput": 1, "utilisation": 1, "profile": 1}
    assert plan(vary={"batch_size": [4, 16, 32, 64]}) == {**timed, **DRAWN}
    keys = {"at_epochs": [2], "figures": ["training_time"]}
    assert plan(**keys) == DRAWN

    results = finished / "results"
    shutil.copytree(results, finished / "laptop_results")
    laptop = {"results": "laptop_results", "machine": "desktop"}
    assert plan({"machines": {"laptop": laptop}}, **keys) == DRAWN
    (utilisation,) = results.glob("timing/desktop/*/utilisation")
    shutil.rmtree(utilisation)
    project.run(finished, "--config", "partial=true")
    assert {row["at_epoch"] for row in rows(finished, "training_times")} == {"2"}
    assert [row["machine"] for row in rows(finished, "sweeps")] == ["desktop", "laptop"]
    assert len(rows(finished, "throughput")) == 6
    page = project.report(finished)
    assert "Missing: utilisation" in page and "Highest throughput" in page
    assert page.count('<th scope="col">laptop</th>') == 1
