"""What a user reads during a call: few lines, the log of a failed job, in the end the report."""

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


def write_config(folder: Path, cases: list[dict], **top) -> None:
    experiment = {"question": "What is printed?", "cases": cases, "seeds": 1}
    experiment |= {"measure": ["evaluate"], "figures": ["accuracy"]}
    config = {**project.TINY, "experiments": {"model": experiment}, **top}
    project.write_config(folder, config)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A study of a model that fails in its job, and of one that works and diverges at one rate."""
    folder = project.copy(tmp_path_factory.mktemp("project"))
    works = {"batch_size": 64, "model": "small_cnn"}
    cases = [works, {**works, "learning_rate": 1e30}, {"batch_size": 64, "model": "mine"}]
    write_config(folder, cases, models={"mine": "mine.py"})
    (folder / "mine.py").write_text(BROKEN)
    return folder


def test_a_failed_job_shows_its_log_and_the_report_quotes_it(clone):
    done = project.snakemake(clone, "--cores", "2", "--keep-going")
    assert done.returncode != 0
    assert REASON in " ".join(done.stdout.split())  # lines are wrapped
    lines = done.stdout.splitlines()
    assert len(lines) < 40
    assert not [line for line in lines if line.startswith(("Shell command", "    output:"))]
    assert "report.html:" not in done.stdout

    project.run(clone, "--config", "partial=true")
    assert f"{REASON} (logs/train/" in project.report(clone)
    assert "no longer finite" in project.report(clone)
    headline = (clone / "results" / "report.txt").read_text()
    assert "1 finished, 1 diverged, 1 missing" in headline

    (clone / "mine.py").write_text(MODEL)
    output = project.run(clone)
    headline = (clone / "results" / "report.txt").read_text()
    assert "2 finished" in headline
    assert f"\nresults/report.html: {headline}" in output
    assert len(output.splitlines()) < 40
    assert "results/report.html" not in project.run(clone, "data")  # nothing new to report


def test_faults_of_data_and_models_are_printed_before_any_job(tmp_path):
    """All of them, without a traceback; nothing is made, and nothing stays locked."""
    folder = project.copy(tmp_path / "project")
    rows = [f"{x % 7},{('clerk', 'nurse')[x % 2]},2024-01-01,{'ab'[x % 2]}" for x in range(40)]
    head = "age,job,day,label"
    (folder / "mine.csv").write_text("\n".join([head, *rows, ",clerk,2024-01-02,a"]))
    (folder / "division.py").write_text("def build(input_shape, classes):\n    return 1 / 0\n")
    split = {"train": 0.5, "validation": 0.25, "test": 0.25}
    table = {"source": "csv", "path": "mine.csv", "split": split}
    cases = [
        {"batch_size": 4, "dataset": "mine", "model": "mlp"},
        {"batch_size": 8, "dataset": "wine", "model": "division"},
    ]
    top = {"datasets": {"mine": table}, "models": {"division": "division.py"}}
    write_config(folder, cases, **top)
    assert project.planned(folder)["prepare_data"] == 2
    done = project.snakemake(folder, "--cores", "2")
    assert done.returncode == 1
    (*_, first, second, third) = filter(None, done.stdout.splitlines())
    assert first.startswith("datasets.mine: mine.csv, column age, row 41: received nothing;")
    assert second.startswith("datasets.mine: mine.csv: received day (dates, ")
    assert third.startswith("division.py:2: cannot be built for examples (13,): ZeroDivisionError:")
    assert "Traceback" not in done.stdout and "Exception" not in done.stdout
    assert not (folder / "logs").exists() and not (folder / "results" / "data").exists()
    table |= {"ignore": ["day"], "missing": "drop"}
    write_config(folder, cases[:1], **top)
    project.run(folder, "runs")
    assert len(list(folder.glob("results/runs/mine-*/record.json"))) == 1
