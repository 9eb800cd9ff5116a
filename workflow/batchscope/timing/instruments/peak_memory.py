"""Peaks of memory: of this process as the kernel keeps it, and of TensorFlow's tensors.

Source: proc(5), /proc/[pid]/clear_refs and /proc/[pid]/status.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from batchscope.timing.instruments.units import KIBIBYTE, MEGABYTE

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class PeakMemory(NamedTuple):
    """Peak resident memory of this process.

    Args:
        megabytes: 10^6 bytes.
        source: `VmHWM` or `ru_maxrss`.
        since: `reset` or `start`, of the process.
    """

    megabytes: float
    source: str
    since: str


_was_reset = False


def reset_peak_memory() -> bool:
    """Lets `peak_memory` count from now on.

    Returns:
        Whether the system allows it; if not, the peak stays that of the whole process.
    """
    global _was_reset
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    _was_reset = True
    return True


def peak_memory() -> PeakMemory:
    """Returns the peak resident memory since the last reset, as the kernel has kept it.

    A peak between two samples is part of it. From /proc/self/status on Linux; elsewhere from
    getrusage, which knows no reset.
    """
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1 if sys.platform == "darwin" else KIBIBYTE
        return PeakMemory(largest * unit / MEGABYTE, "ru_maxrss", "start")
    since = "reset" if _was_reset else "start"
    return PeakMemory(kibibytes * KIBIBYTE / MEGABYTE, "VmHWM", since)


def reset_tensorflow_peak_memory(device: str) -> bool:
    """Lets `tensorflow_peak_memory` count from now on.

    Args:
        device: `cpu`, `gpu`, or one of several, such as `GPU:1`.

    Returns:
        Whether TensorFlow keeps count on the device.
    """
    import tensorflow as tf

    try:
        tf.config.experimental.reset_memory_stats(_tensorflow_name(device))
    except ValueError:
        return False
    return True


def tensorflow_peak_memory(device: str) -> float | None:
    """Returns the most that TensorFlow's tensors held at once on a device, since the last reset.

    It is what TensorFlow's allocator gave out, in blocks of up to twice a tensor's size, not what
    the allocator has taken from the system. TensorFlow's documentation promises it for GPUs and
    TPUs alone; 2.21 counts on the CPU too, where it leaves out what is smaller than 256 KiB.

    Args:
        device: `cpu`, `gpu`, or one of several, such as `GPU:1`.

    Returns:
        10^6 bytes; None where TensorFlow does not report it.
    """
    import tensorflow as tf

    try:
        peak = tf.config.experimental.get_memory_info(_tensorflow_name(device))["peak"]
    except ValueError:
        return None
    # An allocator that keeps no count says 0.
    return peak / MEGABYTE if peak else None


def _tensorflow_name(device: str) -> str:
    name = device.upper()
    return name if ":" in name else f"{name}:0"
