"""The same updates in every framework: two of them against Keras's, and what a runner runs.

A framework that is not installed has its tests skipped, with the command that installs it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import project
from batchscope import frameworks
from batchscope.catalogue import framework_names, sweep_names
from batchscope.errors import UserError
from batchscope.host import framework_environments, tensorflow_start

tensorflow_start.start()

import tensorflow as tf

from batchscope import datasets, timing
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import Learned
from batchscope.datasets.looks import Look
from batchscope.timing import loops
from batchscope.training import losses, models, scoring

SHAPES = {"campbell_cnn": ((28, 28, 1), 10), "lheureux_cnn": ((64, 64, 3), 2)}
BATCH = 64
# float32 sums in another order; a layout or a constant that is wrong moves far more.
LOSS, WEIGHTS = 2e-5, 1e-3


@pytest.fixture(params=list(framework_names.FRAMEWORKS))
def framework(request) -> str:
    if not framework_environments.installed(request.param):
        pytest.skip(f"not installed; {framework_environments.command(request.param)} installs it")
    return request.param


@pytest.fixture(scope="module")
def checks():
    """Returns what makes two updates in a framework; each starts once, in a process of its own."""
    with contextlib.ExitStack() as processes:

        @functools.cache
        def process(framework: str) -> subprocess.Popen:
            code = Path(__file__).with_name("two_updates.py")
            command = [framework_environments.python(framework), code]
            environment = {**os.environ, "PYTHONPATH": str(project.ROOT / "workflow")}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            started = subprocess.Popen(command, env=environment, text=True, **pipes)
            return processes.enter_context(started)  # ends with its input

        def found(framework: str, **given: object) -> dict[str, float]:
            given = {"framework": framework, **given}
            print(json.dumps(given), file=process(framework).stdin, flush=True)
            return json.loads(process(framework).stdout.readline())

        yield found


def blobs(shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch of noise around a level of each class's own, as bytes."""
    random = np.random.default_rng(0)
    labels = random.integers(0, classes, BATCH)
    levels = 30 + 190 * labels[:, None, None, None] / classes
    images = levels + random.normal(0, 20, (BATCH, *shape))
    return images.clip(0, 255).astype(np.uint8), labels


def keras_updates(model, images, labels, optimizer, rate):
    """Returns the loss before and after an update, and the weights after it."""
    losses.switch_off_dropout(model)
    per_example = scoring.of(model, Learned()).examples
    rule = loops.make_optimizer({"optimizer": optimizer, "replicas": 1})
    rule.learning_rate = rate
    given = losses.scaled(tf.constant(images), 1 / 255), tf.constant(labels)

    def loss_of() -> tf.Tensor:
        return tf.reduce_mean(per_example(given[1], model(given[0], training=True))[0])

    with tf.GradientTape() as tape:
        before = loss_of()
    rule.apply(tape.gradient(before, model.trainable_variables), model.trainable_variables)
    return float(before), float(loss_of()), [each.numpy() for each in model.trainable_variables]


@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize(("optimizer", "rate"), [("sgd", 0.1), ("adam", 1e-3)])
def test_an_update_is_that_of_keras(framework, checks, name, optimizer, rate, tmp_path):
    shape, classes = SHAPES[name]
    images, labels = blobs(shape, classes)
    model = models.build(name, Look(shape, classes), 3)
    weights = [each.numpy() for each in model.trainable_variables]
    before, after, moved = keras_updates(model, images, labels, optimizer, rate)
    assert abs(after - before) > 200 * LOSS * before  # far beyond what rounding does
    given = {"images": images, "labels": labels, "classes": classes, "scale": 1 / 255}
    np.savez(tmp_path / "in.npz", *weights, **given)
    files = {"given": str(tmp_path / "in.npz"), "output": str(tmp_path / "out.npz")}
    # MXNet adds epsilon to the uncorrected root, as Keras does, the others to the corrected one;
    # at the first update the one is the other's times so much.
    epsilon = 1e-7 / (1 if framework == "mxnet" else math.sqrt(1 - 0.999))
    rule = {"optimizer": optimizer, "learning_rate": rate, "epsilon": epsilon}
    found = checks(framework, model=name, **rule, **files)
    assert found["before"] == pytest.approx(before, rel=LOSS)
    assert found["after"] == pytest.approx(after, rel=LOSS)
    with np.load(tmp_path / "out.npz") as written:
        for old, new, theirs in zip(weights, moved, written.values(), strict=True):
            change = np.linalg.norm(new - old)
            assert np.linalg.norm(theirs - new) < WEIGHTS * change


class Recorded(frameworks.FrameworkRunner):
    """A runner that notes its batches; its loss is what a test sets."""

    loss = 1.0

    def _load(self, images, labels) -> None:
        self.calls, self.restarts = [], 0

    def _update(self, starts, batch_size) -> float:
        self.calls.append((list(starts), batch_size))
        return self.loss

    def restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def job(tmp_path):
    """A sweep of 100 training images of 28x28."""
    images = np.random.default_rng(0).integers(0, 255, (140, 28, 28, 1)).astype(np.uint8)
    np.savez(tmp_path / "some.npz", images=images, labels=np.arange(140) % 10)
    split = {"train": 10, "validation": 2, "test": 2}  # of each class
    definition = {"source": "npz", "path": str(tmp_path / "some.npz"), "split": split}
    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token("some", definition)
    datasets.prepare(token, definition, tmp_path)
    sweep = sweep_names.parse(f"{token}+campbell_cnn+bs=16_32+opt=sgd+dev=cpu+th=1+fw=jax")
    return timing.TimingJob(tmp_path, sweep)


@pytest.fixture
def runner(job, monkeypatch):
    started, module = [], SimpleNamespace(Runner=Recorded)
    monkeypatch.setattr(frameworks, "start", lambda *given: started.append(given) or module)
    with job.runner() as found:
        assert started == [("jax", 1, "cpu")]
        yield found


def test_steps_are_of_whole_batches_epoch_after_epoch(runner):
    run, other, calls = runner.at(32), runner.at(16), runner.calls
    assert run(2) >= 0
    # The lead-in, step by step, then what was asked for.
    assert calls == [([0], 32), ([32], 32), ([64], 32), ([0, 32], 32)]
    run(2)
    assert calls[-1] == ([64, 0], 32)
    other(1)
    assert calls[-4:] == [([0], 16), ([16], 16), ([32], 16), ([48], 16)]
    run(1)
    assert calls[-1] == ([32], 32)  # after a lead-in from where it was: 32, 64, 0
    assert (runner.unit, runner.threads, runner.examples) == (1, 1, 100)
    assert runner.per_epoch(200) == 1
    assert runner.peak_mb() is None


def test_a_loss_that_is_not_finite_begins_training_anew(runner):
    runner.loss = math.nan
    with pytest.raises(frameworks.NotFinite):
        runner.run(16, 1)
    assert runner.restarts == 2  # the first is the beginning


@pytest.mark.parametrize(
    ("taken", "enough", "unit", "asked"),
    [
        ([0.001] * 3, 0.25, 1, [1, 1, 1]),
        ([0.2, 0.1, 0.1], 0.25, 1, [1, 1]),
        ([7.0] * 3, 0.25, 1, [1]),
        ([7.0] * 3, math.inf, 1, [1, 1, 1]),
        ([0.0], math.inf, 32, [32]),  # single steps would leave the timed call cold
    ],
)
def test_a_lead_in_ends_after_its_steps_or_once_they_took_enough(taken, enough, unit, asked):
    class Timed(frameworks.Runner):
        def _run(self, batch_size, start, steps):
            done.append(steps)
            return next(times, 0.0), 1.0

    done, times, runner = [], iter(taken), Timed(1000)
    runner.unit, runner.lead_in_seconds = unit, enough
    runner.run(8, 64)
    assert done == [*asked, 64]
    runner.run(8, 64)
    assert done == [*asked, 64, 64]


def test_a_batch_above_the_training_set_is_refused(job):
    sweep = sweep_names.Sweep(job.factors, (16, 101))
    opened = timing.TimingJob(job.results, sweep).runner()
    with pytest.raises(UserError, match="^batch_size: received 101; at most 100"), opened:
        pass
