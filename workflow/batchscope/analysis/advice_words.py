"""The sentences of an advice: the card of the report, and what the terminal prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from batchscope import wording
from batchscope.analysis import advice as advices
from batchscope.analysis import fastest_batch_size, seeds_wanted
from batchscope.analysis.advice import Advice, Evidence, Judged, Missing, Outcome, Reach, ToTarget
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.largest_within_margin import (
    ALONE,
    BEYOND,
    FAILED,
    NO_VALUE,
    NOT_RESOLVED,
    WITHIN,
)
from batchscope.analysis.to_target_tables import critical_text
from batchscope.catalogue import outcomes

_TOO_MANY = seeds_wanted.MOST // 10  # seeds that nobody trains
_MOST_OPEN = 3  # questions that are listed one by one


@dataclass(frozen=True)
class Card:
    """An advice in sentences; empty where there is nothing to say.

    Attributes:
        headline: `Use 32 to 128 (small_cnn on digits, this CPU).`, or why there is no advice.
        limits: What ends the range below and above, what the other limits allow.
        budgets: What looks better where other things are held equal.
        look: What seeds beside those that were planned mean for it.
    """

    headline: str
    limits: str
    unknown: str
    overturned: str
    budgets: str
    look: str


def card(advice: Advice) -> Card:
    """Returns the sentences of an advice."""
    evidence = advice.evidence
    scope = f" ({evidence.scope})" if evidence.scope else ""
    if advice.smallest is None:
        limits_text = " ".join([*_known(advice), *_short(evidence)])
        why = "; ".join(_reason(advice, each) for each in advice.missing)
        headline = f"No advice{scope}, because {why}."
    else:
        limits_text = " ".join([*_sides(advice), *_allowed(advice), *_short(evidence)])
        headline = f"Use {span(advice.smallest, advice.largest)}{scope}."
    return Card(
        headline=headline,
        limits=limits_text,
        unknown=_unknown(advice),
        overturned=_overturned(advice),
        budgets=_other_budgets(evidence),
        look=seeds_wanted.beside_the_plan(len(evidence.seeds), evidence.planned),
    )


def span(smallest: int, largest: int | None) -> str:
    """Returns `32 to 128`, or one size alone."""
    first = wording.batch_size(smallest)
    return first if largest in (smallest, None) else f"{first} to {wording.batch_size(largest)}"


def critical(fit: CriticalBatchSize | None) -> str:
    """Returns `critical batch size 95 [70, 130]`; empty without an estimate."""
    if fit is None or (math.isnan(fit.low) and math.isnan(fit.high)):
        return ""
    return critical_text(fit, "critical batch size")


def amount(name: str, value: float) -> str:
    """Returns a difference of an outcome: in percentage points of an accuracy."""
    if not name.endswith("accuracy"):
        return wording.number(value)
    shown = wording.number(100 * value, 2)
    return f"{shown} {'point' if shown == '1' else 'points'}"


def question(judged: Judged) -> str:
    """Returns `256 against 512 for test accuracy`."""
    what = _words(judged.outcome) if judged.outcome else "the time"
    pair = " against ".join(map(wording.batch_size, (judged.batch_size, judged.against or 0)))
    return f"{pair} for {what}"


def seeds(low: int, high: int) -> str:
    """Returns `5 to 11 more seeds`, or that no number of them would do."""
    if low >= _TOO_MANY:
        return f"more than {_TOO_MANY:,} more seeds"
    if high >= _TOO_MANY:
        return f"at least {wording.count(low, 'more seed')}"
    return wording.count(low, "more seed") if low == high else f"{low} to {high} more seeds"


def cost(*seconds: float) -> str:
    """Returns ` (about 9 min)`, of one amount or of two; empty where it is unknown."""
    known = dict.fromkeys(wording.duration(each) for each in seconds if math.isfinite(each))
    return f" (about {' to '.join(known)} of one core)" if known else ""


def _sizes(sizes: Iterable[int]) -> str:
    return wording.listed(map(wording.batch_size, sizes))


def _words(outcome: Outcome) -> str:
    return outcome.name.replace("_", " ")


def _within(outcome: Outcome) -> str:
    return f"{_words(outcome)} within {_margin(outcome)}"


def _margin(outcome: Outcome) -> str:
    return amount(outcome.name, outcome.margin)


def _slower(goal: ToTarget) -> str:
    return f"{wording.number(100 * goal.slower)} %"


def _sides(advice: Advice) -> Iterator[str]:
    """Yields what ends the range below, and what ends it above."""
    low, high = advice.smallest or 0, advice.largest or 0
    goal = advice.evidence.to_target
    below = [each.below for each in advice.reaches if each.smallest == low and each.below]
    above = [each.above for each in advice.reaches if each.largest == high and each.above]
    smallest, largest = wording.batch_size(low), wording.batch_size(high)
    smaller = "" if low == 1 else ": a smaller one may do as well"
    alone = f"{smallest} is the smallest size tried{smaller}."
    yield _ends(goal, below, f"Below {smallest}") or alone
    alone = f"{largest} is the largest size tried: a larger one may do as well."
    yield _ends(goal, above, f"Above {largest}") or alone


def _ends(goal: ToTarget, ends: list[Judged], outside: str) -> str:
    """Returns why the size beside the range is no part of it, by every limit that it misses."""
    sentences = [_end(goal, each, outside) for each in ends if each.verdict != NOT_RESOLVED]
    doubts = [each for each in ends if each.verdict == NOT_RESOLVED]
    if doubts:
        size = wording.batch_size(doubts[0].batch_size)
        to_target = f"to {goal.target} it takes "
        parts = [
            f"{to_target if each.limit == advices.SECONDS else ''}{_difference(each)} "
            f"({_interval(each, goal.slower)})"
            for each in doubts
        ]
        side = outside.split()[0]
        sentences.append(f"{side} it, {size} is not resolved: {wording.listed(parts)}.")
    return " ".join(sentences)


def _end(goal: ToTarget, end: Judged, outside: str) -> str:
    """Returns why a size beside the range is no part of it."""
    size = wording.batch_size(end.batch_size)
    if end.limit == advices.MEMORY:
        return f"{outside} a batch does not fit into memory."
    if end.verdict == NO_VALUE:
        return f"At {size} no value is known yet."
    if end.limit == advices.SECONDS:
        if end.verdict == FAILED:
            return f"At {size} not every training reached {goal.target}."
        if outside.startswith("Above") and _stops_paying(goal.critical, end):
            why = f"more data per update stops paying ({critical(goal.critical)}): {size}"
            return f"{outside} {why} takes {_difference(end)}."
        more = f"takes more than {_slower(goal)} longer"
        return f"{outside} {goal.target} {more} ({size}: {_difference(end)})."
    if end.verdict == FAILED or end.outcome is None:
        return f"At {size} not every training finished."
    worse = f"{_words(end.outcome)} is worse by more than {_margin(end.outcome)}"
    return f"{outside} {worse} ({size}: {_difference(end)})."


def _stops_paying(fit: CriticalBatchSize | None, end: Judged | None) -> bool:
    """Returns whether a size that takes too long may be above the critical batch size.

    Below it a larger batch saves updates: what it costs is the time of a step.
    """
    if fit is None or end is None or math.isnan(fit.critical_batch_size):
        return False
    return end[:3:2] == (advices.SECONDS, BEYOND) and end.batch_size >= fit.low


def _difference(judged: Judged) -> str:
    """Returns `38 % longer than 64`, or `test accuracy 2.1 points below that of 32`."""
    against = wording.batch_size(judged.against or 0)
    if judged.outcome is None:
        share = math.expm1(judged.difference.mean)
        return f"{100 * abs(share):.0f} % {'longer' if share >= 0 else 'less time'} than {against}"
    side = "above" if judged.difference.mean > 0 else "below"
    shown = amount(judged.outcome.name, abs(judged.difference.mean))
    return f"{_words(judged.outcome)} {shown} {side} that of {against}"


def _interval(judged: Judged, slower: float) -> str:
    """Returns the 90 % interval of a difference: of a pair, which no other size takes part in."""
    ends = judged.difference[1:3]
    if judged.outcome is None:
        low, high = (wording.fixed(100 * math.expm1(end), 0) for end in ends)
        interval = f"90 % interval {low} to {high} %"
        # The tests are adjusted for the sizes, so that they may leave open what the pair shows.
        alone = ends[0] > math.log1p(slower)
        return f"{interval} for these two alone; not shown among all sizes" if alone else interval
    unit = wording.POINTS if judged.outcome.name.endswith("accuracy") else wording.PLAIN
    rounded = wording.estimate(*judged.difference[:3], unit)
    return f"90 % interval {rounded.low} to {rounded.high}{unit.suffix}"


def _allowed(advice: Advice) -> Iterator[str]:
    """Yields what the limits allow that do not end the range, and which size they leave out."""
    goal, limits, parts = advice.evidence.to_target, advice.evidence.limits, []
    for reach in advice.reaches:
        if reach.limit == advices.MEMORY:
            if reach.above is None:
                most = wording.batch_size(limits.memory or 0)
                parts.append(f"memory allows {most}{' or more' if limits.memory_open else ''}")
        elif reach.above is None or reach.largest != advice.largest:
            parts.append(_stays(reach, goal))
    if parts:
        yield f"{wording.capital('; '.join(parts))}."
    bound = critical(goal.critical)
    ends = (reach.above for reach in advice.reaches if reach.largest == advice.largest)
    if bound and not any(_stops_paying(goal.critical, each) for each in ends):
        yield f"{wording.capital(bound)}."
    if bound and goal.critical.lack_of_fit:
        yield "The updates depart from its law: read it as an order of magnitude."
    if limits.memory is None:
        yield "Memory was not measured; every batch size here fits."
    if advice.apart:
        sizes = _sizes(advice.apart)
        verb, other = ("keeps", "is") if len(advice.apart) == 1 else ("keep", "are")
        yield f"{sizes} {verb} every limit too, but {other} not next to this range."


def _stays(reach: Reach, goal: ToTarget) -> str:
    upto = f"up to {wording.batch_size(reach.largest)}"
    upto += ", the largest size tried" if reach.above is None else ""
    if reach.outcome is None:
        return f"the time to {goal.target} stays within {_slower(goal)} {upto}"
    stays = f"{_words(reach.outcome)} stays within {_margin(reach.outcome)} {upto}"
    return f"at each training's lowest validation loss, {stays}"


def _short(evidence: Evidence) -> Iterator[str]:
    """Yields where an outcome is that of a horizon, and where a time is known as a bound alone."""
    goal = evidence.to_target
    if goal.bounded:
        yield (
            f"At {_sizes(goal.bounded)} a training is at {goal.target} by its first "
            "evaluation. Its time is an upper bound, so that it is not shown to be slower, and no "
            "other size to be as fast: more frequent evaluations, or a lower loss as target, would."
        )
    if evidence.falling:
        sizes = _sizes(evidence.falling)
        yield (
            f"At {sizes} the validation loss still fell when most trainings ended: their outcome "
            "is that of their length, and longer ones may be worth more."
        )


def _reason(advice: Advice, missing: Missing) -> str:
    evidence, goal = advice.evidence, advice.evidence.to_target
    if missing.reason == advices.NO_TARGET:
        other = "train longer, evaluate more often, or state a target"
        return f"no loss below the first evaluation was reached at every size and seed ({other})"
    if missing.reason == advices.NO_SECONDS:
        more = "a column seconds to the file" if evidence.elsewhere else "time_epoch to measure"
        return f"no seconds were measured (add {more})"
    if missing.reason == advices.NO_OUTCOME:
        columns = "columns validation_loss and test_accuracy to the file"
        more = columns if evidence.elsewhere else "evaluate to measure"
        return f"no outcome on test data was measured (add {more})"
    if missing.reason == advices.TOO_FEW:
        paired = evidence.paired
        found = wording.count(paired, "seed is", "seeds are")
        if paired < len(evidence.seeds):  # seeds are paired by their number
            of = f"{paired} of {len(evidence.seeds)} seeds"
            has = "has" if paired == 1 else "have"
            found = f"{of} {has} a training at every batch size,"
        more = wording.count(missing.count, "more is needed", "more are needed")
        least = outcomes.LEAST_SEEDS
        return f"{found} too few for a verdict, which takes {least}: {more}{cost(missing.seconds)}"
    if missing.reason == advices.RATE_ON_EDGE:
        edges = wording.listed(_edges(evidence))
        rates = wording.count(missing.count, "more rate")
        price = cost(missing.seconds).replace("(about", f"({rates}, about")
        return f"a better learning rate may lie beyond those tried: {edges}{price}"
    other = "train longer, or state another target"
    if all(each.verdict == FAILED for each in advice.judged[advices.SECONDS]):
        return f"no batch size reached {goal.target} with every seed ({other})"
    alone = _alone(advice)
    if alone and missing.reason == advices.NONE_SHOWN:
        reached = f"only batch size {_sizes(alone)} reached {goal.target} with every seed"
        return f"{reached}, and its time is compared with none ({other})"
    time = f"to reach {goal.target} within {_slower(goal)} of the fastest size's time"
    worth = f"to keep {wording.listed(map(_within, evidence.outcomes))}"
    how = "shown" if missing.reason == advices.NONE_SHOWN else "found"
    return f"no batch size is {how} both {time} and {worth}"


def _alone(advice: Advice) -> list[int]:
    """Returns the only size that every seed reached the target with; none of several."""
    judged = advice.judged[advices.SECONDS]
    return [each.batch_size for each in judged if each.verdict == ALONE]


def _edges(evidence: Evidence) -> Iterator[str]:
    """Yields `0.8, the highest, is the best of the time at 128 and 256`."""
    key = attrgetter("highest", "rate", "limit")
    words = {advices.SECONDS: "the time", advices.UPDATES: "the updates to the target"}
    words[advices.OUTCOME] = wording.listed(map(_words, evidence.outcomes))  # they share one rate
    for (highest, rate, limit), group in groupby(sorted(evidence.rates.edges, key=key), key):
        sizes = _sizes(edge.batch_size for edge in group)
        side = "highest" if highest else "lowest"
        yield f"{wording.shortest(rate)}, the {side}, is the best for {words[limit]} at {sizes}"


def _known(advice: Advice) -> Iterator[str]:
    """Yields what is known where there is no range."""
    evidence, parts = advice.evidence, []
    yield from _candidates(advice)
    if bound := critical(evidence.to_target.critical):
        parts.append(bound)
    words = {advices.SECONDS: f"time within {_slower(evidence.to_target)} of the fastest"}
    words |= {found.name: _within(found) for found in evidence.outcomes}
    for limit, what in words.items():
        sizes = [each.batch_size for each in advice.judged[limit] if each.verdict == WITHIN]
        if sizes:
            parts.append(f"{what} at {_sizes(sizes)}")
    if evidence.limits.memory is not None:
        parts.append(f"memory allows {wording.batch_size(evidence.limits.memory)}")
    if parts:
        yield f"Known so far: {'; '.join(parts)}."


def _candidates(advice: Advice) -> Iterator[str]:
    """Yields which sizes are left where there is no range, and which one leaves others open."""
    left = advice.candidates
    if left:
        one = len(left) == 1
        sentence = "Candidate: " if one else "Candidates: "
        sentence += _sizes(left)
        evidence = advice.evidence
        seconds = evidence.to_target.seconds
        fastest = fastest_batch_size.measured_fastest(evidence.batch_sizes, seconds)
        if fastest in left and not _alone(advice):
            sentence += f"; {'it' if one else wording.batch_size(fastest)} was the fastest measured"
        yield f"{sentence}. Every other size is shown to miss a limit."
    for size, others in advice.open_against.items():
        sizes = _sizes(others)
        found = [each.outcome for each in advice.open if each.against == size]
        left = dict.fromkeys(_words(each) if each else "the time" for each in found)
        against = f"Against batch size {wording.batch_size(size)}"
        yield f"{against} {sizes} are not resolved for {wording.listed(left)}."


def _unknown(advice: Advice) -> str:
    """Returns what is not resolved and what it costs, in the order of `Advice.questions`."""
    parts, evidence = [], advice.evidence
    found = advice.questions
    for judged in found[:_MOST_OPEN]:
        low, high, equal = judged.more
        price = cost(low * evidence.seed_seconds, high * evidence.seed_seconds)
        would = "would tell if they are equal" if equal else "would tell"
        parts.append(f"{question(judged)}: {seeds(low, high)}{price} {would}")
    rest = len(found) - len(parts)
    if rest > 0:
        parts.append(f"and {wording.count(rest, 'more question')}")
    return f"Not known: {'; '.join(parts)}." if parts else ""


def _overturned(advice: Advice) -> str:
    """Returns what would overturn a range; empty without one."""
    evidence = advice.evidence
    if advice.smallest is None:
        return ""
    parts = ["another model, data set, machine or rate rule"]
    if not evidence.rates.tuned:
        known = "which these are not" if evidence.rates.known else "unless these are"
        parts.append(f"a learning rate that is tuned for each batch size, {known}")
    if evidence.to_target.critical is not None:
        parts.append("another target (the critical batch size tends to grow as the loss falls)")
    for found in evidence.outcomes:
        if not found.stated:
            parts.append(f"another margin than {_margin(found)}, which the study does not state")
    return f"What would overturn it: {'; '.join(parts)}."


def _other_budgets(evidence: Evidence) -> str:
    """Returns what looks better at equal epochs and updates; empty where neither is known."""
    by_trend: dict[str, list[str]] = {}
    for budget in ("epochs", "updates"):
        if trend := evidence.trends.get(budget):
            by_trend.setdefault(trend, []).append(f"at equal {budget}")
    parts, verb = [], " looks better"
    for trend, at in by_trend.items():
        if trend in ("larger", "smaller"):
            parts.append(f"{wording.listed(at)} {trend}{verb}")
            verb = ""  # which the next one shares
        else:
            parts.append(f"{wording.listed(at)} no trend is resolved")
    return f"{wording.capital(', '.join(parts))}: see the matrix." if parts else ""


def text(found: Card) -> str:
    """Returns a card as the terminal shows it."""
    lines = (found.headline, found.limits, found.unknown, found.look, found.budgets)
    return "\n".join(line for line in (*lines, found.overturned) if line)
