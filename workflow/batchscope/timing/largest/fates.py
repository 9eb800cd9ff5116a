"""Errors of a step that are the result of its batch size, and not a failure of the job."""

from __future__ import annotations

from batchscope.store import records


class NotFinite(ArithmeticError):
    """The loss is not finite, so the loop stopped short: there is nothing to time."""


def known() -> dict[type[BaseException], str]:
    """Returns the errors, each with its status word."""
    import tensorflow as tf

    return {
        tf.errors.ResourceExhaustedError: records.OUT_OF_MEMORY,
        MemoryError: records.OUT_OF_MEMORY,
        NotFinite: records.DIVERGED,
    }


def word(error: BaseException, fates: dict[type[BaseException], str]) -> str:
    """Returns the status word of an error that is among some fates."""
    return next(status for kind, status in fates.items() if isinstance(error, kind))
