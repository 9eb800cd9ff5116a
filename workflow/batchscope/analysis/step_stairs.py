"""Does the time of a step rise in stairs? A staircase in the batch size against its rivals.

Fits are weighted as those of `step_times`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from batchscope.analysis import paired_tests
from batchscope.analysis.step_cost import LEVEL, NAN, medians_of, weighted_line

LEAST_LEAD = 2.0  # AICc below which two models count as alike (Burnham and Anderson 2002)
LEAST_SIZES = 8  # AICc cannot charge for a rival's four parameters with fewer
LEAST_LEVELS = 3  # two levels are one jump, which shows no period
FINEST = 1e-6  # relative residual below which no timing means anything
LINE = "a straight line"


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
    sizes, seconds = medians_of("staircase", batch_sizes, seconds)
    levels = np.ceil(sizes / q)
    if len(set(levels)) < 2:
        raise ValueError(f"staircase: received q = {q}; sizes on two steps or more are expected.")
    (a, b), _, residual = weighted_line(levels, seconds)
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
    sizes, seconds = medians_of("best_step", batch_sizes, blocks)
    models = _models(sizes, seconds, most)
    stairs = np.array([model.q > 1 for model in models])
    n, observed = len(sizes), np.ones((1, len(sizes)))  # every median over itself
    squares, criteria = (found[0] for found in _judge(models, observed))
    growth = weighted_line(sizes, seconds)[0][1]
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
    p_values = paired_tests.holm(
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
    logs, ((a, b), *_) = np.log(sizes), weighted_line(sizes, seconds)
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
