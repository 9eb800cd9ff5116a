"""Find an allocator's refusal of memory in an error or in a text, of TensorFlow or others."""

import re

MESSAGE_LENGTH = 300  # largest number of characters of a message in a record
_ALLOCATOR_REFUSAL = re.compile(
    r"std::bad_alloc|MemoryError|ResourceExhausted|RESOURCE_EXHAUSTED|OOM when allocating"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|([Cc]an't|[Cc]annot) allocate memory|([Uu]nable|[Ff]ailed) to allocate"
    r"|out of memory|Memory allocation failed"
    r"|Operation received an exception:Status: 1, "  # oneDNN's dnnl_out_of_memory
)
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\{\{.*?\}\} ?")


def error_refusal(error: BaseException | None) -> str | None:
    """Return the line of an error with an allocator's refusal; None without a refusal.

    While TensorFlow describes a refusal, a second refusal may raise an error of another kind. The
    first refusal is then the context of that error.
    """
    if error is None:
        return None
    # Some errors have no message, so the name of the type is part of the text.
    line = text_refusal(f"{error}\n{type(error).__name__}: {error}")
    return error_refusal(error.__context__) or line


def text_refusal(text: str) -> str | None:
    """Return the first line of a text with an allocator's refusal; None without a refusal."""
    for line in text.splitlines():
        # TensorFlow logs "not a failure" if another allocation then succeeded.
        if _ALLOCATOR_REFUSAL.search(line) and "not a failure" not in line:
            return _LOG_PREFIX.sub("", line).strip()[:MESSAGE_LENGTH]
    return None
