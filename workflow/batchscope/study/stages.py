"""Seeds in stages: the numbers of seeds before each interim analysis, and their error spending.

An analysis of n_i of the planned seeds spends w_i = (n_i - n_(i-1)) / planned. With p_i the p of a
statement by its first n_i seeds, min(1, min over analyses of p_i / w_i) is a p whenever one stops
(Bonferroni over the analyses, with weights; Genovese, Roeder, Wasserman 2006, Biometrika 93, 509).
The interval after an analysis is the intersection of the intervals at w_i times the level
(repeated confidence intervals; Jennison and Turnbull 1989, J. R. Stat. Soc. B 51, 305).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from batchscope.study.outcomes import LEAST_SEEDS

AT_MOST = 28  # seeds, where a study does not say
MOST_FIRST = 10_000
DECIDED = "decided"  # until when seeds are added
GROWTH = 1.46  # of the seeds from one look to the next: 6, 9, 13, 19, 28, 41 ...
_LEAST_GROWTH = 1.2  # to the last look; one that is closer to it is left out


def new_seeds(last: int, at_most: int) -> str:
    """Return the key `seeds`, as YAML, for seeds that follow a last one."""
    first = last + 1 if last < MOST_FIRST else 0
    return f"{{until: {DECIDED}, at_most: {at_most}, first: {first}}}"


class Stage(NamedTuple):
    """What an experiment has come to by its looks.

    A configuration, which is a run but for its seed, goes by the name of its run of the first seed.
    """

    planned: int = 0  # the most seeds, as they were planned at the last look; 0 before any
    seeds: Mapping[str, int] = {}  # configuration -> seeds that it has been given
    others: int = 0  # seeds of every other one; 0 for those of the first look
    first: int = 0  # seed, as it was planned at the last look

    @property
    def looked_at(self) -> range:
        """The seeds of the configuration with the most of them; none before any look."""
        most = max([*looks(self.planned)[:1], *self.seeds.values()]) if self.planned else 0
        return range(self.first, self.first + most)

    def seeds_of(self, configuration: str, planned: Sequence[int]) -> int:
        return self.seeds.get(configuration, self.others or planned[0])


def looks(at_most: int) -> tuple[int, ...]:
    """Returns the numbers of seeds after which one looks, the last of them `at_most`."""
    sizes = itertools.accumulate(itertools.repeat(GROWTH), _next, initial=LEAST_SEEDS)
    before = itertools.takewhile(lambda seeds: _LEAST_GROWTH * seeds <= at_most, sizes)
    return (*before, at_most)


def _next(seeds: int, growth: float) -> int:
    return round(growth * seeds)


def weights(planned: Sequence[int]) -> tuple[float, ...]:
    return tuple((at - before) / planned[-1] for before, at in itertools.pairwise((0, *planned)))


def following(seeds: float, planned: Sequence[int]) -> int | None:
    """Returns the number of seeds at the first look after so many; None after the last."""
    return next((look for look in planned if look > seeds), None)


def seen(replicates: int, planned: Sequence[int]) -> list[tuple[int, float]]:
    """Returns the replicates at each look so far with the share that it may spend.

    The last look is at all there are: in the middle of a stage it has the share of that stage.
    Without a plan there is one look, which spends all.
    """
    if not planned:
        return [(replicates, 1.0)]
    before = [at for at in planned[:-1] if at < replicates]
    return [*zip((*before, replicates), weights(planned), strict=False)]
