"""Training: same bits twice, killed and resumed; divergence; what stops it and what is kept."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DIGITS = {
    "source": "digits",
    "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 0},
}


def run_name(**factors) -> str:
    from batchscope import definitions, names

    every = {
        "dataset": definitions.token("digits", DIGITS),
        "model": "small_cnn",
        "batch_size": 100,
        "learning_rate": 0.05,
        "optimizer": "sgd",
        "epochs": 3,
        "seed": 0,
        **factors,
    }
    return names.run_name(every)


def door(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), *arguments]
    return subprocess.Popen(command, cwd=ROOT, text=True, **options)


def train(results: Path, run: str, *arguments: str) -> dict:
    process = door(
        "train",
        "--results",
        str(results),
        "--run",
        run,
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return record(results, run)


def record(results: Path, run: str) -> dict:
    return json.loads((results / "runs" / run / "record.json").read_text())


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def assert_same_bits(one: Path, other: Path) -> None:
    for name in ("final.npz", "best.npz", "initial.npz"):
        left, right = arrays(one / name), arrays(other / name)
        assert list(left) == list(right)
        for key in left:
            assert left[key].tobytes() == right[key].tobytes(), f"{name}: {key}"


def history(folder: Path) -> list[list[str]]:
    """Rows of a history without the seconds, which no two runs share."""
    rows = (folder / "history.csv").read_text().splitlines()
    return [row.split(",")[:-1] for row in rows]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("training") / "results"
    process = door(
        "prepare_data",
        "--results",
        str(folder),
        "--dataset",
        run_name().split("+")[0],
        "--definition",
        json.dumps(DIGITS),
    )
    assert process.wait(timeout=120) == 0
    return folder


@pytest.fixture(scope="module")
def dropout_run(results) -> tuple[str, str]:
    """A run through everything that carries state: dropout, batch norm, Adam, patience."""
    from batchscope import plan

    model = ROOT / "tests" / "data" / "noisy_model.py"
    run = run_name(
        model=plan.model_token("noisy", str(model)),
        optimizer="adam",
        learning_rate=0.001,
        patience=50,
        epochs=6,
    )
    train(results, run, "--model-file", str(model))
    return run, str(model)


def copy_data(results: Path, target: Path) -> Path:
    shutil.copytree(results / "data", target / "data")
    return target


def test_same_seed_gives_the_same_bits(results, dropout_run, tmp_path):
    run, model = dropout_run
    again = copy_data(results, tmp_path)
    train(again, run, "--model-file", model)
    assert_same_bits(results / "runs" / run, again / "runs" / run)
    assert history(results / "runs" / run) == history(again / "runs" / run)


def test_another_seed_gives_other_weights(results):
    one, other = run_name(seed=0, epochs=1), run_name(seed=1, epochs=1)
    train(results, one)
    train(results, other)
    left = arrays(results / "runs" / one / "final.npz")
    right = arrays(results / "runs" / other / "final.npz")
    assert any(not np.array_equal(left[key], right[key]) for key in left)


def test_where_the_chunks_are_cut_does_not_change_a_bit(results, dropout_run, tmp_path):
    run, model = dropout_run
    again = copy_data(results, tmp_path)
    train(again, run, "--model-file", model, "--chunk-steps", "3", "--checkpoint-seconds", "0")
    assert_same_bits(results / "runs" / run, again / "runs" / run)
    assert history(results / "runs" / run) == history(again / "runs" / run)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_killed_at_several_points_ends_with_the_same_bits(results, dropout_run, tmp_path, kill):
    run, model = dropout_run
    again = copy_data(results, tmp_path)
    folder = again / "runs" / run
    arguments = (
        "train",
        "--results",
        str(again),
        "--run",
        run,
        "--model-file",
        model,
        "--chunk-steps",
        "2",
        "--checkpoint-seconds",
        "0",
    )
    kills = 0
    for checkpoints in (1, 5, 12):  # further into the training each time
        process = door(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seen, last, limit = 0, None, time.monotonic() + 120
        while process.poll() is None and seen < checkpoints and time.monotonic() < limit:
            path = folder / "checkpoint.npz"
            now = os.stat(path).st_mtime_ns if path.exists() else None
            if now is not None and now != last:
                seen, last = seen + 1, now
            time.sleep(0.001)
        if process.poll() is None:
            process.send_signal(kill)
            kills += 1
        output, _ = process.communicate(timeout=60)
        if kill == signal.SIGTERM:
            assert process.returncode == 85, output
        assert not (folder / "record.json").exists()
    assert kills == 3
    done = train(again, run, *arguments[5:])
    assert done["resumed"] == 3
    assert_same_bits(results / "runs" / run, folder)
    assert history(results / "runs" / run) == history(folder)
    assert not (folder / "checkpoint.npz").exists()


def test_a_checkpoint_of_something_else_is_ignored(results, dropout_run, tmp_path):
    run, model = dropout_run
    again = copy_data(results, tmp_path)
    folder = again / "runs" / run
    folder.mkdir(parents=True)
    (folder / "checkpoint.npz").write_bytes(b"half a file")
    done = train(again, run, "--model-file", model)
    assert done["resumed"] == 0
    assert_same_bits(results / "runs" / run, folder)


def test_divergence_is_a_result(results):
    run = run_name(learning_rate=1e6, epochs=5)
    done = train(results, run)
    assert done["status"] == "diverged"
    assert done["stop_reason"] == "diverged"
    assert done["epochs_run"] < 5
    assert "no longer finite" in done["message"]
    assert (results / "runs" / run / "final.npz").exists()


def test_patience_stops_and_the_best_weights_are_kept(results):
    # Adam at this rate soon jumps about, and never diverges: its steps are bounded.
    run = run_name(optimizer="adam", learning_rate=0.02, patience=2, epochs=60, batch_size=16)
    done = train(results, run)
    rows = history(results / "runs" / run)
    header, losses = rows[0], [float(row[rows[0].index("validation_loss")]) for row in rows[1:]]
    assert header[0] == "epoch"
    best = int(np.argmin(losses)) + 1
    assert done["best_epoch"] == best
    assert done["best_validation_loss"] == losses[best - 1]
    assert (done["status"], done["stop_reason"]) == ("finished", "patience")
    assert done["epochs_run"] == best + 2 < 60


def test_equal_weights_are_stored_once(results):
    run = run_name(epochs=1)
    train(results, run)
    folder = results / "runs" / run
    assert os.path.samefile(folder / "final.npz", folder / "best.npz")
    other = run_name(epochs=1, batch_size=300)
    train(results, other)
    assert os.path.samefile(folder / "initial.npz", results / "runs" / other / "initial.npz")


def test_the_last_smaller_batch_is_trained_on(results):
    run = run_name(epochs=1, batch_size=1000)  # 1,087 examples: 1,000 and 87
    assert train(results, run)["steps_run"] == 2


@pytest.mark.parametrize(("scaling", "expected"), [("none", 0.05), ("linear", 0.2), ("sqrt", 0.1)])
def test_learning_rate_scaling(scaling, expected):
    from batchscope import loop, names

    factors = names.parse_run(
        run_name(batch_size=128, base_batch_size=32, learning_rate_scaling=scaling)
    )
    assert loop.effective_learning_rate(factors) == pytest.approx(expected, rel=1e-12)


def test_every_optimizer_is_a_plain_keras_one_and_none_is_left_out():
    import keras

    from batchscope import loop, names

    known = {
        value.__name__.lower()
        for value in vars(keras.optimizers).values()
        if isinstance(value, type) and issubclass(value, keras.optimizers.Optimizer)
    }
    # The base class, wrappers around others, one that is only for hidden matrices, and one whose
    # weights in training are not those to evaluate.
    special = {"optimizer", "lossscaleoptimizer", "multioptimizer", "muon", "schedulefreeadamw"}
    assert known - set(names.OPTIMIZERS) <= special
    for optimizer in names.OPTIMIZERS:
        made = loop.make_optimizer(names.parse_run(run_name(optimizer=optimizer)))
        assert type(made).__name__.lower() == optimizer
        assert float(made.learning_rate.numpy()) == pytest.approx(0.05)
    sgd = loop.make_optimizer(names.parse_run(run_name(momentum=0.9, nesterov=True)))
    assert (sgd.momentum, sgd.nesterov) == (0.9, True)


def test_an_epochs_order_depends_on_seed_and_epoch_alone():
    from batchscope import loop

    order = loop.epoch_order(3, 5, 100)
    assert sorted(order) == list(range(100))
    assert np.array_equal(order, loop.epoch_order(3, 5, 100))
    assert not np.array_equal(order, loop.epoch_order(3, 6, 100))
    assert not np.array_equal(order, loop.epoch_order(4, 5, 100))


def test_one_step_of_sgd_against_the_update_by_hand():
    """One step on two examples: the new weights are the old ones minus rate times gradient."""
    import keras

    from batchscope import loop

    inputs = keras.Input((1, 1, 2))
    outputs = keras.layers.Dense(1, activation="sigmoid", name="out")(
        keras.layers.Flatten()(inputs)
    )
    model = keras.Model(inputs, outputs)
    kernel = np.array([[0.3], [-0.2]], np.float32)
    model.set_weights([kernel, np.array([0.2], np.float32)])
    images = np.array([[[[1.0, 2.0]]], [[[-1.0, 0.5]]]], np.float32)
    labels = np.array([1, 0])
    steps = loop.StepLoop(model, keras.optimizers.SGD(0.5), images, labels, 1.0, 2)
    done, totals, _ = steps.run(np.array([0, 1], np.int32), 0, 1, loop.Totals())
    x = images.reshape(2, 2)
    p = 1 / (1 + np.exp(-(x @ kernel[:, 0] + 0.2)))
    gradient = ((p - labels)[:, None] * x).mean(0)
    np.testing.assert_allclose(
        model.get_weights()[0][:, 0], kernel[:, 0] - 0.5 * gradient, rtol=1e-5
    )
    np.testing.assert_allclose(model.get_weights()[1], 0.2 - 0.5 * (p - labels).mean(), rtol=1e-5)
    expected = -np.log(p[0]) - np.log(1 - p[1])
    assert done == 1
    assert totals.loss == pytest.approx(expected, rel=1e-6)
    assert totals.hits == int(p[0] > 0.5) + int(p[1] < 0.5)


def test_running_out_of_memory_is_recorded(monkeypatch, results, tmp_path):
    import tensorflow as tf

    from batchscope import training

    def refuse(self, *arguments):
        message = "Graph execution error:\n\nOOM when allocating tensor\nmore"
        raise tf.errors.ResourceExhaustedError(None, None, message)

    run = run_name(epochs=2, batch_size=50)
    monkeypatch.setattr(training.StepLoop, "run", refuse)
    handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert training.train(run, results) == "out_of_memory"
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
    done = record(results, run)
    assert done["message"] == "OOM when allocating tensor"
    assert arrays(results / "runs" / run / "final.npz") == {}


@pytest.mark.slow
def test_an_allocators_refusal_is_recorded(results):
    """4 GB of activations under a limit of 9 GB of addresses, half of which TensorFlow has."""
    from batchscope import plan

    model = ROOT / "tests" / "data" / "wide_model.py"
    token = plan.model_token("wide", str(model))
    run = run_name(model=token, batch_size=500, epochs=1)
    limit = 9_000_000 * 1024
    process = door(
        *("train", "--results", str(results), "--run", run, "--model-file", str(model)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert process.wait(timeout=300) == 0
    done = record(results, run)
    assert done["status"] == "out_of_memory"
    assert "OOM when allocating tensor" in done["message"]
