"""The batch size over a training: factor `batch_schedule`, and the updates that come of it.

A rise stands in place of a division of the learning rate by a = `batch_rise_factor`. After i rises
the batch size is b = min(a^i, largest_batch_size / batch_size) times the first one, and the rate is
that of the first update times

- a^-i b, of sgd: where nothing limits the batch size the rate stays (S. L. Smith et al. 2018,
  "Don't Decay the Learning Rate, Increase the Batch Size", arXiv 1711.00489);
- a^-i sqrt(b), of all others, whose updates are normalised: it is divided by sqrt(a) at each rise
  (A. Meterez et al. 2025, "Seesaw", arXiv 2510.14717).

A batch size that is at its limit leaves the division to the rate. Where the rises stand:

- `steps`: `batch_rises` of them, the first at the share `batch_rises_from` of the examples of the
  horizon, the others at equal distances from there to the end;
- `seesaw`: wherever the rate of `schedule`, a cosine or a line from the end of the warm-up to the
  horizon, has fallen by another factor a; down to a hundredth of it.

A phase begins with the first update before which its share of the examples was used: batches are
never cut.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

STEPS, SEESAW = "steps", "seesaw"
_LOWEST = 0.01  # share of the first rate, down to which `seesaw` follows a schedule
_ROUNDING = 1e-9  # of shares: three tenths of ten examples are three


class Phase(NamedTuple):
    """A part of a training with one batch size."""

    share: float  # of the examples of the horizon, at which it begins
    batch_size: int
    rate: float  # by which the first phase's rate is multiplied


class Segment(NamedTuple):
    """Updates of one epoch with one batch size: number k uses examples from offset + k size on."""

    stop: int  # the update after its last, counted from the epoch's first
    offset: int  # in examples of the epoch's order; below 0 where earlier batches were smaller
    size: int


def phases(factors: dict[str, Any]) -> tuple[Phase, ...]:
    """Returns the phases of a run, one for each batch size or rate."""
    first, most = factors["batch_size"], factors["largest_batch_size"]
    found = [Phase(0.0, first, 1.0)]
    for index, share in enumerate(_rises(factors), 1):
        wanted = factors["batch_rise_factor"] ** index
        size = min(round(first * wanted), most)
        found.append(Phase(share, size, rate_factor(factors["optimizer"], size / first) / wanted))
    return tuple(found)


def rate_factor(optimizer: str, times: float) -> float:
    return times if optimizer == "sgd" else math.sqrt(times)


def batch_sizes(factors: dict[str, Any]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(phase.batch_size for phase in phases(factors)))


def shares(factors: dict[str, Any]) -> dict[int, float]:
    """Returns batch size -> its share of the examples of the horizon."""
    found: dict[int, float] = {}
    every = phases(factors)
    for phase, end in zip(every, [*(each.share for each in every[1:]), 1.0], strict=True):
        found[phase.batch_size] = found.get(phase.batch_size, 0.0) + end - phase.share
    return found


def _rises(factors: dict[str, Any]) -> Iterator[float]:
    """Yields the shares of the horizon's examples at which a rise stands, ascending."""
    if factors["batch_schedule"] == STEPS:
        count, begin = factors["batch_rises"], factors["batch_rises_from"]
        yield from (begin + (1 - begin) * index / count for index in range(count))
    elif factors["batch_schedule"] == SEESAW:
        begin, factor = factors["warmup_epochs"] / factors["epochs"], factors["batch_rise_factor"]
        for index in range(1, 1 + int(-math.log(_LOWEST) / math.log(factor) + _ROUNDING)):
            left = factor**-index
            cosine = math.acos(2 * left - 1) / math.pi
            fallen = cosine if factors["schedule"] == "cosine" else 1 - left
            yield begin + (1 - begin) * fallen


class Course:
    """The updates of a training, epoch by epoch, each of which has all `examples` once."""

    def __init__(self, factors: dict[str, Any], examples: float) -> None:
        self.phases, self.epochs, self.examples = phases(factors), factors["epochs"], examples
        horizon = self.epochs * examples
        self._starts = [0, *(each.share * horizon - _ROUNDING for each in self.phases[1:])]

    @property
    def varies(self) -> bool:
        return len(self.phases) > 1

    def segments(self, epoch: int) -> list[Segment]:
        """Returns the parts of an epoch, counted from 0, one for each batch size in it."""
        before, used, step = epoch * self.examples, 0, 0
        found: list[Segment] = []
        ends = [*self._starts[1:], math.inf]
        while used < self.examples:
            place = next(at for at, end in enumerate(ends) if before + used < end)
            size = self.phases[place].batch_size
            end = min(ends[place] - before, self.examples)
            steps = math.ceil((end - used) / size)
            found.append(Segment(step + steps, used - step * size, size))
            step, used = step + steps, used + steps * size
        return found

    def steps(self, epoch: int) -> int:
        return self.segments(epoch)[-1].stop

    @functools.cached_property
    def _ends(self) -> list[int]:
        return [*itertools.accumulate(map(self.steps, range(self.epochs)), initial=0)]

    def updates(self, epochs: int) -> int:
        return self._ends[epochs] if self.varies else epochs * self.steps(0)

    def used(self, epoch: int) -> list[int]:
        """Returns the examples of an epoch used before each of its updates and after the last."""
        found: list[int] = []
        for stop, offset, size in self.segments(epoch):
            found += range(offset + len(found) * size, offset + stop * size, size)
        return [*found, self.examples]

    def used_by(self, epoch: int, step: int) -> int:
        _, offset, size = next(each for each in self.segments(epoch) if step <= each.stop)
        return min(offset + step * size, self.examples)

    def rates(self) -> list[tuple[int, float]]:
        """Returns the updates at which the rate changes, and what the first is multiplied by."""
        found = [(0, 1.0)]
        for phase, start in zip(self.phases[1:], self._starts[1:], strict=True):
            epoch, rest = divmod(math.ceil(start), self.examples)
            if epoch < self.epochs:
                update = self.updates(epoch) + bisect.bisect_left(self.used(epoch), rest)
                if found[-1][0] == update:  # the batch before spans the phase
                    found.pop()
                found.append((update, phase.rate))
        return found

    def examples_by_size(self, used: float) -> dict[int, float]:
        """Returns batch size -> how many of the first examples used are its own."""
        found: dict[int, float] = {}
        ends = [*self._starts[1:], math.inf]
        for phase, start, end in zip(self.phases, self._starts, ends, strict=True):
            own = used - start if used < end else end - start
            if not own <= 0:  # NaN too: nobody knows how many there are
                found[phase.batch_size] = found.get(phase.batch_size, 0.0) + own
        return found
