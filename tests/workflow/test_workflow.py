"""The workflow as a user runs it: from config to report; later calls make missing files only.

The tests share one copy of the project, in their order. Its study has the measure `weight_norm` of
docs/extend.md and the timing `timed_steps`: one new file each.
"""

import copy
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import project
from batchscope.study.registry import VERSIONS
from batchscope.tables import csv_tables

pytestmark = pytest.mark.slow

DRAWN = {"figures": 1, "report": 1}
TABLES = {"tabulate": 1, **DRAWN}
ONE_FIGURE = {"figures": ["accuracy"]}  # where no test reads the figures

PAGE = (project.ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
(MEASURE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
TIMING = '''"""Images of a step."""

from batchscope.study.specifications import Column, Timing
from batchscope.timing import Timed

ENTRY = Timing(
    version="timed_steps-v1",
    columns={"step_images": Column("Images of a step.", "images")},
    trains=True,
)


def measure(job, settings) -> Timed:
    return Timed("finished", {}, {"step_images": job.factors["batch_size"]})
'''
NEW_FILES = {"measures/weight_norm.py": MEASURE, "timing/timed_steps.py": TIMING}
CONFIG = copy.deepcopy(project.TINY)
EXPERIMENT = CONFIG["experiments"]["batch_size"]
EXPERIMENT["measure"] |= {"weight_norm": None, "timed_steps": None}

# A program in the place of apptainer: it runs each command without a container.
APPTAINER = """#!/bin/sh
if test "$1" = --version; then echo apptainer version 1.3.4; exit 0; fi
printf '%s\\n' "$*" >> apptainer_calls
while test "$1" != "$PWD/batchscope.sif" && test "$1" != batchscope.sif; do shift; done
shift; exec "$@"
"""


def extended_copy(target: Path) -> Path:
    """Return a copy of the project with the study and the new files."""
    project.write_config(project.copy(target), CONFIG)
    for name, text in NEW_FILES.items():
        path = target / "workflow" / "batchscope" / name
        assert not path.exists()
        path.write_text(text)
    return target


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The study, run to its report."""
    folder = extended_copy(tmp_path_factory.mktemp("project"))
    project.run(folder)
    return folder


def plan(folder: Path, top: dict | None = None, **keys) -> dict[str, int]:
    """Write the study with changed keys of the file and its experiment; return the planned jobs."""
    config = copy.deepcopy(CONFIG) | (top or {})
    config["experiments"]["batch_size"].update(keys)
    project.write_config(folder, config)
    return project.planned(folder)


def statuses(folder: Path) -> list[str]:
    return sorted(row["status"] for row in project.rows(folder, "tiny/batch_size"))


def trained(count: int) -> dict[str, int]:
    measures = ("evaluate", "sharpness", "weight_distance", "weight_norm")
    return dict.fromkeys(("train", *measures), count)


def test_the_study_ran(finished):
    assert "Nothing to be done" in project.run(finished)
    assert project.snakemake(finished, "--lint").returncode == 0
    study = finished / "results" / "studies" / "tiny" / "batch_size"
    assert (finished / "results" / "report.html").stat().st_size > 50_000
    assert statuses(finished) == ["finished"] * 2
    figures = ("loss_curves", "accuracy", "time", "sharpness", "weight_distance", "weight_norm")
    for figure in figures:
        for suffix in (".svg", ".png", ".csv"):
            assert (study / "figures" / f"{figure}{suffix}").stat().st_size > 90
    seconds = (finished / "results" / "job_seconds.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in seconds} == {*EXPERIMENT["measure"]}
    assert all(float(line.rpartition(",")[2]) >= 0 for line in seconds)  # to a hundredth


def test_a_new_measure_and_timing_are_in_tables_reference_and_schema(finished):
    for row in project.rows(finished, "tiny/batch_size"):
        with np.load(finished / "results" / "runs" / row["run"] / "final.npz") as arrays:
            weights = [arrays[name] for name in arrays.files if name.startswith("trainable:")]
        squares = sum(np.square(array.astype(np.float64)).sum() for array in weights)
        assert float(row["weight_norm"]) == pytest.approx(np.sqrt(squares), rel=1e-12)
        assert float(row["step_images"]) == float(row["batch_size"])
    norms = csv_tables.read(finished / "results/studies/tiny/batch_size/norms.csv")
    assert norms["layer"].nunique() > 1
    caption = "Norm of the trained weights."
    assert caption in project.report(finished)

    def printed(*words: str) -> str:
        command = [sys.executable, "workflow/run.py", *words]
        return subprocess.run(
            command, cwd=finished, capture_output=True, text=True, check=True
        ).stdout

    lines = printed("explain", "weight_norm").splitlines()
    assert lines[:3] == ["### weight_norm", "", "Euclidean norm of the trained weights."]
    assert any(line.startswith("- `power` (`p`, default `2`; ") for line in lines)
    assert lines.count("- `weight_norm`: Norm of the weights.") == 1 and lines[-1] == caption
    schema = printed("schema")
    assert all(f'"{name}"' in schema for name in ("weight_norm", "power", "timed_steps"))


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


def test_a_deleted_result_is_made_again(finished):
    results, aside = finished / "results", finished / "aside"
    aside.mkdir()
    patterns = ["studies/*/*/layers.csv", "timing/*/*/time_epoch/*.json", "runs/*"]
    for chosen, expected in (
        (patterns[:1], TABLES),
        (patterns[1:], {"time_epoch": 1, **trained(1), **TABLES}),
    ):
        deleted = [next(results.glob(pattern)) for pattern in chosen]
        moved = [path.rename(aside / path.name) for path in deleted]
        assert project.planned(finished) == expected
        for path, place in zip(moved, deleted, strict=True):
            path.rename(place)


def test_deleted_data_are_made_again_by_a_named_command(finished):
    record = next((finished / "results").glob("data/*/record.json"))
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
    "test": {"type": "trend", "experiment": "batch_size", "table": "norms", "column": "norm"}
    | {"direction": "falls"},
}


def test_only_what_an_edit_of_the_study_changes_is_made_again(finished):
    assert plan(finished, vary={"batch_size": [64]}) == TABLES
    assert plan(finished, title="Another") == DRAWN
    changes = plan(finished, {"claims": [CLAIM]}, published={"accuracy": DOCUMENT})
    assert changes == {"claims": 1, **TABLES}
    project.write_config(finished, CONFIG)


def version(step: str, module: str) -> tuple[str, str, str]:
    return f"{module}.py", f'"{VERSIONS[step]}"', f'"{VERSIONS[step]}0"'


# Changes of the code, as (file, old, new), and the jobs that follow.
EDITS = (
    ([("report/batchscope.mplstyle", "\nfont.size: 9", "\nfont.size: 8")], DRAWN),
    ([("figures/canvas.py", "#0072b2", "#0072b3")], DRAWN),
    (
        [
            version("sharpness", "measures/sharpness"),
            version("time_epoch", "timing/time_epoch"),
            # No version changes with a comment.
            ("training/trainer.py", "import mmap\n", "import mmap  # now\n"),
            ("measures/weight_norm.py", "import numpy as np\n", "import numpy as np  # now\n"),
        ],
        {"sharpness": 2, "time_epoch": 2, **TABLES},
    ),
    ([version("train", "study/registry")], {**trained(2), **TABLES}),
)


def test_only_what_an_edit_of_the_code_changes_is_made_again(finished):
    for replacements, expected in EDITS:
        texts = {}
        for file, old, new in replacements:
            (path,) = (finished / "workflow").glob(f"**/{file}")
            texts[path] = path.read_text()
            assert old in texts[path]
            path.write_text(texts[path].replace(old, new))
        assert project.planned(finished) == expected
        for path, text in texts.items():
            path.write_text(text)


def test_a_fresh_clone_over_existing_results_and_a_job_in_a_container(
    finished, tmp_path, monkeypatch
):
    clone = extended_copy(tmp_path)
    shutil.copytree(finished / "results", clone / "results", dirs_exist_ok=True)
    for initial in clone.glob("results/runs/*/initial.npz"):
        initial.touch()  # as the last training to share it does
    assert set(project.planned(clone)) <= {"tabulate", "figures", "report"}

    (record,) = clone.glob("results/data/*/record.json")
    record.unlink()
    programs = clone / "programs"
    programs.mkdir()
    (programs / "apptainer").write_text(APPTAINER)
    (programs / "apptainer").chmod(0o755)
    (clone / "batchscope.sif").touch()
    path = (str(programs), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    project.run(clone, "data", "--sdm", "apptainer")
    calls = (clone / "apptainer_calls").read_text().splitlines()
    assert sum("batchscope.sif" in call for call in calls) == 1 and record.exists()


def test_one_more_batch_size_in_a_partial_report_and_then_in_full(finished):
    new = {**trained(1), "time_epoch": 1, "timed_steps": 1, **TABLES}
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
