"""Timing sweeps: what one timing job measures, over several batch sizes, and its name in paths.

A job that compares batch sizes times all of them itself, in turns: what disturbs the machine
then disturbs them alike. It is named by its factors, the batch sizes as ranges::

    patches-1f0a93c2+benchmark_cnn+bs=1-4_8_15-18+opt=sgd+dev=cpu+th=1+loop=eager
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from batchscope.catalogue import name_codec, run_factors, run_names
from batchscope.catalogue.run_factors import Factor
from batchscope.catalogue.timings import OF_SWEEPS

_LEAST_RANGE = 3  # successive batch sizes that are written as a range
# 0 threads stand for every core that the job may use.
_THREADS = replace(run_factors.FACTORS["threads"], words=(("all", 0),))

# All that the time of a step depends on, in the order of names and tables.
FACTORS: dict[str, Factor] = {
    **{name: run_factors.FACTORS[name] for name in run_factors.TIMING_FACTORS},
    "threads": _THREADS,
    **run_factors.TIMING_ONLY_FACTORS,
}
# With those of trainings, in the order of tables of both.
EVERY_FACTOR: dict[str, Factor] = {**run_factors.FACTORS, **FACTORS}
CORE = tuple(name for name, factor in FACTORS.items() if factor.core)
_SPELLED = ("optimizer", "device", "threads")
_LATER = {name: FACTORS[name] for name in FACTORS if name not in ("dataset", "model", "batch_size")}


@dataclass(frozen=True)
class Sweep:
    """What one timing job measures.

    Attributes:
        factors: Every factor but the batch size, by full name; data set and model are tokens.
        batch_sizes: Ascending; empty for a job that looks for one.
    """

    factors: dict[str, Any]
    batch_sizes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Its name in paths.

        Raises:
            ValueError: If it is longer than 200 characters.
        """
        sizes = [f"bs={format_sizes(self.batch_sizes)}"] if self.batch_sizes else []
        parts = [str(self.factors["dataset"]), str(self.factors["model"]), *sizes]
        return name_codec.checked(
            "+".join([*parts, *name_codec.encode(_LATER, self.factors, _SPELLED)])
        )


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
    """Returns the batch sizes behind a text.

    Raises:
        ValueError: If it is not what `format_sizes` would have written.
    """
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


def parse(name: str) -> Sweep:
    """Returns the sweep behind a name.

    Raises:
        ValueError: If the name is not one that a sweep would have.
    """
    dataset, model, *parts = name.split("+") if "+" in name else (name, "")
    for part in (dataset, model):
        run_names.split_token(part)
    sizes: tuple[int, ...] = ()
    if parts and parts[0].startswith("bs="):
        sizes = parse_sizes(parts.pop(0).removeprefix("bs="))
    found = name_codec.decode(_LATER, parts, name)
    values = {key: found.get(key, factor.birth) for key, factor in _LATER.items()}
    sweep = Sweep({"dataset": dataset, "model": model, **values}, sizes)
    if set(_SPELLED) - set(found) or sweep.name != name:
        raise ValueError(f"Expected the canonical name of a sweep. Received: {name!r}")
    return sweep


def group(combinations: Iterable[dict[str, Any]]) -> Iterator[Sweep]:
    """Yields one sweep for every combination of all factors but the batch size, in order."""
    found: dict[tuple[Any, ...], tuple[dict[str, Any], list[int]]] = {}
    for combination in combinations:
        factors = {name: combination[name] for name in FACTORS if name != "batch_size"}
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
        births = {name: factor.birth for name, factor in run_factors.TIMING_ONLY_FACTORS.items()}
        yield Sweep({**sweep.factors, **births})
    elif batch_sizes == "each":
        for size in sweep.batch_sizes:
            yield Sweep(sweep.factors, (size,))
    else:
        yield sweep
