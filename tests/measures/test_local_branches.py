"""Branches of runs: the training is passed again bit for bit, and goes on after a kill."""

import csv
import signal
import subprocess
import time

import pytest

import synthetic
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.measures import branches, measure_job
from batchscope.measures.branches import ENTRY
from batchscope.measures.finished_run import FinishedRun
from batchscope.study import names
from digit_runs import door, run_name, step, train, with_digits

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
    return names.settings_name("branches", {**WANTED, **changed})


def given(results, output, wanted, run=RUN):
    return ("branches", "--results", str(results), "--run", run, "--settings", wanted) + (
        "--output",
        str(output),
    )


def measured(results, output, wanted, run=RUN):
    code, text = step(*given(results, output, wanted, run))
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
    assert [point["learning_rates"] for point in record["points"]] == [
        pytest.approx([0.002, 0.004])
    ] * 2
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
    record = measured(trained, tmp_path / "a.json", settings(points=[1]))
    (point,) = record["points"]
    wanted = names.settings_name("noise_scale", {"examples": WANTED["examples"]})
    asked = ("--results", str(trained), "--run", RUN, "--settings", wanted)
    code, text = step("noise_scale", *asked, "--output", str(tmp_path / "b.json"))
    assert code == 0, text
    values = disk.read_json(tmp_path / "b.json")["values"]
    assert point["noise"] == {name: values[name] for name in point["noise"]}


def test_a_killed_job_goes_on_from_its_points(trained, tmp_path):
    wanted = settings(points=[0.2, 0.4, 0.6, 0.8], window=2048)
    whole = measured(trained, tmp_path / "whole.json", wanted)
    output, kept = tmp_path / "again.json", tmp_path / "again.kept" / "points.json"
    process = door(*given(trained, output, wanted), stdout=subprocess.DEVNULL)
    while process.poll() is None and not kept.exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=300)
    left = disk.read_json(kept)
    assert 1 <= len(left["points"]) < 4
    first = min(left["points"], key=int)
    left["points"][first]["losses"] = [2.0, 3.0]
    disk.write_json(kept, left)
    found = measured(trained, output, wanted)
    assert found["points"][0]["losses"] == [2.0, 3.0]
    assert found["points"][1:] == whole["points"][1:]
    assert not kept.exists()
    # What another training left in the folder is no part of this one.
    disk.write_json(kept, {**left, "training": "another"})
    assert measured(trained, output, wanted) == whole


def test_the_end_of_a_falling_rate_has_that_of_the_last_update(digits, tmp_path):
    results = with_digits(digits, tmp_path)
    run = run_name(batch_size=8, model="mlp", schedule="linear", epochs=1)
    train(results, run)
    (point,) = measured(results, tmp_path / "a.json", settings(points=[1]), run)["points"]
    assert 0 < point["learning_rates"][0] < 0.001


def test_a_run_that_trains_otherwise_here_and_one_too_small_are_refused(trained, tmp_path):
    wanted = settings(factors=[512])
    with pytest.raises(UserError, match=r"branches.factors: received 512\b"):
        measure_job.write("branches", [FinishedRun(trained, RUN)], wanted, tmp_path / "a.json")
    files = [trained / "runs" / RUN / name for name in ("history.csv", "record.json")]
    texts = [path.read_text() for path in files]
    try:
        files[0].write_text(texts[0].replace("0.", "1.", 1))
        synthetic.write_sha256(files[0].parent)
        run = FinishedRun(trained, RUN, scratch=tmp_path / "b")
        with pytest.raises(UserError, match="received another history"):
            branches.measure_run(run, names.parse_settings("branches", settings()))
    finally:
        for path, text in zip(files, texts, strict=True):
            path.write_text(text)
