"""Batch size during a training: phases of the factor `batch_schedule`, and their updates.

A rise of the batch size replaces a division of the learning rate by a = `batch_rise_factor`. After
i rises the batch size is b = min(a^i, largest_batch_size / batch_size) times the first one. The
first rate is multiplied by

- a^-i b for sgd, so that the rate is constant below the largest batch size (S. L. Smith et al.
  2018, "Don't Decay the Learning Rate, Increase the Batch Size", arXiv 1711.00489);
- a^-i sqrt(b) for all other optimizers, which normalise their updates, so that each rise divides
  the rate by sqrt(a) (A. Meterez et al. 2025, "Seesaw", arXiv 2510.14717).

At the largest batch size, only the rate changes. The schedules place the rises as follows:

- `steps`: `batch_rises` rises, the first after the share `batch_rises_from` of the examples of the
  horizon, the others at equal distances from there to the end;
- `seesaw`: a rise each time the rate of `schedule`, a cosine or a line from the end of the warm-up
  to the horizon, has fallen by another factor a, until it is a hundredth.

A phase begins with the first update after its share of the examples, since batches are never cut.
"""

import bisect
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

STEPS, SEESAW = "steps", "seesaw"
_LOWEST = 0.01  # lowest rate of `seesaw`, as a share of the first one
_ROUNDING = 1e-9  # tolerance of shares, so that three tenths of ten examples are three


class Phase(NamedTuple):
    """A part of a training with one batch size."""

    share: float  # share of the horizon's examples before the phase
    batch_size: int
    rate: float  # learning rate divided by that of the first phase


class Segment(NamedTuple):
    """Updates of one epoch with one batch size. Update k begins at example offset + k * size.

    The offset is negative if earlier batches of the epoch were smaller.
    """

    stop: int  # number of the update that follows, counted from the start of the epoch
    offset: int
    size: int


def batch_phases(factors: dict[str, Any]) -> tuple[Phase, ...]:
    """Return the phases of a run, one for each batch size or rate."""
    first, largest = factors["batch_size"], factors["largest_batch_size"]
    result = [Phase(0.0, first, 1.0)]
    for index, share in enumerate(_rise_positions(factors), 1):
        rise = factors["batch_rise_factor"] ** index
        size = min(round(first * rise), largest)
        result.append(Phase(share, size, rate_factor(factors["optimizer"], size / first) / rise))
    return tuple(result)


def rate_factor(optimizer: str, times: float) -> float:
    """Return the factor on the learning rate at a batch size that is `times` as large."""
    return times if optimizer == "sgd" else math.sqrt(times)


def batch_sizes(factors: dict[str, Any]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(phase.batch_size for phase in batch_phases(factors)))


def example_shares(factors: dict[str, Any]) -> dict[int, float]:
    """Return batch size -> its share of the examples of the horizon."""
    result: dict[int, float] = {}
    parts = batch_phases(factors)
    ends = [*(phase.share for phase in parts[1:]), 1.0]
    for phase, end in zip(parts, ends, strict=True):
        result[phase.batch_size] = result.get(phase.batch_size, 0.0) + end - phase.share
    return result


def _rise_positions(factors: dict[str, Any]) -> Iterator[float]:
    """Yield the positions of the rises as shares of the horizon's examples, in rising order."""
    if factors["batch_schedule"] == STEPS:
        count, begin = factors["batch_rises"], factors["batch_rises_from"]
        yield from (begin + (1 - begin) * index / count for index in range(count))
    elif factors["batch_schedule"] == SEESAW:
        begin, factor = factors["warmup_epochs"] / factors["epochs"], factors["batch_rise_factor"]
        for index in range(1, 1 + int(-math.log(_LOWEST) / math.log(factor) + _ROUNDING)):
            rate = factor**-index
            cosine = math.acos(2 * rate - 1) / math.pi
            position = cosine if factors["schedule"] == "cosine" else 1 - rate
            yield begin + (1 - begin) * position


class Course:
    """The updates of a training, epoch by epoch. An epoch uses each of its `examples` once."""

    def __init__(self, factors: dict[str, Any], examples: float) -> None:
        self.phases, self.epochs, self.examples = batch_phases(factors), factors["epochs"], examples
        horizon = self.epochs * examples
        # Phases with the used examples before and after each.
        starts = [0, *(phase.share * horizon - _ROUNDING for phase in self.phases[1:])]
        self._spans = list(zip(self.phases, starts, [*starts[1:], math.inf], strict=True))

    @property
    def varies(self) -> bool:
        return len(self.phases) > 1

    def segments(self, epoch: int) -> list[Segment]:
        """Return the segments of an epoch, one for each of its batch sizes; epochs count from 0."""
        before, used, step = epoch * self.examples, 0, 0
        segments: list[Segment] = []
        while used < self.examples:
            phase, end = next((phase, end) for phase, _, end in self._spans if before + used < end)
            size = phase.batch_size
            steps = math.ceil((min(end - before, self.examples) - used) / size)
            segments.append(Segment(step + steps, used - step * size, size))
            step, used = step + steps, used + steps * size
        return segments

    def epoch_updates(self, epoch: int) -> int:
        return self.segments(epoch)[-1].stop

    @functools.cached_property
    def _updates_by_epochs(self) -> list[int]:
        return list(itertools.accumulate(map(self.epoch_updates, range(self.epochs)), initial=0))

    def updates(self, epochs: int) -> int:
        return self._updates_by_epochs[epochs] if self.varies else epochs * self.epoch_updates(0)

    def example_positions(self, epoch: int) -> list[int]:
        """Return the used examples of an epoch before each of its updates and after the last."""
        positions: list[int] = []
        for stop, offset, size in self.segments(epoch):
            positions += range(offset + len(positions) * size, offset + stop * size, size)
        return [*positions, self.examples]

    def examples_after(self, epoch: int, step: int) -> int:
        _, offset, size = next(segment for segment in self.segments(epoch) if step <= segment.stop)
        return min(offset + step * size, self.examples)

    def rate_changes(self) -> list[tuple[int, float]]:
        """Return the updates that change the rate, with the new rate over the first one."""
        changes = [(0, 1.0)]
        for phase, start, _ in self._spans[1:]:
            epoch, position = divmod(math.ceil(start), self.examples)
            if epoch < self.epochs:
                positions = self.example_positions(epoch)
                update = self.updates(epoch) + bisect.bisect_left(positions, position)
                if changes[-1][0] == update:  # The previous batch spans the phase.
                    changes.pop()
                changes.append((update, phase.rate))
        return changes

    def examples_by_size(self, used: float) -> dict[int, float]:
        """Return batch size -> number of its examples among the first `used` ones."""
        counts: dict[int, float] = {}
        for phase, start, end in self._spans:
            count = used - start if used < end else end - start
            if not count <= 0:  # An unknown number is NaN and stays NaN.
                counts[phase.batch_size] = counts.get(phase.batch_size, 0.0) + count
        return counts
