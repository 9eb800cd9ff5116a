"""Built-in networks: functions from the input tensor, classes and activation to the output tensor.

A new network is a function here, an item of `BUILDERS`, and an item of `NETWORKS` in
`study.tasks` (kinds of examples, smallest side). The last layer has `classes` units with the
activation: softmax for classes, sigmoid for several labels, linear for numbers. Every layer has a
name, so that the paths of variables do not depend on other models of the process. The docstring
states the source and our choices where the source leaves them open. The rest is Keras's default.
"""

from collections.abc import Callable

import keras
from keras import layers

from batchscope.study import tasks

Tensor = keras.KerasTensor
SOFTMAX = "softmax"
ACTIVATIONS = {
    tasks.CLASSIFICATION: SOFTMAX,
    tasks.REGRESSION: "linear",
    tasks.MULTI_LABEL: "sigmoid",
}


def small_cnn(x: Tensor, classes: int, activation: str) -> Tensor:
    """6,058 parameters at 8x8x1 with 10 classes. Strides replace pooling, which is slow on CPUs."""
    x = layers.Conv2D(8, 3, 2, padding="same", activation="relu", name="conv_1")(x)
    x = layers.Conv2D(16, 3, 2, padding="same", activation="relu", name="conv_2")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(64, activation="relu", name="dense_1")(x)
    return _output(classes, activation)(x)


def campbell_cnn(x: Tensor, classes: int, activation: str) -> Tensor:
    """270,006 parameters at 28x28x1 with 10 classes.

    Every kernel and bias is drawn from RandomNormal. Chosen here: 16 and 32 filters, no padding,
    dropout rates 0.25 and 0.5. The document's random seed of 1000 is `seeds: [1000]`.

    Source: D. Campbell, "Impact of Batch Size on Performance of TensorFlow Based Convolutional
    Neural Networks", section III and figure 2.
    """
    normal = {"kernel_initializer": "random_normal", "bias_initializer": "random_normal"}
    x = layers.Conv2D(16, 4, activation="relu", name="conv_1", **normal)(x)
    x = layers.MaxPooling2D(2, name="pool_1")(x)
    x = layers.Conv2D(32, 4, activation="relu", name="conv_2", **normal)(x)
    x = layers.MaxPooling2D(2, name="pool_2")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dropout(0.25, name="dropout_1")(x)
    x = layers.Dense(500, activation="relu", name="dense_1", **normal)(x)
    x = layers.Dropout(0.5, name="dropout_2")(x)
    return _output(classes, activation, **normal)(x)


def chang_vgg(x: Tensor, classes: int, activation: str) -> Tensor:
    """353,161 parameters at 128x128x3 with two classes. More classes get a softmax.

    Source: D. Chang and A. Pathak, "Effect of Batch Size on Neural Net Training", figure 4.
    """
    for index, filters in enumerate((4, 8, 16, 32, 64), 1):
        name = f"conv_{index}"
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=name)(x)
        x = layers.MaxPooling2D(2, name=f"pool_{index}")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(256, activation="relu", name="dense_1")(x)
    x = layers.Dense(256, activation="relu", name="dense_2")(x)
    return _output(classes, activation, one_sigmoid=True)(x)


def lheureux_cnn(x: Tensor, classes: int, activation: str) -> Tensor:
    """40,961,153 parameters at 200x200x3 with two classes. More classes get a softmax.

    Source: A. Lheureux, listing `get_accuracy_for_batch_size` in the article on how to maximise GPU
    utilisation by the batch size.
    """
    he = {"activation": "relu", "kernel_initializer": "he_uniform"}
    x = layers.Conv2D(32, 3, padding="same", name="conv_1", **he)(x)
    x = layers.MaxPooling2D(2, name="pool_1")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(128, name="dense_1", **he)(x)
    return _output(classes, activation, one_sigmoid=True)(x)


def benchmark_cnn(x: Tensor, classes: int, activation: str) -> Tensor:
    """2,131,538 trainable parameters at 256x256x3 with 10 classes.

    Chosen here: 3x3 same convolutions, the first with 8 filters and no activation, then 8, 16, 32
    and 64; dense layers of 128 and 64 tanh units and a softmax.

    Source: the blog post "Batch Size Benchmarking" of 2019-03-11, which names no author.
    """
    x = layers.Conv2D(8, 3, padding="same", name="conv_1")(x)
    for index, filters in enumerate((8, 16, 32, 64), 2):
        x = layers.Conv2D(filters, 3, padding="same", name=f"conv_{index}")(x)
        x = layers.BatchNormalization(name=f"norm_{index}")(x)
        x = layers.Activation("tanh", name=f"tanh_{index}")(x)
        x = layers.MaxPooling2D(2, name=f"pool_{index}")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(128, activation="tanh", name="dense_1")(x)
    x = layers.Dense(64, activation="tanh", name="dense_2")(x)
    return _output(classes, activation)(x)


def keskar_f1(x: Tensor, classes: int, activation: str) -> Tensor:
    """1,462,794 trainable parameters at 28x28x1 with 10 classes.

    Source: network F1 of N. S. Keskar et al., "On Large-Batch Training for Deep Learning:
    Generalization Gap and Sharp Minima", arXiv 1609.04836.
    """
    return _keskar_network(x, classes, activation, normalised=True)


def keskar_f1_plain(x: Tensor, classes: int, activation: str) -> Tensor:
    """F1 without batch normalisation, not in the paper: 1,457,674 parameters at 28x28x1.

    Its sharpness does not depend on batch statistics.
    """
    return _keskar_network(x, classes, activation, normalised=False)


def _keskar_network(x: Tensor, classes: int, activation: str, normalised: bool) -> Tensor:
    x = layers.Flatten(name="flatten")(x)
    for index in range(1, 6):
        x = layers.Dense(512, name=f"dense_{index}")(x)
        if normalised:
            x = layers.BatchNormalization(name=f"norm_{index}")(x)
        x = layers.Activation("relu", name=f"relu_{index}")(x)
    return _output(classes, activation)(x)


def tutorial_cnn(x: Tensor, classes: int, activation: str) -> Tensor:
    """54,410 parameters at 28x28x1 with 10 classes.

    Source: "Why does TensorFlow training on mini-batches sometimes become slower?" (2025),
    examples 1 and 2.
    """
    x = layers.Conv2D(32, 3, activation="relu", name="conv_1")(x)
    x = layers.MaxPooling2D(2, name="pool_1")(x)
    x = layers.Flatten(name="flatten")(x)
    return _output(classes, activation)(x)


def mlp(x: Tensor, classes: int, activation: str) -> Tensor:
    """Rows of numbers: 20,738 parameters at 30 features with two classes.

    The baseline of Y. Gorishniy et al. 2021, "Revisiting Deep Learning Models for Tabular Data",
    arXiv 2106.11959. Chosen here: two layers of 128, without dropout.
    """
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(128, activation="relu", name="dense_1")(x)
    x = layers.Dense(128, activation="relu", name="dense_2")(x)
    return _output(classes, activation)(x)


class AddPositions(layers.Layer):
    """Add a trained vector to each position of a sequence."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        shape = input_shape[1:]
        self.positions = self.add_weight(shape, initializer="uniform", name="positions")

    def call(self, inputs: Tensor) -> Tensor:
        return inputs + self.positions


def tiny_transformer(x: Tensor, classes: int, activation: str) -> Tensor:
    """Tokens: 244,700 parameters at a length of 32 with 92 tokens.

    The decoder of A. Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762, in the
    order of GPT-2 (A. Radford et al. 2019), which normalises before each part and in the end.
    Chosen here: two layers of width 96, 4 heads, no dropout, no shared weights.
    """
    width, heads = 96, 4
    x = layers.Embedding(classes, width, name="embedding")(x)
    x = AddPositions(name="positions")(x)
    for block in (1, 2):
        y = layers.LayerNormalization(name=f"attention_norm_{block}")(x)
        attention = layers.MultiHeadAttention(heads, width // heads, name=f"attention_{block}")
        x = layers.Add(name=f"attention_sum_{block}")([x, attention(y, y, use_causal_mask=True)])
        y = layers.LayerNormalization(name=f"dense_norm_{block}")(x)
        y = layers.Dense(4 * width, activation="gelu", name=f"expand_{block}")(y)
        y = layers.Dense(width, name=f"contract_{block}")(y)
        x = layers.Add(name=f"dense_sum_{block}")([x, y])
    x = layers.LayerNormalization(name="output_norm")(x)
    return _output(classes, activation)(x)


def _output(
    classes: int, activation: str, one_sigmoid: bool = False, **options: str
) -> layers.Layer:
    """Return the last layer. `one_sigmoid` replaces a softmax of two units by one sigmoid unit."""
    if one_sigmoid and classes == 2 and activation == SOFTMAX:
        classes, activation = 1, "sigmoid"
    return layers.Dense(classes, activation=activation, name="output", **options)


BUILDERS: dict[str, Callable[[Tensor, int, str], Tensor]] = {
    build.__name__: build
    for build in (
        *(small_cnn, campbell_cnn, chang_vgg, lheureux_cnn, benchmark_cnn),
        *(keskar_f1, keskar_f1_plain, tutorial_cnn, mlp, tiny_transformer),
    )
}
