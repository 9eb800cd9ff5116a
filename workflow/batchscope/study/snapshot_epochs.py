"""Decide after which epochs a training keeps a snapshot of its weights for measures.

Snapshots are possible after the first five epochs, powers of two, and the last one. Early weights
change fastest, and the number of snapshots grows only with the logarithm of the epochs.
"""

from __future__ import annotations

from collections.abc import Iterable

from batchscope.study.registry import MEASURES

_FIRST_EPOCHS = 5
# The word stands for the epoch nearest half of a training, since the end is unknown beforehand.
MIDDLE = "middle"


def possible_epochs(epochs: int) -> tuple[int, ...]:
    """Return the epochs with a possible snapshot among the first epochs, regardless of the end."""
    powers = (1 << exponent for exponent in range(epochs.bit_length()))
    return tuple(sorted({*range(1, min(epochs, _FIRST_EPOCHS) + 1), *powers}))


def kept_epochs(epochs: int) -> tuple[int, ...]:
    """Return the epochs with a possible snapshot of a training, including its last one."""
    return tuple(sorted({*possible_epochs(epochs), epochs}))


def middle_epoch(epochs_run: int) -> int | None:
    """Return the epoch nearest half of a training, the earlier of two; None if none is possible."""
    candidates = (epoch for epoch in possible_epochs(epochs_run) if epoch < epochs_run)
    return min(candidates, key=lambda epoch: (abs(2 * epoch - epochs_run), epoch), default=None)


def epochs_to_keep(read: Iterable[int | str], epoch: int, over: bool) -> set[int]:
    """Return the epochs after which a training keeps its weights.

    Args:
        read: Epochs that measures read, or `MIDDLE`.
        epoch: Number of epochs so far.
        over: Whether the training has ended. Until then, all epochs that may become the middle are
            kept; the middle never moves back.
    """
    read = set(read)
    epochs = {number for number in read - {MIDDLE} if number <= epoch}
    if MIDDLE in read:
        half = middle_epoch(epoch) or 0
        candidates = (half,) if over else possible_epochs(epoch)
        epochs |= {number for number in candidates if number >= max(half, 1)}
    return epochs


def epoch_read_by(measure: str, epoch: int, horizon: int) -> int | str | None:
    """Return the epoch of the snapshot that a measure reads; None if it reads none.

    Args:
        epoch: The measure's setting `epoch`; 0 without one.
    """
    entry = MEASURES.get(measure)
    if entry and entry.middle:
        return MIDDLE
    return epoch if entry and 0 < epoch < horizon else None


def weights_name(epoch: int, epochs_run: int) -> str:
    """Return the path of weights in a run's folder without `.npz`: `epochs/3` or `final`."""
    return "final" if epoch == epochs_run else f"epochs/{epoch}"
