"""The grid of an experiment: from `set`, `cases`, `vary` and `seeds` to combinations of factors."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchscope import wording
from batchscope.problems import Place, Problem, received
from batchscope.study.setting import Parameter
from batchscope.study.stages import Stage

# Data set or model in the file -> its id in paths; None if its definition has a problem.
Ids = Mapping[str, str | None]
Problems = list[Problem]


@dataclass(frozen=True)
class Grid:
    """The factors of one experiment. Data sets and models are ids.

    Attributes:
        factors: Factors of this kind of experiment, by name.
        defaults: Factors of the section `defaults` that it has.
        set: Factors of every combination, over the defaults.
        cases: Factors that change together; one empty map without cases.
        vary: Factor -> values.
        seeds: Seeds of every combination, or all that it may have; a single one for times.
        looks: Numbers of seeds before each interim analysis; empty if all are trained at once.
        stage: Result of the interim analyses so far.
    """

    place: Place
    factors: Mapping[str, Parameter]
    defaults: dict[str, Any]
    set: dict[str, Any]
    cases: list[dict[str, Any]]
    vary: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...] | range = (0,)
    looks: tuple[int, ...] = ()
    stage: Stage = Stage()

    def seeds_of(self, name: Callable[[int], str | None]) -> tuple[int, ...] | range:
        """Return the seeds of a combination at this stage.

        Args:
            name: Function from a seed to the name of its run, or None.
        """
        if not self.looks:
            return self.seeds
        return self.seeds[: self.stage.seeds_of(name(self.seeds[0]) or "", self.looks)]

    @property
    def size(self) -> int:
        return math.prod([len(self.cases), len(self.seeds), *map(len, self.vary.values())])

    def combinations(self) -> Iterator[tuple[int, dict[str, Any], Callable[[str], Place]]]:
        """Yield the case, the factors without seed, and a function from factor to place."""
        defaults = {name: factor.default for name, factor in self.factors.items()}
        choices = [list(enumerate(values)) for values in self.vary.values()]
        for index, case in enumerate(self.cases):
            base = {**defaults, **self.defaults, **self.set, **case}
            for chosen in itertools.product(*choices):
                picked = dict(zip(self.vary, chosen, strict=True))
                values = {name: value for name, (_, value) in picked.items()}
                yield index, {**base, **values}, functools.partial(self._place, picked, index)

    def _place(self, picked: dict[str, tuple[int, Any]], case: int, factor: str) -> Place:
        """Return the place of a factor of a combination."""
        if factor in picked:
            return (*self.place, "vary", factor, picked[factor][0])
        if factor in self.cases[case]:
            return (*self.place, "cases", case, factor)
        return (*self.place, "set", factor) if factor in self.set else ("defaults", factor)

    def problems(self) -> Iterator[Problem]:
        """Yield the factors that are stated twice, and the required ones that are missing."""
        homes = {"set": {*self.set}, "cases": set().union(*self.cases), "vary": {*self.vary}}
        for factor in self.factors:
            places = [home for home, factors in homes.items() if factor in factors]
            if len(places) > 1:
                text = f"Stated in {wording.listed(places)}. Keep one of them."
                yield Problem((*self.place, places[-1], factor), text)
        present = {*self.defaults, *self.set, *self.vary, *set.intersection(*map(set, self.cases))}
        for name, factor in self.factors.items():
            if factor.required and name not in (*present, "seed"):
                text = "Missing factor. State it here, in defaults, in vary or in every case."
                yield Problem((*self.place, "set", name), text)


class IdReader:
    """Replaces the names of data sets and models by their ids; collects unknown names."""

    def __init__(self, problems: Problems, datasets: Ids, models: Ids) -> None:
        self._problems = problems
        self._ids = {"dataset": datasets, "model": models}

    def values(self, place: Place, factors: Mapping[str, Any]) -> dict[str, Any]:
        """Return factors with ids; an invalid one becomes None."""
        return {
            name: next(iter(self._ids_of(name, (value,), ((*place, name),))), None)
            for name, value in factors.items()
        }

    def lists(
        self, place: Place, factors: Mapping[str, tuple[Any, ...]]
    ) -> dict[str, tuple[Any, ...]]:
        return {
            name: self._ids_of(
                name, values, tuple((*place, name, index) for index in range(len(values)))
            )
            for name, values in factors.items()
        }

    def _ids_of(
        self, name: str, values: tuple[Any, ...], places: tuple[Place, ...]
    ) -> tuple[Any, ...]:
        if name not in self._ids:
            return values
        ids = self._ids[name]
        valid: list[str] = []
        for place, value in zip(places, values, strict=True):
            if value not in ids:
                text = f"one of {', '.join(sorted(ids))}"
                self._problems.append(received(place, value, text, sorted(ids)))
            elif ids[value] and ids[value] in valid:  # two names of the same
                first = next(other for other in values if ids.get(other) == ids[value])
                self._problems.append(received(place, value, f"another {name} than '{first}'"))
            if ids.get(value):
                valid.append(ids[value])
        return tuple(valid)
