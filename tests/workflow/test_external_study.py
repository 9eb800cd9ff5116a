"""A study of a user's own script and logs, run to its report; later calls make missing files only.

The tests share one copy of the project, in their order.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
import yaml

import commanded
import own_table
import project
from batchscope.study import config

pytestmark = pytest.mark.slow

FILE = ("--configfile", "mine/mine.yaml")
SCRIPT = commanded.experiment(
    *("lr={learning_rate}", "mode={mode}"),
    set={"mode": "ok"},
    vary={"batch_size": [8, 32, 128], "learning_rate": [0.02, 0.04]},
    margins={"test_accuracy": 0.01},
)
DRAWN = {"figures": 2, "report": 1}  # the figures of every experiment follow the study file
WHERE = Path("results", "studies", "mine")


def write(folder: Path, **changes) -> None:
    """Write the example of a docs page with an experiment of a script."""
    page = (project.ROOT / "docs" / "own_training.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    study = yaml.safe_load(next(text for text in examples if text.startswith("study: mine\n")))
    study["experiments"]["batch_size"]["runs"] = own_table.RUNS
    study["experiments"]["script"] = {**SCRIPT, **changes}
    (folder / "mine" / "mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")


def planned(folder: Path, **changes) -> dict[str, int]:
    write(folder, **changes)
    return project.planned(folder, *FILE)


def records(folder: Path) -> dict[str, int]:
    paths = folder.glob("results/runs/*/record.json")
    return {path.parent.name: path.stat().st_mtime_ns for path in paths}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    return project.copy(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def finished(clone) -> tuple[Path, str]:
    """The project and the output of its call. No process of the call imports TensorFlow."""
    (clone / "mine").mkdir()
    (clone / "mine" / "script.py").write_text(commanded.SCRIPT, encoding="utf-8")
    own_table.write(clone / "mine", own_table.rows())
    write(clone)
    package, imported = clone / "watched" / "tensorflow", clone / "imported"
    package.mkdir(parents=True)
    text = f"import pathlib\npathlib.Path({str(imported)!r}).touch()\nraise ImportError\n"
    (package / "__init__.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(package.parent))
        output = project.run(clone, *FILE)
    assert not imported.exists()
    return clone, output


def test_problems_of_data_and_models_are_printed_before_any_job(clone):
    """All of them, without a traceback; nothing is made, and nothing stays locked."""
    rows = [f"{x % 7},{('clerk', 'nurse')[x % 2]},2024-01-01,{'ab'[x % 2]}" for x in range(40)]
    table = "\n".join(["age,job,day,label", *rows, ",clerk,2024-01-02,a"])
    (clone / "table.csv").write_text(table)
    (clone / "division.py").write_text("def build(input_shape, classes):\n    return 1 / 0\n")
    split = {"train": 0.5, "validation": 0.25, "test": 0.25}
    cases = [
        {"batch_size": 4, "dataset": "mine", "model": "mlp"},
        {"batch_size": 8, "dataset": "wine", "model": "division"},
    ]
    study = {
        **project.TINY,
        "datasets": {"mine": {"source": "csv", "path": "table.csv", "split": split}},
        "models": {"division": "division.py"},
        "experiments": {"model": {"cases": cases, "seeds": 1}},
    }
    (clone / "broken.yaml").write_text(yaml.safe_dump(study))
    done = project.snakemake(clone, "--cores", "2", "--configfile", "broken.yaml")
    assert done.returncode == 1
    (*_, first, second, third) = filter(None, done.stdout.splitlines())
    assert first.startswith("datasets.mine: table.csv, column age, row 41: received nothing;")
    assert second.startswith("datasets.mine: table.csv: received day (dates, ")
    assert third.startswith("division.py:2: cannot be built for examples (13,): ZeroDivisionError:")
    assert "Traceback" not in done.stdout and "Exception" not in done.stdout
    assert not (clone / "logs").exists() and not (clone / "results" / "data").exists()


def test_it_runs_to_its_report_without_tensorflow(finished):
    folder, output = finished
    assert project.planned(folder, *FILE) == {}
    assert not (folder / "results" / "data").exists()
    headline = (folder / WHERE / "report.txt").read_text()
    assert "42 runs: 42 finished" in headline
    assert f"\n{WHERE}/report.html: {headline}" in output
    lines = output.splitlines()
    assert len(lines) < 40
    assert not [line for line in lines if line.startswith(("Shell command", "    output:"))]
    page = project.report(folder, "studies/mine")
    for words in ("mine/own_runs.csv", "Batch size", "42 runs", "python script.py bs="):
        assert words in page
    log = "".join(path.read_text() for path in folder.glob("logs/run_command/*.log"))
    assert log.count(": finished\n") == 6


def test_tables_and_figures_of_logs(finished):
    folder = finished[0] / WHERE
    runs = pandas.read_csv(folder / "batch_size" / "runs.csv")
    assert len(runs) == 36 and set(runs["own_variant"]) == {"plain", "lookahead"}
    drawn = {path.stem for path in (folder / "batch_size" / "figures").glob("*.png")}
    assert drawn == {"primary", "progress", "best_losses", "accuracy", "critical_batch_size"}
    matrix = pandas.read_csv(folder / "batch_size" / "comparisons.csv")
    assert set(matrix["budget"]) == {"updates", "target", "convergence", "end"}
    assert set(matrix["outcome"]) == {"test_accuracy", "validation_loss", "updates", "examples"}
    fits = pandas.read_csv(folder / "batch_size" / "critical_batch_size.csv")
    # The third target is the floor of the largest batch; a row per 60 updates bends it too.
    variants = fits.groupby("own_variant").head(2).groupby("own_variant")
    last = variants["critical_batch_size"].last()
    assert last["lookahead"] > 2 * last["plain"] > 10


def test_tables_figures_and_advice_of_a_script(finished):
    folder = finished[0] / WHERE / "script"
    runs = pandas.read_csv(folder / "runs.csv")
    assert len(runs) == 6 and {*runs["status"]} == {"finished"}
    assert {*runs["machine"]} == {"local"} and {*runs["own_mode"]} == {"ok"}
    assert {*runs["learning_rate"]} == {0.02, 0.04} and {*runs["steps_run"]} == {400}
    assert (runs["test_accuracy"] > 0.4).all() and (runs["memory_peak_mb"] > 5).all()
    rows = pandas.read_csv(folder / "trajectories.csv")
    assert len(rows) == 6 * 20 and rows["seconds"].isna().all()
    fits = pandas.read_csv(folder / "critical_batch_size.csv")
    # The script's loss falls as exp(-updates / (1 + 40 / batch size)).
    assert ((fits["critical_batch_size"] - 40).abs() < 4).all()
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert drawn >= {"critical_batch_size", "progress"} and "fastest_batch_size" not in drawn
    words = [sys.executable, "workflow/run.py", "advice", "--configfile", "mine/mine.yaml"]
    done = subprocess.run(words, cwd=finished[0], capture_output=True, text=True, check=True)
    # Losses fall faster up to the largest rate: larger rates come before timings.
    line = "vary: {batch_size: [8, 32, 128], learning_rate: [0.02, 0.04, 0.08, 0.16]}"
    assert line in done.stdout and line in project.report(finished[0], "studies/mine")
    assert "alone: true" not in done.stdout and "time_epoch" not in done.stdout
    assert "column seconds" in done.stdout and "nan" not in done.stdout.lower()


def test_only_what_an_edit_changes_is_made_again(finished):
    folder, _ = finished
    vary = SCRIPT["vary"]
    new = planned(folder, vary={**vary, "batch_size": [8, 16, 32, 128]})
    assert new == {"run_command": 2, "tabulate": 1, **DRAWN}
    assert planned(folder, vary={**vary, "batch_size": [8, 32]}) == {"tabulate": 1, **DRAWN}
    drawn = planned(folder, resources={"threads": 2, "mem_mb": 3000}, resume=True)
    assert drawn == DRAWN
    path = folder / "mine" / "own_runs.csv"
    before, frame = path.stat(), pandas.read_csv(path)
    frame.assign(validation_loss=frame["validation_loss"] * 1.01).to_csv(path, index=False)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as in a copy
    assert planned(folder) == {"tabulate": 1, "figures": 1, "report": 1}


def test_a_bad_log_stops_it_before_any_job(finished):
    folder, _ = finished
    with (folder / "mine" / "own_runs.csv").open("a", encoding="utf-8") as file:
        file.write("plain,8,0,ten,0.5,0.9\n")
    done = project.snakemake(folder, "-n", *FILE)
    expected = "experiments.batch_size.runs: mine/own_runs.csv, line 506, updates: received 'ten'"
    assert done.returncode == 1 and expected in done.stdout
    assert "Traceback" not in done.stdout and "tabulate" not in done.stdout
    own_table.write(folder / "mine", own_table.rows())


def test_lost_and_edited_files_of_a_run_and_one_run_alone(finished):
    folder, _ = finished
    runs = [*config.study(folder / "mine" / "mine.yaml").commands]
    for run, file in ((runs[0], "record.json"), (runs[1], "trajectory.csv")):
        (folder / "results" / "runs" / run / file).unlink()
    assert planned(folder)["run_command"] == 2
    project.run(folder, *FILE)
    for files in folder.glob("results/runs/*/files"):  # of the script: no table reads them
        shutil.rmtree(files)
    assert planned(folder) == {}
    path = folder / "mine" / "script.py"
    before, text = records(folder), path.read_text()
    path.write_text(text + "# another\n")
    assert planned(folder)["run_command"] == 6
    # One run alone, as a job of a cluster is requested.
    (name, *_) = config.study(folder / "mine" / "mine.yaml").commands
    project.run(folder, f"results/runs/{name}/record.json", *FILE)
    after = records(folder)
    assert {*after} == {*before, name} and after.items() >= before.items()
    path.write_text(text)
    assert "run_command" not in planned(folder)


def test_a_failed_run_stops_no_other_and_a_partial_report_quotes_it(finished):
    folder, _ = finished
    vary = {"batch_size": [8], "mode": ["exit", "nan", "memory"]}
    script = {**SCRIPT, "set": {"learning_rate": 0.1}, "vary": vary}
    study = {"study": "failing", "experiments": {"script": script}}
    (folder / "mine" / "failing.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    file = ("--configfile", "mine/failing.yaml")
    done = project.snakemake(folder, *file, "--cores", "2", "--keep-going")
    assert done.returncode == 1 and "the script gave up" in done.stdout
    assert len(done.stdout.splitlines()) < 40 and "report.html:" not in done.stdout
    project.run(folder, "--config", "partial=true", *file)
    rows = project.rows(folder, "failing/script")
    statuses = {row["own_mode"]: row["status"] for row in rows}
    assert statuses == {"exit": "missing", "nan": "diverged", "memory": "out_of_memory"}
    page = project.report(folder, "studies/failing")
    assert "the script gave up" in page and "MemoryError: cannot have" in page
    headline = (folder / "results" / "studies" / "failing" / "report.txt").read_text()
    assert "3 runs" in headline and "1 missing" in headline
    assert project.planned(folder, *file)["run_command"] == 1
