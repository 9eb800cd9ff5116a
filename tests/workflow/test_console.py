"""What a person sees of a run: few lines, of a failed job its log, at the end the report."""

import copy
from pathlib import Path

import pytest

import project

pytestmark = pytest.mark.slow

REASON = "RuntimeError: nobody mended this"
MODEL = """
import keras

def build(input_shape, classes):
    flat = keras.layers.Flatten()
    out = keras.layers.Dense(classes, "softmax")
    return keras.Sequential([keras.Input(input_shape), flat, out])
"""
BROKEN = MODEL.replace(
    "    flat =",
    "    if any(frame.function == 'train' for frame in inspect.stack()):\n"
    "        raise RuntimeError('nobody mended this')\n"
    "    flat =",
).replace("import keras", "import inspect\n\nimport keras")


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A study of a model that fails in its jobs, not when it is checked, and one that works."""
    folder = project.copy(tmp_path_factory.mktemp("project"))
    config = copy.deepcopy(project.TINY)
    config["models"] = {"mine": "mine.py"}
    config["experiments"]["batch_size"] |= {
        "vary": {"batch_size": [64], "model": ["small_cnn", "mine"]},
        "seeds": 1,
        "measure": ["evaluate"],
        "figures": ["accuracy"],
    }
    project.write_config(folder, config)
    (folder / "mine.py").write_text(BROKEN)
    return folder


@pytest.fixture(scope="module")
def failed(clone) -> str:
    done = project.snakemake(clone, "--cores", "2", "--keep-going")
    assert done.returncode != 0
    return done.stdout


def test_a_failed_job_shows_its_log(failed):
    assert REASON in " ".join(failed.split())  # lines are wrapped
    lines = failed.splitlines()
    assert len(lines) < 40
    assert not [line for line in lines if line.startswith(("Shell command", "    output:"))]
    assert "report.html:" not in failed


def test_a_partial_report_quotes_it_and_a_run_ends_with_the_headline(clone, failed):
    project.run(clone, "--config", "partial=true")
    assert f"{REASON} (logs/train/" in project.report(clone)
    assert "1 finished, 1 missing" in (clone / "results" / "report.txt").read_text()
    (clone / "mine.py").write_text(MODEL)
    output = project.run(clone)
    headline = (clone / "results" / "report.txt").read_text()
    assert "2 finished" in headline
    assert f"\nresults/report.html: {headline}" in output
    assert len(output.splitlines()) < 40
    assert "results/report.html" not in project.run(clone, "data")  # nothing new to report


def test_faults_of_data_are_said_alone_before_any_job(tmp_path):
    folder = project.copy(tmp_path / "project")
    rows = [f"{x % 7},{('clerk', 'nurse')[x % 2]},2024-01-01,{'ab'[x % 2]}" for x in range(40)]
    head = "age,job,day,label"
    (folder / "mine.csv").write_text("\n".join([head, *rows, ",clerk,2024-01-02,a"]))
    split = {"train": 0.5, "validation": 0.25, "test": 0.25}
    table = {"source": "csv", "path": "mine.csv", "split": split}
    config = copy.deepcopy(project.TINY) | {"datasets": {"mine": table}}
    config["defaults"] |= {"dataset": "mine", "model": "mlp"}
    config["experiments"]["batch_size"] |= {
        "vary": {"batch_size": [4, 8]},
        "measure": ["evaluate"],
        "seeds": 1,
    }
    project.write_config(folder, config)
    assert project.planned(folder)["prepare_data"] == 1
    done = project.snakemake(folder, "--cores", "2")
    assert done.returncode == 1
    (*_, first, second) = filter(None, done.stdout.splitlines())
    assert first.startswith("datasets.mine: mine.csv, column age, row 41: received nothing;")
    assert second.startswith("datasets.mine: mine.csv: received day (dates, ")
    assert "Traceback" not in done.stdout and "Exception" not in done.stdout
    assert not (folder / "logs").exists() and not (folder / "results" / "data").exists()
    table |= {"ignore": ["day"], "missing": "drop"}
    project.write_config(folder, config)
    project.run(folder, "runs")
    assert len(list(folder.glob("results/runs/mine-*/record.json"))) == 2
