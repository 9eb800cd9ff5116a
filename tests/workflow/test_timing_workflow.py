"""A timing experiment as a user runs it: to its report, and only what is missing."""

import json
import shutil
from pathlib import Path

import pytest

import project

pytestmark = pytest.mark.slow

TIMED = {
    "study": "timed",
    "machine": "desktop",
    "defaults": {"dataset": "digits", "model": "small_cnn", "optimizer": "sgd"},
    "experiments": {
        "machine": {
            "question": "What does the batch size do to this machine?",
            "vary": {"batch_size": [4, 16, 64]},
            "at_epochs": [1, 3],
            "timing": {
                "throughput": {"blocks": 4, "block_seconds": 0.02},
                "utilisation": {"seconds": 0.3, "pause_seconds": 0.1},
                "max_batch_size": {"most": 8},
                "profile": {"steps": 3},
            },
        }
    },
}
DRAWN = {"tabulate": 1, "figures": 1, "report": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The tiny study of times, run to its report."""
    return project.finished(tmp_path_factory.mktemp("project"), TIMED)


@pytest.fixture
def edited(finished, tmp_path) -> Path:
    """A copy of the finished study to edit."""
    return shutil.copytree(finished, tmp_path / "copy", symlinks=True)


def configured(folder: Path, **keys) -> dict[str, int]:
    """Writes the study with other keys of its experiment; returns what is planned."""
    machine = {**TIMED["experiments"]["machine"], **keys}
    project.write_config(folder, {**TIMED, "experiments": {"machine": machine}})
    return project.planned(folder)


def rows(folder: Path, table: str, experiment: str = "machine") -> list[dict[str, str]]:
    return project.rows(folder, f"timed/{experiment}", table)


def test_the_machine_was_timed(finished):
    assert not (finished / "results" / "runs").exists()  # nothing was trained
    noted = (finished / "results" / "job_seconds.csv").read_text().splitlines()
    (timed,) = TIMED["experiments"].values()
    assert {line.partition(",")[0] for line in noted} == {*timed["timing"]}
    speeds = rows(finished, "throughput")
    assert [row["batch_size"] for row in speeds] == ["4", "16", "64"]
    assert all(float(row["examples_per_second"]) > 0 and row["blocks"] == "4" for row in speeds)
    (sweep,) = rows(finished, "sweeps")
    assert (sweep["max_batch_size"], sweep["max_batch_size_bound"]) == ("8", "most_fits")
    assert [row["outcome"] for row in rows(finished, "largest")] == ["fits"] * 4
    assert {row["batch_size"] for row in rows(finished, "samples")} == {"", "4", "16", "64"}
    for row in rows(finished, "profiles"):
        assert sum(float(row[part]) for part in ("compute", "input", "host")) == pytest.approx(1)
    times = rows(finished, "training_times")
    assert [row["at_epoch"] for row in times] == ["1", "3"] * 3
    assert float(times[1]["train_seconds"]) == pytest.approx(3 * float(times[0]["train_seconds"]))


def test_utilisation_is_sampled(finished):
    timing = finished / "results" / "timing" / "desktop"
    records = {path.parent.name: json.loads(path.read_text()) for path in timing.rglob("*.json")}
    assert set(records) == set(TIMED["experiments"]["machine"]["timing"])
    samples = records["utilisation"]["samples"]
    assert {"seconds", "process_percent", "machine_percent", "memory_mb"} <= set(samples)
    assert len({len(values) for values in samples.values()}) == 1
    for table in ("utilisation", "profiles"):
        assert all(0 < float(row["process_percent"]) < 150 for row in rows(finished, table))


def test_the_report_has_its_answer_and_figures(finished):
    page = project.report(finished)
    for words in ("Highest throughput", "Fixed cost of a step", "at least 8", "desktop"):
        assert words in page
    figures = finished / "results" / "studies" / "timed" / "machine" / "figures"
    assert {path.stem for path in figures.glob("*.svg")} == {
        *("throughput", "step_time", "training_time", "max_batch_size", "profile"),
        *("utilisation", "utilisation_over_time"),
    }
    timing = finished / "results" / "timing" / "desktop"
    assert len(list(timing.glob("*/profile/*/plugins/profile/*/*.xplane.pb"))) == 3  # TensorBoard's


def test_only_what_an_edit_touches_is_timed_again(edited):
    assert project.planned(edited) == {}
    # In turns; the largest that fits does not depend on the list, and a profile is of one size.
    timed = {"throughput": 1, "utilisation": 1, "profile": 1}
    assert configured(edited, vary={"batch_size": [4, 16, 32, 64]}) == {**timed, **DRAWN}
    assert configured(edited, at_epochs=[2], figures=["training_time"]) == DRAWN
    shutil.rmtree(next((edited / "results" / "timing" / "desktop").glob("*/utilisation")))
    project.run(edited, "--config", "partial=true")
    assert {row["at_epoch"] for row in rows(edited, "training_times")} == {"2"}
    page = project.report(edited)
    assert "Missing: utilisation" in page and "Highest throughput" in page


def test_another_machine_stands_beside_this_one(edited):
    shutil.copytree(edited / "results", edited / "laptop_results")
    laptop = {"results": "laptop_results", "machine": "desktop"}
    project.write_config(edited, {**TIMED, "machines": {"laptop": laptop}})
    assert set(project.planned(edited)) == set(DRAWN)
    project.run(edited)
    assert [row["machine"] for row in rows(edited, "sweeps")] == ["desktop", "laptop"]
    assert len(rows(edited, "throughput")) == 6
    page = project.report(edited)
    assert page.count('<th scope="col">laptop</th>') == 2  # the answer, and the hardware


def test_rows_and_tokens_are_timed_as_images_are(tmp_path):
    (images,) = TIMED["experiments"].values()
    # The search doubles the same way wherever it ends.
    timing = {**images["timing"], "max_batch_size": {"most": 2}}
    asked = {**images, "vary": {"batch_size": [8]}, "timing": timing}
    others = {
        "rows": {"dataset": "wine", "model": "mlp"},
        "tokens": {"dataset": "numpy_docs", "model": "tiny_transformer", "optimizer": "adam"},
    }
    del asked["at_epochs"]
    experiments = {name: {**asked, "set": factors} for name, factors in others.items()}
    folder = project.finished(tmp_path, {**TIMED, "experiments": experiments})
    for name in others:
        tables = ("throughput", "utilisation", "sweeps", "profiles")
        speed, busy, sweep, profile = (row for table in tables for row in rows(folder, table, name))
        assert float(speed["examples_per_second"]) > 0
        assert 0 < float(busy["process_percent"]) < 150 and float(profile["compute"]) > 0
        assert (sweep["max_batch_size"], sweep["max_batch_size_bound"]) == ("2", "most_fits")
        drawn = {path.stem for path in (folder / "results").rglob(f"{name}/figures/*.svg")}
        assert {"throughput", "utilisation", "max_batch_size", "profile"} <= drawn
