"""Model files as a user may write them."""

from __future__ import annotations

from batchscope.study import model_files, names

HEAD = "import keras\nfrom keras import layers\n"
BODY = "def build(input_shape, classes):\n    return "


def own(folder, text):
    """Writes a model file; returns it and its id."""
    path = folder / "own.py"
    path.write_text(text)
    return path, token(path)


def token(path):
    return names.token("own", model_files.digest(path))


def of(layers):
    return f"{HEAD}{BODY}keras.Sequential([{layers}])\n"


def changed(layers, *lines):
    """A Sequential `model`, and what is done to it before it is returned."""
    made = f"model = keras.Sequential([keras.Input(input_shape), {layers}])"
    return f"{HEAD}def build(input_shape, classes):\n" + "".join(
        f"    {line}\n" for line in (made, *lines, "return model")
    )


def subclass(called, methods="pass"):
    """A subclassed model, given what its `call` returns and other methods."""
    return f"""{HEAD}
class Net(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.flat, self.scale = layers.Flatten(), layers.Rescaling(1 / 255)
        self.mix, self.out = layers.MultiHeadAttention(2, 4), layers.Dense(classes)

    def call(self, x, training=False):
        return {called}

    {methods}

{BODY}Net(classes)
"""
