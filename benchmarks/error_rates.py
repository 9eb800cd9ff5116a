"""Simulate the error rates of verdicts and the coverage of their intervals.

    python benchmarks/error_rates.py [--studies 20000]

Nothing is trained or written. The table has each share with its Monte Carlo error:

- how often a trend is wrongly called an increase: seeds with slopes of their own, skewed scatter
  that grows with the batch size, one outlier;
- the false discovery rate and the power of a family of claims, of one series or of many;
- how often a batch size at the margin is called within it, and any size wrongly beyond it;
- the coverage of the printed intervals;
- how often a lack of fit of the critical-batch-size model is wrongly reported;
- the same for claims, margins and tuned rates with interim analyses;
- how often the best rate leaves a race.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from side_by_side import header, row

from batchscope.analysis import chosen_rates, critical_batch_size, racing, verdicts
from batchscope.analysis.comparisons import ComparisonWithBest
from batchscope.analysis.contrasts import Contrast, over_analyses
from batchscope.analysis.verdicts import Row, Statement
from batchscope.core import display
from batchscope.study import stages
from batchscope.study.outcomes import LEVEL, Verdict

SEEDS, SIZES = 6, 5
ANALYSES = stages.analysis_seeds(stages.DEFAULT_MAX_SEEDS)
RACE = stages.race_seeds(stages.DEFAULT_MAX_SEEDS)
DECIDED = (Verdict.SUPPORTED, Verdict.CONTRADICTED)
STRICT = LEVEL / 30  # of one of thirty claims
# Slopes over their standard deviations between seeds, as the trends of docs/results have them.
EFFECTS = (0.2, 0.3, 0.4, 0.7, 0.9, 1.3, 1.4, 2.0, 2.6, 2.8, 4.2, 5.3, 8.3, 9.3, 15.2)


class Share(NamedTuple):
    """A share of simulated studies, with its Monte Carlo error and the expected share."""

    description: str
    expected: str
    share: float
    error: float


def share(description: str, expected: str, hits: np.ndarray) -> Share:
    """Return the share of hits with its Monte Carlo error."""
    hits = np.asarray(hits, float)
    error = math.sqrt(max(hits.var(), 1 / hits.size) / hits.size)
    return Share(description, expected, float(hits.mean()), error)


def slopes(rng: np.random.Generator, case: str, studies: int) -> np.ndarray:
    """Return the slopes of studies with mean slope 0, shape (studies, seeds)."""
    noise = rng.standard_normal((studies, SEEDS, SIZES))
    at = np.arange(SIZES) - (SIZES - 1) / 2
    if case == "slopes of their own":  # with the standard deviation of the noise
        noise += rng.standard_normal((studies, SEEDS, 1)) * at
    elif case == "skewed, scatter grows fivefold":
        noise = (1 - rng.exponential(size=noise.shape)) * np.linspace(1, 5, SIZES)
    elif case == "one run is far off":
        noise[:, 0, -1] += 10 * rng.choice((-1, 1), studies)
    return verdicts.slopes(noise.reshape(-1, SIZES), at).reshape(studies, SEEDS)


def trends(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield how often a slope with mean 0 is called an increase."""
    expected = {"equal slopes": "5 %", "slopes of their own": "5 %"}
    for case in (*expected, "skewed, scatter grows fivefold", "one run is far off"):
        p = [Contrast(row, low=0.0).p for row in slopes(rng, case, studies)]
        for level in (LEVEL, STRICT):
            at_level = f"{level:.2%}" if case in expected else "(no assumption of it holds)"
            yield share(f"trend, {case}, at {level:.2%}", at_level, np.array(p) < level)
    for apart, expected in ((0.0, "at most 5 %"), (0.5, "at most 5 %")):
        description = f"trend, best of 3 rates by validation, {apart:g} sd apart on test, at 5 %"
        yield share(description, expected, at_shared_rates(rng, apart, studies // 10) < LEVEL)


def at_shared_rates(rng: np.random.Generator, apart: float, studies: int) -> np.ndarray:
    """Return p of a rise where each size is read on test data at the rate that validation chooses.

    Rates are equally good on validation data, and lie so many standard deviations apart on test
    data: seeds of a size share the choice.
    """
    p, shape = [], (SIZES, 3, SEEDS)
    for _ in range(studies):
        losses = 9 + rng.standard_normal(shape)
        outcome = rng.standard_normal(shape) + apart * np.arange(3)[:, None]
        index = np.repeat(chosen_rates.index_of_lowest_loss(losses)[:, None], SEEDS, axis=1)
        tuned = chosen_rates.rates_differ(chosen_rates.leave_one_out(losses)[1]).any()
        read = chosen_rates.values_at_rates(outcome, index).T
        slope, *_ = verdicts.trend_contrasts(read, range(SIZES), True, tuned=bool(tuned))
        p.append(slope.p)
    return np.array(p)


def judge(statements: Iterable[Statement]) -> list[Row]:
    """Return the columns of the verdicts on statements of one family."""
    return verdicts.judge([{"statement": statement} for statement in statements])


def family(rng: np.random.Generator, series: int) -> tuple[list[Row], np.ndarray]:
    """Return the verdicts on thirty statements for each series, and their true means."""
    true = np.repeat([*EFFECTS, *[0.0] * len(EFFECTS)], series)
    values = true[:, None] + rng.standard_normal((len(true), SEEDS))
    ways = rng.choice(("low", "high"), len(true))
    contrasts = (Contrast(row, **{way: 0.0}) for row, way in zip(values, ways, strict=True))
    return judge(Statement.all_hold((contrast,)) for contrast in contrasts), true


def wrong(judged: Row, true: float) -> bool:
    """Return whether a verdict is on the wrong side, or on a mean that is 0."""
    rises = (judged["verdict"] == Verdict.SUPPORTED) == math.isfinite(judged["deciding"].low)
    return true == 0 or rises != (true > 0)


def claims(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield false discovery rate, power, and coverage of families of claims."""
    for series in (1, 8, 20):
        false, power, missed = [], [], []
        for _ in range(max(studies // (50 * series), 20)):
            judged, true = family(rng, series)
            decided = [one["verdict"] in DECIDED for one in judged]
            pairs = [
                pair
                for pair, is_decided in zip(zip(judged, true, strict=True), decided, strict=True)
                if is_decided
            ]
            false.append(np.mean([wrong(*pair) for pair in pairs]) if pairs else 0.0)
            power += [is_decided for is_decided, mean in zip(decided, true, strict=True) if mean]
            outside = [not one["low"] <= mean <= one["high"] for one, mean in pairs]
            missed.append(np.mean(outside) if pairs else 0.0)
        description = f"{series} x 30 claims, half true, {SEEDS} seeds"
        yield share(f"false among decided ones: {description}", "at most 5 %", np.array(false))
        yield share(f"decided among true ones: {description}", "power", np.array(power))
        yield share(
            f"intervals of decided ones miss: {description}", "at most 5 %", np.array(missed)
        )


class Analysis(NamedTuple):
    """Values of every size at an analysis, shape (sizes, seeds), and the share of the level."""

    values: np.ndarray
    tuned: np.ndarray
    share: float = 1.0


def with_best(analyses: list[Analysis], margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper ends of each size's interval against the best of the others."""
    sizes = range(len(analyses[0].values))
    rows = []
    for size in sizes:
        others = [other for other in sizes if other != size]
        contrasts = (
            over_analyses(
                Contrast(
                    one.values[size] - one.values[other],
                    low=-margin,
                    tuned=bool(one.tuned[[size, other]].any()),
                    cells={"against": other},
                    share=one.share,
                )
                for one in analyses
            )
            for other in others
        )
        pairs = len(sizes) * len(others) // 2
        rows.append({"statement": ComparisonWithBest.all_hold(contrasts, pairs=pairs)})
    judged = verdicts.judge(rows)
    return tuple(np.array([row[end] for row in judged]) for end in ("low", "high"))


def compared(
    rng: np.random.Generator, scatter: np.ndarray, worse: int, margin: float, rates: int, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the true differences from the best of the others, and the ends of the intervals.

    The first sizes are worse than the rest by the margin. Rates are equally good.
    """
    true = np.where(np.arange(len(scatter)) < worse, -margin, 0.0)
    values = rng.normal(0, scatter[:, None, None], (n, len(scatter), rates, SEEDS))
    tuned = np.zeros((n, len(scatter)), bool)
    if rates > 1:
        read = [chosen_rates.leave_one_out(-size) for size in values]
        values = -np.array([outcome for outcome, _ in read])
        values -= values.mean()  # the choice lifts every size alike
        tuned = np.array([chosen_rates.rates_differ(index) for _, index in read])
    else:
        values = values[:, :, 0]
    intervals = [
        with_best([Analysis(study + true[:, None], differ)], margin)
        for study, differ in zip(values, tuned, strict=True)
    ]
    best = np.array([true[at] - np.delete(true, at).max() for at in range(len(true))])
    return best, *np.swapaxes(intervals, 0, 1)


def comparisons(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield errors and coverage of the comparison with the best, the truth at the margin."""
    for sizes in (2, 3, 5, 7):
        for name, scatter in {
            "equal scatter": np.ones(sizes),
            "scatter x 5": np.linspace(1, 5, sizes),
            "best scatters most": np.linspace(5, 1, sizes)[::-1],
        }.items():
            within, beyond, held = [], [], []
            for margin in (0.05, 0.5, 2.0):
                for worse in {1, sizes // 2}:
                    n = max(studies // 20, 200)
                    true, low, high = compared(rng, scatter, worse, margin, 1, n)
                    within.append((low > -margin)[:, true <= -margin].mean(axis=0).max())
                    beyond.append((high < -margin).any(axis=1).mean())
                    held.append(((low <= true) & (true <= high)).mean(axis=0).min())
            description, error = f"{sizes} sizes, {name}", math.sqrt(LEVEL * (1 - LEVEL) / n)
            for error_kind, rate in {"within": max(within), "any beyond": max(beyond)}.items():
                yield Share(
                    f"wrongly {error_kind}: {description}", "at most 5 %", float(rate), error
                )
            held_error = error * math.sqrt(0.9 * 0.1 / LEVEL / (1 - LEVEL))
            yield Share(
                f"interval holds: {description}", "at least 90 %", float(min(held)), held_error
            )
    for sizes, rates in ((2, 3), (4, 3), (4, 5)):
        n = max(studies // 20, 100)
        true, low, high = compared(rng, np.ones(sizes), 1, 1.0, rates, n)
        description = f"{sizes} sizes, {rates} equal rates"
        yield share(f"wrongly within: {description}", "at most 5 %", low[:, 0] > -1.0)
        yield share(f"wrongly any beyond: {description}", "at most 5 %", (high < -1.0).any(axis=1))


def fits(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield how often a lack of fit is reported, with and without one."""
    sizes = 2.0 ** np.arange(3, 9)
    law = 100 * (1 + 60 / sizes)
    for more, seeds, expected in ((1.0, 6, "5 %"), (1.0, 1, "at most 5 %"), (1.2, 6, "power")):
        true = law * np.where(np.arange(len(sizes)) == 0, more, 1.0)
        flagged = []
        for _ in range(max(studies // 20, 100)):
            noise = np.exp(rng.normal(0, 0.1, (len(sizes), seeds)))
            fit = critical_batch_size.fit(sizes, true[:, None] * noise)
            flagged.append(critical_batch_size.is_significant(fit.lack_of_fit))
        description = f"the smallest takes {more - 1:.0%} more, {display.count(seeds, 'seed')}"
        yield share(f"lack of fit: {description}", expected, np.array(flagged))


def in_stages(values: np.ndarray, bounds: dict[str, float]) -> list[Statement]:
    """Return the statement about one contrast as it stands after each analysis."""
    analyses = [*zip(ANALYSES, stages.level_shares(ANALYSES), strict=True)]
    contrast = Contrast(values, **bounds)
    return [
        Statement.all_hold([contrast.at_analyses(analyses[:count])])
        for count in range(1, len(ANALYSES) + 1)
    ]


def until_decided(statements: list[list[Statement]]) -> tuple[list[Row], np.ndarray]:
    """Return the verdicts on a family, each analysed until it is decided, and its seeds."""
    at = np.zeros(len(statements), int)
    for _ in ANALYSES:
        judged = judge(analyses[index] for analyses, index in zip(statements, at, strict=True))
        undecided = np.array([one["verdict"] not in DECIDED for one in judged])
        seeds = np.array(ANALYSES)[at]
        at = at + (undecided & (at < len(ANALYSES) - 1))
    return judged, seeds


def staged_claims(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield error and power of a claim alone, and of families with margins, in stages."""
    for effect, expected in (
        (0.0, "at most 5 %"),
        *((effect, "power") for effect in (0.3, 0.5, 0.8, 1.2)),
    ):
        decided, used = [], []
        for description in rng.normal(effect, 1, (max(studies // 20, 40), ANALYSES[-1])):
            (judged,), (seeds,) = until_decided([in_stages(description, {"low": 0.0})])
            decided.append(judged["verdict"] == Verdict.SUPPORTED)
            used.append(seeds)
        description = (
            f"a claim in stages, effect {effect:g} sd, {np.mean(used):.0f} seeds on average"
        )
        yield share(f"supported: {description}", expected, np.array(decided))
    false, power, used, missed = [], [], [], []
    # Half of the trends rise; half of the equivalences are true, and half lie at their margin.
    true = np.repeat([0.0, 1.0, 0.0, 1.0], (8, 8, 7, 7))
    right = np.repeat([False, True, True, False], (8, 8, 7, 7))
    for _ in range(max(studies // 400, 5)):
        values = true[:, None] + rng.standard_normal((len(true), ANALYSES[-1]))
        bounds = [{"low": 0.0}] * 16 + [{"low": -1.0, "high": 1.0}] * 14
        judged, seeds = until_decided([*map(in_stages, values, bounds)])
        supported = np.array([one["verdict"] == Verdict.SUPPORTED for one in judged])
        against = np.array([one["verdict"] == Verdict.CONTRADICTED for one in judged])
        wrong_ones = (supported & ~right) | against
        false.append(wrong_ones.sum() / max((supported | against).sum(), 1))
        power.append(supported[right].mean())
        used.append(seeds.mean())
        decided = [
            (one, mean) for one, mean in zip(judged, true, strict=True) if one["verdict"] in DECIDED
        ]
        missed.append(
            np.mean([not one["low"] <= mean <= one["high"] for one, mean in decided])
            if decided
            else 0
        )
    description = f"30 claims in stages, half with margins, {np.mean(used):.0f} seeds on average"
    yield share(f"false among decided ones: {description}", "at most 5 %", np.array(false))
    yield share(f"decided among true ones: {description}", "power", np.array(power))
    yield share(f"intervals of decided ones miss: {description}", "at most 5 %", np.array(missed))


def staged_comparisons(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield errors of the comparison with the best in stages, at one rate and at tuned ones."""
    shares, margin = stages.level_shares(ANALYSES), 0.5
    for sizes, rates in ((3, 1), (5, 1), (3, 3)):
        within, beyond = [], []
        true = np.where(np.arange(sizes) < 1, -margin, 0.0)
        for _ in range(max(studies // 20, 20)):
            values, analyses = rng.standard_normal((sizes, rates, ANALYSES[-1])), []
            for seeds, level_share in zip(ANALYSES, shares, strict=True):
                read, index = chosen_rates.leave_one_out(-values[:, :, :seeds])
                lift = read.mean()  # the choice lifts every size alike
                tuned = chosen_rates.rates_differ(index)
                analyses.append(Analysis(true[:, None] - (read - lift), tuned, level_share))
            low, high = with_best(analyses, margin)
            within.append(low[0] > -margin)
            beyond.append((high < -margin).any())
        description = f"{sizes} sizes, {display.count(rates, 'rate')}, in stages"
        yield share(f"wrongly within: {description}", "at most 5 %", np.array(within))
        yield share(f"wrongly any beyond: {description}", "at most 5 %", np.array(beyond))


def raced(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return costs, NaN after their rate left the race, and the seeds at which it left; 0 if never.

    Args:
        costs: Shape (sizes, rates, seeds).
    """
    costs, left_after = costs.copy(), np.zeros(costs.shape[:2], int)
    criterion = racing.Criterion("target", "updates", costs.copy())
    for size in range(len(costs)):
        for rate, difference in racing.rates_that_leave([criterion], size, RACE).items():
            costs[size, rate, difference["left_after"] :] = math.nan
            left_after[size, rate] = difference["left_after"]
    return costs, left_after


def races(rng: np.random.Generator, studies: int) -> Iterator[Share]:
    """Yield errors of a race over rates, and of the comparison of sizes that follows it.

    The first size is worse than the others by the margin. In one case it has a single rate, so that
    a choice among the rates of the others lifts these alone.
    """
    shares, margin, sizes = stages.level_shares(ANALYSES), 0.5, 3
    equal = [(rates, 0.0, rates) for rates in (3, 4, 5, 6)]
    best = [(4, apart, 4) for apart in (0.5, 1.0, 2.0, 4.0)]
    for rates, apart, of_first in (*equal, (6, 0.0, 1), *best):
        best_left, within, beyond, held, runs = [], [], [], [], []
        true = np.where(np.arange(sizes) < 1, -margin, 0.0)
        worse = np.where(np.arange(rates) < 1, 0.0, apart)
        for _ in range(max(studies // 20, 20)):
            logs = rng.standard_normal((sizes, rates, ANALYSES[-1])) + worse[:, None]
            logs[0, of_first:] = math.nan
            costs, left_after = raced(np.exp(logs))
            best_left.append((left_after[1:, 0] > 0).mean())
            analyses = []
            for seeds, level_share in zip(ANALYSES, shares, strict=True):
                read, index = chosen_rates.leave_one_out(np.log(costs)[:, :, :seeds])
                analyses.append(
                    Analysis(true[:, None] - read, chosen_rates.rates_differ(index), level_share)
                )
            low, high = with_best(analyses, margin)
            within.append(low[0] > -margin)
            beyond.append((high < -margin).any())
            held.append(low[0] <= -margin <= high[0])
            runs.append(np.isfinite(costs[1:, :, : ANALYSES[0]]).mean())
        description = (
            f"{rates} rates, the best {apart:g} sd apart" if apart else f"{rates} equal rates"
        )
        description += "" if of_first == rates else ", one of the worse size"
        yield share(
            f"the best rate of a size leaves the race: {description}", "at most 5 %", best_left
        )
        yield share(f"wrongly within after a race: {description}", "at most 5 %", within)
        yield share(f"wrongly any beyond after a race: {description}", "at most 5 %", beyond)
        yield share(f"interval holds after a race: {description}", "at least 90 %", held)
        yield share(f"runs of {ANALYSES[0]} seeds that remain: {description}", "", runs)


def simulate(studies: int, seed: int = 0) -> Iterator[Share]:
    """Yield all shares. Each group has its own random numbers."""
    for index, group in enumerate(GROUPS):
        yield from group(np.random.default_rng([seed, index]), studies)


GROUPS = (trends, claims, comparisons, fits, staged_claims, staged_comparisons, races)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20_000)
    arguments = parser.parse_args()
    header("simulated", "share", "expected")
    for result in simulate(arguments.studies):
        row(result.description, f"{result.share:.2%} ± {result.error:.2%}", result.expected)


if __name__ == "__main__":
    main()
