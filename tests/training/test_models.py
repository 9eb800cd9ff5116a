"""Networks: what the documents say of them, their parameters, the user's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchscope.catalogue import run_names, weight_counts
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.study import model_files
from costs import first

tensorflow_start.start()

import keras
import tensorflow as tf

from batchscope.datasets.looks import Look
from batchscope.training import losses, models

LOOK = Look((8, 8, 1), 3)


def assert_same(weights, others):
    for arrays, again in zip(weights, others, strict=True):
        assert list(arrays) == list(again)
        assert all((arrays[path] == again[path]).all() for path in arrays)


def conv(size, into, out):
    return size * size * into * out + out


def dense(into, out):
    return into * out + out


def small(height, width, channels, classes):
    flat = -(-height // 4) * -(-width // 4) * 16
    return conv(3, channels, 8) + conv(3, 8, 16) + dense(flat, 64) + dense(64, classes)


def campbell(classes):
    # 28 -> 25 -> 12 -> 9 -> 4 by two convolutions without padding and two pools.
    return conv(4, 1, 16) + conv(4, 16, 32) + dense(4 * 4 * 32, 500) + dense(500, classes)


def chang(side, units):
    filters = [3, 4, 8, 16, 32, 64]
    convolutions = sum(conv(3, *pair) for pair in zip(filters, filters[1:], strict=False))
    flat = (side // 32) ** 2 * 64
    return convolutions + dense(flat, 256) + dense(256, 256) + dense(256, units)


def benchmark(side, classes):
    filters = [8, 8, 16, 32, 64]
    blocks = sum(conv(3, *pair) + 2 * pair[1] for pair in zip(filters, filters[1:], strict=False))
    flat = (side // 16) ** 2 * 64
    return conv(3, 3, 8) + blocks + dense(flat, 128) + dense(128, 64) + dense(64, classes)


def keskar(flat, classes):
    widths = [flat, 512, 512, 512, 512, 512]
    blocks = sum(dense(*pair) + 2 * 512 for pair in zip(widths, widths[1:], strict=False))
    return blocks + dense(512, classes)


@pytest.mark.parametrize(
    "network",
    first(
        [
            ("small_cnn", (8, 8, 1), 10, 6058, small(8, 8, 1, 10)),
            ("small_cnn", (13, 30, 3), 3, 34419, small(13, 30, 3, 3)),
            ("campbell_cnn", (28, 28, 1), 10, 270006, campbell(10)),
            ("chang_vgg", (128, 128, 3), 2, 353161, chang(128, 1)),
            ("chang_vgg", (64, 64, 3), 2, 156553, chang(64, 1)),
            ("chang_vgg", (64, 64, 3), 5, 157581, chang(64, 5)),
            ("lheureux_cnn", (64, 64, 3), 2, 4195457, conv(3, 3, 32) + dense(32768, 128) + 129),
            ("benchmark_cnn", (256, 256, 3), 10, 2131538, benchmark(256, 10)),
            ("keskar_f1", (28, 28, 1), 10, 1462794, keskar(784, 10)),
            ("keskar_f1_plain", (28, 28, 1), 10, 1457674, keskar(784, 10) - 5 * 2 * 512),
            ("tutorial_cnn", (28, 28, 1), 10, 54410, conv(3, 1, 32) + dense(13 * 13 * 32, 10)),
        ]
    ),
    ids=lambda network: network[0],
)
def test_parameter_counts(network):
    name, shape, classes, expected, by_hand = network
    model = models.build(name, Look(shape, classes), seed=0)
    count = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    assert count == expected == by_hand
    outputs = model(np.zeros((2, *shape), np.float32))
    assert outputs.shape[-1] in ((1, 2) if classes == 2 else (classes,))
    of_documents = ((8, 8, 1), (28, 28, 1), (128, 128, 3), (256, 256, 3))
    assert f"{expected:,}" in models.BUILDERS[name].__doc__ or shape not in of_documents


def test_the_document_of_lheureux_has_forty_million_parameters():
    assert conv(3, 3, 32) + dense(100 * 100 * 32, 128) + dense(128, 1) == 40961153
    assert "40,961,153" in models.BUILDERS["lheureux_cnn"].__doc__


def test_moving_statistics_are_state_and_no_parameters():
    model = models.build("benchmark_cnn", Look((16, 16, 3), 3), seed=0)
    trainable, state = models.weights(model)
    moving = [path for path in state if "moving" in path]
    assert len(moving) == 8 and not any("moving" in path for path in trainable)


@pytest.mark.parametrize("name", first(models.BUILDERS))
def test_variables_keep_their_paths_within_a_process(name):
    # Straight from the builder: Keras's counters of names go on, and must not show.
    shape = (16,) if name == "tiny_transformer" else (32, 32, 3)
    first, second = (models.BUILDERS[name](shape, 3) for _ in range(2))
    paths = [variable.path for variable in first.weights]
    assert paths == [variable.path for variable in second.weights]
    assert paths[-1] == "output/bias" and paths[0].endswith(("_1/kernel", "embeddings"))


def test_campbell_draws_every_kernel_and_bias_from_a_normal():
    model = models.build("campbell_cnn", Look((28, 28, 1), 10), seed=1000)
    for path, values in models.weights(model)[0].items():
        assert values.std() > 0, path
        if values.size > 1000:
            assert abs(values.std() - 0.05) < 0.002 and abs(values.mean()) < 0.002
    kinds = [type(layer).__name__ for layer in model.layers[1:]]
    ends = ["Flatten", "Dropout", "Dense", "Dropout", "Dense"]
    assert kinds == ["Conv2D", "MaxPooling2D"] * 2 + ends


def test_the_generators_of_dropout_are_no_weights():
    model = models.build("campbell_cnn", Look((28, 28, 1), 10), seed=0)
    assert models.weights(model)[1] == {}
    assert len(model.non_trainable_variables) == 2


def test_chang_starts_with_glorot_and_zero_biases():
    model = models.build("chang_vgg", Look((64, 64, 3), 2), seed=0)
    arrays = models.weights(model)[0]
    limit = math.sqrt(6 / (256 + 256))
    assert 0.95 * limit < np.abs(arrays["dense_2/kernel"]).max() <= limit
    assert not any(values.any() for path, values in arrays.items() if path.endswith("bias"))


def test_the_seed_fixes_weights_and_paths_whatever_was_built_before():
    first = models.weights(models.build("campbell_cnn", Look((28, 28, 1), 10), seed=5))
    keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    models.build("small_cnn", Look((28, 28, 1), 10), seed=1)
    again = models.weights(models.build("campbell_cnn", Look((28, 28, 1), 10), seed=5))
    other = models.weights(models.build("campbell_cnn", Look((28, 28, 1), 10), seed=6))
    assert_same(first, again)
    assert all((first[0][path] != other[0][path]).any() for path in first[0])


@pytest.mark.parametrize("name", first(models.BUILDERS))
def test_the_least_side_that_the_plan_knows_is_the_networks_own(name):
    least = weight_counts.least_side(name)
    assert models.build(name, Look((least, least, 1), 10), seed=0).count_params()
    if least > 1:
        side = least - 1
        with pytest.raises(UserError, match=rf"model {name}: cannot be built .*\({side}, {side}"):
            models.build(name, Look((side, side, 1), 10), seed=0)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="received 'smal'; expected one of small_cnn, campbell"):
        models.build("smal", Look((8, 8, 1), 10), seed=0)


def test_weights_go_round():
    model = models.build("keskar_f1", Look((4, 4, 1), 3), seed=0)
    trainable, state = models.weights(model)
    other = models.build("keskar_f1", Look((4, 4, 1), 3), seed=1)
    state["norm_1/moving_mean"] = state["norm_1/moving_mean"] + 3
    models.set_weights(other, trainable, state)
    images = np.random.default_rng(0).random((5, 4, 4, 1), np.float32)
    assert (models.weights(other)[1]["norm_1/moving_mean"] == 3).all()
    assert not np.allclose(model(images), other(images))
    models.set_weights(model, trainable, state)
    assert (np.asarray(model(images)) == np.asarray(other(images))).all()


def test_weights_of_another_network_are_refused():
    trainable, state = models.weights(models.build("small_cnn", Look((8, 8, 1), 10), seed=0))
    model = models.build("small_cnn", LOOK, seed=0)
    with pytest.raises(UserError, match="output/kernel; expected"):
        models.set_weights(model, trainable, state)
    with pytest.raises(UserError, match="received None for conv_1/kernel"):
        models.set_weights(model, {}, state)


OWN = """
import keras

def build(input_shape, classes):
    return keras.Sequential([
        keras.Input(input_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(classes, activation="softmax", name="only"),
    ])
"""


def own(tmp_path, text):
    path = tmp_path / "own.py"
    path.write_text(text)
    return path, run_names.token("own", model_files.digest(path))


def test_the_users_own_model(tmp_path):
    path, token = own(tmp_path, OWN)
    first = models.build(token, LOOK, 0, path)
    assert list(models.weights(first)[0]) == ["only/kernel", "only/bias"]
    again = models.build(token, LOOK, 0, path)
    assert (models.weights(first)[0]["only/kernel"] == again.weights[0].numpy()).all()
    flat, only = models.layers(first)
    assert flat[1:] == ((64,), 0) and only == ("only (Dense)", (3,), 195)


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
HEAD = "import keras\nfrom keras import layers\n"
BODY = "def build(input_shape, classes):\n    return "
FLAT, OUTPUT = "keras.Input(input_shape), layers.Flatten()", "own.py: gives output"


def of(layers):
    return f"{HEAD}{BODY}keras.Sequential([{layers}])\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"own.py: expected a function build\(input_shape, classes\)"),
        ("raise RuntimeError('no')\n", "own.py:1: cannot be imported: RuntimeError: no"),
        ("import sys\nsys.exit()\n", "own.py:2: cannot be imported: SystemExit"),
        ("import keras\nimport absent\n", "own.py:2: cannot be imported: ModuleNotFoundError"),
        ("def build():\n    pass\n", "own.py: cannot be built .*: TypeError: build"),
        (f"{HEAD}{BODY}1 / 0\n", "own.py:4: cannot be built .*: ZeroDivisionError"),
        (f"{HEAD}{BODY}None\n", "own.py: received NoneType; build must return a keras"),
        (
            f"{HEAD}class Net(keras.Model):\n    def call(self, images):\n        "
            f"return images @ 7\n{BODY}Net()\n",
            r"own.py:5: cannot be built for examples \(8, 8, 1\): \w+Error: ",
        ),
        (
            SUBCLASSED.replace("        return", "        assert not training\n        return", 1),
            r"own.py:14: cannot be called on examples \(8, 8, 1\): AssertionError$",
        ),
        (
            f"{HEAD}class Net(keras.Model):\n    pass\n{BODY}Net()\n",
            r"own.py: cannot be built .*: NotImplementedError: Model Net does not have a `call",
        ),
        (
            of('layers.Flatten(), layers.Dense(classes, activation="sigmoid")'),
            "own.py: received 3 sigmoid units; expected one sigmoid unit for two classes, else ",
        ),
        (
            of("keras.Input((9, 8, 1)), layers.Flatten(), layers.Dense(classes)"),
            r"own.py: takes input \(None, 9, 8, 1\); expected one input \(None, 8, 8, 1\)",
        ),
        (of("layers.Dense(classes)"), rf"{OUTPUT} \(None, 8, 8, 3\); expected \(None, 3\)"),
        (of(f"{FLAT}, layers.Dense(7)"), rf"{OUTPUT} \(None, 7\); expected \(None, 3\)"),
        (of(f"{FLAT}, layers.Dense(1)"), rf"{OUTPUT} \(None, 1\); expected \(None, 3\)"),
        (of("keras.Input(input_shape), layers.Dense(classes)"), rf"{OUTPUT} \(None, 8, 8, 3\)"),
        (
            of(
                "keras.Input(input_shape), layers.Conv2D(3, 8), layers.Flatten(), "
                "layers.Softmax(), layers.Rescaling(1.0)"
            ),
            "own.py: received probabilities without their logits",
        ),
        (
            of(
                "keras.Input((8, 8, 1)), layers.AveragePooling2D((8, 8)), layers.Flatten(), "
                "layers.Lambda(lambda x: keras.ops.repeat(x, 3, -1))"
            ),
            "own.py: has no trainable weights",
        ),
    ],
)
def test_faults_of_a_users_file_name_the_file(tmp_path, text, message):
    path, token = own(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        models.build(token, LOOK, 0, path)
    assert "\n" not in str(caught.value)


def test_a_users_file_that_changed_or_is_gone_is_refused(tmp_path):
    path, token = own(tmp_path, OWN)
    path.write_text(OWN + "# more\n")
    with pytest.raises(UserError, match="own.py: changed since the runs of own-"):
        models.build(token, LOOK, 0, path)
    with pytest.raises(UserError, match=r"models.own: received None; expected an existing .py"):
        models.build(token, LOOK, 0, None)


NO_INPUT = OWN.replace("keras.Input(input_shape),", "")


@pytest.mark.parametrize("text", [SUBCLASSED, NO_INPUT])
def test_a_model_without_an_input_is_called_on_one_of_the_datas_shape(tmp_path, text):
    path, token = own(tmp_path, text)
    first = models.build(token, LOOK, 0, path)
    assert first.input_shape == (None, 8, 8, 1) and first.output_shape == (None, 3)
    trainable, state = models.weights(first)
    kernel = next(key for key in trainable if key.endswith("kernel"))
    assert trainable[kernel].shape == (64, 3)
    assert_same((trainable, state), models.weights(models.build(token, LOOK, 0, path)))
    images = np.random.default_rng(0).random((5, 8, 8, 1), np.float32)
    outputs = first(images)
    assert np.allclose(keras.ops.softmax(losses.logits(outputs)), outputs)
    # Batch normalisation trains, dropout drops: the mode of the whole reaches its layers.
    if text is SUBCLASSED:
        assert len(state) == 2
        assert not np.allclose(first(images, training=True), outputs)
        assert not (models.weights(first)[1][list(state)[0]] == state[list(state)[0]]).all()


@pytest.mark.parametrize("text", [OWN, SUBCLASSED, NO_INPUT])
def test_every_variable_is_made_in_the_given_scope(tmp_path, text):
    made = []

    def create(following, **arguments):
        made.append(following(**arguments))
        return made[-1]

    path, token = own(tmp_path, text)
    model = models.build(token, LOOK, 0, path, tf.variable_creator_scope(create))
    assert len(made) == len(model.variables) > 0


@pytest.mark.parametrize(
    ("last", "message"),
    [
        # Two sigmoids of 0 sum to 1, as a softmax does.
        ('Dense(classes, activation="sigmoid", kernel_initializer="zeros"', "2 sigmoid units"),
        ('Dense(1, activation="softmax"', "a softmax over one unit"),
    ],
)
def test_units_that_are_not_those_of_two_classes_are_refused(tmp_path, last, message):
    path, token = own(tmp_path, OWN.replace('Dense(classes, activation="softmax"', last))
    with pytest.raises(UserError, match=f"own.py: received {message}"):
        models.build(token, Look((8, 8, 1), 2), 0, path)


BESIDE = """
import keras
from {module} import UNITS, last

def build(input_shape, classes):
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(UNITS), last(classes)])
"""
LAST = "import keras\nUNITS = 5\ndef last(classes):\n    return keras.layers.Dense(classes)\n"


@pytest.mark.parametrize("module", ["blocks", "nets", "nets.blocks", "folder.blocks"])
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
    with pytest.raises(UserError, match="own.py: changed since .* or a module that it imports"):
        models.build(token, LOOK, 0, path)
    path, token = own(tmp_path, BESIDE.format(module=module))
    assert models.build(token, LOOK, 0, path).count_params() == 64 * 7 + 7 + 7 * 3 + 3


def test_what_the_digest_does_not_cover_cannot_be_imported(tmp_path):
    (tmp_path / "blocks.py").write_text(LAST)
    path, token = own(tmp_path, "import importlib\nimportlib.import_module('blocks')\n" + OWN)
    with pytest.raises(UserError, match="own.py:2: cannot be imported: ModuleNotFoundError"):
        models.build(token, LOOK, 0, path)


def test_an_error_in_a_neighbour_names_its_line(tmp_path):
    (tmp_path / "blocks.py").write_text(LAST.replace("return ", "return 1 / 0 + "))
    path, token = own(tmp_path, BESIDE.format(module="blocks"))
    with pytest.raises(UserError, match="blocks.py:4: cannot be built .*: ZeroDivisionError"):
        models.build(token, LOOK, 0, path)


def test_one_unit_is_enough_for_two_classes(tmp_path):
    path, token = own(tmp_path, OWN.replace('Dense(classes, activation="softmax"', "Dense(1"))
    assert models.build(token, Look((8, 8, 1), 2), 0, path).output_shape == (None, 1)
