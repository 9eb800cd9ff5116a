"""The text of `watch`: missing jobs, the best runs, and what runs."""

from pathlib import Path

import commanded
from batchscope.cli import watch
from batchscope.core import disk
from batchscope.store import paths, progress, records
from batchscope.study import planner
from small_study import config


def finish(folder: Path, **record: object) -> None:
    for file in paths.RUN_FILES:
        disk.write_text(folder / file, "")
    record = {"contended_seconds": 60.0, "epochs_run": 2, "sha256": {}, **record}
    disk.write_json(folder / paths.RECORD, record)


def test_missing_jobs_the_best_finished_run_and_running_jobs(tmp_path):
    study = planner.make(config(experiment={"measure": ["evaluate"], "seeds": 1}))
    small, large = study.runs
    lines = watch.text(study, tmp_path, 2).splitlines()
    assert lines[0].startswith("Study s, missing: 2 trainings and 2 measures; ")
    assert lines[1:] == ["No training, measure or timing runs now."]
    finish(paths.run_folder(tmp_path, small), status="diverged", best_validation_loss=0.1)
    finish(paths.run_folder(tmp_path, large), status="finished", best_validation_loss=0.12345)
    with (
        progress.running(tmp_path, "evaluate", large),
        progress.running(tmp_path, "train", small),
    ):
        lines = watch.text(study, tmp_path, 2).splitlines()
        assert watch.text(None, tmp_path, 2).splitlines() == lines[2:]
    assert lines[0].startswith("Study s, missing: 2 measures; ")
    assert lines[1] == (
        "Best run of a: validation loss 0.1235 at batch size 32, learning rate 0.1."
    )
    assert [line.partition(": started ")[0] for line in lines[2:]] == [
        f"train {small}",
        f"evaluate {large}",
    ]


def test_the_best_run_of_a_command_is_read_from_its_evaluations(tmp_path):
    raw = commanded.study(tmp_path, "x", vary={"batch_size": [8, 32]}, seeds=1)
    study = planner.make(raw, folder=tmp_path)
    for run, loss in zip(study.commands, ("0.5", "0.25"), strict=True):
        folder = paths.run_folder(tmp_path, run)
        disk.write_text(folder / paths.TRAJECTORY, f"updates,validation_loss\n1,{loss}\n2,\n")
        sha256 = records.file_sha256(folder, [paths.TRAJECTORY])
        record = {"status": "finished", "command": [], "sha256": sha256}
        disk.write_json(folder / paths.RECORD, record)
    lines = watch.text(study, tmp_path, 2).splitlines()
    assert lines[0] == "Study theirs, missing: no training, measure or timing."
    assert lines[1] == "Best run of a: validation loss 0.25 at batch size 32."
