"""Errors of a step that are the result of its batch size, and not a failure of the job."""

import re

from batchscope.store import records

SHOWN = 300  # characters of a message that are kept
# What allocators say where memory runs out, in TensorFlow and other frameworks.
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
    """Returns the status of a batch size whose steps ended in an error; raises a failure."""
    if isinstance(error, NonFiniteLoss):
        return records.DIVERGED
    if refusal_of(error) is None:
        raise error
    return records.OUT_OF_MEMORY


def refusal_of(error: Exception) -> str | None:
    """Returns the line of an error in which an allocator refuses; None where none does."""
    # The text may begin with a heading; the type alone may be all that there is.
    return refusal(f"{error}\n{type(error).__name__}: {error}")


def refusal(text: str) -> str | None:
    """Returns the first line of a text in which an allocator refuses; None where none does."""
    for line in text.splitlines():
        # TensorFlow adds that it is "not a failure" where it then got the memory in another way.
        if _REFUSAL.search(line) and "not a failure" not in line:
            return _LOG_PREFIX.sub("", line).strip()[:SHOWN]
    return None
