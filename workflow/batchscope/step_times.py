"""What the time per step says: the fixed cost, steps in the batch size, the plateau, the noise.

Timings scatter in proportion to themselves, so every fit weights a median by its inverse: the
squares of (median - model) / median are minimised. Weights from the data make every fit one
linear problem and every model comparable on the same scale; their price is an estimate that is
low by about the square of the relative noise of the medians, 0.04 % at 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from batchscope import statistics

LEVEL = 0.05
LEAST_LEAD = 2.0  # AICc below which two models count as alike (Burnham and Anderson 2002)
LEAST_SIZES = 8  # AICc cannot charge for a rival's four parameters with fewer
LEAST_LEVELS = 3  # two levels are one jump, which shows no period
FINEST = 1e-6  # relative residual below which no timing means anything
NAN = float("nan")
LINE = "a straight line"
PLATEAU_SHARE = 0.9  # share of the plateau at which throughput counts as level
LINE_FITS = 0.05  # relative residual, half of what separates that share from the plateau


class Estimate(NamedTuple):
    """A value with its 95 % interval; the ends are NaN where there is none."""

    value: float
    low: float = NAN
    high: float = NAN


class Fit(NamedTuple):
    """t = a + b * B, in seconds per step.

    Attributes:
        fixed: The fixed cost per step a, s; may be negative.
        per_image: The cost per image b, s.
        half_batch: The batch size a / b at which half the time is fixed cost; NaN unless both
            are positive. Its interval is the delta method's for log(a / b), so that it has no
            end below 0.
        residual: Relative root-mean-square residual.
        sizes: Number of batch sizes.
        fixed_error: Standard error of `fixed`, s, with `sizes` - 2 degrees of freedom.
    """

    fixed: Estimate
    per_image: Estimate
    half_batch: Estimate
    residual: float
    sizes: int
    fixed_error: float


def fixed_cost(batch_sizes: Any, blocks: Sequence[Any]) -> Fit:
    """Fits the fixed cost of a step and the cost per image.

    The intervals are Student's t of weighted least squares on one median per batch size. They
    hold for noise between blocks and for sizes that stray from the line one by one; a bootstrap
    of the blocks within sizes would not see the second.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        blocks: For each batch size its blocks, or their median, in seconds per step.

    Returns:
        The fit; without intervals for two batch sizes.

    Raises:
        ValueError: If there are fewer than two batch sizes, or a timing is not positive.
    """
    sizes, seconds = _medians("fixed_cost", batch_sizes, blocks)
    (a, b), covariance, residual = _weighted_line(sizes, seconds)
    errors = np.sqrt(np.diag(covariance)).tolist()
    half = special.stdtrit(len(sizes) - 2, 1 - LEVEL / 2) if len(sizes) > 2 else NAN
    fixed, per_image = (
        Estimate(value, value - half * error, value + half * error)
        for value, error in ((a, errors[0]), (b, errors[1]))
    )
    half_batch = Estimate(NAN)
    if a > 0 and b > 0:
        slope = np.array([1 / a, -1 / b])  # of log(a / b)
        with np.errstate(over="ignore"):  # a that may well be 0: the interval has no upper end
            factor = float(np.exp(half * np.sqrt(slope @ covariance @ slope)))
        half_batch = Estimate(a / b, a / b / factor, a / b * factor)
    return Fit(fixed, per_image, half_batch, residual, len(sizes), errors[0])


def delay_recovered(batch_sizes: Any, without: Sequence[Any], delayed: Sequence[Any]) -> Estimate:
    """Returns what a delay added to the fixed cost of a step, in seconds.

    Both are timed in the same rounds. The differences of a round give a line over the batch
    sizes, weighted as all fits here; its value at no image is what came back in that round. How
    the time of a step strays from a line, and how the machine drifts from round to round,
    cancels in the differences. One round among disturbances hardly moves the estimate.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        without: For each batch size its blocks without the delay, one per round, in seconds per
            step.
        delayed: The same with the delay.

    Returns:
        The Hodges-Lehmann estimate over rounds with its signed-rank interval; without one below
        six rounds.

    Raises:
        ValueError: If there are fewer than two batch sizes, a timing is not positive, or not
            every batch size has every round twice.
    """
    sizes, medians = _medians("delay_recovered", batch_sizes, delayed)
    differences = _differences("delay_recovered", without, delayed)[np.argsort(batch_sizes)]
    line = np.column_stack([np.ones(len(sizes)), sizes]) / medians[:, None]
    added = np.linalg.lstsq(line, differences / medians[:, None], rcond=None)[0][0]
    return Estimate(*statistics.hodges_lehmann(added))


def delay_of_pairs(without: Sequence[Any], delayed: Sequence[Any]) -> Estimate:
    """Returns what a delay added to a step at whatever batch size, in seconds.

    A delay is as long at every batch size, so that all differences estimate it alike and nothing
    need be extrapolated to no image.

    Args:
        without: As `delay_recovered` takes it, of one batch size or more.
        delayed: The same with the delay.

    Returns:
        The Hodges-Lehmann estimate over the pairs of all batch sizes and rounds with its
        signed-rank interval; without one below six pairs.

    Raises:
        ValueError: If not every batch size has every round twice.
    """
    differences = _differences("delay_of_pairs", without, delayed)
    return Estimate(*statistics.hodges_lehmann(differences.ravel()))


def _differences(where: str, without: Sequence[Any], delayed: Sequence[Any]) -> np.ndarray:
    """Returns delayed blocks less those without the delay, shape (sizes, rounds)."""
    counts = {len(blocks) for blocks in (*without, *delayed)}
    if len(counts) != 1 or len(without) != len(delayed):
        raise ValueError(
            f"{where}: received {len(without)} and {len(delayed)} batch sizes with "
            f"{sorted(counts)} blocks; as many of both are expected."
        )
    return np.asarray(delayed, float) - np.asarray(without, float)


class Staircase(NamedTuple):
    """t = a + b * ceil(B / q): `fixed` a and `per_step` b in s, `residual` relative."""

    q: int
    fixed: float
    per_step: float
    residual: float


def staircase(batch_sizes: Any, seconds: Sequence[Any], q: int) -> Staircase:
    """Fits a time that rises once every q images; q = 1 is the line.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        seconds: For each batch size its median seconds per step, or its blocks.
        q: Images per step of the staircase.

    Raises:
        ValueError: If every batch size lies on the same step.
    """
    sizes, seconds = _medians("staircase", batch_sizes, seconds)
    levels = np.ceil(sizes / q)
    if len(set(levels)) < 2:
        raise ValueError(f"staircase: received q = {q}; sizes on two steps or more are expected.")
    (a, b), _, residual = _weighted_line(levels, seconds)
    return Staircase(int(q), a, b, residual)


class BestStep(NamedTuple):
    """Whether times rise in steps.

    Attributes:
        winner: `line`, `staircase`, `neither` (another curve explains them better than both) or
            `not resolved`.
        q: Images per step of the best staircase; None if there is no candidate.
        share: Share of the growth that comes in its steps; 1 if it is flat between them.
        difference: AICc of the line less that of the best staircase; above 0 for the staircase.
        p: How often a line with the observed noise gives so large a difference.
        rival: Words for the best model without a period; may be the line.
        rival_difference: Its AICc less that of the best staircase.
        p_rival: How often that rival gives so large a difference.
        p_holm: The larger of the two p, adjusted where several comparisons stand together.
        residuals: Relative root-mean-square residuals of line, best staircase and rival.
        alike: Every q whose AICc lies within 2 of the best q's; 1 is the line, charged for its q
            like the others, so that sizes that cannot tell q apart show it.
        levels: Steps of the best staircase that the batch sizes reach.
        sizes: Number of batch sizes.
        growth: The line's cost per image, s: steps mean nothing unless it is positive.
    """

    winner: str
    q: int | None
    share: float
    difference: float
    p: float
    rival: str
    rival_difference: float
    p_rival: float
    p_holm: float
    residuals: tuple[float, float, float]
    alike: tuple[int, ...]
    levels: int
    sizes: int
    growth: float


def best_step(
    batch_sizes: Any, blocks: Sequence[Any], most: int = 64, draws: int = 999
) -> BestStep:
    """Compares staircases with the line and with curves that have no period.

    A staircase is t = a + b * ceil(B / q), or a + b * ceil(B / q) + c * B, with b and c positive;
    data are the medians with relative errors. AICc counts q as a parameter. What the search gains
    beyond that is judged by a parametric bootstrap that repeats it all under the line, and again
    under the best rival, which is charged for no more parameters than a plain staircase. A
    staircase wins if it leads both by 2 and both p are below 0.05, with 8 sizes and 3 steps.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        blocks: For each batch size its blocks, or their median, in seconds per step.
        most: Largest q that is tried.
        draws: Timings drawn per bootstrap, from a fixed generator.

    Raises:
        ValueError: If there are fewer than two batch sizes, or a timing is not positive.
    """
    sizes, seconds = _medians("best_step", batch_sizes, blocks)
    models = _models(sizes, seconds, most)
    stairs = np.array([model.q > 1 for model in models])
    n, observed = len(sizes), np.ones((1, len(sizes)))  # every median over itself
    squares, criteria = (found[0] for found in _judge(models, observed))
    growth = _weighted_line(sizes, seconds)[0][1]
    rival = int(np.argmin(np.where(stairs, np.inf, criteria)))
    step = int(np.argmin(np.where(stairs, criteria, np.inf)))
    residuals = tuple(math.sqrt(squares[index] / n) for index in (0, step, rival))
    nothing = ("not resolved", None, NAN, NAN, NAN, models[rival].name, NAN, NAN, NAN, residuals)
    found = BestStep(*nothing, alike=(), levels=0, sizes=n, growth=growth)
    if not stairs[step] or not np.isfinite(criteria[step]):
        return found
    rises = observed[0] @ models[step].rises
    charged = criteria.copy()
    charged[0] = n * math.log(squares[0] / n) + _aicc(n, 4)
    q = np.array([model.q for model in models])
    alike = q[(q > 0) & (charged <= charged[q > 0].min() + LEAST_LEAD)]
    plain = stairs & [model.parameters == 4 for model in models]
    told = bool(charged[plain].min(initial=np.inf) > charged[0] + LEAST_LEAD)
    p, p_rival, bent = _chances(models, stairs, rival, draws)
    found = found._replace(
        q=int(q[step]),
        share=float(rises[0] / rises.sum()),
        difference=float(criteria[0] - criteria[step]),
        p=p,
        rival_difference=float(criteria[rival] - criteria[step]),
        p_rival=p_rival,
        p_holm=max(p, p_rival),
        alike=tuple(sorted({int(value) for value in alike})),
        levels=len(set(np.ceil(sizes / q[step]))),
    )
    return found._replace(winner=_winner(found, bent, told))


def _winner(found: BestStep, bent: float, told: bool) -> str:
    """Returns the word for a comparison.

    Args:
        found: The comparison.
        bent: How often a line gives timings that a rival fits so much better.
        told: Whether the line can be told from every plain staircase.
    """
    if not found.growth > 0 or found.sizes < LEAST_SIZES:
        return "not resolved"
    ahead = min(found.difference, found.rival_difference) > LEAST_LEAD
    if ahead and max(found.p, found.p_rival) < LEVEL and found.levels >= LEAST_LEVELS:
        return "staircase"
    if bent < LEVEL:
        return "neither" if found.rival_difference < -LEAST_LEAD else "not resolved"
    return "line" if told and found.p >= LEVEL else "not resolved"


def together(found: Sequence[BestStep]) -> list[BestStep]:
    """Returns comparisons that stand side by side, each with its p adjusted for their number.

    Of many timings without stairs one in twenty shows some; a staircase wins only if it is left
    after Holm's adjustment (Holm 1979) over all comparisons with sizes enough to show any.
    """
    p_values = statistics.holm(
        [max(one.p, one.p_rival) if one.sizes >= LEAST_SIZES else NAN for one in found]
    )
    adjusted = [one._replace(p_holm=float(p)) for one, p in zip(found, p_values, strict=True)]
    return [
        one._replace(winner="not resolved")
        if one.winner == "staircase" and one.p_holm >= LEVEL
        else one
        for one in adjusted
    ]


def verdict(found: BestStep) -> str:
    """Returns one sentence about the steps, with its numbers."""
    if not found.growth > 0:
        return "A step does not get longer with the batch size, so stairs in it mean nothing."
    if found.q is None:
        return f"Not resolved: {found.sizes} batch sizes allow no staircase."
    others = ", ".join(str(q) for q in found.alike if q not in (1, found.q))
    also = f"; q = {others} fit about as well" if others else ""
    line, stairs, rival = (f"{residual:.2%} residual" for residual in found.residuals)
    line = f"a straight line ({line})"
    stairs = f"stairs of {found.q} images ({found.share:.0%} of the growth, {stairs}{also})"
    rival = "" if found.rival == LINE else f" and {found.rival} ({rival})"
    if found.winner == "staircase":
        chances = f"p = {found.p:.3f} and {found.p_rival:.3f}"
        if found.p_holm > max(found.p, found.p_rival):
            chances += f", {found.p_holm:.3f} adjusted for the configurations beside it"
        return f"Time per step fits {stairs} better than {line}{rival}: {chances}."
    if found.winner == "line":
        return f"No stairs seen: {line} holds against the best stairs, p = {found.p:.3f}."
    if found.winner == "neither":
        return f"Neither:{rival.removeprefix(' and')} fits better than {line} and {stairs}."
    why = "the data do not tell them apart"
    if found.sizes < LEAST_SIZES:
        why = f"{found.sizes} batch sizes, {LEAST_SIZES} are needed"
    elif found.levels < LEAST_LEVELS:
        why = "the batch sizes reach two stairs, which show no period"
    elif max(found.p, found.p_rival) < LEVEL <= found.p_holm:
        why = f"p = {found.p_holm:.3f} adjusted for the configurations beside it"
    return f"Not resolved, {why}: {stairs}, {line}{rival}."


class Knee(NamedTuple):
    """Where throughput levels off.

    Attributes:
        plateau: Throughput that it tends to, images/s: 1 / b where the line t = a + b * B fits,
            or else the median of the sizes from half the largest on; NaN where these still rise.
        fitted: The batch size at which the line reaches the share of the plateau, a / b times
            share / (1 - share); NaN unless the line fits and it lies within the sizes.
        batch_size: The smallest batch size that reaches the share and after which none is short
            of it; None where none does.
        still_rising: Whether the share is reached beyond the largest size.
    """

    plateau: float
    fitted: Estimate
    batch_size: int | None
    still_rising: bool


def knee(
    batch_sizes: Any, blocks: Sequence[Any], share: float = PLATEAU_SHARE, noise: float = 1.0
) -> Knee:
    """Finds the plateau of the throughput and the batch size that reaches a share of it.

    The line pools all sizes, so that no one decides. It fits where its residual is at most 5 %,
    or half of the noise floor: two standard errors of a median, as halves scatter twice as much.
    Elsewhere throughput still rises if the largest size beats the largest of at most half its
    size by as much as a line with its knee at the largest size would: 10 % for half, and not by
    less on a quiet machine or by more on a noisy one.

    Args:
        batch_sizes: Different batch sizes, shape (sizes,).
        blocks: For each batch size its blocks, or their median, in seconds per step. A size is
            short only where the upper quartile of its blocks' throughputs is.
        share: Share of the plateau that counts as reached.
        noise: Factor by which a size differs from itself, of `noise_floor`.

    Raises:
        ValueError: If a timing is not positive.
    """
    sizes, seconds = _medians("knee", batch_sizes, blocks, least=1)
    speeds, largest = sizes / seconds, sizes[-1]
    plateau, fitted, rising = NAN, Estimate(NAN), False
    fit = fixed_cost(sizes, list(seconds)) if len(sizes) > 2 else None
    if fit and fit.per_image.value > 0 and fit.residual <= max(LINE_FITS, math.log(noise) / 2):
        plateau = 1 / fit.per_image.value
        at = Estimate(*(share / (1 - share) * value for value in fit.half_batch))
        rising = bool(at.value > largest)
        fitted = at if sizes[0] <= at.value <= largest else fitted
    else:
        half = np.flatnonzero(sizes <= largest / 2)
        before = half[-1] if len(half) else max(len(sizes) - 2, 0)
        least = share + (1 - share) * largest / sizes[before]
        rising = bool(speeds[-1] > least * speeds[before] and speeds[-1] >= share * speeds.max())
        plateau = NAN if rising else float(np.median(speeds[sizes >= largest / 2]))
    order = np.argsort(np.asarray(batch_sizes, float).ravel())
    quick = np.array([np.percentile(blocks[index], 25) for index in order])
    short = np.flatnonzero(~(sizes / quick >= share * plateau))
    reached = np.flatnonzero(speeds >= share * plateau)
    reached = reached[reached > short.max(initial=-1)]
    stays = int(sizes[reached[0]]) if len(reached) and not rising else None
    return Knee(plateau, fitted, stays, rising)


class NoiseFloor(NamedTuple):
    """What a size differs from itself: `ratio` geometric mean over sizes, `factor` >= 1."""

    ratio: float
    factor: float


def halves(blocks: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the blocks of each size dealt alternately into two halves."""
    arrays = [np.atleast_1d(np.asarray(block, float)) for block in blocks]
    return [array[0::2] for array in arrays], [array[1::2] for array in arrays]


def noise_floor(blocks_a: Sequence[Any], blocks_b: Sequence[Any]) -> NoiseFloor:
    """Returns the ratio of every size to itself: differences below it mean nothing.

    The factor is the 95 % quantile over sizes of |log ratio|, the largest up to 20 sizes. Halves
    scatter about 1.4 times as much as all blocks together, so it errs on the careful side.

    Args:
        blocks_a: For each batch size one half of its blocks, s; see `halves`.
        blocks_b: For each batch size the other half.

    Raises:
        ValueError: If a half is empty, or their numbers differ.
    """
    if not len(blocks_a) == len(blocks_b) > 0 or any(
        np.size(b) == 0 for b in (*blocks_a, *blocks_b)
    ):
        raise ValueError(
            f"noise_floor: received {len(blocks_a)} and {len(blocks_b)} halves; two halves of at "
            "least one block for every batch size are expected."
        )
    logs = [
        math.log(np.median(a)) - math.log(np.median(b))
        for a, b in zip(blocks_a, blocks_b, strict=True)
    ]
    factor = math.exp(np.quantile(np.abs(logs), 0.95, method="higher"))
    return NoiseFloor(math.exp(np.mean(logs)), factor)


def _medians(
    where: str, batch_sizes: Any, blocks: Sequence[Any], least: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Returns sizes and medians, ascending in size."""
    sizes = np.asarray(batch_sizes, float).ravel()
    if len(sizes) != len(blocks) or len(set(sizes)) != len(sizes) or len(sizes) < least:
        raise ValueError(
            f"{where}: received batch sizes {list(batch_sizes)} and {len(blocks)} timings; "
            f"at least {least} different batch sizes with one timing each are expected."
        )
    medians = np.array([np.median(block) if np.size(block) else NAN for block in blocks])
    if not (np.isfinite(medians) & (medians > 0)).all():
        raise ValueError(f"{where}: received medians {medians}; positive numbers are expected.")
    order = np.argsort(sizes)
    return sizes[order], medians[order]


def _weighted_line(x: np.ndarray, seconds: np.ndarray) -> tuple[list, np.ndarray, float]:
    """Returns intercept and slope, their covariance, and the relative residual."""
    design = np.column_stack([np.ones(len(x)), x]) / seconds[:, None]
    basis, triangle = np.linalg.qr(design)
    inverse = np.linalg.inv(triangle)
    found = inverse @ basis.sum(axis=0)  # every median over itself is 1
    residuals = 1 - design @ found
    squares = residuals @ residuals
    free = len(x) - 2
    covariance = inverse @ inverse.T * (squares / free if free else NAN)
    return found.tolist(), covariance, math.sqrt(squares / len(x))


class _Model(NamedTuple):
    """Weighted columns, made orthonormal; `q` is 0 for a rival.

    `rises` gives, from timings, what must be positive: the growth in steps and between them.
    """

    name: str
    q: int
    basis: np.ndarray
    rises: np.ndarray | None
    parameters: int


def _models(sizes: np.ndarray, seconds: np.ndarray, most: int) -> list[_Model]:
    """Returns the line first, every staircase, and the rivals that have no period."""
    wanted = [(LINE, 1, 3, sizes)]  # name, q, parameters with the noise, columns beside a constant
    for q in range(2, most + 1):
        levels = np.ceil(sizes / q)
        if len(set(levels)) > 1:
            wanted.append(("stairs", q, 4, levels))
        if len(set(levels)) >= LEAST_LEVELS:  # with two it is the rival of one jump
            wanted.append(("stairs and a line", q, 5, levels, sizes))
    # Rivals are charged for 4 whatever they take: no penalty may make stairs of a curve.
    logs, ((a, b), *_) = np.log(sizes), _weighted_line(sizes, seconds)
    wanted += [
        ("a line and a logarithm", 0, 4, sizes, logs),
        ("a parabola", 0, 4, sizes, sizes**2),
        ("a line, a logarithm and a square", 0, 4, sizes, logs, sizes**2),
    ]
    wanted += [("a power law", 0, 4, sizes**power) for power in (0.25, 0.5, 0.75, 1.5, 2.0, 3.0)]
    for period in (2, 4, 8, 16, 32):
        aligned = (a + b * sizes) * (sizes % period == 0)
        wanted.append((f"a line but for multiples of {period}", 0, 4, sizes, aligned))
    for place in np.geomspace(sizes[0], sizes[-1], 66)[1:-1]:
        kinked = np.maximum(sizes, place)
        wanted.append(("a constant and then a line", 0, 4, kinked))
        wanted.append(("two lines that meet", 0, 4, sizes, kinked))
    for place in sizes[1:-2]:  # two sizes or more on either side: one alone is an outlier
        wanted.append(("a line with one jump", 0, 4, sizes, sizes > place))

    models = []
    for width in range(1, min(4, len(sizes))):
        alike = [(*entry[:3], entry[3:]) for entry in wanted if len(entry) == 3 + width]
        designs = np.array([np.stack([np.ones(len(sizes)), *item[3]], axis=1) for item in alike])
        scales = np.abs(designs).max(axis=1, keepdims=True)
        designs /= np.where(scales > 0, scales, 1)
        bases, triangles = np.linalg.qr(designs / seconds[:, None])
        diagonals = np.abs(np.diagonal(triangles, axis1=1, axis2=2))
        free = diagonals.min(axis=1) > 1e-9 * diagonals.max(axis=1)
        for index in np.flatnonzero(free):
            name, q, parameters, _ = alike[index]
            rises = None
            if q > 1:
                inverse = np.linalg.inv(triangles[index]) / scales[index].T
                slopes = bases[index] @ inverse[1:].T / [q, 1][:width]
                rises = np.column_stack([slopes, np.zeros((len(sizes), 2 - width))])
            models.append(_Model(name, q, bases[index], rises, parameters))
    return models


def _aicc(n: int, parameters: Any) -> Any:
    """Returns the penalty of AICc (Hurvich and Tsai 1989): infinite for too few data."""
    k = np.asarray(parameters)
    left = n - k - 1.0
    return np.where(left > 0, 2 * k + 2 * k * (k + 1) / np.where(left > 0, left, 1), np.inf)


def _judge(models: list[_Model], timings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns residual squares and AICc of each model, shape (draws, models).

    Args:
        models: The models.
        timings: Timings over the measured medians, shape (draws, sizes).
    """
    n = timings.shape[1]
    starts = np.cumsum([0] + [model.basis.shape[1] for model in models[:-1]])
    parts = timings @ np.hstack([model.basis for model in models])
    squares = (timings**2).sum(axis=1, keepdims=True) - np.add.reduceat(parts**2, starts, axis=1)
    squares = np.maximum(squares, n * FINEST**2)
    stairs = np.array([model.q > 1 for model in models])
    if stairs.any():
        rises = timings @ np.hstack([m.rises for m in models if m.rises is not None])
        falls = (rises[:, 0::2] <= 0) | (rises[:, 1::2] < 0)
        squares[:, stairs] = np.where(falls, np.inf, squares[:, stairs])
    return squares, n * np.log(squares / n) + _aicc(n, [model.parameters for model in models])


def _chances(
    models: list[_Model], stairs: np.ndarray, rival: int, draws: int
) -> tuple[float, float, float]:
    """Returns how often line and rival give so large a lead, and the line so bent timings."""
    n = len(models[0].basis)
    observed = np.ones((1, n))
    squares = _judge(models, observed)[0][0]
    generator = np.random.default_rng(0)

    def measures(timings: np.ndarray) -> list[np.ndarray]:
        criteria = _judge(models, timings)[1]
        line, step = criteria[:, 0], criteria[:, stairs].min(axis=1)
        other = criteria[:, ~stairs].min(axis=1)
        return [line - step, other - step, line - other]

    def drawn(null: int) -> list[np.ndarray]:
        basis = models[null].basis
        sigma = math.sqrt(squares[null] / max(n - basis.shape[1], 1))
        noise = sigma * generator.standard_normal((draws, n))
        return measures(observed @ basis @ basis.T + noise)

    seen, line, bent = measures(observed), drawn(0), drawn(rival)
    pairs = ((line[0], seen[0]), (bent[1], seen[1]), (line[2], seen[2]))
    p, p_rival, p_bent = (float((1 + (d >= s).sum()) / (draws + 1)) for d, s in pairs)
    return p, p_rival, p_bent
