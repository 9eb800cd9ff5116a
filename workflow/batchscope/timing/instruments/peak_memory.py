"""Peaks of memory: of this process as the kernel keeps it, and of TensorFlow's tensors.

Source: proc(5), /proc/[pid]/clear_refs and /proc/[pid]/status.
"""

from __future__ import annotations

import sys
from pathlib import Path

from batchscope.timing.instruments.processes import KIBIBYTE, MEGABYTE

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def reset_peak_memory() -> bool:
    """Lets `peak_memory` count from now on; returns whether the system allows it."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_memory() -> float:
    """Returns the peak resident memory since the last reset, 10^6 bytes, as the kernel kept it.

    From /proc/self/status on Linux; elsewhere from getrusage, which knows no reset.
    """
    try:
        return status_mb("VmHWM")
    except OSError:
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest * (1 if sys.platform == "darwin" else KIBIBYTE) / MEGABYTE


def status_mb(key: str) -> float:
    """Returns an entry of /proc/self/status, which is in kB, in 10^6 bytes; raises `OSError`."""
    for line in _STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * KIBIBYTE / MEGABYTE
    raise OSError(f"{_STATUS}: received no {key}; a Linux kernel is expected.")


def reset_tensorflow_peak(device: str) -> bool:
    """Lets `tensorflow_peak` count from now on; returns whether TensorFlow keeps count."""
    import tensorflow as tf

    try:
        tf.config.experimental.reset_memory_stats(_tensorflow_name(device))
    except ValueError:
        return False
    return True


def tensorflow_peak(device: str) -> int | None:
    """Returns the most bytes that TensorFlow's tensors held at once since the last reset, or None.

    It is what TensorFlow's allocator gave out, in blocks of up to twice a tensor's size, not what
    the allocator has taken from the system. TensorFlow's documentation promises it for GPUs and
    TPUs alone; 2.21 counts on the CPU too, where it leaves out what is smaller than 256 KiB.

    Args:
        device: `cpu`, `gpu`, or one of several, such as `GPU:1`.
    """
    import tensorflow as tf

    try:
        peak = tf.config.experimental.get_memory_info(_tensorflow_name(device))["peak"]
    except ValueError:
        return None
    return peak or None  # an allocator that keeps no count says 0


def _tensorflow_name(device: str) -> str:
    name = device.upper()
    return name if ":" in name else f"{name}:0"
