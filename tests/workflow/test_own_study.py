"""A study of external runs, from its file to the report."""

import os
import re
import subprocess
import sys

import pandas
import pytest
import yaml

import own_table
import project

pytestmark = pytest.mark.slow

# Figures of every table that has validation losses.
DECIDING = {"critical_batch_size"}
EDITED = {"tabulate": 1, "figures": 1, "report": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The example of a docs page and two more tables."""
    folder = project.copy(tmp_path_factory.mktemp("project"))
    page = (project.ROOT / "docs" / "own_training.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    example = next(text for text in examples if text.startswith("study: mine\n"))
    assert len(example.splitlines()) <= 10
    study = yaml.safe_load(example)
    study["experiments"]["batch_size"]["runs"] = own_table.RUNS
    second = {**own_table.RUNS, "files": "second.csv"}
    study["experiments"]["second"] = {"runs": second}
    target = {**own_table.RUNS, "files": "at_target.csv", "rows": "at_target"}
    study["experiments"]["at_target"] = {"runs": target}
    (folder / "mine").mkdir()
    (folder / "mine" / "mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    own_table.write(folder / "mine", own_table.rows())
    own_table.write(folder / "mine", own_table.rows(seeds=2, seconds=True), "second.csv")
    own_table.write(folder / "mine", own_table.at_target(0.3), "at_target.csv")
    return folder, project.run_without_tensorflow(folder, "--configfile", "mine/mine.yaml")


def planned(folder):
    return project.planned(folder, "--configfile", "mine/mine.yaml")


def test_it_runs_to_its_report_without_tensorflow(finished):
    folder, output = finished
    assert planned(folder) == {}
    assert not (folder / "results" / "runs").exists() and not (folder / "results" / "data").exists()
    assert "36 finished" not in output and "84 runs: 84 finished" in output
    results = folder / "results" / "studies" / "mine"
    runs = pandas.read_csv(results / "batch_size" / "runs.csv")
    assert len(runs) == 36 and set(runs["own_variant"]) == {"plain", "lookahead"}
    drawn = {path.stem for path in (results / "batch_size" / "figures").glob("*.png")}
    assert drawn == {"primary", "progress", "best_losses", "accuracy", *DECIDING}
    page = project.report(folder, "studies/mine")
    assert "mine/own_runs.csv" in page and "mine/second.csv" in page
    assert "Batch size" in page and "84 runs" in page
    for noise in ("No data set", "No run has recorded a machine", "A seed fixes the initial"):
        assert noise not in page
    matrix = pandas.read_csv(results / "batch_size" / "comparisons.csv")
    assert set(matrix["budget"]) == {"updates", "target", "convergence", "end"}
    assert set(matrix["outcome"]) == {"test_accuracy", "validation_loss", "updates", "examples"}
    for name in ("batch_size", "at_target"):
        fits = pandas.read_csv(results / name / "critical_batch_size.csv")
        # The third target is the floor of the largest batch; a row per 60 updates bends it too.
        variants = fits.groupby("own_variant").head(2).groupby("own_variant")
        last = variants["critical_batch_size"].last()
        assert last["lookahead"] > 2 * last["plain"] > 10
    drawn = {path.stem for path in (results / "at_target" / "figures").glob("*.png")}
    assert drawn >= {"fastest_batch_size", *DECIDING} and "progress" not in drawn
    words = [sys.executable, "workflow/run.py", "advice", "mine/mine.yaml"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "column seconds" in done and "nan" not in done.lower()


def test_an_edited_file_makes_its_experiment_again(finished):
    folder, _ = finished
    path = folder / "mine" / "second.csv"
    content, before = path.read_bytes(), path.stat()
    frame = pandas.read_csv(path)
    frame["validation_loss"] *= 1.01
    frame.to_csv(path, index=False)
    assert planned(folder) == EDITED
    # New content with an older date, as in a copy.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert planned(folder) == EDITED
    path.write_bytes(content)
    os.utime(path)
    assert planned(folder) == {}


def test_a_bad_file_stops_it_before_any_job(finished):
    folder, _ = finished
    with (folder / "mine" / "second.csv").open("a", encoding="utf-8") as file:
        file.write("plain,8,0,ten,0.5,0.9,1\n")
    done = project.snakemake(folder, "-n", "--configfile", "mine/mine.yaml")
    expected = "experiments.second.runs: mine/second.csv, line 170, updates: received 'ten'"
    assert done.returncode == 1 and expected in done.stdout
    assert "Traceback" not in done.stdout and "tabulate" not in done.stdout
