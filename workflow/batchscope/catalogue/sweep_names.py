"""Timing sweeps: what one timing job measures, over several batch sizes, and its name in paths.

A job that compares batch sizes times all of them itself, in turns: what disturbs the machine
then disturbs them alike. It is named by its factors, the batch sizes as ranges::

    patches-1f0a93c2+benchmark_cnn+bs=1-4_8_15-18+opt=sgd+dev=cpu+th=1+loop=eager
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.registry import OF_SWEEPS
from batchscope.catalogue.run_factors import SWEEP_FACTORS, TIMING_ONLY_FACTORS
from batchscope.catalogue.run_names import IDS, Codec

_LEAST_RANGE = 3  # successive batch sizes that are written as a range


@dataclass(frozen=True)
class Sweep:
    """What one timing job measures."""

    factors: dict[str, Any]  # every one but the batch size, by full name
    batch_sizes: tuple[int, ...] = ()  # ascending; empty for a job that looks for one

    @property
    def name(self) -> str:
        """Its name in paths; ValueError if it is longer than 200 characters."""
        return _CODEC.name({**self.factors, "batch_size": self.batch_sizes})


def format_sizes(batch_sizes: Iterable[int]) -> str:
    """Returns batch sizes as text: `1-4_8_15-18`; three or more in succession are a range."""
    sizes = sorted(set(batch_sizes))
    parts: list[str] = []
    while sizes:
        count = next(
            (index for index, size in enumerate(sizes) if size != sizes[0] + index), len(sizes)
        )
        run, sizes = sizes[:count], sizes[count:]
        parts += [f"{run[0]}-{run[-1]}"] if count >= _LEAST_RANGE else [str(size) for size in run]
    return "_".join(parts)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Returns the batch sizes behind a text that `format_sizes` has written, or ValueError."""
    sizes: list[int] = []
    for part in text.split("_"):
        match = re.fullmatch(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?", part)
        if match is None:
            raise ValueError(f"Expected batch sizes such as 1-4_8. Received: {text!r}")
        first = int(match[1])
        last = int(match[2] or first)
        if last - first >= 1_000_000:
            raise ValueError(f"Expected at most a million batch sizes. Received: {text!r}")
        sizes += range(first, last + 1)
    if format_sizes(sizes) != text:
        raise ValueError(f"Expected the canonical form of batch sizes. Received: {text!r}")
    return tuple(sizes)


class _Sizes(Parameter):
    """The batch sizes of a sweep."""

    def text(self, value: Any) -> str:
        return format_sizes(value)

    def parse(self, text: str) -> tuple[int, ...]:
        return parse_sizes(text)


_CODEC = Codec(
    {**SWEEP_FACTORS, "batch_size": _Sizes("batch_size", "bs", default=())},
    IDS,
    ("optimizer", "device", "threads"),
)


def parse(name: str) -> Sweep:
    """Returns the sweep behind a name, or ValueError if no sweep would have it."""
    factors = _CODEC.parse(name)
    return Sweep(factors, factors.pop("batch_size"))


def group(combinations: Iterable[dict[str, Any]]) -> Iterator[Sweep]:
    """Yields one sweep for every combination of all factors but the batch size, in order."""
    found: dict[tuple[Any, ...], tuple[dict[str, Any], list[int]]] = {}
    for combination in combinations:
        factors = {name: combination[name] for name in SWEEP_FACTORS if name != "batch_size"}
        key = tuple(factors.values())
        found.setdefault(key, (factors, []))[1].append(combination["batch_size"])
    for factors, sizes in found.values():
        yield Sweep(factors, tuple(sorted(set(sizes))))


def jobs(timing: str, sweep: Sweep) -> Iterator[Sweep]:
    """Yields what the jobs of a timing are of, given a sweep over all its batch sizes.

    Where a job looks for a batch size its sweep has none, and none of what drives the steps: a
    batch fits into memory or not, whatever does.
    """
    batch_sizes = OF_SWEEPS[timing].batch_sizes
    if batch_sizes == "searched":
        frozen = {name: factor.default for name, factor in TIMING_ONLY_FACTORS.items()}
        yield Sweep({**sweep.factors, **frozen})
    elif batch_sizes == "each":
        for size in sweep.batch_sizes:
            yield Sweep(sweep.factors, (size,))
    else:
        yield sweep
