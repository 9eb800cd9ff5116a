"""Translate names of the columns of logs into ours: `val/loss` is validation_loss, `iter` updates.

A name is compared word by word: case, punctuation and camel case do not matter. Nothing is inferred
from the values of a column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from batchscope.study import tasks
from batchscope.study.run_factors import FACTORS

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
OUTCOMES = tasks.OUTCOMES
_IGNORED_WORDS = ("epoch", "mean", "avg", "metrics")  # words next to the name of a metric


def _words(name: str) -> str:
    """Return the words of a name in lower case, separated by blanks."""
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
    return column is not None and (column in (*PROGRESS, *OUTCOMES) or _has_split(column))


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
