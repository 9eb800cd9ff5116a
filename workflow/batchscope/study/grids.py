"""The grid of an experiment: from `set`, `cases`, `vary` and `seeds` to combinations of factors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from batchscope import wording
from batchscope.catalogue import run_factors
from batchscope.catalogue.coercion import as_map
from batchscope.catalogue.parameters import Parameter
from batchscope.problems import Place, Problem, missing
from batchscope.study import experiment_kinds
from batchscope.study.value_reader import Broken, Reader

_SEED_COUNT = Parameter("seeds", "seeds", "int", None, "Number of seeds.", minimum=1, maximum=2**32)


@dataclass
class Grid:
    """The factors of one experiment, resolved; a value that is at fault is not here.

    Attributes:
        defaults: Sound factors of the section `defaults`, of either kind.
        given: Names of all that the section `defaults` gives.
        set: Factors of every combination, over the defaults.
        cases: Factors that move together; one empty map where there are none.
        vary: Factor -> values.
        seeds: Seeds of every combination; a single one for times.
    """

    place: Place
    kind: experiment_kinds.Kind
    defaults: dict[str, Any]
    given: tuple[str, ...]
    set: dict[str, Any]
    cases: list[dict[str, Any]]
    vary: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...] | range

    @property
    def complete(self) -> bool:
        """Whether every case has every core factor."""
        own = {*self.defaults, *self.set, *self.vary}
        return all(own | {*case} >= {*self.kind.core} for case in self.cases)

    @property
    def inherited(self) -> list[Place]:
        """Places of the defaults that the experiment does not give itself."""
        own = {*self.set, *self.vary, *set.intersection(*map(set, self.cases))}
        return [("defaults", name) for name in self.given if name not in own]

    @property
    def size(self) -> int:
        """Number of combinations with all their seeds."""
        return math.prod(
            [len(self.cases), len(self.seeds), *(len(items) for items in self.vary.values())]
        )

    def combinations(self) -> Iterator[tuple[int, dict[str, Any], Callable[[str], Place]]]:
        """Yields the case, factors without seed, and the function from factor to place."""
        births = {name: factor.birth for name, factor in self.kind.factors.items()}
        defaults = {name: value for name, value in self.defaults.items() if name in births}
        choices = [list(enumerate(items)) for items in self.vary.values()]
        for index, case in enumerate(self.cases):
            base = {**births, **defaults, **self.set, **case}
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


def read(
    reader: Reader,
    place: Place,
    body: dict[str, Any],
    kind: experiment_kinds.Kind,
    defaults: dict[str, Any],
    given: tuple[str, ...],
) -> Grid:
    """Returns the grid of an experiment, given what `Grid` has of the section `defaults`."""
    cases = body.get("cases")
    cases = cases if isinstance(cases, list) and cases else [{}]
    grid = Grid(
        place=place,
        kind=kind,
        defaults=defaults,
        given=given,
        set=reader.factors((*place, "set"), body.get("set"), kind),
        cases=[
            reader.factors((*place, "cases", index), case, kind) for index, case in enumerate(cases)
        ],
        vary=reader.factor_lists((*place, "vary"), body.get("vary"), kind),
        seeds=_seeds(reader, (*place, "seeds"), body)
        if kind is experiment_kinds.TRAINING
        else (0,),
    )
    homes = {
        "set": {*as_map(body.get("set"))},
        "cases": set().union(*(as_map(case) for case in cases)),
        "vary": {*as_map(body.get("vary"))},
    }
    reader.findings.report(*_given_twice(place, homes, kind))
    written = [("defaults",), *((*place, home) for home in homes)]
    # Where a whole map is unreadable, nothing is known of what it gives.
    if not any(reader.findings.unreadable(home) for home in written):
        in_every_case = set.intersection(*({*as_map(case)} for case in cases))
        found = {*given} | homes["set"] | homes["vary"] | in_every_case
        reader.findings.report(*_not_given(place, found, kind))
    return grid


def _seeds(reader: Reader, place: Place, body: dict[str, Any]) -> tuple[int, ...] | range:
    raw = body.get("seeds")
    if reader.findings.unreadable(place):
        return ()
    if isinstance(raw, list):
        seed = run_factors.FACTORS["seed"]
        return reader.distinct(place, raw, lambda at, item: reader.value(at, seed, item))
    if raw is None:
        expected = "a positive whole number or a list of whole numbers"
        reader.findings.report(missing(place, expected))
    else:
        with contextlib.suppress(Broken):
            return range(reader.value(place, _SEED_COUNT, raw))
    return ()


def _given_twice(
    place: Place, homes: dict[str, set[str]], kind: experiment_kinds.Kind
) -> Iterator[Problem]:
    for factor in kind.factors:
        given = [home for home, factors in homes.items() if factor in factors]
        if len(given) > 1 and factor != "seed":
            text = f"received in {wording.listed(given)}; one of them is expected."
            yield Problem((*place, given[-1], factor), text)


def _not_given(place: Place, found: set[str], kind: experiment_kinds.Kind) -> Iterator[Problem]:
    """Yields the problems of factors that a run must have and nothing gives."""
    if not found <= {*experiment_kinds.EITHER.factors}:
        return  # most likely a core factor, misspelt, and reported
    for factor in kind.core:
        if factor not in found:
            text = f"missing; {kind.factors[factor].expected} is expected, "
            text += "here or in defaults, vary or every case."
            yield Problem((*place, "set", factor), text)
