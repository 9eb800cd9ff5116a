"""The grid of an experiment: from `set`, `cases`, `vary` and `seeds` to combinations of factors."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchscope import wording
from batchscope.catalogue import run_factors, stages
from batchscope.catalogue.parameters import Parameter, readers
from batchscope.catalogue.stages import Stage, Staged
from batchscope.problems import Findings, Place, Problem, missing, received, show
from batchscope.study.document import ExperimentKeys

# Name in the file -> id in paths; None for what is at fault where it is defined.
Ids = Mapping[str, str | None]
_FIRST = Stage()
EXPECTED_SEEDS = "a positive whole number or a list of whole numbers"


@dataclass(frozen=True)
class Kind:
    """What an experiment is made of: runs or times.

    Attributes:
        factors: Factors that it may have.
        why_not: What is reported of another factor.
    """

    factors: Mapping[str, Parameter]
    why_not: str

    @property
    def core(self) -> list[str]:
        return [name for name, one in self.factors.items() if one.core and name != "seed"]


TRAINING = Kind(
    readers(run_factors.FACTORS),
    "received in a training experiment; it is expected beside `timing` alone: a training is "
    "always the loop in the graph.",
)
TIMING = Kind(
    readers(run_factors.SWEEP_FACTORS),
    "received in a timing experiment, which does not depend on it; one of "
    f"{', '.join(run_factors.SWEEP_FACTORS)} is expected.",
)


@dataclass(frozen=True)
class Grid:
    """The factors of one experiment, resolved; a value that is at fault is not here.

    Attributes:
        defaults: Factors of the section `defaults` of the experiment's kind.
        set: Factors of every combination, over the defaults.
        cases: Factors that move together; one empty map where there are none.
        vary: Factor -> values.
        seeds: Seeds of every combination, or all that it may have; a single one for times.
        looks: Numbers of seeds after which one looks; empty where all are trained at once.
        stage: What the looks so far have given.
    """

    place: Place
    kind: Kind
    defaults: dict[str, Any]
    set: dict[str, Any]
    cases: list[dict[str, Any]]
    vary: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...] | range
    looks: tuple[int, ...] = ()
    stage: Stage = _FIRST

    def seeds_of(self, name: Callable[[int], str | None]) -> tuple[int, ...] | range:
        """Returns the seeds of a combination at this stage.

        Args:
            name: From a seed to the name of its run; None where it has none.
        """
        if not self.looks:
            return self.seeds
        return self.seeds[: self.stage.seeds_of(name(self.seeds[0]) or "", self.looks)]

    @property
    def complete(self) -> bool:
        own = {*self.defaults, *self.set, *self.vary}
        return all(own | {*case} >= {*self.kind.core} for case in self.cases)

    @property
    def inherited(self) -> list[Place]:
        own = {*self.set, *self.vary, *set.intersection(*map(set, self.cases))}
        return [("defaults", name) for name in self.kind.factors if name not in own]

    @property
    def size(self) -> int:
        return math.prod(
            [len(self.cases), len(self.seeds), *(len(items) for items in self.vary.values())]
        )

    def combinations(self) -> Iterator[tuple[int, dict[str, Any], Callable[[str], Place]]]:
        """Yields the case, factors without seed, and the function from factor to place."""
        frozen = {name: factor.default for name, factor in self.kind.factors.items()}
        choices = [list(enumerate(items)) for items in self.vary.values()]
        for index, case in enumerate(self.cases):
            base = {**frozen, **self.defaults, **self.set, **case}
            for chosen in itertools.product(*choices):
                picked = dict(zip(self.vary, chosen, strict=True))
                values = {name: value for name, (_, value) in picked.items()}
                find = functools.partial(self._place, picked, index, case)
                yield index, {**base, **values}, find

    def _place(
        self, picked: dict[str, tuple[int, Any]], index: int, case: dict[str, Any], factor: str
    ) -> Place:
        """Returns where a factor of a combination stands."""
        if factor in picked:
            return (*self.place, "vary", factor, picked[factor][0])
        if factor in case:
            return (*self.place, "cases", index, factor)
        return (*self.place, "set", factor) if factor in self.set else ("defaults", factor)


class FactorReader:
    """Reads factors, whose data sets and models become ids; reports what an experiment has not."""

    def __init__(self, findings: Findings, datasets: Ids, models: Ids) -> None:
        self.findings = findings
        self._ids = {"dataset": datasets, "model": models}

    def values(self, place: Place, given: Mapping[str, Any], kind: Kind | None) -> dict[str, Any]:
        """Returns the sound factors of a map.

        Args:
            kind: Of the experiment; None where factors of another kind are of other experiments.
        """
        return {
            name: found[0]
            for name, value in given.items()
            if (found := self._known(place, name, (value,), kind, ((*place, name),)))
        }

    def lists(
        self, place: Place, given: Mapping[str, tuple[Any, ...]], kind: Kind
    ) -> dict[str, tuple[Any, ...]]:
        """Returns the sound values of a map from factors to lists of values."""
        found = {}
        for name, values in given.items():
            places = tuple((*place, name, index) for index in range(len(values)))
            if known := self._known(place, name, values, kind, places):
                found[name] = known
        return found

    def _known(
        self,
        place: Place,
        name: str,
        values: tuple[Any, ...],
        kind: Kind | None,
        places: tuple[Place, ...],
    ) -> tuple[Any, ...]:
        if kind and name not in kind.factors:
            self.findings.report(Problem((*place, name), kind.why_not))
            return ()
        if name not in self._ids:
            return values
        ids = self._ids[name]
        for at, value in zip(places, values, strict=True):
            if value not in ids:
                wanted = f"one of {', '.join(sorted(ids))}"
                self.findings.report(received(at, value, wanted, sorted(ids)))
        found = [ids.get(value) for value in values]
        for index, (at, one) in enumerate(zip(places, found, strict=True)):
            if one and one in found[:index]:  # two names of the same
                text = f"received {show(values[index])} again (as in [{found.index(one)}]); "
                self.findings.report(Problem(at, f"{text}every value once is expected."))
        return tuple(one for one in found if one)


def read(
    reader: FactorReader,
    place: Place,
    keys: ExperimentKeys,
    kind: Kind,
    defaults: dict[str, Any],
    stated: Collection[str],
    stage: Stage = _FIRST,
) -> Grid:
    """Returns the grid of an experiment; reports what it has twice and what it lacks.

    Args:
        stage: What its looks so far have given.
        defaults: Sound factors of the section `defaults`.
        stated: Factors that the section has, sound or not.
    """
    cases = [
        reader.values((*place, "cases", index), case, kind) for index, case in enumerate(keys.cases)
    ]
    seeds, looks = (0,), ()
    if kind is not TIMING:
        seeds = () if keys.seeds is None else keys.seeds
        if isinstance(seeds, Staged):
            stage = stage if stage.first == seeds.first else Stage()  # nobody looked at these
            seeds, looks = seeds.seeds, stages.looks(seeds.at_most)
        if keys.seeds is None and not reader.findings.broken((*place, "seeds")):
            reader.findings.report(missing((*place, "seeds"), EXPECTED_SEEDS))
    grid = Grid(
        place=place,
        kind=kind,
        defaults={name: value for name, value in defaults.items() if name in kind.factors},
        set=reader.values((*place, "set"), keys.set, kind),
        cases=cases,
        vary=reader.lists((*place, "vary"), keys.vary, kind),
        seeds=seeds,
        looks=looks,
        stage=stage,
    )
    given = {"set": {*keys.set}, "cases": set().union(*keys.cases), "vary": {*keys.vary}}
    reader.findings.report(*_given_twice(place, given, kind))
    reader.findings.report(*_not_given(reader.findings, grid, keys, {*stated}))
    return grid


def _given_twice(place: Place, homes: dict[str, set[str]], kind: Kind) -> Iterator[Problem]:
    for factor in kind.factors:
        given = [home for home, factors in homes.items() if factor in factors]
        if len(given) > 1:
            text = f"received in {wording.listed(given)}; one of them is expected."
            yield Problem((*place, given[-1], factor), text)


def _not_given(
    findings: Findings, grid: Grid, keys: ExperimentKeys, defaults: set[str]
) -> Iterator[Problem]:
    """Yields the core factors that nothing gives, unless what may give them is at fault."""
    homes = [("defaults",), *((*grid.place, home) for home in ("set", "cases", "vary"))]
    if any(findings.misses_a_key(home, run_factors.EVERY_FACTOR) for home in homes):
        return
    in_every_case = set.intersection(*map(set, keys.cases))
    given = {*keys.set, *keys.vary, *in_every_case, *defaults}
    for factor in grid.kind.core:
        if factor not in given and not findings.broken(*((*home, factor) for home in homes)):
            text = f"missing; {grid.kind.factors[factor].expected} is expected, "
            text += "here or in defaults, vary or every case."
            yield Problem((*grid.place, "set", factor), text)
