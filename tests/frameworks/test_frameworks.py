"""The same training in every framework: parameters, and two updates against Keras's.

A framework that is not installed has its tests skipped, with the command that installs it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import project
from batchscope import frameworks
from batchscope.catalogue import framework_names, sweep_names
from batchscope.errors import UserError
from batchscope.frameworks import layers
from batchscope.host import framework_environments, tensorflow_start
from costs import first

tensorflow_start.start()

import tensorflow as tf

from batchscope import datasets, timing
from batchscope.catalogue import dataset_definitions
from batchscope.datasets.looks import Look
from batchscope.timing.largest import fates
from batchscope.timing.steps import parts, subjects
from batchscope.training import losses, models

DATA = Path(os.environ.get("BATCHSCOPE_DATA", "/nonexistent"))
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


@pytest.fixture(scope="module", params=list(SHAPES))
def batch(request, tmp_path_factory):
    """A model's name, its classes, and one real batch: images, labels, scale."""
    source = {"campbell_cnn": "mnist", "lheureux_cnn": "cats_vs_dogs"}[request.param]
    paths = [DATA / "mnist"] if source == "mnist" else sorted((DATA / source).glob("*.zip"))
    if not paths or not paths[0].exists():
        pytest.skip(f"BATCHSCOPE_DATA does not name a folder with {source}")
    definition = {"source": source, "path": str(paths[0])}
    if source == "cats_vs_dogs":
        definition |= {"image_size": 64, "per_class": 60}
        definition["split"] = {"train": 0.8, "validation": 0.1, "test": 0.1}
    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token(source, definition)
    results = tmp_path_factory.mktemp("results")
    datasets.prepare(token, definition, results)
    data = datasets.load(results, token)
    rows = np.random.default_rng(0).permutation(len(data.labels("train")))[:BATCH]
    arrays = data.images("train")[rows], data.labels("train")[rows], data.scale
    assert len(set(arrays[1].tolist())) > 1
    return request.param, data.classes, *arrays


def keras_model(name: str, shape: tuple[int, ...], classes: int, seed: int = 3):
    model = models.build(name, Look(shape, classes), seed)
    weights = {variable.path: variable.numpy() for variable in model.trainable_variables}
    return model, weights


@pytest.mark.parametrize("name", first(SHAPES))
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_parameters_are_those_of_keras_layer_by_layer(name, classes):
    for shape in (SHAPES[name][0], (31, 26, 3)):
        model, weights = keras_model(name, shape, classes)
        network = layers.build(name, shape, classes)
        expected = {path: values.shape for path, values in weights.items()}
        assert list(network.shapes().items()) == list(expected.items())
        counts = Counter()
        for path, found in network.shapes().items():
            counts[path.partition("/")[0]] += int(np.prod(found))
        assert counts == {
            layer.name: layer.count_params() for layer in model.layers if layer.weights
        }
        rates = {layer.name: layer.rate for layer in model.layers if hasattr(layer, "rate")}
        dropout = {layer.name: layer.rate for layer in network.layers if layer.kind == "dropout"}
        assert dropout == rates


@pytest.mark.parametrize("name", first(SHAPES))
def test_initial_weights_are_drawn_as_keras_draws_them(name):
    shape, classes = SHAPES[name]
    _, weights = keras_model(name, shape, classes)
    drawn = layers.initial_weights(layers.build(name, shape, classes), 0)
    assert list(drawn) == list(weights)
    for path, values in weights.items():
        assert drawn[path].dtype == np.float32
        if values.size < 1000:  # too few to judge
            assert bool(drawn[path].any()) == bool(values.any())
            continue
        assert drawn[path].std() == pytest.approx(values.std(), rel=0.15)
        assert np.abs(drawn[path]).max() == pytest.approx(np.abs(values).max(), rel=0.25)


@pytest.mark.parametrize("name", first(SHAPES))
def test_layouts_are_there_and_back(name):
    shape, classes = SHAPES[name]
    network = layers.build(name, shape, classes)
    weights = layers.initial_weights(network, 0)
    first = layers.channels_first(network, weights)
    height, width, inputs, outputs = weights["conv_1/kernel"].shape
    assert first["conv_1/kernel"].shape == (outputs, inputs, height, width)
    back = layers.channels_last(network, first)
    assert all((back[path] == values).all() for path, values in weights.items())


def test_networks_that_are_not_there():
    with pytest.raises(ValueError, match="small_cnn"):
        layers.build("small_cnn", (28, 28, 1), 10)
    with pytest.raises(ValueError, match="larger images"):
        layers.build("campbell_cnn", (8, 8, 1), 10)


def keras_updates(name, classes, images, labels, scale, weights, optimizer, rate):
    """Returns the loss before and after an update, and the weights after it."""
    model, _ = keras_model(name, images.shape[1:], classes)
    for variable in model.trainable_variables:
        variable.assign(weights[variable.path])
    losses.switch_off_dropout(model)
    per_example = losses.example_losses(model)
    rule = parts.make_optimizer({"optimizer": optimizer, "replicas": 1})
    rule.learning_rate = rate
    given = losses.scaled(tf.constant(images), scale), tf.constant(labels)

    def loss_of() -> tf.Tensor:
        return tf.reduce_mean(per_example(given[1], model(given[0], training=True))[0])

    with tf.GradientTape() as tape:
        before = loss_of()
    rule.apply(tape.gradient(before, model.trainable_variables), model.trainable_variables)
    after = {variable.path: variable.numpy() for variable in model.trainable_variables}
    return float(before), float(loss_of()), after


@pytest.mark.parametrize(("optimizer", "rate"), [("sgd", 0.1), ("adam", 1e-3)])
def test_an_update_is_that_of_keras(framework, checks, batch, optimizer, rate, tmp_path):
    name, classes, images, labels, scale = batch
    _, weights = keras_model(name, images.shape[1:], classes)
    before, after, moved = keras_updates(
        name, classes, images, labels, scale, weights, optimizer, rate
    )
    assert abs(after - before) > 200 * LOSS * before  # far beyond what rounding does
    given = {"images": images, "labels": labels, "classes": classes, "scale": scale, **weights}
    np.savez(tmp_path / "in.npz", **given)
    files = {"given": str(tmp_path / "in.npz"), "output": str(tmp_path / "out.npz")}
    # PyTorch adds epsilon to the corrected root, Keras to the uncorrected one; at the first
    # update the one is the other's times so much.
    epsilon = 1e-7 / (math.sqrt(1 - 0.999) if framework == "pytorch" else 1)
    rule = {"optimizer": optimizer, "learning_rate": rate, "epsilon": epsilon}
    found = checks(framework, model=name, **rule, **files)
    assert found["before"] == pytest.approx(before, rel=LOSS)
    assert found["after"] == pytest.approx(after, rel=LOSS)
    with np.load(tmp_path / "out.npz") as written:
        for path, values in moved.items():
            change, theirs = values - weights[path], written[path] - weights[path]
            size = np.linalg.norm(change)
            assert np.linalg.norm(theirs - change) < WEIGHTS * size, path


class Recorded:
    """A training that notes its batches; its loss is what a test sets."""

    loss = 1.0

    def __init__(self, network, weights, optimizer, rate, examples, device) -> None:
        self.calls, self.restarts = [], 0

    def run(self, starts, batch_size) -> float:
        self.calls.append((list(starts), batch_size))
        return self.loss

    def restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def subject(tmp_path, monkeypatch):
    """A sweep of 100 training images of 28x28, and the training behind it."""
    images = np.random.default_rng(0).integers(0, 255, (140, 28, 28, 1)).astype(np.uint8)
    np.savez(tmp_path / "some.npz", images=images, labels=np.arange(140) % 10)
    split = {"train": 10, "validation": 2, "test": 2}  # of each class
    definition = {"source": "npz", "path": str(tmp_path / "some.npz"), "split": split}
    definition = dataset_definitions.resolve(definition)
    token = dataset_definitions.token("some", definition)
    datasets.prepare(token, definition, tmp_path)
    started, module = [], SimpleNamespace(Training=Recorded)
    monkeypatch.setattr(frameworks, "start", lambda *given: started.append(given) or module)
    sweep = sweep_names.parse(f"{token}+campbell_cnn+bs=16_32+opt=sgd+dev=cpu+th=1+fw=jax")
    with subjects.open_subject(timing.TimingJob(tmp_path, sweep)) as found:
        assert started == [("jax", 1, "cpu")]
        yield found


def test_steps_are_of_whole_batches_epoch_after_epoch(subject):
    run, other = subject.runner(32), subject.runner(16)
    calls = subject.training.calls
    assert run(2) >= 0
    # The lead-in, step by step, then what was asked for.
    assert calls == [([0], 32), ([32], 32), ([64], 32), ([0, 32], 32)]
    run(2)
    assert calls[-1] == ([64, 0], 32)
    other(1)
    assert calls[-4:] == [([0], 16), ([16], 16), ([32], 16), ([48], 16)]
    run(1)
    assert calls[-1] == ([32], 32)  # after a lead-in from where it was: 32, 64, 0
    assert subject.unit == 1 and (subject.threads, subject.examples) == (1, 100)
    assert subject.ceiling() is None and subject.counted() is None


def test_a_loss_that_is_not_finite_is_a_result_of_its_batch_size(subject):
    subject.training.loss = math.nan
    with pytest.raises(fates.NotFinite) as raised:
        subject.runner(16)(1)
    assert fates.word(raised.value, subject.fates) == "diverged"
    assert subject.training.restarts == 1


def test_a_batch_above_the_training_set_is_refused(subject, tmp_path):
    sweep = sweep_names.Sweep(subject.sweep.factors, (16, 101))
    with pytest.raises(UserError) as raised:
        subjects.open_subject(timing.TimingJob(tmp_path, sweep))
    text = "received 101; at most 100 is expected, the training examples of some."
    assert str(raised.value) == f"batch_size: {text}"
