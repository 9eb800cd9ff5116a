"""What the timings of steps ask of whatever computes the steps, and how it is opened."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from batchscope.catalogue import framework_names
from batchscope.catalogue.sweep_names import Sweep
from batchscope.host import tensorflow_start
from batchscope.timing import TimingJob
from batchscope.timing.instruments.sampler import Sampler


class Subject(abc.ABC):
    """A sweep, ready to be timed; to be entered as a context.

    Attributes:
        examples: Training examples of an epoch.
        fates: Errors of a step that are the result of its batch size and not a failure of the
            job, each with its status word.
        unit: Steps of one call: only multiples of it are to be timed.
    """

    examples: int
    fates: dict[type[BaseException], str]
    unit = 1

    def __init__(self, job: TimingJob) -> None:
        self.sweep: Sweep = job.subject
        # Before a framework is started, which may leave this process fewer cores.
        self.threads = tensorflow_start.threads_of(job.factors["threads"])

    def __enter__(self) -> Subject:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Removes its temporary files, where it has some."""
        return

    @abc.abstractmethod
    def runner(self, batch_size: int, delayed: bool = True) -> Callable[[int], float]:
        """Returns what runs so many consecutive steps and returns the seconds that they took.

        Every step is of whole batches: an epoch's last, smaller one is left out, so that a
        time belongs to its batch size. It waits for the device at its end, and may raise one of
        the fates. After a change of batch size it runs some steps untimed first.

        Args:
            delayed: Whether the sweep's delay, where it has one, comes before every step.
        """

    def sampler(self, interval: float = 0.1) -> Sampler:
        """Returns a sampler of this process's cores and GPU, to be entered."""
        gpu = 0 if self.sweep.factors["device"] == "gpu" else None
        return Sampler(interval, self.threads, gpu)

    def ceiling(self) -> dict[str, Any] | None:
        """Measures the peak of a matrix product, in TensorFlow; None in other frameworks."""
        return None

    def counted(self) -> dict[str, Any] | None:
        """Returns the operations per example of Keras's layers, and what is not counted."""
        return None

    @abc.abstractmethod
    def reset_peak(self) -> bool:
        """Lets `peak_mb` count from now on; returns whether the allocator keeps count."""

    @abc.abstractmethod
    def peak_mb(self) -> float | None:
        """Returns the most that the allocator gave out at once since, 10^6 bytes; or None."""


def open_subject(job: TimingJob) -> Subject:
    """Returns what computes a sweep's steps; TensorFlow, where it is that, must be started.

    Raises:
        UserError: If the data are missing or fewer than the largest batch, or the framework finds
            no GPU that is asked for.
    """
    if job.factors["framework"] == framework_names.OWN:
        from batchscope.timing.steps.subject import TensorFlowSubject

        return TensorFlowSubject(job)
    from batchscope.timing.steps.framework_subject import FrameworkSubject

    return FrameworkSubject(job)
