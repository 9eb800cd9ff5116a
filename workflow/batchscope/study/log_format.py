"""The format of logs: its keys in a study file, and the names and columns that it translates.

`our_name` translates a column of a log into ours: `val/loss` is validation_loss, `iter` is updates.
A name is compared word by word: case, punctuation and camel case do not matter. Nothing is inferred
from the values of a column. A new cost goes into `COST_COLUMNS`, a column that is computed from
others into `SOURCE_COLUMNS`. A new metric goes into `tasks.METRICS`.
"""

import contextlib
import math
import re
from collections.abc import Collection, Iterable
from typing import Annotated, Any

from pydantic import Field

from batchscope.study import tasks
from batchscope.study.model import Model, Positive, Text, Texts
from batchscope.study.run_factors import FACTORS


class LogFormat(Model):
    """How logs are read. Only columns with a known name, or with a name here, are read."""

    columns: dict[str, Text] = {}
    """Our name of a column -> its name in the logs: {validation_loss: val/loss, batch_size: bs}."""
    lines: Texts = ()
    """Pattern of printed lines, such as "step {updates}: train loss {train_loss}", or several of
    them; `*` matches anything.
    """
    examples_per_epoch: Positive = None
    """Training examples of an epoch, if the logs count epochs."""


class CommandLog(LogFormat):
    """Log of a run of a command."""

    file: Annotated[str, Field(pattern=r"^\{run_dir\}(/[^{}]+)?$")] = ""
    """File that the command writes, in {run_dir}. Default: its printed output."""


class Logs(LogFormat):
    """Logs of external runs."""

    files: Texts
    """Paths and patterns, relative to the folder of the study file. `{name}` stands for a factor,
    as in logs/bs{batch_size}_seed{seed}.csv; `*`, `**` and `?` match anything; `{{` is a brace.
    """
    factors: Texts = ()
    """Columns that are factors, besides those with a known name."""


# Columns of our tables that logs fill: the costs of a run so far, losses and metrics.
COST_COLUMNS = ("updates", "examples", "seconds")
# The loss of the first split that logs have is the default target.
_SPLITS = ("validation", "test", "train")
LOSS_COLUMNS = tuple(f"{split}_loss" for split in _SPLITS)
METRICS = {f"{split}_{name}": metric for name, metric in tasks.METRICS.items() for split in _SPLITS}
# Column of our tables -> columns of a log from which it is computed.
SOURCE_COLUMNS = {
    "best_train_loss": {"train_loss"},
    "best_validation_loss": {"validation_loss"},
    "generalisation_gap": {"train_loss", "test_loss"},
    **{gap: {f"train_{metric.name}", f"test_{metric.name}"} for gap, metric in tasks.GAPS.items()},
}
# The name of a user-defined factor begins with this prefix, so that it equals no column of ours.
USER_PREFIX = "own_"
EMPTY_CELL = "none"  # value of an empty cell in a column of a user-defined factor


def metric_columns(user_metrics: tasks.Metrics) -> tuple[str, ...]:
    return tuple(f"{split}_{metric.name}" for metric in user_metrics for split in _SPLITS)


def outcomes_with(user_metrics: tasks.Metrics) -> tuple[str, ...]:
    return (*LOSS_COLUMNS, *METRICS, *metric_columns(user_metrics))


def filled_columns(rows: Any, user_metrics: tasks.Metrics) -> tuple[str, ...]:
    """Return the columns of our tables that the rows of logs, a frame, fill."""
    names = (*COST_COLUMNS, "epoch", *outcomes_with(user_metrics))
    filled = [name for name in names if name in rows and rows[name].notna().any()]
    computed = (name for name, sources in SOURCE_COLUMNS.items() if sources <= {*filled})
    return (*filled, *computed)


def is_user_defined(column: Any) -> bool:
    return isinstance(column, str) and column.startswith(USER_PREFIX)


def prefixed_name(column: str) -> str:
    """Return the column of a command's factor, whose values already have the factor's type."""
    return column if column in FACTORS else f"{USER_PREFIX}{column}"


def series_column(column: str, texts: Iterable[str]) -> tuple[str, list[Any]]:
    """Return the name in our tables of a column that distinguishes series, and its values.

    A factor of the pipeline keeps its name if every value has its type. Any other name begins with
    `own_`; its values become numbers if all are numbers. So a log's factor with values of another
    type gets the prefix, which `prefixed_name` does not add.
    """
    texts = list(texts)
    if column in FACTORS:
        with contextlib.suppress(ValueError):
            return column, [_as_kind(FACTORS[column].kind, text) for text in texts]
    for convert in (int, _number):
        with contextlib.suppress(ValueError):
            return f"{USER_PREFIX}{column}", [convert(text) for text in texts]
    return f"{USER_PREFIX}{column}", texts


def _as_kind(kind: str, text: str) -> Any:
    if kind == "str":
        return text
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    value = float(text)
    if not math.isfinite(value) or (kind == "int" and not value.is_integer()):
        raise ValueError(text)
    return int(value) if kind == "int" else value


def _number(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(text)
    return value


RATE = "learning_rate"
PROGRESS = ("updates", "examples", "epoch")  # The first one that a log has counts its progress.
# The batch size of an update is that of a device times the values of these columns.
MULTIPLIERS = ("gradient_accumulation_steps", "devices")
# Our name -> other names, in words.
_SYNONYMS = {
    "updates": "update, step, steps, global step, trainer global step, train global step, iter, "
    "iters, iteration, iterations, training step",
    "examples": "examples seen, samples seen",
    "epoch": "epochs, num epochs, n epochs, train epoch, training epoch",
    "seconds": "elapsed seconds, seconds since start",
    "batch_size": "batchsize, bs, global batch size, effective batch size, total batch size, "
    "total train batch size",
    "gradient_accumulation_steps": "gradient accumulation, accumulate grad batches, "
    "accumulation steps, grad accum steps",
    "devices": "world size, num gpus, n gpus, num devices",
    "seed": "random seed, rng seed, manual seed",
    RATE: "lr",
    "optimizer": "optim, optimiser",
    "status": "state",
}
_SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    "test": "test",
}
_EVALUATION_WORDS = ("eval", "evaluation")  # validation data, unless another word names a split
_METRIC_WORDS = {
    "loss": "loss",
    **{name: name for name in tasks.METRICS},
    **dict.fromkeys(("acc", "top1", "accuracy top1", "sparse categorical accuracy"), "accuracy"),
    **dict.fromkeys(("categorical accuracy", "binary accuracy"), "accuracy"),
    **dict.fromkeys(("f1 score", "micro f1"), "f1"),
    "r2 score": "r2",
    "mean squared error": "mse",
    "mean absolute error": "mae",
}
_IGNORED_WORDS = ("epoch", "mean", "avg", "metrics")  # words next to the name of a metric


def _words(name: str) -> str:
    separated = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    return re.sub(r"[^a-z0-9]+", " ", separated).strip()


# Name or synonym in words -> our name.
_OUR_NAMES = {_words(name): name for name in (*FACTORS, "machine", *_SYNONYMS)}
_OUR_NAMES |= {text: name for name, synonyms in _SYNONYMS.items() for text in synonyms.split(", ")}


def our_name(name: str, metrics: Collection[str] = ()) -> str | None:
    """Return our name of a column; None for an unknown column.

    A loss or a metric without a word for the split is on the training data, as in logs of Keras,
    Lightning and Hugging Face.

    Args:
        metrics: User-defined metrics; without a word for the split, they are on validation data.
    """
    text = _words(name)
    if text in _OUR_NAMES:
        return _OUR_NAMES[text]
    words = text.split()
    splits = [_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS]
    is_evaluation = any(word in _EVALUATION_WORDS for word in words)
    if len(splits) > 1:
        return None
    words = [word for word in words if word not in _SPLIT_WORDS and word not in _EVALUATION_WORDS]
    for text in (" ".join(words), " ".join(word for word in words if word not in _IGNORED_WORDS)):
        if (metric := text.replace(" ", "_")) in metrics:
            return f"{splits[0] if splits else 'validation'}_{metric}"
        if text in _METRIC_WORDS:
            split = splits[0] if splits else "validation" if is_evaluation else "train"
            return f"{split}_{_METRIC_WORDS[text]}"
    return None


def is_evaluated(name: str, metrics: Collection[str] = ()) -> bool:
    """Return whether a column is progress, or a loss or metric whose name has a split."""
    column = our_name(name, metrics)
    return column is not None and (column in PROGRESS or _has_split(column))


def is_outcome(name: str, metrics: Collection[str] = ()) -> bool:
    """Return whether a column is a loss or metric."""
    return (our_name(name, metrics) or "").partition("_")[0] in _SPLITS


def is_split(word: str) -> bool:
    return word.lower() in (*_SPLIT_WORDS, *_EVALUATION_WORDS)


def _has_split(name: str) -> bool:
    return any(map(is_split, _words(name).split()))


def candidates(
    columns: Iterable[str], metrics: Collection[str] = (), ignored: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return our name -> the columns that it may stand for; several if the names are ambiguous.

    The name itself is preferred to its synonyms, except for the batch size, since `batch_size` may
    be per device next to a `global_batch_size`. A user-defined metric without a split is on the
    training data if the same metric exists for the validation data.

    Args:
        ignored: Our names that need no column.
    """
    by_name: dict[str, list[str]] = {}
    for column in columns:
        name = our_name(column, metrics)
        if name is not None and name not in ignored:
            by_name.setdefault(name, []).append(column)
    for metric in metrics:
        validation_columns = by_name.get(f"validation_{metric}", [])
        without_split = [column for column in validation_columns if not _has_split(column)]
        has_both = len(validation_columns) > len(without_split) == 1
        if has_both and f"train_{metric}" not in by_name:
            validation_columns.remove(without_split[0])
            by_name[f"train_{metric}"] = without_split
    for name, synonyms in by_name.items():
        if name in synonyms and name != "batch_size":
            by_name[name] = [name]
            if name == "epoch" and "epochs" in synonyms:  # `epochs` is the horizon, a factor, here
                return {**by_name, "epochs": ["epochs"]}
    return by_name
