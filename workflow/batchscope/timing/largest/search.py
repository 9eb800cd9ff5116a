"""The search for the largest batch that fits into memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from batchscope.store import records

# Outcomes of a try. Of all but the first and the last it is only known that the size did not fit.
FITS = records.FITS
OUT_OF_MEMORY = records.OUT_OF_MEMORY  # an allocator's refusal
OVER_LIMIT = "over_limit"  # more was taken than the limit allows
KILLED = "killed"  # by SIGKILL, as the kernel does where memory runs out
FAILED = "failed"  # any other error: it says nothing about memory

# Why a search ended.
RESOLVED = "resolved"
MOST_FITS = "most_fits"  # the largest that may be tried
NOTHING_FITS = "nothing_fits"

RESOLUTION = 1 / 32


@dataclass(frozen=True)
class Try:
    """What came of one batch size; times and samples include the start of the process.

    Attributes:
        peak_mb: Most memory taken, in MB. Of a child that was ended it is the most that was
            seen, a lower bound; None where nothing was seen.
        baseline_mb: The same before the batch was there: the framework and the model.
        message: Why the size did not fit.
        utilisation: Summary of the samples, as `samples.summary` gives it.
        samples: As `sampler.as_lists` gives them.
        gpu_device: The GPU that was sampled, as `Sampler.gpu_device` names it, if any.
    """

    batch_size: int
    outcome: str
    peak_mb: float | None = None
    baseline_mb: float | None = None
    seconds: float = 0.0
    message: str = ""
    utilisation: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[Any]] = field(default_factory=dict)
    gpu_device: dict[str, str] | None = None


@dataclass(frozen=True)
class Result:
    """What a search found; where it failed, the message of the last try says why."""

    largest: int  # that was seen to fit; 0 if none was
    refused: int | None  # the smallest that was seen not to fit; None if none was
    stopped: str  # RESOLVED, MOST_FITS, NOTHING_FITS or FAILED
    tries: tuple[Try, ...]


def search(
    fits: Callable[[int], Try],
    start: int = 1,
    most: int | None = None,
    step: int = 1,
    resolution: float = RESOLUTION,
) -> Result:
    """Finds the largest batch size that fits: doubling until one does not, then bisection.

    Every try halves what is left or doubles what is known, so that the search ends whatever the
    answers are. Where they are not monotone, the result is a size that fits beside one that does
    not, and perhaps not the only such pair.

    Args:
        most: Largest size that may be tried; None for no bound.
        step: Sizes are `start` plus a multiple of it.
        resolution: The bisection ends where the smallest size that does not fit is no further
            from the largest that does than this share of it, or than one step; 0 for exact.

    Raises:
        ValueError: If an argument is out of range.
    """
    if start < 1 or step < 1 or resolution < 0 or (most is not None and most < start):
        raise ValueError(
            f"search: received start {start}, most {most}, step {step}, resolution {resolution}; "
            "1 <= start <= most, step >= 1 and resolution >= 0 are expected."
        )

    def on_grid(size: int) -> int:
        size = size if most is None else min(size, most)
        return start + (size - start) // step * step

    tries: list[Try] = []
    low, high, size = 0, None, start
    while True:
        tries.append(fits(size))
        if tries[-1].outcome == FAILED:
            return Result(low, high, FAILED, tuple(tries))
        if tries[-1].outcome == FITS:
            low = size
        else:
            high = size
        if high is None:
            size = on_grid(max(2 * low, low + step))
            size = size if size > low else on_grid(low + step)
            if size == low:
                return Result(low, None, MOST_FITS, tuple(tries))
            continue
        if not low:
            return Result(0, high, NOTHING_FITS, tuple(tries))
        if high - low <= max(step, low * resolution):
            return Result(low, high, RESOLVED, tuple(tries))
        size = low + (high - low) // step // 2 * step
