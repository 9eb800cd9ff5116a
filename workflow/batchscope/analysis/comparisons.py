"""Each batch size against the best of the others, by one interval that carries its verdict.

Of sizes i and j, d_ij is the mean over paired seeds of how much better i is. The interval of i
against the best of the others, in the sense of Hsu's multiple comparisons with the best (1984, Ann.
Statist. 12, 1136), with variances of their own for every pair::

    low_i  = min over j of the one-sided 95 % lower bound of d_ij
    high_i = min over j of the upper bound of d_ij, at a level that all pairs share

A size is within the margin where low_i > -margin: every other one is better by less, an
intersection-union test, which takes no adjustment (Berger 1982, Technometrics 24, 295). It is
beyond where high_i < -margin. In 5 % of studies at most any size is wrongly beyond: by Bonferroni
over the k (k - 1) / 2 pairs. Either size of a pair may be called beyond, but the true difference
lies at one end of [-margin, margin] at most; the level a of a pair solves

    P(T > t) + P(T > t + 2 margin / se) = .05 / (k (k - 1) / 2)

with T Student's t, so that both ends count where the margin is small beside the scatter.

Where seeds come in stages, a pair is bounded at every look, at its share of these levels, and the
tightest bounds count (see `study.stages`). Each pair has the seeds that both of its sizes have.

What was taken to a target is compared by its logarithm, so that differences are ratios. Rows of
comparisons.csv have the outcome's own direction: below 0 is a lower accuracy, and a loss that is
lower.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy import special

from batchscope.analysis import chosen_rates, contrasts, intervals, run_series, seeds_wanted
from batchscope.analysis.contrasts import ROUNDING
from batchscope.analysis.intervals import Interval
from batchscope.analysis.readings import Reading
from batchscope.study.decision_columns import COMPARISONS
from batchscope.study.outcomes import (
    LEAST_SEEDS,
    LEAST_WITH_INTERVAL,
    LEVEL,
    Reason,
    Verdict,
)
from batchscope.study.tables import clipped

_HALVINGS = 40  # of the bracket of a level


class Compared(NamedTuple):
    """One batch size against the best of the others; better is higher."""

    verdict: Verdict
    reason: Reason = Reason.NONE
    against: int | None = None  # index of the other one with the best mean
    estimate: Interval = Interval()  # mean difference to it; the verdict is read off the interval
    # In all, with power .8, were all as found. None where it is settled, or none would.
    seeds_to_resolve: int | None = None


class InterimAnalysis(NamedTuple):
    """What is known of every batch size after so many seeds; better is higher."""

    values: Any  # shape (..., sizes, seeds): NaN where there is no run
    tuned: Any = False  # whether seeds of a size are read at different rates, shape (..., sizes)
    share: float = 1.0  # of the levels, which it may spend


class Pairs(NamedTuple):
    """Differences of every two sizes, i less j: arrays of shape (..., sizes, sizes)."""

    mean: np.ndarray  # NaN without a seed of both
    error: np.ndarray
    seeds: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: np.ndarray  # of the upper bound of d_ij at which i is called beyond


def pairs(look: InterimAnalysis, margin: float, bounded: Any = False) -> Pairs:
    """Returns the differences of every two sizes with their bounds, infinite with one seed.

    Args:
        margin: Largest loss that counts as negligible, above 0.
        bounded: Whether a size may be better than it looks, by values that are bounds, shape
            (..., sizes).
    """
    values = np.asarray(look.values, float)
    differences = values[..., :, None, :] - values[..., None, :, :]
    scale = np.abs(values[..., :, None, :]) + np.abs(values[..., None, :, :]) + margin
    # A difference that is the margin itself: rounding decides nothing.
    at_margin = np.abs(np.abs(differences) - margin) <= ROUNDING * scale
    differences = np.where(at_margin, np.sign(differences) * margin, differences)
    known = np.isfinite(differences)
    seeds = known.sum(axis=-1)
    tuned, bounded = (np.broadcast_to(each, values.shape[:-1]) for each in (look.tuned, bounded))
    either = tuned[..., :, None] | tuned[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, differences, 0.0).sum(axis=-1) / seeds
        apart = np.where(known, differences - mean[..., None], 0.0)
        error = np.sqrt((apart**2).sum(axis=-1) / (seeds - 1))
        error = error * np.sqrt(intervals.correction(seeds, either) / seeds)
    least, most = np.fmin.reduce(differences, axis=-1), np.fmax.reduce(differences, axis=-1)
    same = least == most
    mean, error = np.where(same, least, mean), np.where(same & (seeds > 1), 0.0, error)
    level = _shared_level(error, margin, look.share, seeds)
    low = mean - special.stdtrit(seeds - 1, 1 - look.share * LEVEL) * error
    high = mean + special.stdtrit(seeds - 1, 1 - level) * error
    low = np.where(bounded[..., None, :] | np.isnan(low), -math.inf, low)  # j may be better
    high = np.where(bounded[..., :, None] | np.isnan(high), math.inf, high)
    return Pairs(mean, error, seeds, low, high, level)


def _shared_level(error: np.ndarray, margin: float, share: float, seeds: np.ndarray) -> np.ndarray:
    """Returns the level of each pair; all together err in a share of 5 % at most."""
    sizes = error.shape[-1]
    whole = share * LEVEL / (sizes * (sizes - 1) / 2)
    with np.errstate(divide="ignore"):
        apart = 2 * margin / error
    low, high = np.full(error.shape, whole / 2), np.full(error.shape, whole)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        critical = special.stdtrit(seeds - 1, 1 - middle)
        above = middle + special.stdtr(seeds - 1, -(critical + apart)) > whole
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low


def over(looks: Sequence[Pairs]) -> Pairs:
    """Returns the differences at the last look, with the tightest bounds of all.

    A look at which two sizes have no more seeds than before spends nothing of them.
    """
    low, high, seeds = (
        np.array([getattr(each, name) for each in looks]) for name in ("low", "high", "seeds")
    )
    grew = np.diff(seeds, axis=0, prepend=0) > 0
    low, high = np.where(grew, low, -math.inf), np.where(grew, high, math.inf)
    return looks[-1]._replace(low=low.max(axis=0), high=high.min(axis=0))


def against_best(found: Pairs) -> tuple[np.ndarray, ...]:
    """Returns the other size with the best mean, the estimate, its low and its high end.

    Each of shape (..., sizes).
    """
    itself = np.eye(found.mean.shape[-1], dtype=bool)
    others = (found.mean, found.low, found.high)
    mean, low, high = (np.where(itself | np.isnan(each), math.inf, each) for each in others)
    return mean.argmin(axis=-1), mean.min(axis=-1), low.min(axis=-1), high.min(axis=-1)


def compare(
    looks: Sequence[InterimAnalysis], margin: float, bounded: Any = False
) -> list[Compared]:
    """Compares every size with the best of the others.

    A size at which a run failed, or without any value, is compared with none.

    Args:
        looks: The last one has all seeds; values are infinite where a run failed.
        bounded: As `pairs` takes it.
    """
    values = np.asarray(looks[-1].values, float)
    none, failed = np.isnan(values).all(axis=1), np.isinf(values).any(axis=1)
    kept = np.flatnonzero(~none & ~failed)
    bounded = np.broadcast_to(bounded, len(values))
    reasons = np.where(failed, Reason.FAILED, np.where(none, Reason.NO_VALUE, Reason.ALONE))
    found = [Compared(Verdict.NOT_TESTABLE, Reason(str(why))) for why in reasons]
    if len(kept) < 2:
        return found
    each = over([pairs(_of_sizes(look, kept), margin, bounded[kept]) for look in looks])
    share = looks[-1].share
    for at, (size, other, *ends) in enumerate(zip(kept, *against_best(each), strict=True)):
        fewest, seeds = int(np.delete(each.seeds[at], at).min()), int(each.seeds[at, other])
        if not seeds:
            continue
        ends = (float(end) if np.isfinite(end) else math.nan for end in ends)
        estimate, needed = Interval(*ends, n=seeds), None
        verdict = Verdict.BEYOND if estimate.high < -margin else Verdict.NOT_RESOLVED
        verdict = Verdict.WITHIN if estimate.low > -margin else verdict
        if fewest < LEAST_SEEDS:
            verdict = Verdict.PROVISIONAL if seeds > 1 else Verdict.ONE_SEED
            needed = LEAST_SEEDS
        elif verdict == Verdict.NOT_RESOLVED and not (bounded[size] or bounded[kept[other]]):
            needed = _of_open_pairs(each, at, margin, share)
        found[size] = Compared(verdict, Reason.NONE, int(kept[other]), estimate, needed)
    return found


def _of_sizes(look: InterimAnalysis, kept: np.ndarray) -> InterimAnalysis:
    values = np.asarray(look.values, float)[kept]
    tuned = np.broadcast_to(look.tuned, len(look.values))[kept]
    return look._replace(values=np.where(np.isinf(values), math.nan, values), tuned=tuned)


def _of_open_pairs(found: Pairs, at: int, margin: float, share: float) -> int | None:
    """Return the number of seeds needed to decide whether a size is within the margin.

    A size is beyond the margin if one other size shows it: the soonest counts. It is within the
    margin of all other sizes: the last counts.
    """
    others = [other for other in np.flatnonzero(found.low[at] <= -margin) if other != at]
    worse = [other for other in others if found.mean[at, other] < -margin]
    seeds = [_seeds_to_resolve(found, at, other, margin, share) for other in worse or others]
    if worse:
        return min((count for count in seeds if count is not None), default=None)
    return None if None in seeds else max(seeds, default=None)


def _seeds_to_resolve(found: Pairs, at: int, other: int, margin: float, share: float) -> int | None:
    """Return the number of seeds that show a size to be within or beyond the margin of another.

    If the pair's 90 % interval contains 0, the sizes are to be shown as equal. Otherwise the
    measured difference is to be distinguished from the margin.
    """
    mean, error = float(found.mean[at, other]), float(found.error[at, other])
    seeds = int(found.seeds[at, other])
    deviation, excess = error * math.sqrt(seeds), mean + margin
    if deviation == 0 or excess == 0:
        return None
    if abs(mean) <= special.stdtrit(seeds - 1, 1 - LEVEL) * error:
        power, size, level = seeds_wanted.power_of_equivalence, margin / deviation, share * LEVEL
    else:
        level = share * LEVEL if excess > 0 else float(found.level[at, other])
        power, size = seeds_wanted.power_of_difference, abs(excess) / deviation
    wanted = seeds_wanted.fewest(power, size, level)
    return None if wanted >= seeds_wanted.MOST else max(wanted, seeds + 1)


def higher_is_better(rows: pandas.DataFrame) -> pandas.Series:
    """Return whether higher values of each row's outcome are better, by the sign of its bound."""
    return rows["bound"].astype(float) < 0


def best(rows: pandas.DataFrame) -> int | None:
    """Return the batch size with the best paired difference to the best of the others.

    Means of batch sizes are not ranked: those with more seeds or timing jobs hold values that the
    others have no counterpart of. The only batch size with a value is the best one.

    Args:
        rows: Rows of comparisons.csv of one series, budget and outcome.
    """
    values = rows.set_index("batch_size")[["estimate", "mean"]].astype(float)
    for column in ("estimate", "mean"):
        known = values[column].dropna()
        if len(known):
            higher = higher_is_better(rows).iloc[0]
            return int(known.idxmax() if higher else known.idxmin())
    return None


def table(runs: pandas.DataFrame, readings: Iterable[Reading]) -> pandas.DataFrame:
    """Returns one row per reading and batch size; see `COMPARISONS`."""
    factors = [name for name in run_series.factor_columns(runs) if name != chosen_rates.RATE]
    rows = [row for reading in readings for row in _rows(reading, factors)]
    return run_series.table(rows, COMPARISONS, factors)


def _compare(reading: Reading) -> list[Compared]:
    """Compares every batch size of a reading, estimates in the outcome's own direction."""
    margin = math.log1p(reading.margin) if reading.taken else reading.margin
    looks = [
        InterimAnalysis(_higher(each), each.chosen.tuned, each.share)
        for each in (*reading.earlier, reading)
    ]
    found = compare(looks, margin, reading.at_first)
    whole = ~(reading.values <= 0).any(axis=1) | (not reading.taken)  # no ratio to nothing
    marks = zip(found, whole, reading.ended, reading.not_reached, strict=True)
    return [_own_direction(each, reading, *marked) for each, *marked in marks]


def _higher(reading: Reading) -> np.ndarray:
    """Returns values of which higher is better: negative logarithms of what was taken."""
    if not reading.taken:
        return reading.values if reading.rises else -reading.values
    with np.errstate(divide="ignore", invalid="ignore"):
        values = -np.log(reading.values)
    return np.where((reading.values <= 0).any(axis=1)[:, None], math.inf, values)


def _own_direction(
    found: Compared, reading: Reading, positive: bool, ended: bool, not_reached: bool
) -> Compared:
    ends = found.estimate[:3]
    if not reading.rises:
        mean, low, high = (-end for end in ends)
        ends = (mean, high, low)
    if reading.taken:
        ends = tuple(map(contrasts.exponential, ends))
    reason, open_end = found.reason, any(map(math.isnan, ends))
    if not positive:
        reason = Reason.NOT_POSITIVE
    elif reason == Reason.FAILED and not_reached:
        reason = Reason.NOT_REACHED
    elif reason == Reason.NO_VALUE and ended:
        reason = Reason.NO_BUDGET
    elif found.verdict == Verdict.NOT_RESOLVED and open_end:  # which no number of seeds closes
        reason = Reason.AT_FIRST_EVALUATION
        found = found._replace(seeds_to_resolve=None)
    return found._replace(reason=reason, estimate=Interval(*ends, found.estimate.n))


def _rows(reading: Reading, factors: list[str]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a reading, one per batch size."""
    bound = -reading.margin if reading.rises else reading.margin
    if reading.taken:
        bound = contrasts.exponential(math.log1p(reading.margin))
    marks = {"on_edge": reading.chosen.on_edge, "still_falling": reading.falling}
    firsts = reading.trainings.runs.drop_duplicates("batch_size").set_index("batch_size")[factors]
    epochs = reading.trainings.epochs_run
    found = zip(reading.batch_sizes, _compare(reading), reading.means(), strict=True)
    for at, (size, compared, mean) in enumerate(found):
        against, seeds = compared.against, int(reading.ran[at].sum())
        reached = int(np.isfinite(reading.values[at]).sum())
        value, *ends = mean[:3]
        ends = clipped(reading.outcome, ends) if mean.n >= LEAST_WITH_INTERVAL else [math.nan] * 2
        estimate = compared.estimate
        if estimate.n < LEAST_WITH_INTERVAL:
            estimate = estimate._replace(low=math.nan, high=math.nan)
        yield {
            **firsts.loc[size].to_dict(),
            **reading.held_equal,
            "margin": reading.margin,
            "bound": bound,
            "batch_size": size,
            "learning_rate": reading.chosen.rates[at],
            **{name: int(each[at]) for name, each in marks.items()},
            "seeds": seeds,
            "epochs_run": epochs.get(size),
            "reached": None if compared.reason == Reason.NO_VALUE or not seeds else reached,
            **intervals.columns("mean", (value, *ends)),
            **compared._asdict(),
            "against": None if against is None else reading.batch_sizes[against],
            **dict(zip(("estimate", "low", "high", "n"), estimate, strict=True)),
        }
