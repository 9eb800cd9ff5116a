"""The grid of an experiment: from `set`, `cases`, `vary` and `seeds` to combinations of factors."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received
from batchscope.study.setting import Parameter
from batchscope.study.stages import Stage

RATE = "learning_rate"
# Data set or model in the file -> its id in paths; None if its definition has a problem.
Ids = Mapping[str, str | None]
Problems = list[Problem]
# Seeds, the numbers of seeds before each interim analysis, and the stage.
Seeds = tuple[tuple[int, ...] | range, tuple[int, ...], Stage]


@dataclass(frozen=True)
class Grid:
    """The factors of one experiment. Data sets and models are ids."""

    place: Place
    factors: Mapping[str, Parameter]  # of this kind of experiment
    defaults: dict[str, Any]
    set: dict[str, Any]
    cases: list[dict[str, Any]]  # one empty map without cases
    vary: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...] | range = (0,)  # all that a combination may have; one for times
    analyses: tuple[int, ...] = ()  # seeds before each interim analysis; empty without any
    stage: Stage = Stage()  # result of the interim analyses so far

    def seeds_of(self, configuration: str) -> tuple[int, ...] | range:
        """Return the seeds at this stage of the run with a name and the first seed."""
        if not self.analyses:
            return self.seeds
        return self.seeds[: self.stage.seeds_of(configuration, self.analyses)]

    @property
    def size(self) -> int:
        return math.prod([len(self.cases), len(self.seeds), *map(len, self.vary.values())])

    def combinations(self) -> Iterator[tuple[int, dict[str, Any], Callable[[str], Place]]]:
        """Yield the case, the factors without seed, and a function from factor to place.

        Those with a learning rate beyond the grid follow.
        """
        written = list(self._written())
        yield from written
        for added in self.stage.added_rates:
            planned = [factors for _, factors, _ in written]  # the file may have the rate by now
            beyond = [
                (index, {**factors, RATE: added.rate}, place)
                for index, factors, place in written
                if factors.get(RATE) == added.edge
                and factors["batch_size"] in added.batch_sizes
                and {**factors, RATE: added.rate} not in planned
            ]
            yield from beyond
            written += beyond

    def _written(self) -> Iterator[tuple[int, dict[str, Any], Callable[[str], Place]]]:
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
                text = f"Stated in {display.listed(places)}. Keep one of them."
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

    def read(self, place: Place, factors: Mapping[str, Any]) -> dict[str, Any]:
        """Return factors with ids: None for an invalid name, and no item for one in a list."""
        result = dict(factors)
        for name in factors.keys() & self._ids.keys():
            at, value = (*place, name), factors[name]
            is_list = isinstance(value, tuple)
            result[name] = self._list(at, name, value) if is_list else self._id(at, name, value)
        return result

    def _list(self, place: Place, name: str, values: tuple[str, ...]) -> tuple[str, ...]:
        first: dict[str, str] = {}  # id -> its first name
        for index, value in enumerate(values):
            item = self._id((*place, index), name, value)
            if item in first:
                expected = f"another {name} than '{first[item]}'"
                self._problems.append(received((*place, index), value, expected))
            elif item:
                first[item] = value
        return tuple(first)

    def _id(self, place: Place, name: str, value: str) -> str | None:
        valid = sorted(self._ids[name])
        if value not in valid:
            self._problems.append(received(place, value, f"one of {', '.join(valid)}", valid))
        return self._ids[name].get(value)
