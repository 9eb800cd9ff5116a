"""Names of columns of logs in our tables: `val/loss` is validation_loss, `iter` is updates.

A name is split into words. One of them may name the split of a loss or a metric. Without such a
word the split is the training data, as in logs of Keras, Lightning and Hugging Face.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from batchscope import wording
from batchscope.study import tasks

RATE = "learning_rate"
FACTORS = ("batch_size", "seed", RATE)  # factors in paths and parameters
# A word, a separator and a number, as in `bs8`, `seed_3` and `lr=1e-3`.
_NUMBERED = re.compile(r"([A-Za-z_-]*[A-Za-z])([-_=]?)[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
# Words of a name -> ours.
_PLAIN = {
    **dict.fromkeys(
        ("updates", "step", "global step", "trainer global step", "train global step", "iter")
        + ("iteration",),
        "updates",
    ),
    **dict.fromkeys(("examples", "samples", "examples seen", "samples seen"), "examples"),
    **dict.fromkeys(("epoch", "train epoch"), "epoch"),
    "seconds": "seconds",
    **dict.fromkeys(("batch size", "batchsize", "bs", "global batch size"), "batch_size"),
    **dict.fromkeys(("seed", "random seed", "rng seed", "manual seed"), "seed"),
    **dict.fromkeys(("learning rate", "lr"), RATE),
    **{name: name for name in ("run", "machine", "status")},
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
_IGNORED = ("epoch", "mean", "avg", "metrics")  # words next to the name of a metric
_OF_ONE_BATCH = ("step", "batch")  # the same metric of an epoch is preferred
_BARE = 2  # distance of a user-defined metric without a word for the split
_VAGUE = 9  # distance of a name that is not used without a question


def ours(name: str, metrics: Collection[str] = ()) -> tuple[str, int] | None:
    """Return our name for a column of a log, and a distance; None if no name fits.

    Args:
        metrics: User-defined metrics; without a word for the split, they are on validation data.
    """
    parts = _split(name)
    joined = " ".join(parts)
    if joined in _PLAIN:
        return _PLAIN[joined], int(name != _PLAIN[joined])
    splits = [_SPLITS[word] for word in parts if word in _SPLITS]
    evaluated = any(word in _EVALUATED for word in parts)
    if len(splits) > 1:
        return None
    split = splits[0] if splits else "validation" if evaluated else "train"
    parts = [word for word in parts if word not in _SPLITS and word not in _EVALUATED]
    if " ".join(parts) in ("learning rate", "lr"):
        return RATE, 1
    core = [word for word in parts if word not in (*_IGNORED, *_OF_ONE_BATCH)]
    if metric := _METRICS.get(" ".join(parts)) or _METRICS.get(" ".join(core)):
        column = f"{split}_{metric}"
        return column, 0 if name == column else 1 + any(word in _OF_ONE_BATCH for word in parts)
    for metric in {"_".join(parts), "_".join(core)} & {*metrics}:
        column = f"{splits[0] if splits else 'validation'}_{metric}"
        return column, 0 if name == column else 1 if splits or evaluated else _BARE
    if split == "validation" and core and core[-1] == "loss":  # a part of the loss, or one of sets
        return "validation_loss", _VAGUE
    return None


def _split(name: str) -> list[str]:
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    return re.sub(r"[^a-z0-9]+", " ", plain).split()


def pattern(paths: Iterable[str]) -> str:
    """Return the commonest pattern of paths, with placeholders for the numbers of factors.

    The path bs8_lr0.1_seed3/metrics.csv has the pattern
    bs{batch_size}_lr{learning_rate}_seed{seed}/metrics.csv.
    """
    patterns = Counter(_NUMBERED.sub(_named, path) for path in paths)
    return patterns.most_common(1)[0][0]


def _named(match: re.Match[str]) -> str:
    parts = _split(match[1])
    for first in range(len(parts)):
        named = ours(" ".join(parts[first:]))
        if named and named[0] in FACTORS:
            return f"{match[1]}{match[2]}{{{named[0]}}}"
    return f"{match[1]}{match[2]}*"


def is_split(word: str) -> bool:
    return word.lower() in _SPLITS or word.lower() in _EVALUATED


def of_evaluations(word: str) -> bool:
    return any(is_split(part) and _SPLITS.get(part) != "train" for part in _split(word))


def mapping(
    columns: Iterable[str], explicit: Mapping[str, str], metrics: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return name in the log -> our name, and our names with several candidates.

    Args:
        explicit: Our name -> name in the log, which has priority.
        metrics: User-defined metrics. As in logs of Keras, a name without a split is the training
            data if the same metric exists for validation data.
    """
    columns = [*columns]
    result = {theirs: mine for mine, theirs in explicit.items() if theirs in columns}
    nearest: dict[str, dict[int, list[str]]] = {}
    for name in columns:
        if name not in result and (match := ours(name, metrics)) and match[0] not in explicit:
            nearest.setdefault(match[0], {}).setdefault(match[1], []).append(name)
    several = {}
    for mine, by_distance in nearest.items():
        candidates = by_distance[min(by_distance)]
        if len(candidates) > 1 or min(by_distance) == _VAGUE:
            several[mine] = candidates
        else:
            result[candidates[0]] = mine
    for metric in metrics:
        bare = nearest.get(f"validation_{metric}", {}).get(_BARE, [])
        train = f"train_{metric}"
        if len(bare) == 1 and bare[0] not in result and train not in {*result.values(), *several}:
            result[bare[0]] = train
    return result, several


def question(mine: str, candidates: Iterable[str]) -> str:
    """Return the message about several columns that may be ours."""
    candidates = [*candidates]
    return (
        f"received {wording.listed(candidates)}, each of which may be {mine}; one is expected, "
        f"named by `columns: {{{mine}: {candidates[0]}}}`."
    )
