"""Our names for what logs call otherwise: `val/loss` is validation_loss, `iter` is updates.

A name is split into words. One of them may say on which data a loss or a metric is; without one,
as Keras, Lightning and Hugging Face write them, it is on the training data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from batchscope import wording
from batchscope.study import tasks

RATE = "learning_rate"
FACTORS = ("batch_size", "seed", RATE)  # those that paths and parameters may hold
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
_EVALUATED = ("eval", "evaluation")  # on validation data, where no other word says it
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
_OF_NO_CONCERN = ("epoch", "mean", "avg", "metrics")  # beside the words of a metric
_OF_ONE_BATCH = ("step", "batch")  # a metric that the same of an epoch is better than
_BARE = 2  # how far the name of a study's own metric is that does not say on which data
_VAGUE = 9  # how far a name is that is not taken unasked


def ours(name: str, metrics: Collection[str] = ()) -> tuple[str, int] | None:
    """Returns our name of a column, and how far it is from it; None of a column of no name.

    Args:
        metrics: Those that the study names; without a word on the data, on the validation data.
    """
    words = _words(name)
    joined = " ".join(words)
    if joined in _PLAIN:
        return _PLAIN[joined], int(name != _PLAIN[joined])
    splits = [_SPLITS[word] for word in words if word in _SPLITS]
    evaluated = any(word in _EVALUATED for word in words)
    if len(splits) > 1:
        return None
    split = splits[0] if splits else "validation" if evaluated else "train"
    words = [word for word in words if word not in _SPLITS and word not in _EVALUATED]
    if " ".join(words) in ("learning rate", "lr"):
        return RATE, 1
    rest = [word for word in words if word not in (*_OF_NO_CONCERN, *_OF_ONE_BATCH)]
    if metric := _METRICS.get(" ".join(words)) or _METRICS.get(" ".join(rest)):
        found = f"{split}_{metric}"
        return found, 0 if name == found else 1 + any(word in _OF_ONE_BATCH for word in words)
    for own in {"_".join(words), "_".join(rest)} & {*metrics}:
        found = f"{splits[0] if splits else 'validation'}_{own}"
        return found, 0 if name == found else 1 if splits or evaluated else _BARE
    if split == "validation" and rest and rest[-1] == "loss":  # of one of several parts or sets
        return "validation_loss", _VAGUE
    return None


def _words(name: str) -> list[str]:
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    return re.sub(r"[^a-z0-9]+", " ", plain).split()


def pattern(paths: Iterable[str]) -> str:
    """Return the commonest pattern of paths, with a factor for each number that a word names.

    That of bs8_lr0.1_seed3/metrics.csv is bs{batch_size}_lr{learning_rate}_seed{seed}/metrics.csv.
    """
    patterns = Counter(_NUMBERED.sub(_named, path) for path in paths)
    return patterns.most_common(1)[0][0]


def _named(match: re.Match[str]) -> str:
    words = _words(match[1])
    for first in range(len(words)):
        known = ours(" ".join(words[first:]))
        if known and known[0] in FACTORS:
            return f"{match[1]}{match[2]}{{{known[0]}}}"
    return f"{match[1]}{match[2]}*"


def is_split(word: str) -> bool:
    return word.lower() in _SPLITS or word.lower() in _EVALUATED


def of_evaluations(word: str) -> bool:
    return any(is_split(each) and _SPLITS.get(each) != "train" for each in _words(word))


def mapping(
    columns: Iterable[str], stated: Mapping[str, str], metrics: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Returns the log's name -> ours of the columns that have one, and names that several may be.

    Args:
        stated: Ours -> the log's, which goes before all else.
        metrics: Those that the study names: a bare name beside that of validation data is of
            training data, as Keras writes them.
    """
    columns = [*columns]
    found = {theirs: mine for mine, theirs in stated.items() if theirs in columns}
    nearest: dict[str, dict[int, list[str]]] = {}
    for name in columns:
        if name not in found and (known := ours(name, metrics)) and known[0] not in stated:
            nearest.setdefault(known[0], {}).setdefault(known[1], []).append(name)
    several = {}
    for mine, by_distance in nearest.items():
        candidates = by_distance[min(by_distance)]
        if len(candidates) > 1 or min(by_distance) == _VAGUE:
            several[mine] = candidates
        else:
            found[candidates[0]] = mine
    for own in metrics:
        bare = nearest.get(f"validation_{own}", {}).get(_BARE, [])
        train = f"train_{own}"
        if len(bare) == 1 and bare[0] not in found and train not in {*found.values(), *several}:
            found[bare[0]] = train
    return found, several


def question(mine: str, candidates: Iterable[str]) -> str:
    """Returns the question which of several columns is ours."""
    candidates = [*candidates]
    return (
        f"received {wording.listed(candidates)}, each of which may be {mine}; one is expected, "
        f"named by `columns: {{{mine}: {candidates[0]}}}`."
    )
