"""Errors of a step that are results of its batch size, not failures of the job."""

import re

from batchscope.store import records

MESSAGE_LENGTH = 300  # largest number of characters of a message in a record
# Messages of allocators that are out of memory, in TensorFlow and other frameworks.
_REFUSAL = re.compile(
    r"std::bad_alloc|MemoryError|ResourceExhausted|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|([Cc]an't|[Cc]annot) allocate memory|([Uu]nable|[Ff]ailed) to allocate"
    r"|out of memory|Memory allocation failed"
)
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\{\{.*?\}\} ?")


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


def refusal_of(error: Exception) -> str | None:
    """Return the line of an error with an allocator's refusal; None without a refusal."""
    # The type is part of the text, because some errors have no message.
    return refusal(f"{error}\n{type(error).__name__}: {error}")


def refusal(text: str) -> str | None:
    """Return the first line of a text with an allocator's refusal; None without a refusal."""
    for line in text.splitlines():
        # TensorFlow logs "not a failure" if another allocation then succeeded.
        if _REFUSAL.search(line) and "not a failure" not in line:
            return _LOG_PREFIX.sub("", line).strip()[:MESSAGE_LENGTH]
    return None
