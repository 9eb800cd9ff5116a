"""Known names of the columns of logs: `val/loss` is validation_loss, `iter` is updates.

A name is compared word by word: case, punctuation and camel case do not matter. Nothing is inferred
from the values of a column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from batchscope.study import tasks
from batchscope.study.run_factors import FACTORS

RATE = "learning_rate"
IDENTITY = ("batch_size", "seed", RATE)  # factors that paths are searched for
PROGRESS = ("updates", "examples", "epoch")  # the first one that a log has says how far a run is
# Columns that multiply the batch size of one device to that of an update.
MULTIPLIERS = ("gradient_accumulation_steps", "devices")
# Our name -> other names, in words.
_SYNONYMS = {
    "updates": "update, step, steps, global step, trainer global step, train global step, iter, "
    "iters, iteration, iterations, training step",
    "examples": "examples seen, samples seen",
    "epoch": "epochs, num epochs, n epochs, train epoch, training epoch",
    "seconds": "elapsed seconds, seconds since start",
    "seconds_per_epoch": "epoch time, epoch seconds, epoch duration, time per epoch",
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
_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    "test": "test",
}
_EVALUATED = ("eval", "evaluation")  # validation data, unless another word names a split
_METRICS = {
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
_IGNORED = ("epoch", "mean", "avg", "metrics")  # words next to the name of a metric
# Words, separators and a number, as in `bs8`, `lr=1e-3` and `val loss 0.5`.
_NUMBERED = re.compile(
    r"([A-Za-z][A-Za-z_/ -]*?)([-_=: ]*)([0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?(?![0-9])|nan\b)"
)


def _plain(name: str) -> str:
    separated = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    return re.sub(r"[^a-z0-9]+", " ", separated).strip()


_PLAIN = {_plain(name): name for name in (*FACTORS, "machine", *_SYNONYMS)}
_PLAIN |= {text: name for name, synonyms in _SYNONYMS.items() for text in synonyms.split(", ")}


def ours(name: str, metrics: Collection[str] = ()) -> str | None:
    """Return our name of a column; None for an unknown column.

    A loss or a metric without a word for the split is on the training data, as in logs of Keras,
    Lightning and Hugging Face.

    Args:
        metrics: User-defined metrics; without a word for the split, they are on validation data.
    """
    plain = _plain(name)
    if plain in _PLAIN:
        return _PLAIN[plain]
    parts = plain.split()
    splits = [_SPLITS[part] for part in parts if part in _SPLITS]
    evaluated = any(part in _EVALUATED for part in parts)
    if len(splits) > 1:
        return None
    parts = [part for part in parts if part not in _SPLITS and part not in _EVALUATED]
    for text in (" ".join(parts), " ".join(part for part in parts if part not in _IGNORED)):
        if (metric := text.replace(" ", "_")) in metrics:
            return f"{splits[0] if splits else 'validation'}_{metric}"
        if text in _METRICS:
            split = splits[0] if splits else "validation" if evaluated else "train"
            return f"{split}_{_METRICS[text]}"
    return None


def is_evaluated(name: str, metrics: Collection[str] = ()) -> bool:
    column = ours(name, metrics)
    return column is not None and (column in (*PROGRESS, *OUTCOMES) or _has_split(column))


def is_split(word: str) -> bool:
    return word.lower() in (*_SPLITS, *_EVALUATED)


def _has_split(name: str) -> bool:
    return any(map(is_split, _plain(name).split()))


def candidates(
    columns: Iterable[str], metrics: Collection[str] = (), ignored: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return our name -> the columns that have it; several if the names leave a question open.

    The name itself is preferred to its synonyms, except for the batch size, since `batch_size` may
    be per device next to a `global_batch_size`. A user-defined metric without a split is on the
    training data if the same metric exists for the validation data.

    Args:
        ignored: Our names that need no column.
    """
    by_name: dict[str, list[str]] = {}
    for column in columns:
        name = ours(column, metrics)
        if name is not None and name not in ignored:
            by_name.setdefault(name, []).append(column)
    for metric in metrics:
        of_metric = by_name.get(f"validation_{metric}", [])
        bare = [column for column in of_metric if not _has_split(column)]
        if len(of_metric) > len(bare) == 1 and f"train_{metric}" not in by_name:
            of_metric.remove(bare[0])
            by_name[f"train_{metric}"] = bare
    for name, several in by_name.items():
        if name in several and name != "batch_size":
            by_name[name] = [name]
            if name == "epoch" and "epochs" in several:
                return {**by_name, "epochs": ["epochs"]}  # the horizon, a factor
    return by_name


def pattern(texts: Iterable[str], names: Collection[str]) -> str:
    """Return the commonest pattern of texts, with placeholders for the numbers of some names.

    The path bs8_lr0.1_seed3/metrics.csv has the pattern
    bs{batch_size}_lr{learning_rate}_seed{seed}/metrics.csv.
    """

    def placeholder(match: re.Match[str]) -> str:
        parts = _plain(match[1]).split()
        for first in range(len(parts)):
            if (name := ours(" ".join(parts[first:]))) in names:
                return f"{match[1]}{match[2]}{{{name}}}"
        return f"{match[1]}{match[2]}*"

    counts = Counter(_NUMBERED.sub(placeholder, text) for text in texts)
    return counts.most_common(1)[0][0] if counts else ""
