"""Networks: what the documents say of them, their parameters, the user's own."""

import math

import numpy as np
import pytest

from batchscope.core.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.study.example_kinds import NETWORKS
from costs import first
from own_model import BODY, HEAD, of, own

tensorflow_start.start()

import keras
import tensorflow as tf

from batchscope.datasets.model_inputs import ModelInput
from batchscope.store import weights
from batchscope.training import model_checks, models, scoring

LOOK = ModelInput((8, 8, 1), 3)


def assert_same(weights, others):
    for arrays, again in zip(weights, others, strict=True):
        assert list(arrays) == list(again)
        assert all((arrays[path] == again[path]).all() for path in arrays)


@pytest.mark.parametrize(
    "network",
    first(
        [
            ("small_cnn", (8, 8, 1), 10, 6058),
            ("mlp", (30,), 2, 20738),
            ("campbell_cnn", (28, 28, 1), 10, 270006),
            ("chang_vgg", (128, 128, 3), 2, 353161),
            ("lheureux_cnn", (64, 64, 3), 2, 4195457),
            ("benchmark_cnn", (256, 256, 3), 10, 2131538),
            ("keskar_f1", (28, 28, 1), 10, 1462794),
            ("keskar_f1_plain", (28, 28, 1), 10, 1457674),
            ("tutorial_cnn", (28, 28, 1), 10, 54410),
            ("tiny_transformer", (32,), 92, 244700),
        ]
    ),
)
def test_parameters_are_those_of_the_documents(network):
    name, shape, classes, parameters = network
    model = models.build(name, ModelInput(shape, classes), seed=0)
    count = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    assert count == parameters
    outputs = model(np.zeros((2, *shape), np.float32))
    assert outputs.shape[-1] in ((1, 2) if classes == 2 else (classes,))
    if shape[0] != 64:  # of the document's size
        assert f"{parameters:,}" in models.BUILDERS[name].__doc__


def test_moving_statistics_are_state_and_generators_are_no_weights():
    trainable, state = models.weights(
        models.build("benchmark_cnn", ModelInput((16, 16, 3), 3), seed=0)
    )
    assert sum("moving" in path for path in state) == 8
    assert not any("moving" in path for path in trainable)
    model = models.build("campbell_cnn", ModelInput((28, 28, 1), 10), seed=0)
    assert models.weights(model)[1] == {}
    assert len(model.non_trainable_variables) == 2


def test_the_seed_fixes_weights_and_paths_whatever_was_built_before():
    first = models.weights(models.build("campbell_cnn", ModelInput((28, 28, 1), 10), seed=5))
    keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    models.build("small_cnn", ModelInput((28, 28, 1), 10), seed=1)
    again = models.weights(models.build("campbell_cnn", ModelInput((28, 28, 1), 10), seed=5))
    other = models.weights(models.build("campbell_cnn", ModelInput((28, 28, 1), 10), seed=6))
    assert_same(first, again)
    assert all((first[0][path] != other[0][path]).any() for path in first[0])


@pytest.mark.parametrize("name", first(models.BUILDERS))
def test_the_least_side_that_the_plan_knows_is_the_networks_own(name):
    if name == "tiny_transformer":
        return
    least = NETWORKS[name].least_side
    assert models.build(name, ModelInput((least, least, 1), 10), seed=0).count_params()
    if least > 1:
        side = least - 1
        with pytest.raises(UserError, match=rf"model {name}: cannot be built .*\({side}, {side}"):
            models.build(name, ModelInput((side, side, 1), 10), seed=0)


def test_weights_go_round_and_those_of_another_network_are_refused():
    model = models.build("keskar_f1", ModelInput((4, 4, 1), 3), seed=0)
    trainable, state = models.weights(model)
    other = models.build("keskar_f1", ModelInput((4, 4, 1), 3), seed=1)
    state["norm_1/moving_mean"] = state["norm_1/moving_mean"] + 3
    images = np.random.default_rng(0).random((5, 4, 4, 1), np.float32)
    assert not np.allclose(model(images), other(images))
    for item in (model, other):
        models.set_weights(item, trainable, state)
        assert_same((trainable, state), models.weights(item))
    with pytest.raises(UserError, match=r"dense_1/kernel \(received None\)"):
        models.set_weights(model, {}, state)
    wide = trainable | {"output/kernel": trainable["output/kernel"][:, :2]}
    with pytest.raises(UserError, match=r"output/kernel \(received \(512, 2\)\)"):
        models.set_weights(model, wide, state)


OWN = """
import keras

def build(input_shape, classes):
    return keras.Sequential([
        keras.Input(input_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(classes, activation="softmax", name="only"),
    ])
"""


def test_the_users_own_model(tmp_path):
    path, token = own(tmp_path, OWN)
    first = models.build(token, LOOK, 0, path)
    assert list(models.weights(first)[0]) == ["only/kernel", "only/bias"]
    again = models.build(token, LOOK, 0, path)
    assert (models.weights(first)[0]["only/kernel"] == again.weights[0].numpy()).all()
    (layer,) = weights.layers(*models.weights(first))
    assert layer == weights.Layer("only", {"kernel": (64, 3), "bias": (3,)})
    assert layer.weights == 195


SUBCLASSED = """
import keras
from keras import layers

class Net(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.flatten = layers.Flatten()
        self.drop = layers.Dropout(0.5)
        self.norm = layers.BatchNormalization()
        self.only = layers.Dense(classes, activation="softmax")

    def call(self, images, training=False):
        return self.only(self.norm(self.drop(self.flatten(images)), training=training))

def build(input_shape, classes):
    return Net(classes)
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no')\n", "own.py:1: cannot be built .*: RuntimeError: no"),
        ("import sys\nsys.exit()\n", "own.py:2: cannot be built .*: SystemExit"),
        (f"{HEAD}{BODY}1 / 0\n", "own.py:4: cannot be built .*: ZeroDivisionError"),
        (f"{HEAD}{BODY}None\n", r"own.py: Expected a keras.Model .*NoneType"),
        (
            SUBCLASSED.replace("        return", "        assert not training\n        return", 1),
            r"own.py:14: cannot train on \(8, 8, 1\): AssertionError$",
        ),
        (
            of("keras.Input((9, 8, 1)), layers.Flatten(), layers.Dense(classes)"),
            r"own.py: cannot train on \(8, 8, 1\): ValueError: .*\(None, 64\)",
        ),
    ],
)
def test_faults_of_a_users_file_name_the_file(tmp_path, text, message):
    path, token = own(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        model_checks.check(token, LOOK, path)
    assert "\n" not in str(caught.value)


def test_a_users_file_that_changed_or_is_gone_is_refused(tmp_path):
    path, token = own(tmp_path, OWN)
    path.write_text(OWN + "# more\n")
    with pytest.raises(UserError, match=r"own.py: The file, .*runs of own-"):
        models.build(token, LOOK, 0, path)
    with pytest.raises(UserError, match=r"models.own: .*\(received None\)"):
        models.build(token, LOOK, 0, None)


NO_INPUT = OWN.replace("keras.Input(input_shape),", "")


@pytest.mark.parametrize("text", [SUBCLASSED, NO_INPUT])
def test_a_model_without_an_input_is_called_on_one_of_the_datas_shape(tmp_path, text):
    path, token = own(tmp_path, text)
    created = []

    def create(following, **arguments):
        created.append(following(**arguments))
        return created[-1]

    first = models.build(token, LOOK, 0, path, tf.variable_creator_scope(create))
    assert len(created) == len(first.variables) > 0  # each in the given scope
    assert first.input_shape == (None, 8, 8, 1) and first.output_shape == (None, 3)
    trainable, state = models.weights(first)
    images = np.random.default_rng(0).random((5, 8, 8, 1), np.float32)
    outputs = first(images)
    assert np.allclose(keras.ops.softmax(scoring.logits(outputs)), outputs)
    # Batch normalisation trains, dropout drops: the mode of the whole reaches its layers.
    if text is SUBCLASSED:
        assert len(state) == 2
        assert not np.allclose(first(images, training=True), outputs)
        assert not (models.weights(first)[1][list(state)[0]] == state[list(state)[0]]).all()


BESIDE = """
import keras
from {module} import UNITS, last

def build(input_shape, classes):
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(UNITS), last(classes)])
"""
LAST = "import keras\nUNITS = 5\ndef last(classes):\n    return keras.layers.Dense(classes)\n"


@pytest.mark.parametrize("module", ["blocks", "nets", "folder.blocks"])
def test_a_model_file_imports_its_neighbours(tmp_path, module):
    for name in ("nets", "folder"):
        (tmp_path / name).mkdir()
    for name in ("blocks.py", "nets/blocks.py", "folder/blocks.py"):
        (tmp_path / name).write_text(LAST)
    (tmp_path / "nets" / "__init__.py").write_text("from .blocks import UNITS, last\n")
    path, token = own(tmp_path, BESIDE.format(module=module))
    assert models.build(token, LOOK, 0, path).count_params() == 64 * 5 + 5 + 5 * 3 + 3
    file = tmp_path / ("nets/blocks.py" if module == "nets" else f"{module.replace('.', '/')}.py")
    file.write_text(LAST.replace("5", "7"))
    with pytest.raises(UserError, match="own.py: The file, or one that it imports"):
        models.build(token, LOOK, 0, path)
    path, token = own(tmp_path, BESIDE.format(module=module))
    assert models.build(token, LOOK, 0, path).count_params() == 64 * 7 + 7 + 7 * 3 + 3
