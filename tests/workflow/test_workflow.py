"""The workflow as a user runs it: from config to report, and only what is missing."""

import copy
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import project
from batchscope.study.versions import VERSIONS

pytestmark = pytest.mark.slow

DRAWN = {"figures": 1, "report": 1}
TABLES = {"tabulate": 1, **DRAWN}
EXPERIMENT = project.TINY["experiments"]["batch_size"]
ONE_FIGURE = {"figures": ["accuracy"]}  # for runs whose figures no test reads


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The tiny study, run to its report."""
    return project.finished(tmp_path_factory.mktemp("project"), project.TINY)


@pytest.fixture
def edited(finished, tmp_path) -> Path:
    """A copy of the finished study to edit."""
    return shutil.copytree(finished, tmp_path / "copy", symlinks=True)


def plan(folder: Path, top: dict | None = None, **keys) -> dict[str, int]:
    """Write the study with changed keys of the file and its experiment; return the planned jobs."""
    config = copy.deepcopy(project.TINY) | (top or {})
    config["experiments"]["batch_size"].update(keys)
    project.write_config(folder, config)
    return project.planned(folder)


def statuses(folder: Path) -> list[str]:
    return sorted(row["status"] for row in project.rows(folder, "tiny/batch_size"))


def trained(count: int) -> dict[str, int]:
    return {"train": count, "evaluate": count, "sharpness": count, "weight_distance": count}


def test_the_study_ran(finished):
    assert "Nothing to be done" in project.run(finished)
    assert project.snakemake(finished, "--lint").returncode == 0
    study = finished / "results" / "studies" / "tiny" / "batch_size"
    assert (finished / "results" / "report.html").stat().st_size > 50_000
    assert statuses(finished) == ["finished"] * 4
    for figure in ("loss_curves", "accuracy", "time", "sharpness", "weight_distance"):
        for suffix in (".svg", ".png", ".csv"):
            assert (study / "figures" / f"{figure}{suffix}").stat().st_size > 100
    seconds = (finished / "results" / "job_seconds.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in seconds} == {*EXPERIMENT["measure"]}
    assert all(float(line.rpartition(",")[2]) >= 0 for line in seconds)  # to a hundredth


def test_the_log_has_commands_to_paste(edited):
    log = "".join(path.read_text() for path in edited.glob(".snakemake/log/*.log"))
    commands = re.findall(r"^Shell command: (python .* weight_distance .*)$", log, re.M)
    assert len(commands) == 4
    records = [*edited.glob("results/runs/*/weight_distance/*.json")]
    for record in records:
        record.unlink()
    subprocess.run(["bash", "-c", commands[0]], cwd=edited, check=True, timeout=300)
    assert len(records) == 4 and sum(record.exists() for record in records) == 1


def test_a_deleted_result_is_made_again_and_deleted_data_by_a_named_command(edited):
    results = edited / "results"
    for pattern, expected in (
        ("studies/*/*/layers.csv", TABLES),
        ("timing/*/*/*/*.json", {"time_epoch": 1, **TABLES}),
        ("runs/*", {**trained(1), **TABLES}),
    ):
        path = next(results.glob(pattern))
        path.rename(edited / "put_aside")
        assert project.planned(edited) == expected, path
        (edited / "put_aside").rename(path)
    record = next(results.glob("data/*/record.json"))
    record.unlink()
    done = project.snakemake(edited, "--cores", "2")
    assert done.returncode == 1 and "`snakemake --cores 1 data`" in done.stdout
    project.run(edited, "data")
    assert record.exists() and project.planned(edited) == {}


def test_weights_after_an_epoch_are_kept_where_the_study_reads_them(edited):
    """Runs without them are trained again to that epoch; new runs keep them."""
    early = plan(edited, at_epochs=[1], measure=["evaluate"], seeds=1, **ONE_FIGURE)
    assert early == {"snapshot": 2, "evaluate": 2, **TABLES}
    project.run(edited)
    snapshots = [*edited.glob("results/runs/*/epochs/*")]
    assert [path.name for path in snapshots] == ["1.npz"] * 2
    for path in snapshots:  # evaluated: not needed any more
        path.unlink()
    assert project.planned(edited) == {}
    shutil.rmtree(snapshots[0].parents[1])
    assert "Warning" not in project.run(edited)
    assert [*edited.glob("results/runs/*/epochs/*")] == snapshots[:1]
    assert "training" not in "".join(p.read_text() for p in edited.glob("logs/snapshot/*/*.log"))


def test_one_more_batch_size_in_a_partial_report_and_then_in_full(edited):
    new = {**trained(2), "time_epoch": 2, **TABLES}
    assert plan(edited, vary={"batch_size": [64, 256, 128]}, **ONE_FIGURE) == new
    before = {path: path.stat().st_mtime_ns for path in edited.glob("results/runs/*/record.json")}
    assert project.planned(edited, "--config", "partial=true") == TABLES
    project.run(edited, "--config", "partial=true")
    assert statuses(edited) == ["finished"] * 4 + ["missing"] * 2
    assert "+bs=128+" in project.report(edited)
    assert project.planned(edited) == new
    project.run(edited)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert statuses(edited) == ["finished"] * 6
    assert project.planned(edited) == {}


DOCUMENT = {
    "figure": "Table 4",
    "found": "It rises.",
    "numbers": [{"batch_size": [4, 64], "test_accuracy": [0.3, 0.7]}],
}
CLAIM = {
    **{"id": "falls", "document": "D", "place": "Figure 1", "sentence": "It falls."},
    "test": {"type": "trend", "experiment": "batch_size", "column": "test_accuracy"}
    | {"direction": "falls"},
}


def test_only_what_an_edit_of_the_study_changes_is_made_again(edited):
    assert plan(edited, vary={"batch_size": [64]}) == TABLES
    assert plan(edited, published={"accuracy": DOCUMENT}) == TABLES
    assert plan(edited, title="Another") == DRAWN
    assert plan(edited, {"claims": [CLAIM]}) == {"claims": 1, **DRAWN}


def version(step: str, module: str) -> tuple[str, str, str]:
    return f"batchscope/{module}.py", f'"{VERSIONS[step]}"', f'"{VERSIONS[step]}0"'


EDITS = (
    ([("batchscope/figures/canvas.py", "#0072b2", "#0072b3")], DRAWN),
    ([("report/batchscope.mplstyle", "\nfont.size: 9", "\nfont.size: 8")], DRAWN),
    (
        [
            version("sharpness", "measures/sharpness"),
            version("time_epoch", "timing/time_epoch"),
            # No version changes with a comment.
            ("batchscope/training/trainer.py", "import mmap\n", "import mmap  # now\n"),
        ],
        {"sharpness": 4, "time_epoch": 4, **TABLES},
    ),
    ([version("train", "study/versions")], {**trained(4), **TABLES}),
)


def test_only_what_an_edit_of_the_code_changes_is_made_again(edited):
    for replacements, expected in EDITS:
        texts = {}
        for file, old, new in replacements:
            path = edited / "workflow" / file
            texts[path] = path.read_text()
            assert old in texts[path]
            path.write_text(texts[path].replace(old, new))
        assert project.planned(edited) == expected
        for path, text in texts.items():
            path.write_text(text)


def test_a_fresh_clone_over_existing_results(finished, tmp_path):
    clone = project.copy(tmp_path)
    project.write_config(clone, project.TINY)
    shutil.copytree(finished / "results", clone / "results", dirs_exist_ok=True)
    for initial in clone.glob("results/runs/*/initial.npz"):
        initial.touch()  # as the last training to share it does
    assert set(project.planned(clone)) <= {"tabulate", "figures", "report"}


def test_a_broken_config_and_an_unknown_flag_are_refused(edited):
    done = project.snakemake(edited, "-n", "--config", "parial=true")
    assert done.returncode != 0 and "Did you mean 'partial'" in done.stdout
    (edited / "config.yaml").write_text("study: tiny\nstudy: again\n")
    done = project.snakemake(edited, "-n")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "study" in done.stdout.splitlines()[-1]
