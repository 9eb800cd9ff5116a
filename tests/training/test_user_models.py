"""Models as users write them: each trains as its file says, or is refused in one line."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.core.errors import UserError
from batchscope.datasets.prepared import ImageScaling, ModelInput
from batchscope.training import models, trials
from own_model import BODY, HEAD, changed, of, own, subclass, token

KEY = "datasets.own.scale"
IMAGES = ModelInput((8, 8, 3), 3, scaling=ImageScaling(1 / 255, False, KEY))
RAW = IMAGES._replace(scaling=ImageScaling(1.0, True, KEY))
FLOATS = IMAGES._replace(scaling=ImageScaling(1.0, False, KEY))
ROWS, PAIR = ModelInput((4,), 3, "rows"), ModelInput((4,), 2, "rows")
TARGETS = ROWS._replace(task="regression")
TOKENS = ModelInput((6,), 11, "tokens")
SEQUENCES = ModelInput((6,), 3, "sequences", 10)
END, ONE = "layers.Flatten(), layers.Dense(classes)", "layers.Dense(1)"
ADAPTED = of(f"norm, {END}").replace(
    "return",
    "norm = layers.Normalization(); "
    "norm.adapt(keras.random.uniform((9, *input_shape), 0, 255)); return",
)


def problem(folder, text, model_input):
    path, name = own(folder, text)
    with pytest.raises(UserError, match=r"own\.py") as caught:
        trials.check_model(name, model_input, path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


SCALING = {
    "Rescaling 'r": of(f"layers.Rescaling(1 / 255), {END}"),
    "Normalization 'n": of(f"layers.Normalization(mean=[99.] * 3, variance=[9.] * 3), {END}"),
    "'normalization": ADAPTED,
    "'rescaling": of(
        "keras.Input(input_shape), layers.RandomFlip(), layers.Resizing(16, 16), "
        "keras.Sequential([layers.CenterCrop(4, 4), layers.Rescaling(1 / 127.5, -1)]), "
        f"layers.ZeroPadding2D(9), layers.Conv2D(2, 3), {END}"
    ),
    "Rescaling 'rescaling": subclass("self.out(self.flat(self.scale(x)))"),
}


@pytest.mark.parametrize("layer", SCALING)
def test_a_layer_that_scales_bytes_gets_them(layer, tmp_path):
    path, name = own(tmp_path, SCALING[layer])
    (note,) = trials.check_model(name, IMAGES, path)
    assert layer in note and "raw values" in note
    scaled, unscaled = (models.build(name, look, 0, path) for look in (IMAGES, RAW))
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3)).astype(np.float32)
    assert np.allclose(scaled(images * np.float32(1 / 255)), unscaled(images), atol=1e-5)
    assert list(models.weights(scaled)[0]) == list(models.weights(unscaled)[0])
    # A definition with a `scale` is what the user asks for. Floats have none.
    for look in (RAW, FLOATS):
        assert models.scaling_layer(unscaled, look) is None


@pytest.mark.parametrize(
    ("text", "model_input"),
    [
        (of(f"layers.Rescaling(1.0), {END}"), IMAGES),
        (of(f"layers.Normalization(mean=0.5, variance=0.1), {END}"), IMAGES),
        (of(f"layers.Conv2D(2, 3), layers.Rescaling(1 / 255), {END}"), IMAGES),
        (subclass("self.out(self.flat(x))"), IMAGES),  # which never calls its Rescaling
        (of(f"layers.BatchNormalization(), {END}"), ROWS),
    ],
)
def test_a_layer_that_does_not_scale_its_input(text, model_input, tmp_path):
    path, name = own(tmp_path, text)
    model = models.build(name, model_input, 0, path)
    assert models.scaling_layer(model, model_input) is None


@pytest.mark.parametrize("method", ["train_step", "compute_loss"])
def test_a_class_that_defines_its_updates(method, tmp_path):
    path, name = own(tmp_path, subclass("self.out(x)", f"def {method}(self, *_): return {{}}"))
    with pytest.raises(UserError, match=rf"own\.py: Net\.{method} "):
        models.build(name, IMAGES, 0, path)


PLAIN = subclass("self.out(self.flat(x))")
TWO = "two = keras.Input(input_shape)"
FLAT = "layers.Embedding(classes, 4), layers.Flatten(), layers.Dense(classes)"
FEW = "layers.Embedding(10, 4), layers.GlobalMaxPooling1D(), layers.Dense(classes)"
FAILING = PLAIN.replace("    return self", "    assert not training\n        return self")
OTHER_SHAPE = of("keras.Input((9, 8, 3)), layers.Flatten(), layers.Dense(classes)")


@pytest.mark.parametrize(
    ("text", "model_input", "parts"),
    [
        ("raise RuntimeError('no')\n", IMAGES, [":1: ", "built", "RuntimeError: no"]),
        ("import sys\nsys.exit()\n", IMAGES, [":2: ", "built", "SystemExit"]),
        (f"{HEAD}{BODY}None\n", IMAGES, ["own.py: ", "NoneType"]),
        ("model = 'small_cnn'", IMAGES, ["own.py: ", "build(input_shape, classes)"]),
        # Errors of the first step.
        (FAILING, IMAGES, [":11: ", "(8, 8, 3): AssertionError"]),
        (OTHER_SHAPE, IMAGES, ["own.py: ", "(8, 8, 3): ValueError: ", "(None, 192)"]),
        (of(FEW), SEQUENCES, ["own.py: ", "train", "10 is not in [0, 10)"]),
        # Outputs that do not fit the task.
        (of(ONE), TARGETS, ["(None, 3)", "(None, 1)", "regression"]),
        (of("layers.Dense(3)"), PAIR, ["(None, 2) or (None, 1)", "(None, 3)"]),
        (of(FLAT), TOKENS, ["(None, 6, 11)", "(None, 11)"]),
        (changed(END, "model.trainable = False"), IMAGES, ["own.py: ", "none"]),
        # Several inputs or outputs.
        (changed(END, TWO, "model = keras.Model([model.input, two], model(two))"), IMAGES, []),
        (changed(END, "model = keras.Model(model.input, [model.output] * 2)"), IMAGES, []),
        # Rows are standardised already.
        (of(f"layers.Rescaling(2.0), {END}"), ROWS, ["Rescaling"]),
        (of(f"layers.Normalization(mean=3.0, variance=4.0), {END}"), ROWS, ["Normalization"]),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(text, model_input, parts, tmp_path):
    message = problem(tmp_path, text, model_input)
    assert all(part in message for part in parts), message


def test_a_file_that_is_gone_is_refused(tmp_path):
    _, name = own(tmp_path, PLAIN)
    with pytest.raises(UserError, match=r"models.own: .*\(received None\)"):
        models.build(name, IMAGES, 0, None)


@pytest.mark.parametrize("text", [PLAIN, of(END)], ids=["subclassed", "sequential"])
def test_a_model_without_an_input_is_called_on_one_of_the_datas_shape(tmp_path, text):
    path, name = own(tmp_path, text)
    created = []

    def create(following, **arguments):
        created.append(following(**arguments))
        return created[-1]

    model = models.build(name, IMAGES, 0, path, tf.variable_creator_scope(create))
    assert len(created) == len(model.variables) > 0  # each in the given scope
    assert model.input_shape == (None, 8, 8, 3) and model.output_shape == (None, 3)


BESIDE = """
import keras
from nets import UNITS, last

def build(input_shape, classes):
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(UNITS), last(classes)])
"""
LAST = "import keras\nUNITS = 5\ndef last(classes):\n    return keras.layers.Dense(classes)\n"


def test_a_model_file_imports_its_neighbours(tmp_path):
    blocks = tmp_path / "nets" / "blocks.py"
    blocks.parent.mkdir()
    blocks.write_text(LAST)
    (tmp_path / "nets" / "__init__.py").write_text("from .blocks import UNITS, last\n")
    path, name = own(tmp_path, BESIDE)
    assert models.build(name, IMAGES, 0, path).count_params() == 192 * 5 + 5 + 5 * 3 + 3
    blocks.write_text(LAST.replace("5", "7"))
    with pytest.raises(UserError, match="own.py: The file, or one that it imports.*runs of own-"):
        models.build(name, IMAGES, 0, path)
    path, name = own(tmp_path, BESIDE)
    assert models.build(name, IMAGES, 0, path).count_params() == 192 * 7 + 7 + 7 * 3 + 3


def test_the_working_directory_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, name = own(tmp_path, "import os\nos.chdir('/')\n" + of(END))
    models.build(name, IMAGES, 0, path)
    assert models.build(name, IMAGES, 0, "own.py")


def saved(folder, *parts, loss=None, optimizer="adam"):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((8, 8, 3)), *parts])
    model.add(keras.layers.Flatten(name="flat"))
    model.add(keras.layers.Dense(3, activation="softmax", name="out"))
    if loss:
        model.compile(optimizer, loss, metrics=["accuracy"])
    model.save(folder / "mine.keras")
    return folder / "mine.keras"


def test_a_saved_model_is_an_architecture(tmp_path):
    parts = keras.layers.Conv2D(2, 3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)
    path = saved(tmp_path, *parts, loss="sparse_categorical_crossentropy")
    created = [models.build(token(path), IMAGES, seed, path) for seed in (0, 0, 1)]
    first, again, other = (models.weights(item)[0]["out/kernel"] for item in created)
    kept = keras.saving.load_model(path, compile=False).get_layer("out").kernel.numpy()
    assert (first == again).all() and (first != other).any() and (first != kept).any()
    compiled, new_weights = trials.check_model(token(path), IMAGES, path)
    assert "compile" in compiled and "weights" in new_weights
    low = models.build(token(path), IMAGES, 0, path, precision="mixed_float16")
    assert low.get_layer("out").compute_dtype == "float16"


class Unknown(keras.layers.Layer):
    def call(self, x):
        return x


@pytest.mark.parametrize(
    ("part", "received"),
    [(lambda: keras.layers.Lambda(lambda x: x), "Lambda"), (Unknown, "'Unknown'")],
)
def test_saved_models_whose_code_is_missing_are_refused(part, received, tmp_path):
    path = saved(tmp_path, part())
    with pytest.raises(UserError, match=r"mine\.keras: ") as caught:
        models.build(token(path), IMAGES, 0, path)
    assert received in str(caught.value) and "\n" not in str(caught.value)


class OwnOptimizer(keras.optimizers.SGD):
    pass


@pytest.mark.parametrize(
    ("loss", "kind", "momentum"),
    [("mse", keras.optimizers.SGD, 0.8), ("mse", OwnOptimizer, None), (None, OwnOptimizer, None)],
)
def test_the_optimizer_of_a_saved_model_is_known(loss, kind, momentum, tmp_path):
    path = saved(tmp_path, loss=loss, optimizer=kind(0.5, momentum=0.8))
    optimizer = models.build(token(path), IMAGES, 0, path).optimizer
    assert getattr(optimizer, "momentum", None) == momentum


SCRIPT = """
import keras
only = keras.layers.Dense(3, name="only")
model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), only])
model.compile("sgd")
"""


def test_a_script_with_a_model_at_the_top_level(tmp_path):
    path, name = own(tmp_path, SCRIPT)
    created = [models.build(name, IMAGES, seed, path) for seed in (0, 0, 1)]
    (first, state), (again, _), (other, _) = map(models.weights, created)
    assert list(first) == ["only/kernel", "only/bias"] and not state
    first, again, other = (weights["only/kernel"] for weights in (first, again, other))
    assert (first == again).all() and (first != other).any()
    assert type(created[0].optimizer) is keras.optimizers.SGD


def test_a_script_that_trains_when_it_is_imported(tmp_path):
    fit = "model.fit(keras.ops.zeros((2, 8, 8, 3)), keras.ops.zeros((2, 3)))"
    text = SCRIPT.replace('("sgd")', '("sgd", "mse")')
    assert "own.py:6: " in (message := problem(tmp_path, f"{text}{fit}\n", IMAGES))
    assert "__main__" in message and keras.Model.fit.__name__ == "fit"
    path, name = own(tmp_path, f"{text}def train():\n    {fit}\n")
    assert models.build(name, IMAGES, 0, path)
