"""After which epochs a training's weights are kept: where a measure of the study reads them.

An epoch that can be read is one of the first five, a power of two, or the last. Early weights
change fastest, and a count that grows with the logarithm of the epochs bounds the disk that a long
training takes. Training writes them; planning promises what can be measured and says who reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from batchscope.study.registry import MEASURES

_FIRST = 5
# In place of an epoch: the one nearest half of a training, whose end is not known before.
MIDDLE = "middle"


def stored_epochs(epochs: int) -> tuple[int, ...]:
    powers = (1 << exponent for exponent in range(epochs.bit_length()))
    return tuple(sorted({*range(1, min(epochs, _FIRST) + 1), *powers}))


def kept_epochs(epochs: int) -> tuple[int, ...]:
    return tuple(sorted({*stored_epochs(epochs), epochs}))


def middle(epochs_run: int) -> int | None:
    """Returns the epoch nearest half of a training, the earlier of two; None between no ends."""
    between = (epoch for epoch in stored_epochs(epochs_run) if epoch < epochs_run)
    return min(between, key=lambda epoch: (abs(2 * epoch - epochs_run), epoch), default=None)


def wanted(read: Iterable[int | str], epoch: int, over: bool) -> set[int]:
    """Returns the epochs whose weights a training keeps.

    Args:
        read: Epochs that are read, `MIDDLE` among them or not.
        over: Whether no more follow. Before that every later middle counts: it never moves back.
    """
    read = set(read)
    found = {each for each in read - {MIDDLE} if each <= epoch}
    if MIDDLE in read:
        half = middle(epoch) or 0
        candidates = (half,) if over else stored_epochs(epoch)
        found |= {each for each in candidates if each >= max(half, 1)}
    return found


def read_by(measure: str, epoch: int, horizon: int) -> int | str | None:
    """Returns the epoch before the last whose weights a measure of a run reads; None for none.

    Args:
        epoch: The measure's setting `epoch`; 0 where it has none.
    """
    entry = MEASURES.get(measure)
    if entry and MIDDLE in entry.weights:
        return MIDDLE
    return epoch if entry and 0 < epoch < horizon else None


def weights_name(epoch: int, epochs_run: int) -> str:
    """Returns where weights lie in a run's folder, without `.npz`: `epochs/3`, or `final`."""
    return "final" if epoch == epochs_run else f"epochs/{epoch}"
