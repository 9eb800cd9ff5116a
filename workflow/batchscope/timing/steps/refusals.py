"""What allocators say where memory runs out."""

from __future__ import annotations

import re

SHOWN = 300  # characters of a message that are kept
_REFUSAL = re.compile(
    r"std::bad_alloc|MemoryError|ResourceExhausted|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|Cannot allocate memory|[Uu]nable to allocate|failed to allocate|out of memory"
)
# What TensorFlow's allocators say of what they then got in another way.
_NO_REFUSAL = re.compile(r"not a failure")
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\{\{.*?\}\} ?")


def refusal(text: str) -> str | None:
    """Returns the first line of a text in which an allocator refuses; None where none does."""
    for line in text.splitlines():
        if _REFUSAL.search(line) and not _NO_REFUSAL.search(line):
            return _LOG_PREFIX.sub("", line).strip()[:SHOWN]
    return None
