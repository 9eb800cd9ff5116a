"""Trial trainings: the seconds of a step, and the curves that choose a grid."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from batchscope.datasets.prepared import ModelInput
from batchscope.study import run_factors, tasks
from batchscope.training import models, trials
from prepared_data import read


@pytest.mark.parametrize(
    ("model", "look"),
    [
        ("small_cnn", ModelInput((8, 8, 1), 10)),
        ("mlp", ModelInput((10,), 1, "rows", task="regression")),
        ("mlp", ModelInput((10,), 4, "rows", task="multi_label")),
        ("tiny_transformer", ModelInput((16,), 12, "tokens")),
    ],
)
def test_every_kind_of_example_is_timed(model, look, monkeypatch):
    monkeypatch.setattr(trials, "_MIN_SECONDS", 0.001)
    factors = {name: factor.default for name, factor in run_factors.FACTORS.items()}
    # At this rate, a loss diverges.
    factors |= {"learning_rate": 1e20, "optimizer": "sgd", "seed": 0, "batch_size": 8}
    assert 0 < trials.step_seconds({**factors, "model": model}, look, None) < 60


def built(data, model="mlp"):
    return trials.Probe(models.build(model, data.model_input, 0), data, {"optimizer": "adam"})


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory):
    return built(read(tmp_path_factory.mktemp("diabetes"), {"source": "diabetes"}))


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    return read(tmp_path_factory.mktemp("wine"), {"source": "wine"})


def test_each_training_begins_anew(diabetes):
    first = list(diabetes.training(0.003, 32, [0, 1, 9, 54]))
    assert [used for used, _ in first] == [0, 32, 288, 1728]
    assert first[-1][1] < 0.7 < first[0][1]
    list(diabetes.training(0.1, 8, [20]))
    assert list(diabetes.training(0.003, 32, [0, 1, 9, 54])) == first


def test_a_training_ends_where_the_loss_is_not_finite(diabetes):
    curve = list(diabetes.training(1e30, 32, range(100)))
    assert len(curve) < 100 and curve[-1][1] == math.inf


def test_updates_are_timed_without_a_change_of_weights(diabetes):
    list(diabetes.training(0.003, 32, [0]))
    before = [variable.numpy() for variable in diabetes.model.weights]
    assert diabetes.step_seconds(4) > 0 and diabetes.step_seconds(64) > 0
    after = [variable.numpy() for variable in diabetes.model.weights]
    assert all(map(np.array_equal, before, after))


def test_what_is_learned_is_told_from_what_is_not(wine):
    """Labels that are drawn at random are not learned, however low the training loss is."""
    assert built(wine).is_better_than_constant(0.003, 16, [20, 40])
    train = wine.examples("train")
    random = replace(train, labels=np.random.default_rng(0).permutation(train.labels))
    splits = {"train": random, "validation": wine.examples("validation")}
    shuffled = SimpleNamespace(examples=splits.get, task=wine.task, model_input=wine.model_input)
    assert not built(shuffled).is_better_than_constant(0.003, 16, [20, 40])
    # A network with constant outputs learned nothing either.
    network = built(wine)
    network.model.layers[-1].kernel.assign(np.zeros((128, 3)))
    network = trials.Probe(network.model, wine, {"optimizer": "sgd"})
    assert not network.is_better_than_constant(0.01, 16, [0])


def test_numbers_of_an_example_are_the_outputs_of_its_layers():
    model = models.build("mlp", ModelInput((10,), 2, "rows"), 0)
    assert trials.bytes_per_example(model) == 16 * (10 + 10 + 128 + 128 + 2)


RANDOM = np.random.default_rng(0)
CLASSES = RANDOM.integers(0, 3, 50)
NUMBERS = RANDOM.normal(size=(50, 2)).astype(np.float32)
NAMED = (NUMBERS > 0.3).astype(np.int32)


def entropy(shares):
    return -np.sum(shares * np.log(shares))


@pytest.mark.parametrize(
    ("values", "task", "expected", "hits"),
    [
        (CLASSES, tasks.CLASSIFICATION, entropy(np.bincount(CLASSES) / 50), True),
        (CLASSES.reshape(10, 5), tasks.CLASSIFICATION, entropy(np.bincount(CLASSES) / 50), True),
        (2 * NAMED[:, 0], tasks.CLASSIFICATION, entropy(np.bincount(NAMED[:, 0]) / 50), True),
        (NUMBERS, tasks.REGRESSION, NUMBERS.var(axis=0).mean(), False),
        (NAMED, tasks.MULTI_LABEL, np.mean([entropy(np.bincount(one) / 50) for one in NAMED.T]), 1),
    ],
    ids=("classes", "positions", "a class without examples", "numbers", "labels"),
)
def test_the_best_constant_has_the_loss_of_the_frequencies(values, task, expected, hits):
    loss, hit = trials.constant_losses(values, task)
    assert loss.shape == hit.shape == (len(values),)
    assert loss.mean() == pytest.approx(expected, rel=1e-5)
    most = np.bincount(values.ravel()).max() / 50 if task == tasks.CLASSIFICATION else None
    assert hit.mean() == pytest.approx(most) if most else bool(hit.any()) == bool(hits)
