"""Loss and first metric along the straight line between two runs that start from the same weights
(Keskar et al. 2017, section 2.2.1).

f((1 - alpha) * x_small + alpha * x_large), as in figure 3 of Keskar et al. 2017 (arXiv
1609.04836, section 2.2.1) and figure 18 of Chang and Pathak: alpha 0 is the run of the small
batch, alpha 1 the run of the large one. Both start from the same weights. The moving statistics of
batch normalisation are estimated at every point, because interpolated ones fit no weights.
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
from batchscope.study.common_settings import Between, Examples, OfWeights
from batchscope.study.model import Integer
from batchscope.study.setting import Setting
from batchscope.study.specifications import Column, Figure, Measure, Panel, Table, TextColumn

if TYPE_CHECKING:
    import keras

    from batchscope.measures.finished_run import FinishedRun
    from batchscope.store.weights import Arrays


FIRST, LAST = -1.0, 2.0  # positions; the small run is at 0, the large one at 1


class LineSettings(OfWeights):
    """Settings of `line`."""

    examples: Examples = 0
    """Examples of each split; 0 means `all`."""
    points: Annotated[Integer, Field(ge=2), Setting("pt")] = 25
    """Points on the line, from -1 to 2."""
    between: Between
    """Factor -> its value in the small and in the large run of each pair."""


_LINES = {
    "other": TextColumn("The large run, at 1; `run` is the small one, at 0."),
    "factor": TextColumn("Factor that differs between the two runs."),
    "small": TextColumn("Its value in the small run."),
    "large": TextColumn("Its value in the large run."),
    "alpha": Column("Position on the line."),
    "split": TextColumn("train, validation or test."),
    "loss": Column("Loss.", "nats"),
    **{
        metric.name: Column(
            f"{display.capital(metric.words)}.", least=metric.least, most=metric.most
        )
        for metric in tasks.FIRST
    },
}


def _rows(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield loss and metric of every split along the line."""
    for split in tasks.SPLITS if record.get("alphas") else ():
        metrics = [metric.name for metric in tasks.FIRST if f"{split}_{metric.name}" in record]
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
            caption=(
                "Loss and {first} along the straight line between two trained models that "
                "started from the same weights (Keskar et al. 2017, section 2.2.1). Thin lines are "
                "seeds, thick ones their means."
            ),
            kind="curves",
            table="lines",
            panels=(
                Panel("loss", "Loss", "loss{nats}"),
                Panel("{first}", "{first}", "{first}{percent}"),
            ),
            columns=("factor", "small", "large"),
            lines="split",
            over=("alpha",),
        ),
    ),
    tables={"lines": Table(_LINES, _rows, keys=("split", "alpha"))},
    memory_mb=2000,
    order=9,
)


def positions(points: int) -> np.ndarray:
    """Return the alphas, float64 of shape (points,): evenly spaced, with exact 0 and 1."""
    alphas = np.linspace(FIRST, LAST, points)
    step = (LAST - FIRST) / (points - 1)
    for run in (0.0, 1.0):
        alphas[np.abs(alphas - run) < 1e-6 * step] = run
    return alphas


def between(small: Arrays, large: Arrays, alpha: float) -> Arrays:
    """Return (1 - alpha) * small + alpha * large, in float64, rounded to the arrays' type.

    At 0 and 1 the arrays equal the weights of the runs bit by bit.
    """
    if alpha in (0.0, 1.0):
        return dict(large if alpha else small)
    exact = {
        key: (1.0 - alpha) * array.astype(np.float64) + alpha * large[key]
        for key, array in small.items()
    }
    return {key: array.astype(small[key].dtype) for key, array in exact.items()}


def normalisation_layers(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return the layers with moving statistics that training changes, without frozen layers."""
    from keras.layers import BatchNormalization

    return [
        layer
        for layer in private_interfaces.all_layers(model)
        if isinstance(layer, BatchNormalization) and layer.trainable
    ]


def statistics_estimator(
    model: keras.Model, images: np.ndarray, scale: float, chunk: int | None = None
) -> Callable[[], None]:
    """Return a function that estimates the moving statistics for the current weights.

    The images, shape (n, *input_shape), pass in training mode without dropout. A layer's input then
    comes from layers that normalise by the statistics of the chunk, as in training. Moving mean and
    variance become the mean over all images of the chunks' means and variances: a cumulative
    average replaces the exponential one. The model cannot be trained afterwards: its dropout is
    switched off for good and its momenta are lost.

    Source: P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better
    Generalization", arXiv 1803.05407, section 3.2.
    """
    import tensorflow as tf

    from batchscope.measures.finished_run import even_chunk
    from batchscope.training import losses

    norm_layers = normalisation_layers(model)
    losses.switch_off_dropout(model)
    for layer in norm_layers:
        layer.momentum = 0.0  # after a chunk, the moving statistics are the statistics of the chunk
    chunk = chunk or even_chunk(len(images), losses.chunk_size(images.shape[1:], images.dtype))

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None, *images.shape[1:]], images.dtype)]
    )
    def forward(rows: tf.Tensor) -> None:
        model(losses.scaled(rows, scale), training=True)

    def estimate() -> None:
        statistics = []
        for layer in norm_layers:
            statistics += [layer.moving_mean, layer.moving_variance]
            # 0 * NaN, of weights that overflowed, would stay.
            layer.moving_mean.assign(np.zeros(layer.moving_mean.shape))
            layer.moving_variance.assign(np.ones(layer.moving_variance.shape))
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
    from batchscope.measures.finished_run import subset
    from batchscope.training import losses, models, trajectory

    first, second = (end.record["sha256"]["initial.npz"] for end in (run, other))
    if first != second:
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
        if 0 < settings["examples"] < available:  # else all, in the order of an evaluation
            examples[split] = rows.rows(subset(available, settings["examples"]))
    objective = losses.Objective(model, examples["train"])
    objectives = {split: objective.over(rows) for split, rows in examples.items()}
    normalised = bool(normalisation_layers(model))
    if normalised:
        estimate = statistics_estimator(model, examples["train"].images, run.data.scale)
    metrics = ("loss", tasks.TASKS[run.data.task][0])
    details: dict[str, Any] = {"alphas": alphas}
    for alpha in alphas:
        # Frozen layers are equal in both runs. Other state is interpolated like the weights.
        trainable, state = (between(small[i], large[i], alpha) for i in (0, 1))
        models.set_weights(model, trainable, state)
        if normalised:
            estimate()
        for split, loss in objectives.items():
            measured = trajectory.named(split, loss.evaluate())
            for column in metrics:
                details.setdefault(f"{split}_{column}", []).append(measured[f"{split}_{column}"])
    return Measured(details=details)
