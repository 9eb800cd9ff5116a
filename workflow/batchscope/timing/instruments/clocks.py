"""How much of the machine this process and others used: readings of clocks."""

from __future__ import annotations

import time
from typing import NamedTuple

import psutil

_NOT_BUSY = {"idle", "iowait", "guest", "guest_nice"}  # user and nice contain the guests' time


class Clock(NamedTuple):
    """Time that has passed, and core-seconds that were used so far, at one moment."""

    seconds: float
    process: float  # of this one without its children, or one that is watched with its descendants
    machine: float  # what a hypervisor took included


def cpu_times() -> Clock:
    """Returns the clocks now, the process being this one, in some 50 microseconds.

    The machine's clock may advance in ticks of 10 ms per core, so that a block of a quarter of a
    second has others' cores to within a few hundredths.
    """
    times = psutil.cpu_times()._asdict()
    machine = sum(value for name, value in times.items() if name not in _NOT_BUSY)
    return Clock(time.monotonic(), time.process_time(), machine)


def foreign_cores(before: Clock, after: Clock) -> float:
    """Returns how many cores others kept busy, on average, between two readings.

    Others are all processes but this one, its children among them, and, on a virtual machine,
    the machine's other guests as far as they held up this one. At least 0.
    """
    seconds = after.seconds - before.seconds
    if seconds <= 0:
        return 0.0
    foreign = (after.machine - before.machine) - (after.process - before.process)
    return max(0.0, foreign / seconds)
