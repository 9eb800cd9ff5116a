"""After which epochs a training's weights are kept: the first five, powers of two, the last.

Early weights change fastest, and a count that grows with the logarithm of the epochs bounds the
disk that a long training takes. Shared by training, which writes them, and by planning, which
promises what can be measured.
"""

from __future__ import annotations

_FIRST = 5


def is_stored(epoch: int) -> bool:
    """Whether a training writes its weights after this epoch, counted from 1."""
    return epoch <= _FIRST or epoch & (epoch - 1) == 0


def stored_epochs(epochs: int) -> tuple[int, ...]:
    """Returns the epochs after which a training of so many epochs writes its weights."""
    first = range(1, min(epochs, _FIRST) + 1)
    powers = (1 << exponent for exponent in range(epochs.bit_length()))
    return (*first, *(epoch for epoch in powers if epoch > _FIRST))


def kept_epochs(epochs: int) -> tuple[int, ...]:
    """Returns the epochs whose weights are there when a training has run so many, in order.

    Args:
        epochs: Epochs of the training, at least 1; its last weights are always kept.
    """
    return tuple(sorted({*stored_epochs(epochs), epochs}))


def weights_name(epoch: int, epochs_run: int) -> str:
    """Returns where weights lie in a run's folder, without `.npz`: `epochs/3`, or `final`.

    Args:
        epoch: The epoch after which they are wanted.
        epochs_run: Epochs until the training stopped.
    """
    return "final" if epoch == epochs_run else f"epochs/{epoch}"
