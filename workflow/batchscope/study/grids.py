"""Keys `set`, `cases`, `vary` and `seeds` of an experiment in, factors of its runs out.

A new check of the keys belongs to `Grid.problems`, a check of the factors to
`study.incompatible_factors`.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from batchscope.core import display
from batchscope.core.problems import Place, Problem, received
from batchscope.study import stages
from batchscope.study.experiments import CommandExperiment, StagedSeeds, TrainingExperiment
from batchscope.study.model import Parameter
from batchscope.study.stages import Stage

LEARNING_RATE = "learning_rate"


class SeedPlan(NamedTuple):
    """The seeds of an experiment. Timings have a single one.

    Attributes:
        every: Seeds that a combination of factors may have.
        analyses: Numbers of seeds before each interim analysis; empty without any.
        stage: Result of the interim analyses so far.
    """

    every: tuple[int, ...] | range = (0,)
    analyses: tuple[int, ...] = ()
    stage: Stage = Stage()

    def current(self, configuration: str) -> tuple[int, ...] | range:
        """Return the seeds at this stage of a combination, named by its run with the first seed."""
        if not self.analyses:
            return self.every
        return self.every[: self.stage.seeds.get(configuration, self.analyses[0])]


def seed_plan(keys: TrainingExperiment | CommandExperiment, stage: Stage) -> SeedPlan:
    """Return the seeds of an experiment. Several learning rates race over staged seeds.

    Args:
        stage: Result of the interim analyses so far.
    """
    seeds = keys.seeds
    if not isinstance(seeds, StagedSeeds):
        return SeedPlan(seeds, stage=stage)
    # Other factors of a case -> learning rates of the cases that share them.
    rates: dict[str, list[Any]] = {"": list(keys.vary.get(LEARNING_RATE, ()))}
    for case in keys.cases:
        other_factors = {name: value for name, value in case.items() if name != LEARNING_RATE}
        rates.setdefault(str(other_factors), []).append(case.get(LEARNING_RATE))
    # A learning rate of a command may be a text, which has no neighbours.
    numbers = [values for values in rates.values() if not any(isinstance(v, str) for v in values)]
    has_race = any(len(values) > 1 for values in numbers)
    analysis_seeds = stages.race_seeds if has_race else stages.analysis_seeds
    # Other seeds have not been analysed yet.
    current_stage = stage if stage.first == seeds.first else Stage()
    return SeedPlan(seeds.seeds, analysis_seeds(seeds.at_most), current_stage)


class Combination(NamedTuple):
    """One combination of factors of a grid."""

    case: int  # index of the case
    factors: dict[str, Any]  # without the seed
    place_of: Callable[[str], Place]  # factor -> place where the file states it


@dataclass(frozen=True)
class Grid:
    """The factors of one experiment. Data sets and models are ids."""

    place: Place  # place of the experiment in the file
    factors: Mapping[str, Parameter]  # all factors of this kind of experiment
    defaults: dict[str, Any]
    set: dict[str, Any]
    cases: list[dict[str, Any]]  # one empty map without cases
    vary: dict[str, tuple[Any, ...]]
    seeds: SeedPlan = SeedPlan()

    def combinations(self) -> Iterator[Combination]:
        """Yield the combinations of the file, then those with learning rates of later stages."""
        combinations = list(self._stated_combinations())
        yield from combinations
        for added in self.seeds.stage.added_rates:
            planned = [factors for _, factors, _ in combinations]  # The file may have the rate now.
            new_combinations = [
                Combination(case, {**factors, LEARNING_RATE: added.rate}, place_of)
                for case, factors, place_of in combinations
                if factors.get(LEARNING_RATE) == added.edge
                and factors["batch_size"] in added.batch_sizes
                and {**factors, LEARNING_RATE: added.rate} not in planned
            ]
            yield from new_combinations
            combinations += new_combinations

    def _stated_combinations(self) -> Iterator[Combination]:
        """Yield the combinations of the file, in the order of cases, then of vary."""
        defaults = {name: factor.default for name, factor in self.factors.items()}
        choices = [list(enumerate(values)) for values in self.vary.values()]
        for index, case in enumerate(self.cases):
            base = {**defaults, **self.defaults, **self.set, **case}
            for items in itertools.product(*choices):
                varied = dict(zip(self.vary, items, strict=True))
                values = {name: value for name, (_, value) in varied.items()}
                place_of = functools.partial(self._place, varied, index)
                yield Combination(index, {**base, **values}, place_of)

    def _place(self, varied: dict[str, tuple[int, Any]], case: int, factor: str) -> Place:
        """Return the place where the file states a factor of a combination."""
        if factor in varied:
            return (*self.place, "vary", factor, varied[factor][0])
        if factor in self.cases[case]:
            return (*self.place, "cases", case, factor)
        return (*self.place, "set", factor) if factor in self.set else ("defaults", factor)

    def problems(self, max_runs: int) -> Iterator[Problem]:
        """Yield factors that are stated twice or missing, and a number of runs above a limit."""
        stated = {"set": {*self.set}, "cases": set().union(*self.cases), "vary": {*self.vary}}
        for factor in self.factors:
            keys = [key for key, factors in stated.items() if factor in factors]
            if len(keys) > 1:
                text = f"Stated in {display.listed(keys)}. Keep one of them."
                yield Problem((*self.place, keys[-1], factor), text)
        present = {*self.defaults, *self.set, *self.vary, *set.intersection(*map(set, self.cases))}
        for name, factor in self.factors.items():
            if factor.required and name not in (*present, "seed"):
                text = "Missing factor. State it here, in defaults, in vary or in every case."
                yield Problem((*self.place, "set", name), text)
        size = math.prod([len(self.cases), len(self.seeds.every), *map(len, self.vary.values())])
        if size > max_runs:
            yield received(self.place, size, f"at most {max_runs} runs (max_runs)")
