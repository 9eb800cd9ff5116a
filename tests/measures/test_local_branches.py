"""Branches of runs: the training is passed again bit for bit, and goes on after a kill."""

from __future__ import annotations

import csv
import math

import pytest

from batchscope import disk
from batchscope.catalogue import run_names
from batchscope.catalogue.measures.branches import ENTRY
from batchscope.errors import UserError
from batchscope.measures import branches, noise_scale
from batchscope.measures.finished_run import FinishedRun
from digit_runs import run_name, step, train, with_digits

RUN = run_name(batch_size=8, optimizer="adam", learning_rate=0.002, evaluate_every=8, model="mlp")
WANTED = {"points": [0.2, 0.6], "factors": [4], "window": 64, "evaluations": 1, "examples": 64}


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    results = with_digits(digits, tmp_path_factory.mktemp("branches"))
    train(results, RUN)
    return results


def rows(record, table):
    return [*ENTRY.tables[table].rows(record, None)]


def settings(**changed):
    return run_names.settings_name("branches", {**WANTED, **changed})


def measured(results, output, wanted):
    given = ("--results", str(results), "--run", RUN, "--settings", wanted)
    code, text = step("branches", *given, "--output", str(output))
    assert code == 0, text
    return disk.read_json(output)


def test_a_branch_of_the_same_size_is_the_training_itself(trained, tmp_path):
    record = measured(trained, tmp_path / "record.json", settings())
    path = trained / "runs" / RUN / "trajectory.csv"
    with open(path, encoding="utf-8") as file:
        evaluated = {int(row["examples"]): row for row in csv.DictReader(file)}
    found = rows(record, "branches")
    assert [row["factor"] for row in found] == [1, 4, 1, 4]
    for row in found[::2]:
        later = evaluated[row["examples_used"] + 64]
        assert row["branch_loss"] == float(later["validation_loss"])
        assert row["branch_learning_rate"] == pytest.approx(0.002)
    assert found[1]["branch_batch_size"] == 32
    assert found[1]["branch_learning_rate"] == pytest.approx(0.004)
    points = rows(record, "branch_points")
    assert record["values"]["local_critical_batch_size"] == points[-1]["local_critical_batch_size"]
    for point, share in zip(points, (0.2, 0.6), strict=True):
        used = 3 * len(evaluated) * share * 8 / 3
        assert 0 <= point["examples_used"] - used < 16
        if point["gradient_norm_squared"] > 0:
            scale = point["gradient_variance"] / point["gradient_norm_squared"]
            assert point["gradient_noise_scale"] == pytest.approx(scale)
            over = point["local_critical_batch_size"] / scale
            assert point["critical_over_noise"] == pytest.approx(over)
    assert not (tmp_path / "record.kept").exists()


def test_the_noise_scale_is_that_of_the_same_weights(trained, tmp_path):
    wanted = run_names.parse_settings("branches", settings(points=[1]))
    run = FinishedRun(trained, RUN, scratch=tmp_path)
    (point,) = branches.measure_run(run, wanted).details["points"]
    loss, _ = run.training_loss(wanted, chunk=1)
    scale = noise_scale.of_objective(loss)[0].scale
    assert point["noise"]["gradient_noise_scale"] == (scale if math.isfinite(scale) else None)


def test_a_killed_job_goes_on_from_its_points(trained, tmp_path, monkeypatch):
    wanted = run_names.parse_settings("branches", settings())
    whole = branches.measure_run(FinishedRun(trained, RUN, scratch=tmp_path / "whole"), wanted)
    again, done = FinishedRun(trained, RUN, scratch=tmp_path / "again"), []
    of_point = branches._Left._point

    def killed(self):
        done.append(self.updates)
        if len(done) == 2:
            raise KeyboardInterrupt
        return of_point(self)

    monkeypatch.setattr(branches._Left, "_point", killed)
    with pytest.raises(KeyboardInterrupt):
        branches.measure_run(again, wanted)
    found = branches.measure_run(again, wanted)
    assert done[2:] == done[1:2]
    assert found == whole


def test_points_of_another_training_in_the_folder_are_no_part_of_this_one(trained, tmp_path):
    wanted = run_names.parse_settings("branches", settings())
    whole = branches.measure_run(FinishedRun(trained, RUN, scratch=tmp_path / "whole"), wanted)
    left = disk.read_json(tmp_path / "whole" / "points.json")
    for point in left["points"].values():
        point["losses"] = [1.0 for _ in point["losses"]]
    disk.write_json(tmp_path / "again" / "points.json", {**left, "of": "another training"})
    (tmp_path / "again").mkdir(exist_ok=True)
    again = branches.measure_run(FinishedRun(trained, RUN, scratch=tmp_path / "again"), wanted)
    assert again == whole


def test_the_end_of_a_falling_rate_has_that_of_the_last_update(digits, tmp_path):
    results = with_digits(digits, tmp_path)
    run = run_name(batch_size=8, model="mlp", schedule="linear", epochs=1)
    train(results, run)
    wanted = run_names.parse_settings("branches", settings(points=[1]))
    found = branches.measure_run(FinishedRun(results, run, scratch=tmp_path / "s"), wanted)
    (point,) = found.details["points"]
    assert 0 < point["learning_rates"][0] < 0.001


def test_a_run_that_trains_otherwise_here_and_one_too_small_are_refused(trained, tmp_path):
    run = FinishedRun(trained, RUN, scratch=tmp_path / "a")
    with pytest.raises(UserError, match=r"branches.factors: received 512\b"):
        branches.measure_run(run, run_names.parse_settings("branches", settings(factors=[512])))
    path = trained / "runs" / RUN / "history.csv"
    text = path.read_text()
    try:
        path.write_text(text.replace("0.", "1.", 1))
        with pytest.raises(UserError, match="history"):
            branches.measure_run(run, run_names.parse_settings("branches", settings()))
    finally:
        path.write_text(text)
