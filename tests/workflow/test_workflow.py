"""The workflow as a user runs it: from config to report, and only what is missing.

The tests share one copy of the project, in their order.
"""

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
    assert statuses(finished) == ["finished"] * 2
    for figure in ("loss_curves", "accuracy", "time", "sharpness", "weight_distance"):
        for suffix in (".svg", ".png", ".csv"):
            assert (study / "figures" / f"{figure}{suffix}").stat().st_size > 100
    seconds = (finished / "results" / "job_seconds.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in seconds} == {*EXPERIMENT["measure"]}
    assert all(float(line.rpartition(",")[2]) >= 0 for line in seconds)  # to a hundredth


def test_the_log_has_commands_to_paste(finished):
    log = "".join(path.read_text() for path in finished.glob(".snakemake/log/*.log"))
    commands = re.findall(r"^Shell command: (python .* weight_distance .*)$", log, re.M)
    records = [*finished.glob("results/runs/*/weight_distance/*.json")]
    assert len(commands) == len(records) == 2
    asides = [record.rename(f"{record}.aside") for record in records]
    subprocess.run(["bash", "-c", commands[0]], cwd=finished, check=True, timeout=300)
    assert sum(record.exists() for record in records) == 1
    for aside, record in zip(asides, records, strict=True):
        aside.rename(record)


def test_a_deleted_result_is_made_again_and_deleted_data_by_a_named_command(finished):
    results, aside = finished / "results", finished / "aside"
    aside.mkdir()
    for patterns, expected in (
        (["studies/*/*/layers.csv"], TABLES),
        (["timing/*/*/*/*.json", "runs/*"], {"time_epoch": 1, **trained(1), **TABLES}),
    ):
        deleted = [next(results.glob(pattern)) for pattern in patterns]
        moved = [path.rename(aside / path.name) for path in deleted]
        assert project.planned(finished) == expected
        for path, place in zip(moved, deleted, strict=True):
            path.rename(place)
    record = next(results.glob("data/*/record.json"))
    record.unlink()
    done = project.snakemake(finished, "--cores", "2")
    assert done.returncode == 1 and "`snakemake --cores 1 data`" in done.stdout
    project.run(finished, "data")
    assert record.exists() and project.planned(finished) == {}


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


def test_only_what_an_edit_of_the_study_changes_is_made_again(finished):
    assert plan(finished, vary={"batch_size": [64]}) == TABLES
    assert plan(finished, title="Another") == DRAWN
    changes = plan(finished, {"claims": [CLAIM]}, published={"accuracy": DOCUMENT})
    assert changes == {"claims": 1, **TABLES}
    project.write_config(finished, project.TINY)


def version(step: str, module: str) -> tuple[str, str, str]:
    return f"batchscope/{module}.py", f'"{VERSIONS[step]}"', f'"{VERSIONS[step]}0"'


EDITS = (
    ([("report/batchscope.mplstyle", "\nfont.size: 9", "\nfont.size: 8")], DRAWN),
    ([("batchscope/figures/canvas.py", "#0072b2", "#0072b3")], DRAWN),
    (
        [
            version("sharpness", "measures/sharpness"),
            version("time_epoch", "timing/time_epoch"),
            # No version changes with a comment.
            ("batchscope/training/trainer.py", "import mmap\n", "import mmap  # now\n"),
        ],
        {"sharpness": 2, "time_epoch": 2, **TABLES},
    ),
    ([version("train", "study/versions")], {**trained(2), **TABLES}),
)


def test_only_what_an_edit_of_the_code_changes_is_made_again(finished):
    for replacements, expected in EDITS:
        texts = {}
        for file, old, new in replacements:
            path = finished / "workflow" / file
            texts[path] = path.read_text()
            assert old in texts[path]
            path.write_text(texts[path].replace(old, new))
        assert project.planned(finished) == expected
        for path, text in texts.items():
            path.write_text(text)


def test_a_fresh_clone_over_existing_results(finished, tmp_path):
    clone = project.copy(tmp_path)
    project.write_config(clone, project.TINY)
    shutil.copytree(finished / "results", clone / "results", dirs_exist_ok=True)
    for initial in clone.glob("results/runs/*/initial.npz"):
        initial.touch()  # as the last training to share it does
    assert set(project.planned(clone)) <= {"tabulate", "figures", "report"}


def test_an_unknown_flag_is_refused(finished):
    done = project.snakemake(finished, "-n", "--config", "parial=true")
    assert done.returncode != 0 and "Did you mean 'partial'" in done.stdout


def test_one_more_batch_size_in_a_partial_report_and_then_in_full(finished):
    new = {**trained(1), "time_epoch": 1, **TABLES}
    assert plan(finished, vary={"batch_size": [64, 256, 128]}, **ONE_FIGURE) == new
    before = {path: path.stat().st_mtime_ns for path in finished.glob("results/runs/*/record.json")}
    project.run(finished, "--config", "partial=true")
    assert statuses(finished) == ["finished"] * 2 + ["missing"]
    assert "+bs=128+" in project.report(finished)
    project.run(finished)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert statuses(finished) == ["finished"] * 3
    assert project.planned(finished) == {}


def test_weights_after_an_epoch_are_kept_where_the_study_reads_them(finished):
    """Runs without them are trained again to that epoch; new runs keep them."""
    early = plan(finished, at_epochs=[1], measure=["evaluate"], **ONE_FIGURE)
    assert early == {"snapshot": 2, "evaluate": 2, **TABLES}
    project.run(finished)
    snapshots = [*finished.glob("results/runs/*/epochs/*")]
    assert [path.name for path in snapshots] == ["1.npz"] * 2
    for path in snapshots:  # evaluated: not needed any more
        path.unlink()
    assert project.planned(finished) == {}
    shutil.rmtree(snapshots[0].parents[1])
    assert "Warning" not in project.run(finished)
    assert [*finished.glob("results/runs/*/epochs/*")] == snapshots[:1]
    assert "training" not in "".join(p.read_text() for p in finished.glob("logs/snapshot/*/*.log"))
