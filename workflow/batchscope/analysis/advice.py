"""Which batch sizes to use: the evidence of one series in, a range with its limits out.

A size is recommended where it (a) fits into memory, (b) reaches the target within a share of the
fastest size's seconds and (c) is within a margin of the best size's outcome, of every outcome with
a margin. No fastest or best size is picked first, since the runs that pick it flatter it: (b), on
the logarithm of the seconds, and (c) are judged by the tests of `largest_within_margin`, paired by
seed. The range is the run of neighbouring sizes that keep all three; one that is not resolved
ends it. There is none where a tuned rate lies on the edge of its grid, below six seeds, or where
one size alone reached the target with every seed: then it says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import pandas
from scipy import special

from batchscope.analysis import intervals, largest_within_margin, seeds_wanted
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.fastest_batch_size import FastestBatchSize
from batchscope.analysis.intervals import Interval
from batchscope.analysis.largest_within_margin import BEYOND, FAILED, NOT_RESOLVED, WITHIN
from batchscope.catalogue import budget_kinds, outcomes

MEMORY, SECONDS, OUTCOME = "memory", "seconds", "outcome"
UPDATES = "updates"  # what a rate is the best of where no seconds were measured
NOT_MEASURED = "not_measured"
# Why there is no range.
NO_TARGET, NO_SECONDS, NO_OUTCOME = "no_target", "no_seconds", "no_outcome"
TOO_FEW, RATE_ON_EDGE = "too_few_seeds", "rate_on_edge"
NONE_HOLDS, NONE_SHOWN = "none_holds", "none_shown"
_HOLDS = (WITHIN, NOT_MEASURED)


@dataclass(frozen=True)
class Outcome:
    """What a training is worth in the end.

    Attributes:
        name: Its column; of an accuracy higher is better, of anything else lower.
        margin: Largest loss of it that counts as negligible, above 0.
        values: Shape (sizes, seeds); NaN where there is no training, infinite where it failed.
        stated: Whether the study states the margin.
        differing: Batch sizes whose seeds are read at different rates, each at that which the
            others choose.
        bounded: Batch sizes of which some value is an upper bound.
    """

    name: str
    margin: float
    values: np.ndarray
    stated: bool = True
    differing: Collection[int] = ()
    bounded: Collection[int] = ()


class Edge(NamedTuple):
    """A batch size whose best rate is the lowest or the highest that was tried.

    `limit` is what it is the best of: the seconds, without these the updates, or the outcome.
    """

    batch_size: int
    rate: float
    highest: bool
    limit: str = SECONDS


class TriedRates(NamedTuple):
    """The learning rates of one series.

    Attributes:
        tuned: How many were tried at each size, of which the best one counts; 0 where every
            size has a rate of its own or all have the same.
        known: Whether they are known: a file of trainings made elsewhere need not say.
        seconds: Of one core that one more rate takes at all sizes and seeds; it needs no timing.
    """

    tuned: int = 0
    known: bool = True
    edges: Sequence[Edge] = ()
    seconds: float = math.nan


class ToTarget(NamedTuple):
    """What the trainings of one series take to a target.

    Attributes:
        target: In words; empty where there is none.
        seconds: Shape (sizes, seeds), infinity where a training never got there, NaN where there
            is none; None where they were not measured.
        slower: Share of the least time by which a size may take longer.
        differing: Batch sizes of which seeds are read at different rates in the seconds.
        bounded: Batch sizes with a training at the target by its first evaluation, of whose
            seconds an upper bound is known.
    """

    target: str = ""
    seconds: np.ndarray | None = None
    slower: float = budget_kinds.SLOWER
    differing: Collection[int] = ()
    bounded: Collection[int] = ()
    critical: CriticalBatchSize | None = None
    fastest: FastestBatchSize | None = None


class Limits(NamedTuple):
    """What the machine allows.

    Attributes:
        memory: Largest batch that fits into memory; None where it was not measured.
        memory_open: Whether that is only the largest that was tried.
        knee: Batch size that reaches 90 % of the throughput's plateau; NaN where unknown.
    """

    memory: int | None = None
    memory_open: bool = False
    knee: float = math.nan


@dataclass(frozen=True)
class Evidence:
    """What is known of one series.

    Attributes:
        outcomes: What the trainings are worth, all of which a size must keep; empty where nothing
            was measured.
        seed_seconds: Seconds of one core that one more seed takes, all its trainings, measures
            and timings together; NaN where unknown.
        trends: Budget -> `larger` or `smaller`, where that looks better.
        elsewhere: Whether the trainings were made elsewhere, and are known by a file's columns.
        falling: Batch sizes at which the validation loss still fell when most trainings ended.
    """

    batch_sizes: Sequence[int]
    seeds: Sequence[int]
    to_target: ToTarget
    outcomes: Sequence[Outcome]
    rates: TriedRates = TriedRates()
    limits: Limits = Limits()
    scope: str = ""
    seed_seconds: float = math.nan
    trends: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    planned: int | None = None
    falling: Sequence[int] = ()

    @property
    def paired(self) -> int:
        """The seeds that have a training at every batch size, by which these are compared."""
        tables = [each.values for each in self.outcomes]
        tables += [] if self.to_target.seconds is None else [self.to_target.seconds]
        there = [~np.isnan(np.asarray(each, float)) for each in tables]
        whole = [each[each.any(axis=1)].all(axis=0) for each in there]
        return int(np.logical_and.reduce(whole).sum()) if whole else len(self.seeds)


class More(NamedTuple):
    """Further seeds that would decide: low as s is measured, high with its upper 80 % bound.

    `equal` says whether they show sizes to be equal within the margin that are; else that the
    difference is as large as it is measured.
    """

    low: int
    high: int
    equal: bool


class Judged(NamedTuple):
    """One batch size before one limit.

    `verdict` is one of `largest_within_margin`, or `not_measured`; `difference` is that to
    `against`: of outcomes as they are, of seconds the logarithm of their ratio.
    `outcome` is the one that a limit of outcomes is of.
    """

    limit: str
    batch_size: int
    verdict: str
    against: int | None = None
    difference: Interval = Interval()
    more: More | None = None
    outcome: Outcome | None = None


class Reach(NamedTuple):
    """The batch sizes around the range that hold one limit, and what ends them on each side."""

    limit: str
    smallest: int
    largest: int
    below: Judged | None
    above: Judged | None
    outcome: Outcome | None = None


class Missing(NamedTuple):
    """Why there is no range: how many seeds or rates are missing, and seconds of one core."""

    reason: str
    count: int = 0
    seconds: float = math.nan


@dataclass(frozen=True)
class Advice:
    """The advice of one series.

    Attributes:
        judged: Limit, of outcomes the outcome's name -> every batch size, ascending.
        smallest: The range, to the largest; None where there is none.
        missing: Why there is none.
        reaches: Each limit with the sizes that hold it around the range: the one that ends
            soonest above it first.
        apart: Sizes that keep all limits and are not next to the range.
    """

    evidence: Evidence
    judged: dict[str, list[Judged]]
    smallest: int | None
    largest: int | None
    missing: tuple[Missing, ...] = ()
    reaches: tuple[Reach, ...] = ()
    apart: tuple[int, ...] = ()

    @property
    def open(self) -> list[Judged]:
        """What is not resolved: what ends the range first, and then the cheapest to know."""
        ends = [end for reach in self.reaches for end in (reach.below, reach.above)]
        found = [each for each in chain(*self.judged.values()) if each.verdict == NOT_RESOLVED]
        return sorted(found, key=lambda each: (each not in ends, each.more or (math.inf,)))

    @property
    def questions(self) -> list[Judged]:
        """What further seeds would resolve and the advice depends on, in the order of `open`.

        A size that another limit excludes stays out of the range, whatever the answer. Whether
        two sizes are equal is one question: it stands once, however many of them ask it.
        """
        found: dict[tuple[str, frozenset[int | None], bool | int], Judged] = {}
        for each in self.open:
            if each.more and each.batch_size not in self.excluded:
                pair = frozenset((each.batch_size, each.against))
                limit = each.outcome.name if each.outcome else each.limit
                found.setdefault((limit, pair, each.more.equal or each.batch_size), each)
        return list(found.values())

    @property
    def candidates(self) -> list[int]:
        """The sizes that no limit is shown to exclude; empty where none is excluded."""
        excluded = self.excluded
        return [size for size in self.evidence.batch_sizes if excluded and size not in excluded]

    @property
    def excluded(self) -> set[int]:
        """The sizes that a limit is shown to exclude."""
        every = chain(*self.judged.values())
        return {each.batch_size for each in every if each.verdict in (BEYOND, FAILED)}

    @property
    def open_against(self) -> dict[int, list[int]]:
        """A size -> the others, at least two, that are not resolved against it."""
        found: dict[int, set[int]] = {}
        for each in self.open:
            if each.against is not None:
                found.setdefault(each.against, set()).add(each.batch_size)
        return {size: sorted(others) for size, others in found.items() if len(others) > 1}

    @property
    def more(self) -> More | None:
        """Further seeds for the first question, or for any verdict at all; None without one."""
        few = [each.count for each in self.missing if each.reason == TOO_FEW]
        found = [More(few[0], few[0], False)] if few else [each.more for each in self.questions]
        return found[0] if found else None


def advise(evidence: Evidence) -> Advice:
    """Returns the range of batch sizes to use, or what is missing for one."""
    judged = {MEMORY: list(_memory(evidence)), SECONDS: _seconds(evidence), **_outcomes(evidence)}
    missing = tuple(_missing(evidence))
    if missing:
        return Advice(evidence, judged, None, None, missing)
    holds = [
        all(limit[index].verdict in _HOLDS for limit in judged.values())
        for index in range(len(evidence.batch_sizes))
    ]
    runs = [list(group) for held, group in groupby(range(len(holds)), holds.__getitem__) if held]
    if not runs:
        found = Advice(evidence, judged, None, None)
        shown = found.excluded.issuperset(evidence.batch_sizes)
        return replace(found, missing=(Missing(NONE_HOLDS if shown else NONE_SHOWN),))
    chosen = max(runs, key=len)  # of equally long ones the first
    sizes = evidence.batch_sizes
    known = [
        limit for limit in judged.values() if any(each.verdict != NOT_MEASURED for each in limit)
    ]
    reaches = [_reach(limit, chosen) for limit in known]
    return Advice(
        evidence,
        judged,
        sizes[chosen[0]],
        sizes[chosen[-1]],
        reaches=tuple(sorted(reaches, key=lambda reach: _height(reach, evidence))),
        apart=tuple(sizes[index] for run in runs if run is not chosen for index in run),
    )


def _height(reach: Reach, evidence: Evidence) -> float:
    """Returns where a limit ends; one that ends with the sizes that were tried comes last."""
    if reach.above is not None:
        return reach.largest
    limits = evidence.limits
    return math.inf if reach.limit != MEMORY or limits.memory_open else limits.memory or 0


def _memory(evidence: Evidence) -> Iterator[Judged]:
    limits = evidence.limits
    beyond = NOT_MEASURED if limits.memory is None or limits.memory_open else BEYOND
    for size in evidence.batch_sizes:
        yield Judged(MEMORY, size, WITHIN if size <= (limits.memory or 0) else beyond)


def _seconds(evidence: Evidence) -> list[Judged]:
    taken = evidence.to_target
    if taken.seconds is None:
        return [Judged(SECONDS, size, NOT_MEASURED) for size in evidence.batch_sizes]
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(taken.seconds, float))  # what took no time has no logarithm
    of = {"differing": taken.differing, "bounded": taken.bounded}
    within = Outcome("log_seconds", math.log1p(taken.slower), logs, **of)
    return _judged(evidence, SECONDS, within)


def _outcomes(evidence: Evidence) -> dict[str, list[Judged]]:
    """Returns outcome -> every size; what stands for all of them where none was measured."""
    if not evidence.outcomes:
        return {OUTCOME: [Judged(OUTCOME, size, NOT_MEASURED) for size in evidence.batch_sizes]}
    return {found.name: _judged(evidence, OUTCOME, found) for found in evidence.outcomes}


def _judged(evidence: Evidence, limit: str, of: Outcome) -> list[Judged]:
    """Returns every size as the tests of `largest_within_margin` find it."""
    values, differing = np.asarray(of.values, float), of.differing
    table = pandas.DataFrame(values.T, columns=evidence.batch_sizes)
    table = table.where(np.isfinite(table))
    rising = of.name.endswith("accuracy")
    compared = largest_within_margin.compare(
        values, evidence.batch_sizes, of.margin, rising, differing, of.bounded
    )
    sizes = largest_within_margin.judge(compared)
    found = []
    level = largest_within_margin.level_beyond(sizes)
    for size in sizes:
        more = None
        resolvable = size.deciding is not None and not {*of.bounded}  # by further seeds
        if size.verdict == NOT_RESOLVED and resolvable:
            better = (table[size.deciding] - table[size.batch_size]).to_numpy()
            either = size.batch_size in differing or size.deciding in differing
            more = _more(better if rising else -better, of.margin, either, level)
        outcome = of if limit == OUTCOME else None
        what = (limit, size.batch_size, size.verdict, size.deciding)
        found.append(Judged(*what, size.difference, more, outcome))
    return found


def _more(better: np.ndarray, margin: float, differ: bool, level: float) -> More | None:
    """Returns the further seeds that show whether a size is better by less than a margin.

    Where the 90 % interval holds 0, sizes that are equal are to be shown so; else a difference as
    large as it is measured is to be distinguished from the margin: at 5 % below it, and above it
    at the level that all sizes leave to one.

    Args:
        better: By how much the other size is better, one per seed; those that are not finite
            are left out.
        differ: Whether seeds are read at different rates, which counts as a larger deviation.
        level: Level of the test that the other size is better by more than the margin.
    """
    better = better[np.isfinite(better)]
    count = len(better)
    deviation = float(better.std(ddof=1) * np.sqrt(intervals.correction(count, differ)))
    mean = float(better.mean())
    excess = mean - margin
    critical = float(special.stdtrit(count - 1, 1 - outcomes.LEVEL))
    equal = abs(mean) <= critical * deviation / math.sqrt(count)
    if deviation == 0 or (not equal and excess == 0):
        return None
    ends = (deviation, seeds_wanted.upper_bound(deviation, count))
    if equal:
        low, high = (seeds_wanted.for_equivalence(margin / end) for end in ends)
    else:
        of_test = level if excess > 0 else outcomes.LEVEL
        low, high = (seeds_wanted.for_difference(abs(excess) / end, of_test) for end in ends)
    return More(max(low - count, 1), max(high - count, 1), equal)


def _missing(evidence: Evidence) -> Iterator[Missing]:
    """Yields what a range cannot do without."""
    if not evidence.to_target.target:
        yield Missing(NO_TARGET)
    elif evidence.to_target.seconds is None:
        yield Missing(NO_SECONDS)
    if not evidence.outcomes:
        yield Missing(NO_OUTCOME)
    few = outcomes.LEAST_SEEDS - evidence.paired
    if few > 0:
        yield Missing(TOO_FEW, few, few * evidence.seed_seconds)
    if sides := len({edge.highest for edge in evidence.rates.edges}):
        yield Missing(RATE_ON_EDGE, sides, sides * evidence.rates.seconds)


def _reach(judged: list[Judged], chosen: list[int]) -> Reach:
    missed = [at for at, each in enumerate(judged) if each.verdict not in _HOLDS]
    below = max((at for at in missed if at < chosen[0]), default=-1)
    above = min((at for at in missed if at > chosen[-1]), default=len(judged))
    return Reach(
        judged[0].limit,
        judged[below + 1].batch_size,
        judged[above - 1].batch_size,
        judged[below] if below >= 0 else None,
        judged[above] if above < len(judged) else None,
        judged[0].outcome,
    )
