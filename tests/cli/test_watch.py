"""The text of `watch`: missing jobs, the best runs, and what runs."""

import pandas

import commanded
from batchscope.cli import watch
from batchscope.store import progress
from batchscope.study import planner
from small_study import config, finish_run


def test_missing_jobs_the_best_finished_run_and_running_jobs(tmp_path):
    study = planner.make(config(experiment={"measure": ["evaluate"], "seeds": 1}))
    small, large = study.runs
    lines = watch.text(study, tmp_path, 2).splitlines()
    assert lines[0].startswith("Study s, missing: 2 trainings and 2 measures; ")
    assert lines[1:] == ["No training, measure or timing runs now."]
    finish_run(tmp_path, small, status="diverged", best_validation_loss=0.1, sha256={})
    finish_run(tmp_path, large, best_validation_loss=0.12345, sha256={})
    with (
        progress.listed_as_running(tmp_path, "evaluate", large),
        progress.listed_as_running(tmp_path, "train", small),
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
    for (name, run), loss in zip(study.commands.items(), (0.5, 0.25), strict=True):
        rows = pandas.DataFrame({"updates": [1, 2], "validation_loss": [loss, None]})
        commanded.write(tmp_path, name, run, rows, command=[])
    lines = watch.text(study, tmp_path, 2).splitlines()
    assert lines[0] == "Study theirs, missing: no training, measure or timing."
    assert lines[1] == "Best run of a: validation loss 0.25 at batch size 32."
