"""Records of runs that a command makes, as tables have them: made by hand, not run."""

import math
from collections import Counter

import pandas
import pytest

import commanded
from batchscope.cli import plan
from batchscope.core.errors import UserError
from batchscope.report import runs_table
from batchscope.store import paths, status
from batchscope.study import planner
from batchscope.tables import run_table, study_tables

KEYS = {"vary": {"batch_size": [8, 32, 128], "width": [3, 4]}, "seeds": 2}


def planned(folder, **changes):
    raw = commanded.study(folder / "mine", "w={width}", **{**KEYS, **changes})
    return planner.make(raw | {"machines": changes.pop("machines", {})}, folder=folder / "mine")


def write(results, name, run, scatter=0.0, state="finished", seconds=None) -> None:
    """Writes what a run leaves: its loss falls as exp(-updates / (1 + 40 / batch size))."""
    size, rows = run.factors["batch_size"], []
    for updates in range(20, 401, 20):
        loss = 2 * math.exp(-updates / (10 * (1 + 40 / size))) + 0.05 + scatter
        row = {"updates": updates, "examples": updates * size, "validation_loss": loss}
        rows.append(row | ({"seconds": updates * seconds / 400} if seconds else {}))
    record = {"status": state, "message": "why", "train_seconds": seconds, "alone": bool(seconds)}
    commanded.write(results, name, run, pandas.DataFrame(rows), **record)


@pytest.mark.parametrize("line", [1, 7, -1])
def test_a_lost_line_of_a_trajectory_is_told(line, tmp_path):
    study = planned(tmp_path)
    (name, run), *_ = study.experiments["a"].commands.items()
    write(tmp_path, name, run)
    path = paths.run_folder(tmp_path, name) / paths.TRAJECTORY
    lines = path.read_text().splitlines(keepends=True)
    del lines[line]
    path.write_text("".join(lines))
    with pytest.raises(UserError) as raised:
        study_tables.make(tmp_path, study, "a")
    message = str(raised.value)
    assert message.startswith(f"{path}: received a damaged file (") and "\n" not in message
    record = paths.run_record(path.parent)
    assert message.endswith(f" Delete {record} and run snakemake again.")


def test_what_is_made_is_read_and_what_is_missing_has_a_row(tmp_path):
    study = planned(tmp_path)
    runs = study.experiments["a"].commands
    for at, (name, run) in enumerate([*runs.items()][:-2]):
        write(tmp_path, name, run, 1e-4 * at, "out_of_memory" if at == 3 else "finished")
    tables = study_tables.make(tmp_path, study, "a")
    found = tables["runs"].set_index("run")
    assert [*found.index] == [*runs]
    statuses = ["finished"] * 3 + ["out_of_memory"] + ["finished"] * 6 + ["missing"] * 2
    assert [*found["status"]] == statuses
    assert {*found["own_width"]} == {3, 4} and {*found["machine"]} == {"local"}
    assert found["memory_peak_mb"].notna().sum() == 10 and found["steps_run"].max() == 400
    assert len(tables["trajectories"]) == 10 * 20
    assert tables["trajectories"]["seconds"].isna().all()
    fits = tables["critical_batch_size"]
    assert ((fits["critical_batch_size"] - 40).abs() < 6).all() and {*fits["own_width"]} == {3}
    job_rows = status.rows(study, tmp_path)
    counts = Counter(row.status for row in job_rows)
    assert counts == {"finished": 9, "out_of_memory": 1, "missing": 2}
    assert sum(row.seconds for row in job_rows if row.due) == 4.0
    rows = runs_table.complete_rows(study, "a", [])  # of a report before any table
    assert [row["run"] for row in rows] == [*runs] and rows[0]["own_width"] == "3"


def test_seeds_that_change_nothing_are_refused(tmp_path):
    study = planned(tmp_path)
    for name, run in study.experiments["a"].commands.items():
        write(tmp_path, name, run, 1e-4 * run.factors["width"])
    with pytest.raises(UserError, match=r"seed=1: received the very numbers of .*seed=0"):
        study_tables.make(tmp_path, study, "a")


def test_another_machine_stands_beside(tmp_path):
    """Only the runs that its results hold; both are named."""
    there = {"other": {"results": str(tmp_path / "there")}}
    raw = commanded.study(tmp_path / "mine", "w={width}", **KEYS, alone=True)
    study = planner.make(raw | {"machines": there}, folder=tmp_path / "mine")
    for at, (name, run) in enumerate(study.experiments["a"].commands.items()):
        write(tmp_path / "here", name, run, 1e-4 * at, seconds=3.0 + at / 100)
        if run.factors["width"] == 3:
            write(tmp_path / "there", name, run, 1e-4 * at, seconds=6.0 + at / 100)
    logged = run_table.logged_runs(tmp_path / "here", study, "a")
    runs = run_table.from_logs(logged, study.name, "a")
    assert runs["machine"].value_counts().to_dict() == {"local": 12, "other": 6}
    assert runs["train_seconds"].notna().all()
    taken = run_table.logged_trajectories(logged).groupby("machine")["seconds"].max()
    assert 3 <= taken["local"] < 4 < 6 <= taken["other"] < 7


def test_what_needs_a_gpu_waits_for_one(tmp_path, monkeypatch):
    from batchscope.host import requirements

    monkeypatch.setattr(requirements, "has_gpu", lambda: False)
    study = planned(tmp_path, resources={"gpu": 1})
    assert {row.status for row in status.rows(study, tmp_path)} == {"no_gpu"}
    assert "{gpu: 0}" in plan.text(study, tmp_path)
    runs = run_table.from_logs(run_table.logged_runs(tmp_path, study, "a"), study.name, "a")
    assert {*runs["status"]} == {"no_gpu"}
