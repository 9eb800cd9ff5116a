"""Logs of jobs by words of their names."""

import pytest

import run
from batchscope.store import job_logs, jobs
from batchscope.study import planner
from small_study import config, finish_run

RUNS = [f"digits+small_cnn+bs={size}+lr=0.1+seed={seed}" for size in (16, 160) for seed in (0, 1)]


@pytest.fixture
def results(tmp_path):
    for name in RUNS:
        for path in (f"train/{name}.log", f"evaluate/{name}/default.log"):
            log = tmp_path / "logs" / path
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("first\nlast\n\n")
    return tmp_path / "results"


def test_all_words_are_of_a_name(results, capsys):
    logs = job_logs.find_logs(results, ["bs=16", "seed=0"])
    assert len(logs) == 2 and all(RUNS[0] in str(path) for path in logs)
    assert len(job_logs.find_logs(results, ["small_cnn"])) == 8
    run.main(["log", "bs=16", "seed=0", "--results", str(results)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.endswith(".log: last") for line in lines)
    run.main(["log", "train", "bs=16", "seed=0", "--results", str(results)])
    assert capsys.readouterr().out.startswith("first\nlast\n")
    with pytest.raises(SystemExit, match="bs=17"):
        run.main(["log", "bs=17", "--results", str(results)])


def test_jobs_without_results_have_logs_that_are_shown_first(tmp_path):
    study = planner.make(config(experiment={"seeds": 1}))
    first, second = study.runs
    results, logs = tmp_path / "results", tmp_path / "logs"
    finish_run(results, first)
    assert job_logs.missing_job_logs(jobs.JobTable(study, results)) == {
        logs / "train" / f"{second}.log",
        logs / "prepare_data" / f"{next(iter(study.datasets))}.log",
    }
