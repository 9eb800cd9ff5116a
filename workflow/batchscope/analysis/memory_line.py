"""What memory a batch takes: a line of peaks over batch sizes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope.analysis.step_cost import Estimate
from batchscope.catalogue.outcomes import LEVEL

# By how much a peak must exceed the lowest one: the same batch repeats to about 1 MB. Below that, a
# peak is what starting and tracing took for a moment, whatever the batch.
_RESOLVABLE_MB = 4.0


class Memory(NamedTuple):
    """Peak memory = fixed + batch size x per example, both in MB; NaN where it cannot be fitted."""

    fixed_mb: float = math.nan
    per_image: Estimate = Estimate(math.nan)


def memory_per_image(batch_sizes: Any, peaks_mb: Any) -> Memory:
    """Fits what memory a batch takes, by least squares to the peaks that exceed the lowest one.

    Args:
        batch_sizes: Batch sizes, shape (sizes,).
        peaks_mb: Their peaks in MB; NaN where one is unknown.

    Returns:
        The line, with the 95 % interval of its slope (Student's t over batch sizes), which says
        how well a line fits; NaN with fewer than two sizes to fit, without interval for two.
    """
    sizes, peaks = np.asarray(batch_sizes, float), np.asarray(peaks_mb, float)
    lowest = peaks.min(where=np.isfinite(peaks), initial=math.inf)
    used = peaks >= lowest + _RESOLVABLE_MB  # never what is unknown
    sizes, peaks = sizes[used], peaks[used]
    if len(set(sizes)) < 2:
        return Memory()
    slope, fixed = np.polyfit(sizes, peaks, 1).tolist()
    residuals, away, free = peaks - fixed - slope * sizes, sizes - sizes.mean(), len(sizes) - 2
    half = math.nan
    if free:
        error = math.sqrt(residuals @ residuals / free / (away @ away))
        half = float(special.stdtrit(free, 1 - LEVEL / 2)) * error
    return Memory(fixed, Estimate(slope, slope - half, slope + half))
