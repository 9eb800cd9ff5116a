"""Errors of a step that are the result of its batch size, and not a failure of the job."""

from __future__ import annotations

import re

from batchscope.store import records

SHOWN = 300  # characters of a message that are kept
# What allocators say where memory runs out.
_REFUSAL = re.compile(
    r"std::bad_alloc|MemoryError|ResourceExhausted|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|Cannot allocate memory|[Uu]nable to allocate|failed to allocate|out of memory"
)
# What TensorFlow's allocators say of what they then got in another way.
_NO_REFUSAL = re.compile(r"not a failure")
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\{\{.*?\}\} ?")


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


def refusal(text: str) -> str | None:
    """Returns the first line of a text in which an allocator refuses; None where none does."""
    for line in text.splitlines():
        if _REFUSAL.search(line) and not _NO_REFUSAL.search(line):
            return _LOG_PREFIX.sub("", line).strip()[:SHOWN]
    return None
