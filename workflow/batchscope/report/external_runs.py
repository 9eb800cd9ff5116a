"""What external runs say of their critical and fastest batch size: text, table and figure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import pandas

from batchscope import disk, problems, wording
from batchscope.analysis import (
    critical_batch_size,
    fastest_batch_size,
    intervals,
    to_target_tables,
    trainings,
)
from batchscope.analysis.targets import Target
from batchscope.analysis.to_target_tables import TargetScaling
from batchscope.errors import UserError
from batchscope.external import log_runs
from batchscope.report import page
from batchscope.study import factor_words, own_columns, tasks
from batchscope.study.log_source import Source, escaped
from batchscope.study.own_columns import AXES, OUTCOMES
from batchscope.study.run_factors import HORIZON_REASON
from batchscope.study.specifications import Panel
from batchscope.tables import csv_tables, external_tables

NAME = "critical_batch_size"
_BASE = 256  # of B_20, as Zhang et al. 2024 take it
TITLE = "Updates, examples and seconds to a target against batch size"


class Found(NamedTuple):
    """External runs, and what each of their series takes to each target."""

    runs: pandas.DataFrame
    scalings: list[TargetScaling]


def read(path: Path, stated: Iterable[str] = (), step_seconds: str | None = None) -> Found:
    """Reads external runs and fits what they take to targets, stated as `validation_loss=0.2`.

    Args:
        step_seconds: Seconds of a step, fixed and per example, as `0.002,0.0001`.

    Raises:
        UserError: If the file or what is stated is at fault, or a series has no target.
    """
    external = log_runs.read(Source((escaped(str(path)),)))
    if external.single and not external.at_targets:
        raise UserError(
            f"{path}: received a single row of each run, at equal budgets, which are no target; a "
            "row per evaluation is expected, or a study with `runs`, which compares at budgets."
        )
    if external.schedule:
        raise UserError(
            f"{path}, column schedule: received {problems.show(external.schedule)}, "
            f"{HORIZON_REASON}; a single row of each run is expected, at the target that it was "
            "trained to."
        )
    runs = external_tables.runs(external, "", "")
    series = trainings.of_experiment(runs, external_tables.trajectories(external))
    wanted = [_target(text, external) for text in stated]
    for each in series if not wanted else ():
        if each.default_target() is None:
            column = each.target_column or "loss or metric"
            label = factor_words.describe(each.factors)
            raise UserError(
                f"--target: received none{f', and for {label}' if label else ''} there is no "
                f"{column} below its first evaluation that all seeds of three batch sizes "
                "reached; one is expected, as --target validation_loss=0.2."
            )
    step = _numbers(step_seconds) if step_seconds else []
    if step_seconds and (len(step) != 2 or not all(0 < each < math.inf for each in step)):
        raise UserError(
            f"--step-seconds: received {problems.show(step_seconds)}; two numbers above 0 are "
            "expected: the fixed cost of a step and the cost per example in seconds, as "
            "0.002,0.0001."
        )
    return Found(runs, to_target_tables.of_series(series, wanted, step))


def _target(text: str, external: log_runs.ExternalRuns) -> Target:
    column, _, number = text.partition("=")
    known = [name for name in OUTCOMES if name in external.rows]
    if column not in known:
        near = problems.nearest(column, known)
        hint = f" Did you mean '{near}'?" if near else ""
        expected = wording.listed(known, "or") or "a file with a loss or a metric"
        raise UserError(
            f"--target: received {problems.show(text)}; one of {expected}, as in "
            f"validation_loss=0.2, is expected.{hint}"
        )
    value, metric = next(iter(_numbers(number)), math.nan), tasks.metric(column)
    least, most = (metric.least, metric.most) if metric else (0, math.inf)
    if not least < value < most:
        expected = metric.expected if metric else "a number above 0"
        raise UserError(
            f"--target {column}: received {problems.show(number)}; {expected} is expected."
        )
    return Target(column, value)


def _numbers(text: str) -> list[float]:
    """Returns the numbers between commas; none where one of them is not."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []


def text(found: Found, base: int | None = None) -> str:
    """Returns what is printed of every series and target; `base` is that of B_20."""
    shown = [_shown(each, base) for each in found.scalings]
    return page.render("own_runs.txt.j2", series=shown).rstrip("\n")


def write(found: Found, folder: Path) -> list[Path]:
    """Writes critical_batch_size.csv, .svg and .png; returns their paths."""
    from batchscope import figures
    from batchscope.figures.drawing import canvas

    fits, each = to_target_tables.fits(found.scalings), to_target_tables.trainings(found.scalings)
    tables = figures.FigureTables(critical_batch_size=fits, to_target=each, runs=found.runs)
    axes = [name for name in AXES if each[name].notna().any()]
    panels = tuple(Panel(name, name.capitalize(), f"{name} to the target") for name in axes)
    figure = dataclasses.replace(figures.FIGURES[NAME], panels=panels)
    frame = figures.select(tables, figure)
    svg, png = canvas.svg_and_png(figures.draw(frame, figure), TITLE)
    paths = [folder / f"{NAME}{suffix}" for suffix in (".csv", ".svg", ".png")]
    csv_tables.write(fits.rename(columns=_theirs), paths[0])
    disk.write_text(paths[1], svg)
    with disk.atomic_path(paths[2]) as temporary:
        temporary.write_bytes(png)
    return paths


def _theirs(column: str) -> str:
    return column.removeprefix(own_columns.OWN)


def _shown(scaling: TargetScaling, base: int | None) -> dict[str, Any]:
    """Returns the row of critical_batch_size.csv, and what was measured at each batch size."""
    fit = to_target_tables.fits([scaling]).iloc[0].to_dict()
    fit = {name: None if pandas.isna(value) else value for name, value in fit.items()}
    critical, fitted, each = fit["critical_batch_size"], scaling.fitted, scaling.trainings
    departs = bool(scaling.fit and scaling.fit.flagged)
    if critical is not None and not departs:
        sizes = [*compress(each.axes[0], fitted)]
        base = base or (_BASE if max(sizes) >= _BASE else min(sizes))
        fit |= {"base": base, "b20": 0.2 * critical + 1.2 * base}
    title = (factor_words.describe(each.factors), to_target_tables.target_text(scaling.target))
    return {
        **fit,
        "title": ", ".join(filter(None, title)),
        "along": {_theirs(name): values for name, values in each.along.items()},
        "rates": _rates(scaling) if each.tuned else None,
        "seeds": len(each.axes[2]),
        "reached": int(fitted.sum()),
        "departs": departs,
        "axes": [*scaling.taken],
        "sizes": [*_sizes(scaling, departs)],
        "ratios": _ratios(scaling),
        "first": [*compress(each.axes[0], scaling.at_first.any(axis=1))],
    }


def _rates(scaling: TargetScaling) -> dict[str, Any]:
    """Returns which rates were tried, chosen and left out, each with its batch sizes."""
    (sizes, tried, _), best = scaling.trainings.axes, scaling.taken["updates"]
    chosen = ([one] for one in zip(best.rates.tolist(), best.on_edge.tolist(), strict=True))
    left_out = {why: _by_size(each, sizes) for why, each in scaling.left_out().items()}
    return {"tried": tried, "chosen": _by_size(chosen, sizes), **left_out}


def _by_size(each: Iterable[Iterable[Any]], sizes: Sequence[int]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for size, values in zip(sizes, each, strict=True):
        for value in values:
            found.setdefault(value, []).append(size)
    return found


def _sizes(scaling: TargetScaling, departs: bool) -> Iterator[dict[str, Any]]:
    """Yields geometric means over seeds, and how many reached the target, of each batch size."""
    means = [
        intervals.means(taken.values, taken.tuned, geometric=True)
        for taken in scaling.taken.values()
    ]
    curve = scaling.fit and not departs and (scaling.fit.updates_min, scaling.fit.examples_min)
    for at, size in enumerate(scaling.trainings.axes[0]):
        taken = scaling.taken["updates"].values[at]
        count, of = int((taken < math.inf).sum()), int((taken == taken).sum())
        yield {
            "size": size,
            "means": [found[at].mean for found in means],
            "count": count,
            "of": of,
            "share": intervals.share(count, of),
            "regime": critical_batch_size.regime(size, *curve) if curve else "",
        }


def _ratios(scaling: TargetScaling) -> list[tuple[int, wording.FormattedEstimate]]:
    """Returns the seconds of each batch size over those of the fastest, paired by seed."""
    if (fastest := scaling.measured_fastest("seconds")) is None:
        return []
    seconds = scaling.taken["seconds"]
    found = fastest_batch_size.relative_to_fastest(seconds.values, seconds.tuned)
    return [
        (size, wording.estimate(*ratio[:3]))
        for size, ratio in zip(scaling.trainings.axes[0], found, strict=True)
        if size != fastest and math.isfinite(ratio.mean)
    ]
