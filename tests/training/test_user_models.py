"""Models as users write them: each trains as its file says, or is refused in one line."""

import numpy as np
import pytest

from batchscope import datasets
from batchscope.core.errors import TrainsItself, UserError
from batchscope.host import tensorflow_start
from batchscope.study import dataset_definitions
from own_model import changed, of, own, subclass, token

tensorflow_start.start()

import keras

from batchscope.datasets.model_inputs import ImageScaling, ModelInput
from batchscope.training import model_checks, models, runs, trainer
from digit_runs import run_name

KEY = "datasets.own.scale"
IMAGES = ModelInput((8, 8, 3), 3, scaling=ImageScaling(1 / 255, False, KEY))
RAW = IMAGES._replace(scaling=ImageScaling(1.0, True, KEY))
FLOATS = IMAGES._replace(scaling=ImageScaling(1.0, False, KEY))
ROWS, PAIR = ModelInput((4,), 3, "rows"), ModelInput((4,), 2, "rows")
TARGETS, LABELS = ROWS._replace(task="regression"), ROWS._replace(task="multi_label")
END, ONE = "layers.Flatten(), layers.Dense(classes)", "layers.Dense(1)"
ADAPTED = of(f"norm, {END}").replace(
    "return",
    "norm = layers.Normalization(); "
    "norm.adapt(keras.random.uniform((9, *input_shape), 0, 255)); return",
)


def problem(folder, text, model_input):
    path, name = own(folder, text)
    with pytest.raises(UserError, match=r"own\.py") as caught:
        model_checks.check(name, model_input, path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def notes(folder, text, model_input):
    path, name = own(folder, text)
    return model_checks.check(name, model_input, path)


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
    (line,) = notes(tmp_path, SCALING[layer], IMAGES)
    assert layer in line and "raw values" in line
    path, name = own(tmp_path, SCALING[layer])
    scaled, unscaled = (models.build(name, look, 0, path) for look in (IMAGES, RAW))
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3)).astype(np.float32)
    assert np.allclose(scaled(images * np.float32(1 / 255)), unscaled(images), atol=1e-5)
    assert list(models.weights(scaled)[0]) == list(models.weights(unscaled)[0])
    # A definition with a `scale` is what the user asks for. Floats have none.
    for look in (RAW, FLOATS):
        assert notes(tmp_path, SCALING[layer], look) == []


@pytest.mark.parametrize(
    "text",
    [
        of(f"layers.Rescaling(1.0), {END}"),
        of(f"layers.Rescaling(2.0, -1), {END}"),
        of(f"layers.Normalization(mean=0.5, variance=0.1), {END}"),
        of(f"layers.Conv2D(2, 3), layers.Rescaling(1 / 255), {END}"),
        of(f"layers.RandomFlip(), layers.Dropout(0.5), layers.LayerNormalization(), {END}"),
        subclass("self.out(self.flat(x))"),  # which never calls its Rescaling
    ],
)
def test_a_layer_that_does_not_scale_bytes(text, tmp_path):
    assert notes(tmp_path, text, IMAGES) == []


def test_rows_are_standardised_already(tmp_path):
    for layer in ("Rescaling(2.0)", "Normalization(mean=3.0, variance=4.0)"):
        assert layer.partition("(")[0] in problem(tmp_path, of(f"layers.{layer}, {END}"), ROWS)
    assert notes(tmp_path, of(f"layers.BatchNormalization(), {END}"), ROWS) == []


@pytest.mark.parametrize("method", ["train_step", "compute_loss"])
def test_a_class_that_defines_its_updates(method, tmp_path):
    path, name = own(tmp_path, subclass("self.out(x)", f"def {method}(self, *_): return {{}}"))
    with pytest.raises(TrainsItself, match=rf"own\.py: Net\.{method} "):
        models.build(name, IMAGES, 0, path)


@pytest.mark.parametrize(
    ("model_input", "last", "expected", "received"),
    [
        (TARGETS, ONE, "(None, 3)", "(None, 1)"),
        (ROWS, ONE, "(None, 3)", "(None, 1)"),
        (PAIR, "layers.Dense(3)", "(None, 2) or (None, 1)", "(None, 3)"),
        (LABELS, "layers.Dense(2)", "(None, 3)", "(None, 2)"),
        (IMAGES, "layers.Dense(3)", "(None, 3)", "(None, 8, 8, 3)"),
    ],
)
def test_an_output_that_does_not_fit_the_task(model_input, last, expected, received, tmp_path):
    message = problem(tmp_path, of(last), model_input)
    assert all(part in message for part in (expected, received, model_input.task))


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
    assert "(8, 8, 3)" in problem(tmp_path, text, IMAGES) or "output" in problem(
        tmp_path, text, IMAGES
    )


def test_an_error_of_the_first_step_names_the_line(tmp_path):
    text = subclass("self.out(self.flat(x)) if not training else self.flat(None)")
    assert problem(tmp_path, text, IMAGES).startswith(f"{tmp_path}/own.py:11: ")


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
    compiled, new_weights = model_checks.check(token(path), IMAGES, path)
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


def test_the_optimizer_of_a_saved_model_is_known(tmp_path):
    usual, sgd = "sparse_categorical_crossentropy", keras.optimizers.SGD(0.5, momentum=0.8)
    path = saved(tmp_path, keras.layers.Flatten(), loss=usual, optimizer=sgd)
    optimizer = models.build(token(path), IMAGES, 0, path).optimizer
    assert type(optimizer) is keras.optimizers.SGD and optimizer.momentum == 0.8
    path = saved(tmp_path, keras.layers.Flatten())
    assert models.build(token(path), IMAGES, 0, path).optimizer is None
    own = OwnOptimizer(0.5)
    path = saved(tmp_path, keras.layers.Flatten(), loss=usual, optimizer=own)
    assert models.build(token(path), IMAGES, 0, path).optimizer is None


SCRIPT = """
import keras
model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(3)])
model.compile("sgd")
"""


def test_a_script_with_a_model_at_the_top_level(tmp_path):
    path, name = own(tmp_path, SCRIPT)
    created = [models.build(name, IMAGES, seed, path) for seed in (0, 0, 1)]
    first, again, other = (model.weights[0].numpy() for model in created)
    assert (first == again).all() and (first != other).any()
    assert type(created[0].optimizer) is keras.optimizers.SGD
    assert "build(input_shape, classes)" in problem(tmp_path, "model = 'small_cnn'", IMAGES)


def test_a_script_that_trains_when_it_is_imported(tmp_path):
    fit = "model.fit(keras.ops.zeros((2, 8, 8, 3)), keras.ops.zeros((2, 3)))"
    text = SCRIPT.replace('("sgd")', '("sgd", "mse")')
    assert "own.py:5: " in (message := problem(tmp_path, f"{text}{fit}\n", IMAGES))
    assert "__main__" in message and keras.Model.fit.__name__ == "fit"
    path, name = own(tmp_path, f"{text}def train():\n    {fit}\n")
    assert models.build(name, IMAGES, 0, path)


def test_weights_beside_that_changed(tmp_path):
    weights = tmp_path / "old.weights.h5"
    created = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(3)]
    )
    created.save_weights(weights)
    text = changed(END, "model.load_weights(Path(__file__).with_name('old.weights.h5'))")
    path, name = own(tmp_path, f"from pathlib import Path\n{text}")
    built = models.build(name, IMAGES, 0, path)
    assert (built.weights[0].numpy() == created.weights[0].numpy()).all()
    created.weights[0].assign(created.weights[0] + 1)
    created.save_weights(weights)
    with pytest.raises(UserError, match=r"own\.py: The file, or one"):
        models.build(name, IMAGES, 0, path)


def test_a_file_that_loads_a_trained_model(tmp_path):
    kept = keras.saving.load_model(saved(tmp_path, loss="sparse_categorical_crossentropy"))
    kept.fit(np.zeros((2, 8, 8, 3)), np.zeros(2), verbose=0)
    kept.save(tmp_path / "mine.keras")
    text = (
        "import keras\nfrom pathlib import Path\ndef build(shape, classes):\n"
        "    return keras.saving.load_model(Path(__file__).with_name('mine.keras'))\n"
    )
    path, name = own(tmp_path, text)
    model_checks.check(name, IMAGES, path)
    built = models.build(name, IMAGES, 0, path)
    assert (built.weights[0].numpy() == kept.weights[0].numpy()).all()


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
