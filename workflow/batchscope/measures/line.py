"""Loss and first metric along the straight line between two runs that start from the same weights
(Keskar et al. 2017, section 2.2.1).

The loss is f((1 - alpha) * x_small + alpha * x_large), as in figure 3 of Keskar et al. 2017 (arXiv
1609.04836) and figure 18 of Chang and Pathak. Alpha 0 is the run with the small batch, alpha 1 the
run with the large batch. The moving statistics of batch normalisation are estimated at every point,
because interpolated statistics do not belong to the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from batchscope.core import display, private_interfaces
from batchscope.core.errors import UserError
from batchscope.measures import Measured
from batchscope.study import tasks
from batchscope.study.model import Integer, Setting
from batchscope.study.specifications import (
    Between,
    Column,
    Examples,
    Figure,
    Measure,
    Panel,
    Table,
    TextColumn,
    WeightsSettings,
)

if TYPE_CHECKING:
    import keras

    from batchscope import datasets
    from batchscope.measures.measure_job import FinishedRun
    from batchscope.store.weights import Arrays

FIRST_POSITION, LAST_POSITION = -1.0, 2.0  # the small run is at 0, the large run at 1


class LineSettings(WeightsSettings):
    """Settings of `line`."""

    examples: Examples = 0
    """Examples of each split; 0 means `all`."""
    points: Annotated[Integer, Field(ge=2), Setting("pt")] = 25
    """Points on the line, from -1 to 2."""
    between: Between
    """Factor -> its value in the small and in the large run of each pair."""


_LINE_COLUMNS = {
    "other": TextColumn("The large run, at 1; `run` is the small one, at 0."),
    "factor": TextColumn("Factor that differs between the two runs."),
    "small": TextColumn("Its value in the small run."),
    "large": TextColumn("Its value in the large run."),
    "alpha": Column("Position on the line."),
    "split": TextColumn("train, validation or test."),
    "loss": Column("Loss.", "nats"),
    **{
        metric.name: Column(
            f"{display.capital(metric.words)}.", minimum=metric.minimum, maximum=metric.maximum
        )
        for metric in tasks.FIRST_METRICS
    },
}


def _line_rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield loss and metric of every split along the line."""
    for split in tasks.SPLITS if record.get("alphas") else ():
        metrics = [
            metric.name for metric in tasks.FIRST_METRICS if f"{split}_{metric.name}" in record
        ]
        names = ["loss", *metrics]
        columns = (record["alphas"], *(record[f"{split}_{name}"] for name in names))
        for values in zip(*columns, strict=True):
            yield {"split": split, **dict(zip(("alpha", *names), values, strict=True))}


ENTRY = Measure(
    version="line-v1",
    settings=LineSettings,
    figures=(
        Figure(
            "line",
            "Line between two minimisers",
            "Landscape",
            "Loss and {first} along the straight line between two trained models that "
            "started from the same weights (Keskar et al. 2017, section 2.2.1). Thin lines are "
            "seeds, thick ones their means.",
            kind="landscape",
            table="lines",
            panels=(
                Panel("loss", "Loss", "loss{nats}"),
                Panel("{first}", "{first}", "{first}{percent}"),
            ),
            columns=("factor", "small", "large"),
            lines="split",
            x_columns=("alpha",),
        ),
    ),
    tables={"lines": Table(_LINE_COLUMNS, _line_rows, keys=("split", "alpha"))},
    memory_mb=2000,
    order=9,
)


def positions(points: int) -> np.ndarray:
    """Return evenly spaced alphas, float64 of shape (points,); 0 and 1 are exact if among them."""
    alphas = np.linspace(FIRST_POSITION, LAST_POSITION, points)
    step = (LAST_POSITION - FIRST_POSITION) / (points - 1)
    for end in (0.0, 1.0):
        alphas[np.abs(alphas - end) < 1e-6 * step] = end
    return alphas


def interpolate(small: Arrays, large: Arrays, alpha: float) -> Arrays:
    """Return (1 - alpha) * small + alpha * large, computed in float64, in the arrays' type.

    At 0 and 1 the arrays equal the weights of the runs bit by bit.
    """
    if alpha in (0.0, 1.0):
        return dict(large if alpha else small)
    exact = {
        key: (1.0 - alpha) * array.astype(np.float64) + alpha * large[key]
        for key, array in small.items()
    }
    return {key: array.astype(small[key].dtype) for key, array in exact.items()}


def statistics_estimator(
    model: keras.Model, examples: datasets.Examples, chunk: int
) -> Callable[[], None]:
    """Return a function that sets moving statistics to estimates for the current weights.

    The images pass in training mode without dropout or augmentation. A layer's input then comes
    from layers that normalise by the statistics of the chunk, as in training. Moving mean and
    variance become the means, over all images, of the chunks' means and variances. Frozen layers
    keep their statistics. The model cannot be trained afterwards: its random layers stay switched
    off and its momenta are lost.

    Source: P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization",
    arXiv 1803.05407, section 3.2.

    Args:
        examples: Training examples.
        chunk: Examples per forward pass.
    """
    import keras
    import tensorflow as tf

    from batchscope.training import inputs, losses

    images, statistics = examples.images, []
    losses.switch_off_randomness(model)
    for layer in private_interfaces.all_layers(model):
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            # After a chunk, the moving statistics are the statistics of the chunk.
            layer.momentum = 0.0
            statistics += [layer.moving_mean, layer.moving_variance]
    signature = [tf.TensorSpec([None, *images.shape[1:]], images.dtype)]

    @tf.function(autograph=False, input_signature=signature)
    def forward(rows: tf.Tensor) -> None:
        model(inputs.scaled_images(rows, examples.scale), training=True)

    def estimate() -> None:
        if not statistics:
            return
        # Earlier weights may have overflowed to NaN, and 0 * NaN is NaN.
        for statistic in statistics:
            statistic.assign(np.zeros(statistic.shape))
        means = [0.0] * len(statistics)
        for start in range(0, len(images), chunk):
            rows = images[start : start + chunk]
            forward(tf.constant(rows))
            share = len(rows) / len(images)
            for index, statistic in enumerate(statistics):
                means[index] += share * statistic.numpy().astype(np.float64)
        for statistic, mean in zip(statistics, means, strict=True):
            statistic.assign(mean)

    return estimate


def measure_run(run: FinishedRun, other: FinishedRun, settings: dict[str, Any]) -> Measured:
    """Evaluate the line from `run`, at position 0, to `other`, at position 1."""
    from batchscope.measures.measure_job import even_chunk, subset
    from batchscope.training import losses, models

    initial_weights = {end.record["sha256"]["initial.npz"] for end in (run, other)}
    if len(initial_weights) > 1:
        raise UserError(
            f"line: received {run.name} and {other.name}, whose initial weights differ; two runs "
            "that start from the same weights (those of one seed) are expected."
        )
    alphas = positions(settings["points"]).tolist()
    model = run.model(settings["weights"])
    small, large = (end.weights(settings["weights"]) for end in (run, other))
    examples = {split: run.data.examples(split) for split in tasks.SPLITS}
    for split, rows in examples.items():
        available = len(rows.labels)
        if 0 < settings["examples"] < available:  # otherwise all, in the order of an evaluation
            examples[split] = rows.rows(subset(available, settings["examples"]))
    objective = losses.Objective(model, examples["train"])
    objectives = {split: objective.with_examples(rows) for split, rows in examples.items()}
    train = examples["train"]
    max_chunk = losses.chunk_size(run.data.input_shape, train.images.dtype)
    chunk = even_chunk(len(train.images), max_chunk)
    estimate_statistics = statistics_estimator(model, train, chunk)
    metrics = ("loss", tasks.TASKS[run.data.task][0])
    details: dict[str, Any] = {"alphas": alphas}
    for alpha in alphas:
        # Frozen layers are equal in both runs. Other state is interpolated like the weights.
        trainable, state = (interpolate(*pair, alpha) for pair in zip(small, large, strict=True))
        models.set_weights(model, trainable, state)
        estimate_statistics()
        for split, loss in objectives.items():
            measured = loss.evaluate_split(split)
            for column in metrics:
                details.setdefault(f"{split}_{column}", []).append(measured[f"{split}_{column}"])
    return Measured(details=details)
