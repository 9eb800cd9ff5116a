"""Plan seeds in stages: the number of seeds at each interim analysis, and its share of the level.

The analysis of n_i of the planned seeds spends the share w_i = (n_i - n_(i-1)) / planned. Let p_i
be the p-value of a statement from its first n_i seeds. Then min(1, min over analyses of p_i / w_i)
is a valid p-value whenever the analyses stop (Bonferroni with weights; Genovese, Roeder, Wasserman
2006, Biometrika 93, 509). The interval of an analysis is that of its seeds at w_i times the level
(`analysis.verdicts`).
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from batchscope.study.outcomes import MIN_SEEDS

DEFAULT_MAX_SEEDS = 28
MAX_FIRST = 10_000  # largest first seed
SCREENING_SEEDS = 3  # seeds of every learning rate at the first interim analysis of a race
DECIDED = "decided"  # Seeds are added until every statement is decided.
GROWTH = 1.46  # The seeds grow by this factor between analyses: 6, 9, 13, 19, 28, 41 ...
_MIN_GROWTH = 1.2  # An analysis is left out if the last one follows at less than this factor.


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

    A configuration is a run without its seed. Its name is that of its run with the first seed.

    Attributes:
        planned: Maximum number of seeds, as planned at the first analysis; 0 before it.
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
        counts = [*analysis_seeds(self.planned)[:1], *self.seeds.values()] if self.planned else [0]
        return range(self.first, self.first + max(counts))


def analysis_seeds(at_most: int) -> tuple[int, ...]:
    """Return the number of seeds at each interim analysis; the last one is `at_most`."""
    counts, count = [], MIN_SEEDS
    while _MIN_GROWTH * count <= at_most:
        counts.append(count)
        count = round(GROWTH * count)
    return (*counts, at_most)


def race_seeds(at_most: int) -> tuple[int, ...]:
    """Return the number of seeds at each interim analysis of a race over learning rates.

    The first analysis only decides which rates leave the race (`analysis.racing`); the others also
    decide statements.
    """
    return (SCREENING_SEEDS, *analysis_seeds(at_most))


def level_shares(planned: Sequence[int]) -> tuple[float, ...]:
    pairs = itertools.pairwise((0, *planned))
    return tuple((seeds - earlier) / planned[-1] for earlier, seeds in pairs)


def next_seeds(seeds: float, planned: Sequence[int]) -> int | None:
    """Return the number of seeds at the next interim analysis; None after the last one."""
    return next((count for count in planned if count > seeds), None)


def analyses_so_far(replicates: int, planned: Sequence[int]) -> list[tuple[int, float]]:
    """Return the replicates and the share of the level at each interim analysis so far.

    The last analysis has all replicates; within a stage, it spends the share of that stage. Without
    a plan, a single analysis spends the whole level.
    """
    if not planned:
        return [(replicates, 1.0)]
    earlier = [count for count in planned[:-1] if count < replicates]
    return [*zip((*earlier, replicates), level_shares(planned), strict=False)]
