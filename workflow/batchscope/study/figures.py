"""The figures: those of a single measure or timing stand in its entry, all others here."""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import chain

from batchscope import wording
from batchscope.study import tasks
from batchscope.study.common_settings import MEMORY, UTILISATION
from batchscope.study.registry import MEASURES, OF_OUTCOMES, OF_SECONDS, TIMINGS
from batchscope.study.specifications import Figure, FigureRequirement, Panel, Scale
from batchscope.study.tasks import METRICS, Metric

PRIMARY = "primary"  # the outcome that decides between batch sizes
LEAD = ("rate_map", PRIMARY, "primary_outcome")  # the figures beside the recommendation
_METRIC, _FIRST = "{metric}", "{first}"
_PRIMARY = Figure(
    PRIMARY,
    "Cost or quality by batch size",
    "Quality",
    "Dots: seeds at the best learning rate of each size. Squares: means, with 95 % intervals from "
    "three seeds on. Shaded: the batch sizes of a recommendation.",
    kind="primary",
    table="comparisons",
    needs=(FigureRequirement.BATCH_SIZES,),
)
_OF_SEVERAL = (
    Figure(
        "loss_curves",
        "Loss curves",
        "Training",
        "Training and validation loss, each batch size at its best learning rate: means over "
        "seeds with a 95 % interval. A thin line is a run that did not finish.",
        kind="against_progress",
        table="history",
        panels=(
            Panel("train_loss", "Training loss", "loss{nats}"),
            Panel("validation_loss", "Validation loss", "loss{nats}"),
        ),
        over=("epoch",),
        also_over=("updates", "seconds"),
        best_rate=True,
        own=None,
    ),
    Figure(
        "progress",
        "Loss by updates, examples and time",
        "Training",
        "Validation loss against what was used up, each batch size at its best learning rate: "
        "which one wins depends on what is held equal. Dotted: the target; where it is "
        "crossed first, that batch size gets there first.",
        kind="against_progress",
        table="trajectories",
        panels=(Panel("validation_loss", "", "validation loss{nats}"),),
        over=("updates", "examples", "seconds"),
        best_rate=True,
        target=True,
        needs=(FigureRequirement.EVALUATIONS, FigureRequirement.PREFIXES),
        own=("validation_loss",),
    ),
    Figure(
        "best_losses",
        "Best losses",
        "Training",
        "The lowest training and validation loss that each run reached.",
        panels=(
            Panel("best_train_loss", "Best training loss", "loss{nats}"),
            Panel("best_validation_loss", "Best validation loss", "loss{nats}"),
        ),
        own=("best_train_loss|best_validation_loss",),
    ),
    Figure(
        "learning_rate",
        "Learning rate",
        "Training",
        "Lowest validation loss that each run reached against its learning rate, after "
        "scaling: means over seeds with a 95 % interval. A ring marks the best rate of a "
        "batch size, a cross above one at which a run diverged.",
        kind="rates",
        panels=(
            Panel("best_validation_loss", "Loss by learning rate", "best validation loss{nats}"),
        ),
        over=("effective_learning_rate",),
        varied=("learning_rate",),
        own=("best_validation_loss",),
    ),
    Figure(
        "best_learning_rate",
        "Best learning rate",
        "Quality",
        "The learning rate, after scaling, with the lowest mean validation loss of each batch "
        "size. The line is rate = c (batch size) to the power k, the mean of the fits of "
        "single seeds.",
        kind="rates",
        panels=(Panel("best_rate", "Best learning rate", "learning rate"),),
        varied=("learning_rate",),
        own=("best_validation_loss",),
    ),
    Figure(
        "accuracy_by_epochs",
        "{metric} by number of epochs",
        "Quality",
        "{metric} on the test data after each number of epochs. The snapshots of one run are "
        "read, and nothing is trained twice.",
        table="at_epochs",
        panels=(Panel("test_{metric}", "Test {metric}", "test {metric}{percent}"),),
        lines="at_epoch",
        measures=(*OF_OUTCOMES,),
        needs=(FigureRequirement.AT_EPOCHS,),
    ),
    Figure(
        "rate_map",
        "Batch size and learning rate",
        "Quality",
        "Mean over seeds of each cell: the cost to the target, or else the lowest validation loss. "
        "Darker is better.",
        kind="rate_map",
        table="comparisons",
        varied=("learning_rate",),
        needs=(FigureRequirement.BATCH_SIZES,),
    ),
    _PRIMARY,
    replace(_PRIMARY, name="primary_outcome", title="Quality by batch size"),
    Figure(
        "critical_batch_size",
        "Critical batch size",
        "Quality",
        "Updates and examples to a target, and the curve updates = fewest × (1 + critical "
        "batch size / batch size) (McCandlish et al. 2018, arXiv 1812.06162). The critical "
        "batch size, with its 95 % interval at the foot, takes twice the fewest of both; an "
        "arrow is an open end.",
        kind="to_target",
        table="to_target",
        panels=(
            Panel("updates", "Updates", "updates to the target"),
            Panel("examples", "Examples", "examples to the target"),
        ),
        needs=(FigureRequirement.BATCH_SIZES, FigureRequirement.PREFIXES),
    ),
    Figure(
        "fastest_batch_size",
        "Fastest batch size",
        "Time",
        "Seconds to a target: geometric means over seeds with a 95 % interval. The line is "
        "the fitted updates times the time of a step, a fixed cost and a cost per example; an "
        "arrow at the foot is an open end.",
        kind="to_target",
        table="to_target",
        panels=(Panel("seconds", "Seconds", "time to the target (s)"),),
        needs=(
            FigureRequirement.BATCH_SIZES,
            FigureRequirement.SECONDS,
            FigureRequirement.PREFIXES,
        ),
        own=("seconds",),
    ),
    Figure(
        "training_time",
        "Training time by number of epochs",
        "Time",
        caption=(
            "Number of epochs times the time of one, validation apart: medians of timing jobs. "
            "What lies below the dotted line trains longer than the fewest epochs at the smallest "
            "batch size, and in less time."
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
        measures=("|".join(OF_SECONDS),),
        needs=(FigureRequirement.AT_EPOCHS,),
    ),
    Figure(
        "usage",
        "Utilisation, memory and throughput",
        "Machine",
        "CPU and GPU utilisation while a command trained, the peak memory of its processes, and "
        "the examples that it trained on per second. 100 % of the CPU are the threads of a run.",
        panels=(*UTILISATION, *MEMORY, Panel("examples_per_second", "Throughput", "examples/s")),
        needs=(FigureRequirement.COMMAND,),
        own=("seconds",),
    ),
)
# In the order of a report.
_CATEGORIES = (
    *("Training", "Quality", "Time", "Machine"),
    *("Weights", "Gradients", "Sharpness", "Landscape"),
)


def _in_order() -> list[Figure]:
    entries = chain(MEASURES.values(), TIMINGS.values())
    own = [*chain.from_iterable(entry.figures for entry in entries), *_OF_SEVERAL]
    found = list(chain.from_iterable((figure, *figure.variants()) for figure in own))
    return sorted(found, key=lambda figure: _CATEGORIES.index(figure.category))


_EVERY: dict[str, Figure] = {figure.name: figure for figure in _in_order()}


@functools.cache
def learned(name: str, of: tuple[str, ...]) -> Figure:
    """Returns a figure where these tasks are learned.

    A panel of `{metric}` becomes one for each of their metrics, a panel of `{first}` one for each
    task's first. In texts both are their words; `{percent}`, `{points}` and `{error}` stand for
    something of shares alone, `{nats}` of cross-entropies.
    """
    figure = _EVERY[name]
    metrics = [METRICS[each] for task in of for each in tasks.TASKS[task]]
    first = [METRICS[tasks.TASKS[task][0]] for task in of]
    nats = wording.aside(tasks.unit(tasks.NATS, of))
    panels = [
        replace(panel, label=panel.label.replace("{nats}", nats))
        for panel in figure.panels
        if not any(key in panel.column for key in (_METRIC, _FIRST))
    ]
    panels += [
        _of_metric(panel, metric)
        for metric in metrics
        for panel in figure.panels
        if _METRIC in panel.column or (_FIRST in panel.column and metric in first)
    ]
    title, caption = (_said(text, metrics, first) for text in (figure.title, figure.caption))
    said = {"title": wording.capital(title), "caption": wording.capital(caption)}
    return replace(figure, panels=tuple(panels), **said)


def _of_metric(panel: Panel, metric: Metric) -> Panel:
    """Returns a panel of one metric; R² has no logarithm."""
    scale = Scale.AUTO if metric.least == 0 else Scale.LINEAR
    return replace(
        panel,
        column=panel.column.replace(_METRIC, metric.name).replace(_FIRST, metric.name),
        title=wording.capital(_said(panel.title, [metric], [metric])),
        label=_said(panel.label, [metric], [metric]),
        scale=Scale.PERCENT if metric.share else scale,
        counted_on=panel.counted_on if metric.error else "",
    )


def _said(text: str, metrics: list[Metric], first: list[Metric]) -> str:
    shares = all(each.share for each in first)
    words = {
        _METRIC: wording.listed(each.words for each in metrics),
        _FIRST: wording.listed(each.words for each in first),
        "{percent}": " (%)" if shares else "",
        "{points}": " (points)" if shares else "",
        "{error}": "".join(each.error for each in first),
    }
    for key, value in words.items():
        text = text.replace(key, value)
    return text


# As every study has them where nothing says otherwise.
FIGURES: dict[str, Figure] = {name: learned(name, (tasks.CLASSIFICATION,)) for name in _EVERY}
