"""What memory a batch takes: a line of peaks over batch sizes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from batchscope.analysis import step_cost
from batchscope.analysis.step_cost import Estimate

# By how much a peak must exceed the lowest one: the same batch repeats to about 1 MB. Below that, a
# peak is what starting and tracing took for a moment, whatever the batch.
_RESOLVABLE_MB = 4.0


class Memory(NamedTuple):
    """Peak memory = fixed + batch size x per example, both in MB; NaN where it cannot be fitted.

    The interval of the slope is Student's t over batch sizes, of three or more.
    """

    fixed_mb: float = math.nan
    per_image: Estimate = Estimate(math.nan)


def memory_per_image(batch_sizes: Any, peaks_mb: Any) -> Memory:
    """Fits what memory a batch takes to the peaks, NaN where unknown, that exceed the lowest."""
    sizes, peaks = np.asarray(batch_sizes, float), np.asarray(peaks_mb, float)
    lowest = peaks.min(where=np.isfinite(peaks), initial=math.inf)
    used = peaks >= lowest + _RESOLVABLE_MB  # never what is unknown
    if len(set(sizes[used])) < 2:
        return Memory()
    (fixed, slope), covariance, _ = step_cost.line(sizes[used], peaks[used], 1.0)
    half = step_cost.student_t(used.sum() - 2) * math.sqrt(covariance[1, 1])
    return Memory(fixed, Estimate(slope, slope - half, slope + half))
