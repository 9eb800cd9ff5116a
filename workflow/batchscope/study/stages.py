"""Seeds in stages: the numbers of seeds before each interim analysis, and their error spending.

An analysis of n_i of the planned seeds spends w_i = (n_i - n_(i-1)) / planned. With p_i the p of a
statement by its first n_i seeds, min(1, min over analyses of p_i / w_i) is a p whenever one stops
(Bonferroni over the analyses, with weights; Genovese, Roeder, Wasserman 2006, Biometrika 93, 509).
The interval of an analysis is that of its seeds at w_i times the level (`analysis.verdicts`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from batchscope.study.outcomes import MIN_SEEDS

AT_MOST = 28  # default of the largest number of seeds
MAX_FIRST = 10_000
SCREENING = 3  # seeds of every learning rate before the first interim analysis of a race
DECIDED = "decided"  # seeds are added until every statement is decided
GROWTH = 1.46  # of the seeds between two interim analyses: 6, 9, 13, 19, 28, 41 ...
_MIN_GROWTH = 1.2  # before the last analysis; a closer one is left out


def new_seeds(last: int, at_most: int) -> str:
    """Return the key `seeds`, as YAML, for seeds that follow a last one."""
    first = last + 1 if last < MAX_FIRST else 0
    return f"{{until: {DECIDED}, at_most: {at_most}, first: {first}}}"


class AddedRate(NamedTuple):
    """A learning rate beyond the edge of the grid, for batch sizes that are best on this edge."""

    edge: float
    rate: float
    batch_sizes: tuple[int, ...]


class Stage(NamedTuple):
    """Result of the interim analyses of an experiment so far.

    A configuration, a run without its seed, has the name of its run with the first seed.

    Attributes:
        planned: Planned maximum number of seeds at the last analysis; 0 before the first one.
        seeds: Configuration -> number of its seeds.
        first: First seed, as planned at the last analysis.
        added_rates: Learning rates beyond the grid of the study file, in the order of the analyses.
    """

    planned: int = 0
    seeds: Mapping[str, int] = {}
    first: int = 0
    added_rates: tuple[AddedRate, ...] = ()

    @property
    def analysed_seeds(self) -> range:
        """Seeds of the configuration with the most seeds; empty before the first analysis."""
        most = max([*analysis_seeds(self.planned)[:1], *self.seeds.values()]) if self.planned else 0
        return range(self.first, self.first + most)

    def seeds_of(self, configuration: str, planned: Sequence[int]) -> int:
        return self.seeds.get(configuration, planned[0])


def analysis_seeds(at_most: int) -> tuple[int, ...]:
    """Return the numbers of seeds before each interim analysis; the last one is `at_most`."""
    sizes = itertools.accumulate(itertools.repeat(GROWTH), _next, initial=MIN_SEEDS)
    before = itertools.takewhile(lambda seeds: _MIN_GROWTH * seeds <= at_most, sizes)
    return (*before, at_most)


def race_seeds(at_most: int) -> tuple[int, ...]:
    """Return the numbers of seeds before each interim analysis of a race over learning rates.

    The first analysis only decides which rates leave the race (`analysis.racing`); the others also
    decide statements.
    """
    return (SCREENING, *analysis_seeds(at_most))


def _next(seeds: int, growth: float) -> int:
    return round(growth * seeds)


def weights(planned: Sequence[int]) -> tuple[float, ...]:
    return tuple((at - before) / planned[-1] for before, at in itertools.pairwise((0, *planned)))


def next_seeds(seeds: float, planned: Sequence[int]) -> int | None:
    """Return the number of seeds at the next interim analysis; None after the last one."""
    return next((look for look in planned if look > seeds), None)


def analyses_so_far(replicates: int, planned: Sequence[int]) -> list[tuple[int, float]]:
    """Return the replicates and the share of the level at each interim analysis so far.

    The last analysis has all replicates; within a stage, it spends the share of that stage. Without
    a plan, a single analysis spends the whole level.
    """
    if not planned:
        return [(replicates, 1.0)]
    before = [at for at in planned[:-1] if at < replicates]
    return [*zip((*before, replicates), weights(planned), strict=False)]
