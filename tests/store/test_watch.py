"""What `watch` shows of a study: jobs left, time, the best run, and what runs."""

from batchscope import disk
from batchscope.store import job_table, paths, progress, watch
from batchscope.store.watch import Snapshot
from batchscope.study import planner
from small_study import config

TRAINING = job_table.Job(paths.run_record("r"), "train", ("r",))
SHARPNESS = job_table.Job(paths.run_record("r"), "sharpness", ("r",))
RUNS = [
    progress.Running("sharpness", "a+bs=8", "", 12.0, ""),
    progress.Running("train", "a+bs=16", "epoch 2 of 5", 3.0, ""),
]


def test_a_snapshot_as_text():
    jobs = [TRAINING] * 3 + [SHARPNESS]
    rates = {"batch_size": 32, "learning_rate": 0.1, "seed": 0}
    best = {"rates": (0.12345, rates), "script": (2.0, {"batch_size": 8})}
    text = watch.text(Snapshot("mine", 2, jobs, 600.0, False, best, RUNS))
    assert text.splitlines() == [
        "Study mine: 3 trainings and 1 measure left, about 10 min on 2 cores.",
        "Best of rates so far: validation loss 0.1235 at batch size 32, learning rate 0.1.",
        "Best of script so far: validation loss 2 at batch size 8.",
        "train a+bs=16: epoch 2 of 5",
        "sharpness a+bs=8: started 12 s ago",
    ]
    text = watch.text(Snapshot("mine", 1, jobs, 60.0, True, {}, []))
    assert text.splitlines()[0].endswith("left, at least 60 s on 1 core.")
    assert watch.text(Snapshot("mine", 2, [], 0.0, False, {}, [])).splitlines() == [
        "Study mine: no training, measure or timing is left.",
        "No training, measure or timing runs now.",
    ]


def test_the_best_run_is_the_finished_one_with_the_lowest_validation_loss(tmp_path):
    study = planner.make(config(experiment={"measure": ["evaluate"], "seeds": 1}))
    small, large = study.runs
    assert not watch.snapshot(study, tmp_path, 2).best
    record = {"status": "finished", "contended_seconds": 1.0, "epochs_run": 2}
    for run, status, loss in ((small, "diverged", 0.1), (large, "finished", 0.5)):
        folder = paths.run_folder(tmp_path, run)
        for file in paths.RUN_FILES:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()
        losses = {"status": status, "best_validation_loss": loss}
        disk.write_json(folder / paths.RECORD, {**record, **losses})
    with progress.running(tmp_path, "evaluate", large):
        now = watch.snapshot(study, tmp_path, 2)
    assert now.best == {"a": (0.5, study.runs[large])}
    assert [(job.step, job.name) for job in now.running] == [("evaluate", large)]
    assert [job.noun for job in now.jobs_left] == [job_table.MEASURE] * 2
