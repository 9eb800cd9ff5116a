"""A study's own data, before any job: their problems at once, and what `plan` shows of them."""

import importlib.util
import multiprocessing
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml
from test_entry import refused

import small_study
from batchscope import datasets
from batchscope.cli import study_check
from batchscope.core.errors import UserError
from batchscope.study import config
from prepared_data import SPLIT

GOOD = ["age,job,old,y,id"]
GOOD += [f"{20 + x % 9},{'ab'[x % 2]},{x % 3 == 0},{'yn'[x % 4 // 3]},i{x}" for x in range(40)]
DATASETS = {
    "a": {"source": "csv", "path": "a.csv", "label": "y", "ignore": ["id"], "split": SPLIT},
    "b": {"source": "csv", "path": "b.csv", "split": SPLIT},
    "c": {"source": "npz", "path": "c.npz", "split": SPLIT},
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a study `c.yaml` of data sets, and the first of these."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study_check, "note_missing_times", lambda *_: None)
    Path("b.csv").write_text("a,y\n1,x\n2,\n")
    np.savez("c.npz", inputs=np.random.rand(40, 300), labels=np.arange(40) % 2 + 0.5)

    def written(table: list[str], datasets=("a", "b", "c"), sizes=(4,), **keys) -> None:
        Path("a.csv").write_text("\n".join(table))
        experiment = {"vary": {"batch_size": [*sizes], "dataset": [*datasets]}, "seeds": 1}
        keys["datasets"] = {name: DATASETS[name] for name in datasets}
        defaults = {"model": next(iter(keys.get("models", ())), "mlp")}
        experiment["measure"] = keys.pop("measure", None) or ["evaluate"]
        study = small_study.config(defaults=defaults, experiment=experiment, **keys)
        Path("c.yaml").write_text(yaml.safe_dump(study))

    return written


def check() -> str:
    return refused("check", "--config", "c.yaml")


BROKEN = [*GOOD[:3], "x,c,True,no,7", *GOOD[4:], "1,a,True,,8"]
PLACES = ["a.csv, column age, row 3", "a.csv, column y, row 41"]


def places(text: str) -> list[str]:
    return [line.partition(": ")[2].partition(":")[0] for line in text.splitlines()]


def test_all_problems_of_all_data_at_once_without_a_model(write, monkeypatch, capfd):
    write(BROKEN)
    text = check()
    assert places(text) == [*PLACES, "b.csv, column y, row 2"]
    assert all(line.startswith("datasets.") for line in text.splitlines())
    # Of models, those of sound data alone are built.
    write(BROKEN, models={"mine": str(small_study.MODEL_FILE)})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert places(check())[:2] == PLACES
    assert "models: not checked before" in capfd.readouterr().err


def test_settings_and_batches_that_do_not_fit_own_data_are_refused_before_any_job(write):
    write(GOOD, datasets="a", sizes=(4, 25), measure=["branches"])
    config.study("c.yaml")  # its size is not known yet
    batch, setting = sorted(check().splitlines(), key=lambda line: "measure" in line)
    assert "batch_size[1]: Expected at most 24, " in batch
    assert "measure.branches.factors: received 16, a batch size of 64; at most 6 " in setting


def test_prepared_data_are_not_read_again(write):
    write(GOOD)
    study = config.study("c.yaml", "full", recorded=lambda _: None)
    first, _, third = study.datasets
    for dataset in (first, third):
        datasets.prepare(dataset, study.datasets[dataset], Path("results"))
    Path("a.csv").write_text("y")
    with pytest.raises(UserError, match="b.csv, column y, row 2") as raised:
        study_check.check(study, Path("results"))
    assert "datasets.a" not in str(raised.value)


def test_plan_reports_the_problems_of_data(write):
    write(GOOD)
    assert places(refused("plan", "--configfile", "c.yaml")) == ["b.csv, column y, row 2"]


def leave_a_thread() -> None:
    threading.Thread(target=threading.Event().wait).start()


def wait_for_ever() -> None:
    threading.Event().wait()


@pytest.mark.parametrize(("function", "seconds"), [(leave_a_thread, 5.0), (wait_for_ever, 1.0)])
def test_what_does_not_end_is_ended(monkeypatch, function, seconds):
    assert study_check.run_in_fork(abs, -1) == 1
    monkeypatch.setattr(study_check, "_END_SECONDS", 0.5)
    with pytest.raises(TimeoutError):
        study_check.run_in_fork(function, seconds=seconds)
    assert multiprocessing.active_children() == []
