"""How much memory a process may take here: what is asked for, and what is free."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from batchscope.host import control_groups
from batchscope.timing.instruments.units import MEGABYTE

FREE_SHARE = 0.9  # of the free memory: the rest is for what else goes on


@dataclass(frozen=True)
class Limits:
    """How much memory a try may take."""

    device: str  # `cpu` or `gpu`, whose memory is looked at
    asked_mb: float  # what the configuration allows; 0 for all that is free
    free_mb: float  # what a process may take of the main memory without harm to the machine

    @property
    def memory_mb(self) -> float | None:
        """The limit of the device's memory; None for a GPU's own size."""
        return self.host_mb if self.device == "cpu" else self.asked_mb or None

    @property
    def host_mb(self) -> float:
        """The limit of resident memory, above which a child is ended."""
        asked = self.asked_mb if self.device == "cpu" else 0.0
        return min(asked or self.free_mb, self.free_mb)


def now(device: str = "cpu", asked_mb: float = 0) -> Limits:
    """Returns the limits that hold on this machine now.

    Never more than 90 % of the free memory: a limit above it would leave the decision to the
    kernel, which ends other processes too.

    Args:
        asked_mb: What the configuration allows, in MB; 0 for 90 % of what is free on a CPU, and
            for all that TensorFlow can have on a GPU.
    """
    return Limits(device, float(asked_mb), FREE_SHARE * free_mb())


def free_mb() -> float:
    """Returns the memory that this process and its children can still have, in MB.

    The least of what the machine has available and what every control group above this process
    leaves, as under SLURM or in a container.
    """
    left = [group.left() for group in control_groups.own()]
    free = [psutil.virtual_memory().available, *(most for most in left if most is not None)]
    return min(free) / MEGABYTE
