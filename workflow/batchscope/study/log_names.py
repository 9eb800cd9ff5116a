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


def _words(name: str) -> str:
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    return re.sub(r"[^a-z0-9]+", " ", plain).strip()


_PLAIN = {_words(name): name for name in (*FACTORS, "machine", *_SYNONYMS)}
_PLAIN |= {other: name for name, others in _SYNONYMS.items() for other in others.split(", ")}


def ours(name: str, metrics: Collection[str] = ()) -> str | None:
    """Return our name of a column; None if it is not known.

    A loss or a metric without a word for the split is on the training data, as in logs of Keras,
    Lightning and Hugging Face.

    Args:
        metrics: User-defined metrics; without a word for the split, they are on validation data.
    """
    words = _words(name)
    if words in _PLAIN:
        return _PLAIN[words]
    parts = words.split()
    splits = [_SPLITS[word] for word in parts if word in _SPLITS]
    evaluated = any(word in _EVALUATED for word in parts)
    rest = [word for word in parts if word not in _SPLITS and word not in _EVALUATED]
    texts = (" ".join(rest), " ".join(word for word in rest if word not in _IGNORED))
    if len(splits) > 1:
        return None
    for text in texts:
        if (metric := text.replace(" ", "_")) in metrics:
            return f"{splits[0] if splits else 'validation'}_{metric}"
        if text in _METRICS:
            split = splits[0] if splits else "validation" if evaluated else "train"
            return f"{split}_{_METRICS[text]}"
    return None


def is_evaluated(name: str, metrics: Collection[str] = ()) -> bool:
    known = ours(name, metrics)
    return known is not None and (known in (*PROGRESS, *OUTCOMES) or _has_split(known))


def is_split(word: str) -> bool:
    return word.lower() in (*_SPLITS, *_EVALUATED)


def _has_split(name: str) -> bool:
    return any(map(is_split, _words(name).split()))


def candidates(
    columns: Iterable[str], metrics: Collection[str] = (), taken: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return our name -> the columns that have it; several if the names leave a question open.

    The name itself is preferred to its synonyms, except for the batch size, since `batch_size` may
    be that of one device next to a `global_batch_size`. A user-defined metric without a split is on
    the training data if the same metric exists for the validation data.

    Args:
        taken: Names that need no column.
    """
    found: dict[str, list[str]] = {}
    for column in columns:
        name = ours(column, metrics)
        if name is not None and name not in taken:
            found.setdefault(name, []).append(column)
    for metric in metrics:
        of_metric = found.get(f"validation_{metric}", [])
        bare = [column for column in of_metric if not _has_split(column)]
        if len(of_metric) > len(bare) == 1 and f"train_{metric}" not in found:
            of_metric.remove(bare[0])
            found[f"train_{metric}"] = bare
    for name, several in found.items():
        if name in several and name != "batch_size":
            others = [column for column in several if column != name]
            found[name] = [name]
            if name == "epoch" and "epochs" in others:
                return {**found, "epochs": ["epochs"]}  # the horizon, a factor
    return found


def pattern(texts: Iterable[str], known: Collection[str]) -> str:
    """Return the commonest pattern of texts, with placeholders for the numbers of known names.

    The path bs8_lr0.1_seed3/metrics.csv has the pattern
    bs{batch_size}_lr{learning_rate}_seed{seed}/metrics.csv.
    """

    def placeholder(match: re.Match[str]) -> str:
        parts = _words(match[1]).split()
        for first in range(len(parts)):
            if (name := ours(" ".join(parts[first:]))) in known:
                return f"{match[1]}{match[2]}{{{name}}}"
        return f"{match[1]}{match[2]}*"

    counts = Counter(_NUMBERED.sub(placeholder, text) for text in texts)
    return counts.most_common(1)[0][0] if counts else ""
