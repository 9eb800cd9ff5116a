"""Epochs whose weights measures read -> epochs after which a training keeps a snapshot.

Snapshots are possible after the first five epochs, powers of two, and the last one. Early weights
change fastest, and the number of snapshots grows only with the logarithm of the epochs. A new rule
for possible snapshots goes into `possible_epochs_before_end`.
"""

from collections.abc import Iterable

from batchscope.study.registry import MEASURES

_FIRST_EPOCHS = 5
# The word stands for the epoch nearest half of a training, since the end is unknown beforehand.
MIDDLE = "middle"


def possible_epochs_before_end(epochs: int) -> tuple[int, ...]:
    """Return the possible epochs of snapshots up to `epochs` of a training that may go on."""
    powers = (1 << exponent for exponent in range(epochs.bit_length()))
    return tuple(sorted({*range(1, min(epochs, _FIRST_EPOCHS) + 1), *powers}))


def possible_epochs_of_run(epochs: int) -> tuple[int, ...]:
    """Return the possible epochs of snapshots of a training that ends after `epochs`."""
    return tuple(sorted({*possible_epochs_before_end(epochs), epochs}))


def middle_epoch(epochs_run: int) -> int | None:
    """Return the epoch nearest half of a training, the earlier of two; None if none is possible."""
    candidates = (epoch for epoch in possible_epochs_before_end(epochs_run) if epoch < epochs_run)
    return min(candidates, key=lambda epoch: (abs(2 * epoch - epochs_run), epoch), default=None)


def epochs_to_keep(
    epochs_read: Iterable[int | str], epochs_so_far: int, has_ended: bool
) -> set[int]:
    """Return the epochs after which a training keeps its weights.

    Args:
        epochs_read: Epochs that measures read, or `MIDDLE`.
        epochs_so_far: Number of epochs so far.
        has_ended: Whether the training has ended. Until then, all epochs that may become the middle
            are kept; the middle never moves back.
    """
    epochs_read = set(epochs_read)
    epochs = {epoch for epoch in epochs_read - {MIDDLE} if epoch <= epochs_so_far}
    if MIDDLE in epochs_read:
        middle = middle_epoch(epochs_so_far) or 0
        candidates = (middle,) if has_ended else possible_epochs_before_end(epochs_so_far)
        epochs |= {epoch for epoch in candidates if epoch >= max(middle, 1)}
    return epochs


def epoch_read_by(measure: str, epoch: int, horizon: int) -> int | str | None:
    """Return the epoch of the snapshot that a measure reads; None if it reads none.

    Args:
        epoch: The measure's setting `epoch`; 0 without one.
        horizon: Number of epochs of the training, unless it stops early.
    """
    entry = MEASURES.get(measure)
    if entry and entry.middle:
        return MIDDLE
    # The weights after the last epoch are in `final.npz`, so they need no snapshot.
    return epoch if entry and 0 < epoch < horizon else None


def weights_name(epoch: int, epochs_run: int) -> str:
    """Return the path of weights in a run's folder without `.npz`: `epochs/3` or `final`."""
    return "final" if epoch == epochs_run else f"epochs/{epoch}"
