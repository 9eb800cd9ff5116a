"""One training serves several numbers of epochs: from the configuration to the table."""

from pathlib import Path

import pytest

from batchscope import datasets, figures
from batchscope.core import disk
from batchscope.store import jobs, paths
from batchscope.study import planner
from batchscope.tables import csv_tables, study_tables
from digit_runs import step, train
from small_study import config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The study, its one run and the results of every job, each by its command."""
    results = tmp_path_factory.mktemp("at_epochs") / "results"
    keys = {"vary": {"batch_size": [64]}, "seeds": 1, "measure": ["evaluate"]}
    raw = config(defaults={"epochs": 4}, experiment={**keys, "at_epochs": [1, 2, 4]})
    study = planner.make(raw)
    ((token, definition),) = study.datasets.items()
    datasets.prepare(token, definition, results)
    (run,) = study.runs
    measures = [*jobs.measure_jobs(study.experiments["a"], results, study.machine)]
    jobs.note_epochs(jobs.JobTable(study, results))
    train(results, run)
    for job in measures:
        words = ("--run", run, "--settings", job.path.stem, "--output", str(job.path))
        assert step("evaluate", "--results", str(results), *words) == (0, "")
    return study, run, results


def values(results: Path, run: str, settings: str) -> dict[str, float]:
    return disk.read_json(paths.measure_path(results, run, "evaluate", settings))["values"]


def test_every_planned_epoch_is_evaluated(made):
    _, run, results = made
    settings = {path.stem for path in (paths.run_folder(results, run) / "evaluate").iterdir()}
    assert settings == {"default", "at=1", "at=2", "at=4"}
    # After the last epoch, the weights are the final ones.
    assert values(results, run, "at=4") == values(results, run, "default")


def test_the_table_and_its_figure_have_the_evaluations(made, tmp_path):
    study, run, results = made
    study_tables.write(results, study, "a", tmp_path)
    frame = csv_tables.read(tmp_path / "at_epochs.csv")
    assert frame["at_epoch"].tolist() == [1, 2, 4]
    expected = [values(results, run, f"at={epoch}")["test_accuracy"] for epoch in (1, 2, 4)]
    assert frame["test_accuracy"].tolist() == expected
    assert len(set(expected)) == 3  # the weights differ
    assert frame["train_seconds"].isna().all()  # nothing was timed
    drawn = figures.figure_names(study.experiments["a"])
    assert "accuracy_by_epochs" in drawn and "training_time" not in drawn
    shown = figures.select(figures.FigureTables(tmp_path), figures.FIGURES["accuracy_by_epochs"])
    assert shown["test_accuracy"].tolist() == expected
