"""Models as users write them: each is trained right, or refused in one line."""

import zipfile

import numpy as np
import pytest

from batchscope import datasets
from batchscope.errors import UserError
from batchscope.host import tensorflow_start
from batchscope.study import dataset_definitions
from own_model import changed, of, own, subclass, token

tensorflow_start.start()

import keras

from batchscope.datasets.model_inputs import ImageScaling, ModelInput
from batchscope.training import models, runs, trainer
from digit_runs import run_name

KEY = "datasets.own.scale"
IMAGES = ModelInput((8, 8, 3), 3, scaling=ImageScaling(1 / 255, False, KEY))
RAW = IMAGES._replace(scaling=ImageScaling(1.0, True, KEY))
FLOATS = IMAGES._replace(scaling=ImageScaling(1.0, False, KEY))
DIGITS = IMAGES._replace(scaling=ImageScaling(1 / 16, False, ""))
ROWS, PAIR = ModelInput((4,), 3, "rows"), ModelInput((4,), 2, "rows")
TARGETS, LABELS = ROWS._replace(task="regression"), ROWS._replace(task="multi_label")
END, ONE = "layers.Flatten(), layers.Dense(classes)", "layers.Dense(1)"
SIGMOID = "layers.Dense(classes, activation='sigmoid')"
NORM = "norm = layers.Normalization()"
BYTES = "keras.random.uniform((9, *input_shape), 0, 255)"
ADAPTED = of(f"norm, {END}").replace("return", f"{NORM}; norm.adapt({BYTES}); return")


def fault(folder, text, look):
    path, name = own(folder, text)
    with pytest.raises(UserError, match=r"own\.py") as caught:
        models.build(name, look, 0, path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def note(folder, text, look, capsys):
    path, name = own(folder, text)
    models.build(name, look, 0, path)
    return capsys.readouterr().err


SCALING = {
    "Rescaling 'r": of(f"layers.Rescaling(1 / 255), {END}"),
    "Normalization 'n": of(f"layers.Normalization(mean=[99.] * 3, variance=[9.] * 3), {END}"),
    "'normalization": ADAPTED,
    "Lambda": of(f"layers.Lambda(lambda x: x / 127.5 - 1), {END}"),
    "'rescaling": of(
        "keras.Input(input_shape), layers.RandomFlip(), layers.Resizing(16, 16), "
        "keras.Sequential([layers.CenterCrop(4, 4), layers.Rescaling(1 / 127.5, -1)]), "
        f"layers.ZeroPadding2D(9), layers.Conv2D(2, 3), {END}"
    ),
    "division": subclass("self.out(self.flat(x / 255.0))"),
    "addition": subclass("self.out(self.flat(keras.applications.vgg16.preprocess_input(x)))"),
    "uint8": of(f"keras.Input(input_shape, dtype='uint8'), layers.Rescaling(1 / 255), {END}"),
}


@pytest.mark.parametrize("what", SCALING)
def test_scaling_at_the_input_of_images_that_arrive_scaled(what, tmp_path, capsys):
    message = fault(tmp_path, SCALING[what], IMAGES)
    assert what in message and "1/255" in message and f"`{KEY}: 1`" in message
    message = fault(tmp_path, SCALING[what], DIGITS)
    assert what in message and "1/16" in message and KEY not in message
    # What is stated is what the user wants, and floats arrive as they are.
    for look in (RAW, FLOATS):
        assert "times 1" in note(tmp_path, SCALING[what], look, capsys)


@pytest.mark.parametrize(
    "text",
    [
        of(f"layers.Rescaling(1.0), {END}"),
        of(f"layers.Conv2D(2, 3), layers.Rescaling(1 / 255), {END}"),
        of(
            "layers.RandomFlip(), layers.RandomRotation(0.1), layers.RandomContrast(0.2), "
            "layers.RandomBrightness(0.2, value_range=(0, 1)), layers.RandomZoom(0.1), "
            f"layers.Resizing(6, 6), layers.CenterCrop(4, 4), layers.ZeroPadding2D(5), {END}"
        ),
        of(f"layers.LayerNormalization(), layers.Dropout(0.5), {END}"),
        subclass("self.out(self.flat(self.mix(*[keras.ops.reshape(x, (-1, 8, 24))] * 2)))"),
    ],
)
def test_what_is_no_scaling_of_the_input(text, tmp_path, capsys):
    for look in (IMAGES, DIGITS, FLOATS):
        assert note(tmp_path, text, look, capsys) == ""


def test_scaling_of_numbers_from_0_to_1_is_said_and_kept(tmp_path, capsys):
    for scaling, weights in (("2.0, -1", "0.007843 x -1"), ("1.0, -0.5", "0.003922 x -0.5")):
        text = of(f"layers.Rescaling({scaling}), {END}")
        assert weights in note(tmp_path, text, IMAGES, capsys)


def test_rows_are_standardised_already(tmp_path, capsys):
    for layer in ("Rescaling(2.0)", "Normalization(mean=3.0, variance=4.0)"):
        assert layer.partition("(")[0] in fault(tmp_path, of(f"layers.{layer}, {END}"), ROWS)
    assert note(tmp_path, of(f"layers.BatchNormalization(), {END}"), ROWS, capsys) == ""


@pytest.mark.parametrize("method", ["train_step", "compute_loss", "make_train_function", "fit"])
def test_updates_of_a_models_own(method, tmp_path):
    override = f"def {method}(self, *given, **more): return {{}}"
    text = subclass("self.out(self.flat(x))", override)
    assert f"Net.{method}" in fault(tmp_path, text, IMAGES)
    # One that is never called itself, such as a generator and a discriminator.
    assert f"Net.{method}" in fault(tmp_path, text.replace("def call(", "def other("), IMAGES)
    assert method in fault(tmp_path, changed(END, f"model.{method} = print"), IMAGES)
    # What evaluates is not called either, and changes no weight.
    other = text.replace(f"def {method}", "def test_step")
    assert models.build(own(tmp_path, other)[1], IMAGES, 0, tmp_path / "own.py")


@pytest.mark.parametrize(
    ("look", "last", "loss"),
    [
        (IMAGES, END, "'sparse_categorical_crossentropy', metrics=['accuracy'], optimizer='adam'"),
        (IMAGES, END, "[keras.losses.CategoricalCrossentropy(from_logits=True)]"),
        (PAIR, ONE, "'binary_crossentropy'"),
        (TARGETS, END, "keras.losses.Huber()"),
        (LABELS, SIGMOID, "'bce'"),
    ],
)
def test_a_compiled_loss_that_is_the_tasks_own(look, last, loss, tmp_path, capsys):
    text = changed(last, f"model.compile(loss={loss})")
    assert "compile(" in note(tmp_path, text, look, capsys)


CLASS = "keras.losses.CategoricalCrossentropy"


@pytest.mark.parametrize(
    ("look", "last", "loss", "received", "hint"),
    [
        (PAIR, ONE, "'mse'", "mean_squared_error", "task: regression"),
        (TARGETS, END, "keras.losses.BinaryCrossentropy()", "Binary", "task: multi_label"),
        (TARGETS, END, "'log_cosh'", "log_cosh", ""),
        (IMAGES, END, "lambda y, p: p", "<lambda>", ""),
        (IMAGES, END, f"{CLASS}(label_smoothing=0.1)", "label_smoothing=0.1", ""),
        (IMAGES, END, f"{CLASS}(), loss_weights=[0.5]", "[0.5]", ""),
        (IMAGES, END, "'no_such_loss'", "no_such_loss", ""),
    ],
)
def test_a_compiled_loss_that_is_another(look, last, loss, received, hint, tmp_path):
    message = fault(tmp_path, changed(last, f"model.compile(loss={loss})"), look)
    assert received in message and hint in message


@pytest.mark.parametrize(
    ("look", "last", "received"),
    [
        (TARGETS, "layers.Dense(classes, activation='softmax')", "softmax"),
        (TARGETS, "layers.Dense(classes, activation='relu'), layers.Reshape((3,))", "relu"),
        (TARGETS, ONE, "(None, 1)"),
        (LABELS, f"{SIGMOID}, layers.Reshape((3,))", "probabilities"),
        (ROWS, SIGMOID, "task: multi_label"),
        (ROWS, ONE, "task: regression"),
        # Taken for a logit, it would always say the second class.
        (PAIR, "layers.Dense(1, activation='sigmoid'), layers.Reshape((1,))", "probabilities"),
    ],
)
def test_outputs_of_another_task(look, last, received, tmp_path):
    assert received in fault(tmp_path, of(last), look)


TWO = "two = keras.Input(input_shape)"


@pytest.mark.parametrize(
    "text",
    [
        changed(END, TWO, "model = keras.Model([model.input, two], model(two))"),
        changed(END, "model = keras.Model(model.input, [model.output] * 2)"),
        subclass("self.out(self.flat(x)), self.flat(x)"),
        subclass("self.out(self.flat(x))").replace("call(self, x,", "call(self, x, y,"),
    ],
)
def test_several_inputs_or_outputs(text, tmp_path):
    assert "(8, 8, 3)" in fault(tmp_path, text, IMAGES) or "output" in fault(tmp_path, text, IMAGES)


def test_a_precision_or_a_seed_that_the_file_sets(tmp_path, capsys):
    policy = changed(END, "keras.config.set_dtype_policy('mixed_bfloat16')")
    assert "precision: mixed_bfloat16" in fault(tmp_path, policy, IMAGES)
    assert keras.config.dtype_policy().name == "float32"
    layer = END.replace("(classes)", "(classes, dtype='float64')")
    assert note(tmp_path, of(layer), IMAGES, capsys) == ""
    seed = changed(END, "keras.utils.set_random_seed(42)")
    assert "seed" in note(tmp_path, seed, IMAGES, capsys)


SUFFIXES = pytest.mark.parametrize("suffix", [".keras", ".h5"])


def saved(folder, *parts, loss=None, suffix=".keras", optimizer="adam"):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((8, 8, 3)), *parts])
    model.add(keras.layers.Flatten(name="flat"))
    model.add(keras.layers.Dense(3, activation="softmax", name="out"))
    if loss:
        model.compile(optimizer, loss, metrics=["accuracy"])
    model.save(folder / f"mine{suffix}")
    return folder / f"mine{suffix}"


@SUFFIXES
def test_a_saved_model_is_an_architecture(suffix, tmp_path, capsys):
    parts = keras.layers.Conv2D(2, 3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)
    path = saved(tmp_path, *parts, loss="sparse_categorical_crossentropy", suffix=suffix)
    made = [models.build(token(path), IMAGES, seed, path) for seed in (0, 0, 1)]
    first, again, other = (models.weights(each)[0]["out/kernel"] for each in made)
    kept = keras.saving.load_model(path, compile=False).get_layer("out").kernel.numpy()
    assert (first == again).all() and (first != other).any() and (first != kept).any()
    assert f"mine{suffix}" in capsys.readouterr().err
    low = models.build(token(path), IMAGES, 0, path, precision="mixed_float16")
    assert low.get_layer("out").compute_dtype == "float16"


class Unknown(keras.layers.Layer):
    def call(self, x):
        return x


def unknown_loss(labels, outputs):
    return outputs


@SUFFIXES
@pytest.mark.parametrize(
    ("part", "loss", "received"),
    [
        (lambda: keras.layers.Lambda(lambda x: x), None, "Lambda"),
        (Unknown, None, "'Unknown'"),
        (keras.layers.Flatten, unknown_loss, "unknown_loss"),
        (keras.layers.Flatten, "mse", "mean_squared_error"),
        (lambda: keras.layers.Dense(2, trainable=False, name="still"), None, "'still'"),
        (lambda: keras.layers.Normalization(name="norm"), None, "'norm'"),
        (lambda: keras.layers.Rescaling(1 / 255), None, "Rescaling"),
    ],
)
def test_saved_models_that_are_refused(part, loss, received, suffix, tmp_path):
    path = saved(tmp_path, part(), loss=loss, suffix=suffix)
    with pytest.raises(UserError, match=rf"mine\{suffix}: ") as caught:
        models.build(token(path), IMAGES, 0, path)
    assert received in str(caught.value) and "\n" not in str(caught.value)


class OwnOptimizer(keras.optimizers.SGD):
    pass


@SUFFIXES
def test_the_optimizer_of_a_saved_model_is_known(suffix, tmp_path):
    usual, sgd = "sparse_categorical_crossentropy", keras.optimizers.SGD(0.5, momentum=0.8)
    path = saved(tmp_path, keras.layers.Flatten(), loss=usual, suffix=suffix, optimizer=sgd)
    optimizer = models.build(token(path), IMAGES, 0, path).optimizer
    assert type(optimizer) is keras.optimizers.SGD and optimizer.momentum == 0.8
    path = saved(tmp_path, keras.layers.Flatten(), suffix=suffix)
    assert models.build(token(path), IMAGES, 0, path).optimizer is None
    own = OwnOptimizer(0.5)
    path = saved(tmp_path, keras.layers.Flatten(), loss=usual, suffix=suffix, optimizer=own)
    assert models.build(token(path), IMAGES, 0, path).optimizer is None


SCRIPT = """
import keras
model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])
model.compile("sgd")
"""


def test_a_script_with_a_model_at_the_top_level(tmp_path):
    path, name = own(tmp_path, SCRIPT)
    made = [models.build(name, IMAGES, seed, path) for seed in (0, 0, 1)]
    first, again, other = (model.weights[0].numpy() for model in made)
    assert (first == again).all() and (first != other).any()
    assert type(made[0].optimizer) is keras.optimizers.SGD
    path, name = own(tmp_path, "model = 'small_cnn'")
    with pytest.raises(UserError, match=r"own\.py: build\(input_shape, classes\) or `model`"):
        models.build(name, IMAGES, 0, path)


def test_an_archive_that_is_no_model(tmp_path):
    with zipfile.ZipFile(tmp_path / "mine.keras", "w") as archive:
        archive.writestr("config.json", "[1]")
    with pytest.raises(UserError, match=r"mine\.keras: "):
        models.build(token(tmp_path / "mine.keras"), IMAGES, 0, tmp_path / "mine.keras")


def test_weights_beside_that_changed(tmp_path):
    weights = tmp_path / "old.weights.h5"
    made = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])
    made.save_weights(weights)
    text = changed(END, "model.load_weights(Path(__file__).with_name('old.weights.h5'))")
    path, name = own(tmp_path, f"from pathlib import Path\n{text}")
    built = models.build(name, IMAGES, 0, path)
    assert (built.weights[0].numpy() == made.weights[0].numpy()).all()
    made.weights[0].assign(made.weights[0] + 1)
    made.save_weights(weights)
    with pytest.raises(UserError, match=r"own\.py: changed since"):
        models.build(name, IMAGES, 0, path)


CONV = "layers.Conv2D(16, 3, activation='relu'), layers.Flatten(), layers.Dense(classes)"
SCALED = f"layers.Rescaling(1 / 255), {CONV}"
TRAINED = {
    "without an input": of(SCALED),
    "augmented": of(f"layers.RandomTranslation(.05, .05), {SCALED}"),
    "subclassed": subclass("self.out(self.flat(self.scale(x)))"),
    "adapted": ADAPTED.replace(END, CONV),
}


@pytest.mark.parametrize("which", TRAINED)
def test_they_learn_the_digits_as_bytes(which, tmp_path, digits):
    given = datasets.load(digits, run_name().partition("+")[0])
    arrays = {f"x_{part}": given.images(part) * 15 for part in ("train", "validation", "test")}
    arrays |= {f"y_{part}": given.labels(part) for part in ("train", "validation", "test")}
    np.savez(tmp_path / "own.npz", **arrays)
    definition = {"source": "npz", "path": str(tmp_path / "own.npz"), "scale": 1}
    data = dataset_definitions.token("own", definition)
    datasets.prepare(data, definition, tmp_path)
    path, name = own(tmp_path, TRAINED[which])
    factors = {"optimizer": "adam", "learning_rate": 0.003, "batch_size": 32, "epochs": 8}
    run = runs.TrainingRun(tmp_path, run_name(dataset=data, model=name, **factors), path)
    assert trainer.train(run) == "finished"
    rows = (run.folder / "history.csv").read_text().splitlines()
    last = dict(zip(rows[0].split(","), rows[-1].split(","), strict=True))
    assert float(last["validation_accuracy"]) > 0.8
