"""Branches of a training: updates by hand, the same bits as the run, and on after a kill."""

import csv
import signal
import subprocess
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import synthetic
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.datasets import Examples
from batchscope.datasets.prepared import TaskInfo
from batchscope.measures import branches, measure_job
from batchscope.measures.branched_training import Branches, Window
from batchscope.measures.branches import ENTRY, critical_multiple
from batchscope.measures.measure_job import FinishedRun
from batchscope.store import progress
from batchscope.study import names, tasks
from batchscope.study.registry import MEASURES
from batchscope.training import optimizers
from batchscope.training.step_loop import StepLoop, Totals, UpdateSettings
from digit_runs import door, run_name, step, train

SETTINGS = {"factors": (2, 4), "evaluations": 2, "window": 24}


def stem(examples, scale=1.0, **factors):
    """A linear regression from 0 whose loss is the distance from the truth, 1, squared."""
    factors = names.parse_run(run_name(batch_size=4, **factors))
    generator = np.random.default_rng(1)
    images = generator.normal(size=(examples, 3)).astype(np.float32)
    targets = scale * (images.sum(axis=1) + generator.normal(size=examples))
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((3, 1), np.float32)])
    task_info = TaskInfo(tasks.REGRESSION, deviations=(1.0,))

    def evaluate():
        return float(np.sum((model.get_weights()[0] - 1) ** 2)), {}

    return SimpleNamespace(
        factors=factors,
        model=model,
        optimizer=optimizers.make_optimizer(factors),
        update_settings=UpdateSettings(4),
        training_set=Examples(images, targets[:, None].astype(np.float32), 1.0, task_info),
        validation_loss=SimpleNamespace(evaluate=evaluate),
        variables_without_optimizer=model.variables,
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_are_those_by_hand_and_nothing_moves(optimizer):
    left = stem(50, learning_rate=0.03, optimizer=optimizer)
    model, adam, examples = left.model, left.optimizer, left.training_set
    images, targets = examples.images, examples.labels[:, 0]
    order = np.random.default_rng(0).permutation(50).astype(np.int32)
    StepLoop(model, adam, examples, left.update_settings).run(order, 0, 5, Totals())
    variables = [*model.variables, *adam.variables]
    before = [variable.numpy() for variable in variables]
    window = Window.from_settings(SETTINGS, 4, 50)
    assert window == ((1, 2, 4), 4, 16, 2)
    following = np.resize(order[::-1], window.examples)
    result = Branches(left, window).losses(following, 0.02)
    for value, variable in zip(before, variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())
    for factor, loss in zip(window.multiples, result, strict=True):
        weights, moments = before[0][:, 0].astype(float), [np.zeros(3)] * 2
        if optimizer == "adam":
            slots = {item.name: item.numpy() for item in adam.variables}
            names = [name for name in slots if "momentum" in name or "velocity" in name]
            moments = [slots[name][:, 0].astype(float) for name in sorted(names)]
        rate = 0.02 * (factor if optimizer == "sgd" else factor**0.5)
        losses, size, steps = [], 4 * factor, 5
        for part in np.split(following, 2):
            for at in range(0, len(part), size):
                batch = part[at : at + size]
                gradient = 2 * images[batch].T @ (images[batch] @ weights - targets[batch]) / size
                if optimizer == "sgd":
                    weights = weights - rate * gradient
                else:
                    mean, square = moments
                    moments = [0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2]
                    steps += 1
                    corrected = moments[0] / (1 - 0.9**steps), moments[1] / (1 - 0.999**steps)
                    weights = weights - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-7)
            losses.append(float(np.sum((weights - 1) ** 2)))
        assert loss == pytest.approx(sum(losses) / 2, rel=1e-4)


def test_a_branch_that_diverges_has_no_loss():
    left = stem(64, scale=1e18, learning_rate=1.0)
    window = Window.from_settings({"factors": (8,), "evaluations": 1, "window": 64}, 4, 64)
    losses = Branches(left, window).losses(np.arange(64, dtype=np.int32), 1e12)
    assert np.isnan(losses[-1])
    assert np.isfinite(tf.convert_to_tensor(left.model.weights[0]).numpy()).all()


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([1.0, 1.0, 1.0], 4),
        ([1.0, 1.2, 1.0], 4),  # the largest that is good enough, whatever lies below
        ([1.0, 0.5, 0.9], 2),
        ([1.0, 1.2, float("inf")], 1),
        ([float("inf"), 1.2, float("inf")], 2),
    ],
)
def test_critical_factor(losses, expected):
    assert critical_multiple([1, 2, 4], losses, 0.1) == expected


def test_a_batch_larger_than_the_training_set_is_refused():
    factors = {"batch_size": 16, "augmentation": "none"}
    with pytest.raises(UserError, match=r"branches.factors: received 4\b.* at most 3 "):
        MEASURES["branches"].check(factors, SETTINGS, 50)
    MEASURES["branches"].check({**factors, "augmentation": "crop"}, SETTINGS, 50)


RUN = run_name(batch_size=8, optimizer="adam", learning_rate=0.002, evaluate_every=8, model="mlp")
WANTED = {"points": [0.2, 0.6], "factors": [4], "window": 64, "evaluations": 1, "examples": 64}


@pytest.fixture(scope="module")
def trained(digit_results):
    train(digit_results, RUN)
    return digit_results


def rows(record, table):
    return [*ENTRY.tables[table].rows(record, None)]


def settings(**changed):
    return names.settings_name("branches", {**WANTED, **changed})


def given(results, output, wanted, run=RUN, measure="branches"):
    words = ("--results", str(results), "--run", run, "--settings", wanted)
    return measure, *words, "--output", str(output)


def measured(*arguments, **options):
    code, text = step(*given(*arguments, **options))
    assert code == 0, text
    return disk.read_json(arguments[1])


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
    rates = [point["learning_rates"] for point in record["points"]]
    assert rates == [pytest.approx([0.002, 0.004])] * 2
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


def test_the_end_of_a_falling_rate_has_that_of_the_last_update(digit_results, tmp_path):
    """And the noise scale of the last weights."""
    run = run_name(batch_size=8, model="mlp", schedule="linear", epochs=1)
    train(digit_results, run)
    (point,) = measured(digit_results, tmp_path / "a.json", settings(points=[1]), run)["points"]
    assert 0 < point["learning_rates"][0] < 0.001
    wanted = names.settings_name("noise_scale", {"examples": WANTED["examples"]})
    values = measured(digit_results, tmp_path / "b.json", wanted, run, "noise_scale")["values"]
    assert point["noise"] == {name: values[name] for name in point["noise"]}


def test_a_run_that_trains_otherwise_here_and_one_too_small_are_refused(
    trained, tmp_path, monkeypatch
):
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0)
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
        # Its note is that of the measure's job, which deletes it, and has the epochs trained here.
        (job,) = progress.running_jobs(trained)
        assert (job.step, job.name) == ("branches", RUN) and " of 2" in job.text
    finally:
        for path, text in zip(files, texts, strict=True):
            path.write_text(text)
