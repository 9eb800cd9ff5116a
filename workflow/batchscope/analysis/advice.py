"""Which batch sizes to use: the evidence of one series in, a range with its limits out.

A size is recommended where it (a) fits into memory, (b) reaches the target within a share of the
fastest size's seconds and (c) is within a margin of the best size's outcome, of every outcome with
a margin. No fastest or best size is picked first, since the runs that pick it flatter it: (b), on
the logarithm of the seconds, and (c) are judged by the tests of `largest_within_margin`, paired by
seed. The range is the run of neighbouring sizes that keep all three; one that is not resolved
ends it. There is none where a tuned rate lies on the edge of its grid, nor below six seeds: then it
says what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas

from batchscope.analysis import intervals, largest_within_margin, seeds_wanted
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.fastest_batch_size import FastestBatchSize
from batchscope.analysis.largest_within_margin import (
    BEYOND,
    FAILED,
    NOT_RESOLVED,
    WITHIN,
)
from batchscope.catalogue import budget_kinds, outcomes

MEMORY, SECONDS, OUTCOME = "memory", "seconds", "outcome"
UPDATES = "updates"  # what a rate is the best of where no seconds were measured
NOT_MEASURED = "not_measured"
# Why there is no range.
NO_TARGET, NO_SECONDS, NO_OUTCOME, TOO_FEW, RATE_ON_EDGE, NONE_HOLDS, NONE_SHOWN = (
    "no_target",
    "no_seconds",
    "no_outcome",
    "too_few_seeds",
    "rate_on_edge",
    "none_holds",
    "none_shown",
)


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
    """

    name: str
    margin: float
    values: np.ndarray
    stated: bool = True
    differing: Collection[int] = ()


@dataclass(frozen=True)
class Edge:
    """A batch size whose best rate is the lowest or the highest that was tried.

    `limit` is what it is the best of: the seconds, without these the updates, or the outcome.
    """

    batch_size: int
    rate: float
    highest: bool
    limit: str = SECONDS


@dataclass(frozen=True)
class Evidence:
    """What is known of one series.

    Attributes:
        batch_sizes: Ascending.
        seeds: Seeds of the columns below.
        target: What is to be reached, in words; empty where there is no target.
        seconds: Seconds to it, shape (sizes, seeds), infinity where a training never got there,
            NaN where there is none; None where they were not measured.
        differing: Batch sizes of which seeds are read at different rates there.
        outcomes: What the trainings are worth, all of which a size must keep; empty where nothing
            was measured.
        scope: What it holds for: model, data, rates, machine.
        slower: Share of the least time by which a size may take longer.
        memory: Largest batch that fits into memory; None where it was not measured.
        memory_open: Whether that is only the largest that was tried.
        edges: Batch sizes whose tuned rate lies on the edge of its grid.
        tuned: Rates that were tried at each size, of which the best one counts; 0 where every
            size has a rate of its own or all have the same.
        rates_known: Whether the rates are known: a file of trainings made elsewhere need not say.
        critical: The critical batch size; None without one.
        fastest: The fastest size in closed form; None without one.
        knee: Batch size that reaches 90 % of the throughput's plateau; NaN where unknown.
        seed_seconds: Seconds of one core that one more seed takes, all its trainings, measures
            and timings together; NaN where unknown.
        rate_seconds: The same of one more rate, at all sizes and seeds, which needs no timing.
        trends: Budget -> `larger` or `smaller`, where that looks better.
        elsewhere: Whether the trainings were made elsewhere, and are known by a file's columns.
        planned: Seeds that the study planned; None where it does not say.
        falling: Batch sizes at which the validation loss still fell when most trainings ended.
    """

    batch_sizes: Sequence[int]
    seeds: Sequence[int]
    target: str
    seconds: np.ndarray | None
    outcomes: Sequence[Outcome]
    differing: Collection[int] = ()
    scope: str = ""
    slower: float = budget_kinds.SLOWER
    memory: int | None = None
    memory_open: bool = False
    edges: Sequence[Edge] = ()
    tuned: int = 0
    rates_known: bool = True
    critical: CriticalBatchSize | None = None
    fastest: FastestBatchSize | None = None
    knee: float = math.nan
    seed_seconds: float = math.nan
    rate_seconds: float = math.nan
    trends: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    planned: int | None = None
    falling: Sequence[int] = ()

    @property
    def paired(self) -> int:
        """The seeds that have a training at every batch size, by which these are compared."""
        tables = [each.values for each in self.outcomes]
        tables += [] if self.seconds is None else [self.seconds]
        there = [~np.isnan(np.asarray(each, float)) for each in tables]
        whole = [each[each.any(axis=1)].all(axis=0) for each in there]
        return int(np.logical_and.reduce(whole).sum()) if whole else len(self.seeds)


class More(NamedTuple):
    """Further seeds that would decide: low as s is measured, high with its upper 80 % bound.

    Attributes:
        low: Seeds beside those there are.
        high: Likewise; both at most `seeds_wanted.MOST`.
        equal: Whether they show sizes to be equal within the margin that are; else that the
            difference is as large as it is measured.
    """

    low: int
    high: int
    equal: bool


class Judged(NamedTuple):
    """One batch size before one limit.

    `verdict` is one of `largest_within_margin`, or `not_measured`; `difference`, `low` and `high`
    are those to `against`: of outcomes as they are, of seconds the logarithm of their ratio.
    `outcome` is the one that a limit of outcomes is of.
    """

    limit: str
    batch_size: int
    verdict: str
    against: int | None = None
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    more: More | None = None
    outcome: Outcome | None = None


class Reach(NamedTuple):
    """The batch sizes around the range that hold one limit; `next_*` is what ends them."""

    limit: str
    smallest: int
    largest: int
    below: Judged | None
    above: Judged | None
    outcome: Outcome | None = None


class Missing(NamedTuple):
    """Why there is no range: what is missing, and seconds of one core that it takes.

    `count` is of seeds or of rates.
    """

    reason: str
    count: int = 0
    seconds: float = math.nan


@dataclass(frozen=True)
class Advice:
    """The advice of one series.

    Attributes:
        evidence: What it rests on.
        judged: Limit, of outcomes the outcome's name -> every batch size, ascending.
        smallest: The range; None where there is none.
        largest: Its other end.
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
        found = [
            each for limit in self.judged.values() for each in limit if each.verdict == NOT_RESOLVED
        ]
        return sorted(found, key=lambda each: (each not in ends, each.more or (math.inf,)))

    @property
    def questions(self) -> list[Judged]:
        """What further seeds would resolve and the advice depends on, in the order of `open`.

        A size that another limit excludes stays out of the range, whatever the answer. Whether
        two sizes are equal is one question: it stands once, however many of them ask it.
        """
        found: dict[tuple[str, frozenset[int | None], bool | int], Judged] = {}
        for each in self.open:
            if each.more and each.batch_size not in self._excluded:
                pair = frozenset((each.batch_size, each.against))
                limit = each.outcome.name if each.outcome else each.limit
                found.setdefault((limit, pair, each.more.equal or each.batch_size), each)
        return list(found.values())

    @property
    def candidates(self) -> list[int]:
        """The sizes that no limit is shown to exclude; empty where none is excluded."""
        excluded = self._excluded
        return [size for size in self.evidence.batch_sizes if excluded and size not in excluded]

    @property
    def _excluded(self) -> set[int]:
        return {
            each.batch_size
            for limit in self.judged.values()
            for each in limit
            if each.verdict in (BEYOND, FAILED)
        }

    @property
    def open_against(self) -> dict[int, list[int]]:
        """A size -> the others, at least two, that are not resolved against it."""
        found: dict[int, list[int]] = {}
        for each in self.open:
            if each.against is not None:
                others = found.setdefault(each.against, [])
                others += [each.batch_size] if each.batch_size not in others else []
        return {size: sorted(others) for size, others in found.items() if len(others) > 1}

    @property
    def more(self) -> More | None:
        """Further seeds for the first question, or for any verdict at all; None without one."""
        few = [each for each in self.missing if each.reason == TOO_FEW]
        if few:
            return More(few[0].count, few[0].count, False)
        return next((each.more for each in self.questions), None)


def advise(evidence: Evidence) -> Advice:
    """Returns the range of batch sizes to use, or what is missing for one."""
    judged = {
        MEMORY: list(_memory(evidence)),
        SECONDS: _seconds(evidence),
        **_outcomes(evidence),
    }
    missing = tuple(_missing(evidence))
    if missing:
        return Advice(evidence, judged, None, None, missing)
    holds = [
        all(limit[index].verdict in (WITHIN, NOT_MEASURED) for limit in judged.values())
        for index in range(len(evidence.batch_sizes))
    ]
    runs = [list(group) for held, group in groupby(range(len(holds)), holds.__getitem__) if held]
    if not runs:
        shown = any(each.verdict == NOT_RESOLVED for limit in judged.values() for each in limit)
        why = Missing(NONE_SHOWN if shown else NONE_HOLDS)
        return Advice(evidence, judged, None, None, (why,))
    chosen = max(runs, key=len)  # of equally long ones the first
    sizes = evidence.batch_sizes
    reaches = [_reach(limit, chosen) for limit in judged.values() if _known(limit)]
    return Advice(
        evidence,
        judged,
        sizes[chosen[0]],
        sizes[chosen[-1]],
        reaches=tuple(sorted(reaches, key=lambda reach: _height(reach, evidence))),
        apart=tuple(sizes[index] for run in runs if run is not chosen for index in run),
    )


def _known(judged: list[Judged]) -> bool:
    return any(each.verdict != NOT_MEASURED for each in judged)


def _height(reach: Reach, evidence: Evidence) -> float:
    """Returns where a limit ends; one that ends with the sizes that were tried comes last."""
    if reach.above is not None:
        return reach.largest
    return math.inf if reach.limit != MEMORY or evidence.memory_open else evidence.memory or 0


def _memory(evidence: Evidence) -> Iterator[Judged]:
    for size in evidence.batch_sizes:
        verdict = NOT_MEASURED
        if evidence.memory is not None:
            fits = size <= evidence.memory
            verdict = WITHIN if fits else NOT_MEASURED if evidence.memory_open else BEYOND
        yield Judged(MEMORY, size, verdict)


def _seconds(evidence: Evidence) -> list[Judged]:
    if evidence.seconds is None:
        return [Judged(SECONDS, size, NOT_MEASURED) for size in evidence.batch_sizes]
    times = np.asarray(evidence.seconds, float)
    with np.errstate(divide="ignore"):
        logs = np.log(times)  # what took no time has no logarithm
    return _judged(evidence, "log_seconds", logs, math.log1p(evidence.slower), evidence.differing)


def _outcomes(evidence: Evidence) -> dict[str, list[Judged]]:
    """Returns outcome -> every size; what stands for all of them where none was measured."""
    if not evidence.outcomes:
        return {OUTCOME: [Judged(OUTCOME, size, NOT_MEASURED) for size in evidence.batch_sizes]}
    return {
        found.name: _judged(
            evidence, found.name, found.values, found.margin, found.differing, found
        )
        for found in evidence.outcomes
    }


def _judged(
    evidence: Evidence,
    name: str,
    values: np.ndarray,
    margin: float,
    differing: Collection[int],
    outcome: Outcome | None = None,
) -> list[Judged]:
    """Returns every size as the tests of `largest_within_margin` find it.

    Args:
        evidence: Gives the batch sizes and the seeds.
        name: What is compared: of an accuracy higher is better.
        values: Shape (sizes, seeds); NaN where there is no training, infinite where it failed.
        margin: Largest loss of it.
        differing: Batch sizes whose seeds are read at different rates.
        outcome: That it is; None of seconds.
    """
    values = np.asarray(values, float)
    table = pandas.DataFrame(values.T, evidence.seeds, evidence.batch_sizes)
    table = table.where(np.isfinite(table))
    rising = name.endswith("accuracy")
    whole = largest_within_margin.whole(values, evidence.batch_sizes)
    compared = largest_within_margin.compare(table, whole, margin, rising, differing)
    sizes = largest_within_margin.judge(compared)
    found = []
    level = largest_within_margin.level_beyond(sizes)
    for size in sizes:
        more = None
        if size.verdict == NOT_RESOLVED and size.deciding is not None:
            better = (table[size.deciding] - table[size.batch_size]).to_numpy()
            either = size.batch_size in differing or size.deciding in differing
            more = _more(better if rising else -better, margin, either, level)
        found.append(
            Judged(
                OUTCOME if outcome else SECONDS,
                size.batch_size,
                size.verdict,
                size.deciding,
                size.difference,
                size.low,
                size.high,
                more,
                outcome,
            )
        )
    return found


def _more(better: np.ndarray, margin: float, differ: bool, level: float) -> More | None:
    """Returns the further seeds that show whether a size is better by less than a margin.

    Where the 90 % interval holds 0, sizes that are equal are to be shown so; else a difference as
    large as it is measured is to be distinguished from the margin: at 5 % below it, and above it
    at the level that all sizes leave to one.

    Args:
        better: By how much the other size is better, one per seed; those that are not finite
            are left out.
        margin: The margin.
        differ: Whether seeds are read at different rates, which counts as a larger deviation.
        level: Level of the test that the other size is better by more than the margin.
    """
    better = better[np.isfinite(better)]
    count = len(better)
    deviation = float(better.std(ddof=1) * np.sqrt(intervals.correction(count, differ)))
    mean = float(better.mean())
    excess = mean - margin
    equal = abs(mean) <= _half(deviation, count)
    if deviation == 0 or (not equal and excess == 0):
        return None
    ends = (deviation, seeds_wanted.upper_bound(deviation, count))
    if equal:
        low, high = (seeds_wanted.for_equivalence(margin / end) for end in ends)
    else:
        of_test = level if excess > 0 else outcomes.LEVEL
        low, high = (seeds_wanted.for_difference(abs(excess) / end, of_test) for end in ends)
    return More(max(low - count, 1), max(high - count, 1), equal)


def _half(deviation: float, count: int) -> float:
    from scipy import special

    return float(special.stdtrit(count - 1, 1 - outcomes.LEVEL)) * deviation / math.sqrt(count)


def _missing(evidence: Evidence) -> Iterator[Missing]:
    """Yields what a range cannot do without."""
    if not evidence.target:
        yield Missing(NO_TARGET)
    elif evidence.seconds is None:
        yield Missing(NO_SECONDS)
    if not evidence.outcomes:
        yield Missing(NO_OUTCOME)
    few = outcomes.LEAST_SEEDS - evidence.paired
    if few > 0:
        yield Missing(TOO_FEW, few, few * evidence.seed_seconds)
    if evidence.edges:
        sides = len({edge.highest for edge in evidence.edges})
        yield Missing(RATE_ON_EDGE, sides, sides * evidence.rate_seconds)


def _reach(judged: list[Judged], chosen: list[int]) -> Reach:
    holds = [each.verdict in (WITHIN, NOT_MEASURED) for each in judged]
    low, high = chosen[0], chosen[-1]
    while low > 0 and holds[low - 1]:
        low -= 1
    while high + 1 < len(judged) and holds[high + 1]:
        high += 1
    return Reach(
        judged[low].limit,
        judged[low].batch_size,
        judged[high].batch_size,
        judged[low - 1] if low > 0 else None,
        judged[high + 1] if high + 1 < len(judged) else None,
        judged[low].outcome,
    )
