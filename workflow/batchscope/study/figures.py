"""Registry of all figures: name -> `Figure`.

A new figure of a single measure or timing is an item of the `ENTRY` of that measure; one that needs
several measures, or none, is an item of `_SHARED_FIGURES` here.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from batchscope.core import display
from batchscope.study import tasks
from batchscope.study.registry import ENTRIES, OUTCOME_MEASURES
from batchscope.study.specifications import USAGE_PANELS, Figure, Panel, Scale
from batchscope.study.specifications import FigureRequirement as Condition
from batchscope.study.tasks import METRICS, Metric

PRIMARY = "primary"  # name of the figure with the outcome or cost that decides
LEADING_FIGURES = ("rate_map", PRIMARY, "primary_outcome")  # figures next to the advice
_PRIMARY = Figure(
    PRIMARY,
    "{outcome} by batch size",
    "Quality",
    "At the best learning rate of each batch size.",
    kind="primary",
    table="comparisons",
    conditions=(Condition.BATCH_SIZES,),
)
# Figures that need several measures, or none. In `measures` and columns, `a|b` is a or b.
_SHARED_FIGURES = (
    Figure(
        "loss_curves",
        "Loss curves",
        "Training",
        "Training and validation loss at the best learning rate of each batch size. A thin line is "
        "a run that did not finish.",
        kind="by_progress",
        table="history",
        panels=(
            Panel("train_loss", "Training loss", "loss{nats}"),
            Panel("validation_loss", "Validation loss", "loss{nats}"),
        ),
        x_columns=("epoch",),
        log_columns=None,
    ),
    Figure(
        "progress",
        "Loss by updates, examples and time",
        "Training",
        "Validation loss by cost, at the best learning rate of each batch size. The curve that "
        "crosses a loss first belongs to the batch size with the lowest cost to it, which depends "
        "on the kind of cost. Dotted: the target, if it is a validation loss.",
        kind="by_progress",
        table="trajectories",
        panels=(Panel("validation_loss", "", "validation loss{nats}"),),
        x_columns=("updates", "examples", "seconds"),
        conditions=(Condition.EVALUATIONS, Condition.PREFIXES),
        log_columns=("validation_loss",),
    ),
    Figure(
        "best_losses",
        "Best losses",
        "Training",
        "Lowest training and validation loss of each run.",
        panels=(
            Panel("best_train_loss", "Best training loss", "loss{nats}"),
            Panel("best_validation_loss", "Best validation loss", "loss{nats}"),
        ),
        log_columns=("best_train_loss|best_validation_loss",),
    ),
    Figure(
        "learning_rate",
        "Learning rate",
        "Training",
        "Lowest validation loss by learning rate after scaling: means over seeds with 95 % "
        "intervals. A ring marks the best rate of a batch size, a cross a rate with diverged runs.",
        kind="by_learning_rate",
        panels=(
            Panel("best_validation_loss", "Loss by learning rate", "best validation loss{nats}"),
        ),
        x_columns=("effective_learning_rate",),
        conditions=(Condition.LEARNING_RATES,),
        log_columns=("best_validation_loss",),
    ),
    Figure(
        "best_learning_rate",
        "Best learning rate",
        "Quality",
        "Best learning rate of each batch size, after scaling: the one with the lowest mean "
        "validation loss. The line is rate = c (batch size)^k, the mean of one fit per seed.",
        kind="by_learning_rate",
        panels=(Panel("best_rate", "Best learning rate", "learning rate"),),
        conditions=(Condition.LEARNING_RATES,),
        log_columns=("best_validation_loss",),
    ),
    Figure(
        "accuracy_by_epochs",
        "{metric} by number of epochs",
        "Quality",
        "{metric} on the test data after each number of epochs, from snapshots of the same runs.",
        table="at_epochs",
        panels=(Panel("test_{metric}", "Test {metric}", "test {metric}{percent}"),),
        lines="at_epoch",
        measures=(*OUTCOME_MEASURES,),
        conditions=(Condition.AT_EPOCHS,),
    ),
    Figure(
        "rate_map",
        "{outcome} by batch size and learning rate",
        "Quality",
        "Means over seeds. Darker is better.",
        kind="heat_map",
        table="comparisons",
        conditions=(Condition.LEARNING_RATES, Condition.BATCH_SIZES),
    ),
    _PRIMARY,
    replace(_PRIMARY, name="primary_outcome"),
    Figure(
        "critical_batch_size",
        "Critical batch size",
        "Quality",
        "Updates and examples to a target, and the curve updates = fewest × (1 + critical batch "
        "size / batch size) (McCandlish et al. 2018, arXiv 1812.06162). At the critical batch size "
        "a training takes twice the fewest updates and twice the fewest examples. The bar at the "
        "bottom is its 95 % interval; an arrow is an open end.",
        kind="to_target",
        table="to_target",
        panels=(
            Panel("updates", "Updates", "updates to the target"),
            Panel("examples", "Examples", "examples to the target"),
        ),
        conditions=(Condition.BATCH_SIZES, Condition.PREFIXES),
    ),
    Figure(
        "fastest_batch_size",
        "Fastest batch size",
        "Time",
        "Time to a target: geometric means over seeds with 95 % intervals. The line is the fitted "
        "updates times the time per step, a fixed cost plus a cost per example. An arrow at the "
        "bottom is an open end.",
        kind="to_target",
        table="to_target",
        panels=(Panel("seconds", "Seconds", "time to the target (s)"),),
        conditions=(Condition.BATCH_SIZES, Condition.SECONDS, Condition.PREFIXES),
        log_columns=("seconds",),
    ),
    Figure(
        "training_time",
        "Training time by number of epochs",
        "Time",
        caption=(
            "Number of epochs times the time per epoch, without validation: medians of timing "
            "jobs. Points below the dotted line take less time than the fewest epochs at the "
            "smallest batch size, but have more epochs."
        ),
        table="training_times",
        panels=(
            Panel(
                "train_seconds",
                "Training time",
                "training time (s)",
                Scale.ZERO,
                ends=("train_seconds_q1", "train_seconds_q3"),
            ),
        ),
        lines="at_epoch",
        measures=("throughput",),
        conditions=(Condition.AT_EPOCHS,),
    ),
    Figure(
        "usage",
        "Utilisation, memory and throughput",
        "Machine",
        "CPU and GPU utilisation of a command while it trained, the peak memory of its processes, "
        "and training examples per second. 100 % of the CPU means all threads of a run.",
        panels=(*USAGE_PANELS, Panel("examples_per_second", "Throughput", "examples/s")),
        conditions=(Condition.COMMAND,),
        log_columns=("seconds",),
    ),
)
# Sections of a report, in order.
_CATEGORIES = (
    *("Training", "Quality", "Time", "Machine"),
    *("Weights", "Gradients", "Sharpness", "Landscape"),
)


def _figures_by_name() -> dict[str, Figure]:
    """Return all figures with their variants by name, in the order of categories."""
    defined = [*chain.from_iterable(entry.figures for entry in ENTRIES.values()), *_SHARED_FIGURES]
    figures = chain.from_iterable((figure, *figure.variants()) for figure in defined)
    in_order = sorted(figures, key=lambda figure: _CATEGORIES.index(figure.category))
    return {figure.name: figure for figure in in_order}


_TEMPLATES = _figures_by_name()  # Texts and columns still have placeholders such as {metric}.


@functools.cache
def for_tasks(name: str, task_names: tuple[str, ...]) -> Figure:
    """Return a figure by name, with the metrics of some tasks in place of the placeholders.

    A panel with `{metric}` becomes a panel for each metric of the tasks. A panel with `{first}`
    becomes a panel for the first metric of each task. Texts have the words of these metrics.
    `{outcome}` stays in a title, because tables decide it (`primary.with_title_and_caption`).
    `{percent}`, `{points}` and `{error}` are empty unless the first metrics are shares, `{nats}`
    unless the losses are cross-entropies.
    """
    figure = _TEMPLATES[name]
    metrics = [METRICS[metric] for task in task_names for metric in tasks.TASKS[task]]
    first_metrics = [METRICS[tasks.TASKS[task][0]] for task in task_names]
    nats = display.aside(tasks.unit_for_tasks(tasks.NATS, task_names))

    def with_words(text: str) -> str:
        return _with_words(text, metrics, first_metrics).replace("{nats}", nats)

    panels, metric_panels = [], []
    for panel in figure.panels:
        if re.search("{(metric|first)}", panel.column):
            metric_panels.append(panel)
        else:
            panels.append(replace(panel, label=with_words(panel.label)))
    for metric in metrics:
        for panel in metric_panels:
            if "{metric}" in panel.column or metric in first_metrics:
                panels.append(_metric_panel(panel, metric))
    return replace(
        figure,
        panels=tuple(panels),
        title=display.capital(with_words(figure.title)),
        caption=display.capital(with_words(figure.caption)),
    )


def _metric_panel(panel: Panel, metric: Metric) -> Panel:
    """Return a panel of one metric. R² may be negative and has a linear scale."""
    scale = Scale.AUTO if metric.minimum == 0 else Scale.LINEAR
    return replace(
        panel,
        column=panel.column.format(metric=metric.name, first=metric.name),
        title=display.capital(_with_words(panel.title, [metric], [metric])),
        label=_with_words(panel.label, [metric], [metric]),
        scale=Scale.PERCENT if metric.share else scale,
        counted_on=panel.counted_on if metric.error else "",
    )


def _with_words(text: str, metrics: Sequence[Metric], first_metrics: Sequence[Metric]) -> str:
    """Return a text with the words of metrics; the placeholders of settings stay."""
    is_share = all(metric.share for metric in first_metrics)
    words = {
        "{metric}": display.listed(metric.words for metric in metrics),
        "{first}": display.listed(metric.words for metric in first_metrics),
        "{percent}": " (%)" if is_share else "",
        "{points}": " (points)" if is_share else "",
        "{error}": "".join(metric.error for metric in first_metrics),
    }
    for placeholder, replacement in words.items():
        text = text.replace(placeholder, replacement)
    return text


# Figures for classification, the default task.
FIGURES: dict[str, Figure] = {name: for_tasks(name, (tasks.CLASSIFICATION,)) for name in _TEMPLATES}
