"""Errors of a step that are results of its batch size, not failures of the job."""

from batchscope.host.allocation_errors import refusal_of
from batchscope.store import records


class NonFiniteLoss(ArithmeticError):
    """The loss is not finite, so the steps cannot be timed."""


def status(error: Exception) -> str:
    """Return the status of a batch size after an error of its steps.

    Raises:
        Exception: The error itself, if it does not come from the batch size.
    """
    if isinstance(error, NonFiniteLoss):
        return records.DIVERGED
    if refusal_of(error) is None:
        raise error
    return records.OUT_OF_MEMORY
