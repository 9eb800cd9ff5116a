"""What one's own trainings say of their critical and fastest batch size: text, table, figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import pandas

from batchscope import disk, wording
from batchscope.analysis import (
    critical_batch_size,
    fastest_batch_size,
    intervals,
    to_target_tables,
)
from batchscope.analysis.updates_to_target import Scaling
from batchscope.catalogue import entries, factor_words
from batchscope.catalogue.own_columns import AXES
from batchscope.report import page

NAME = "critical_batch_size"
TITLE = "Updates, examples and seconds to a target against batch size"


def text(scalings: Sequence[Scaling], base: int | None = None) -> str:
    """Returns what is printed of every series and target; `base` is that of B_20."""
    shown = [_shown(each, base) for each in scalings]
    return page.render("own_runs.txt.j2", series=shown).rstrip("\n")


def write(scalings: Sequence[Scaling], folder: Path) -> list[Path]:
    """Writes critical_batch_size.csv, .svg and .png; returns their paths."""
    from batchscope.figures.drawing import canvas
    from batchscope.figures.drawing.to_target import Panel
    from batchscope.figures.kinds import to_target

    fits, panels = to_target_tables.fits(scalings), []
    for each in scalings:
        one = (to_target_tables.fits([each]), to_target_tables.trainings([each]))
        panels.append(Panel(each.factors, to_target_tables.joined(*one)))
    axes = [name for name in AXES if any(panel.known(name) for panel in panels)]
    columns = [entries.Panel(name, name.capitalize(), f"{name} to the target") for name in axes]
    drawing = to_target.draw_panels(panels, columns)
    svg, png = canvas.svg_and_png(drawing, TITLE)
    paths = [folder / f"{NAME}{suffix}" for suffix in (".csv", ".svg", ".png")]
    with disk.atomic_path(paths[0]) as temporary:
        fits.to_csv(temporary, index=False, lineterminator="\n")
    disk.write_text(paths[1], svg)
    with disk.atomic_path(paths[2]) as temporary:
        temporary.write_bytes(png)
    return paths


def _title(scaling: Scaling) -> str:
    target = to_target_tables.target_text(scaling.target)
    return ", ".join(filter(None, [factor_words.describe(scaling.factors), target]))


def _shown(scaling: Scaling, base: int | None) -> dict[str, Any]:
    """Returns the row of critical_batch_size.csv, and what was measured at each batch size."""
    fit = to_target_tables.fits([scaling]).iloc[0].to_dict()
    fit = {name: None if pandas.isna(value) else value for name, value in fit.items()}
    critical, fitted = fit["critical_batch_size"], scaling.fitted
    departs = critical_batch_size.departs(scaling.fit.lack_of_fit if scaling.fit else math.nan)
    if critical is not None and not departs:
        used = list(compress(scaling.batch_sizes, fitted))
        base = base or critical_batch_size.default_base(used)
        fit |= {"base": base, "b20": critical_batch_size.twenty_percent(critical, base)}
    each = scaling.trainings
    return {
        **fit,
        "title": _title(scaling),
        "along": each.along,
        "rates": _rates(scaling) if each.tuned else None,
        "seeds": len(each.axes[2]),
        "reached": int(fitted.sum()),
        "departs": departs,
        "axes": list(scaling.taken),
        "sizes": list(_sizes(scaling, fit, departs)),
        "ratios": _ratios(scaling),
        "first": list(compress(scaling.batch_sizes, scaling.at_first.any(axis=1))),
    }


def _rates(scaling: Scaling) -> dict[str, Any]:
    """Returns which rates were tried, chosen and left out, each with its batch sizes."""
    sizes, tried, _ = scaling.trainings.axes
    best = scaling.taken["updates"]
    chosen = zip(best.rates.tolist(), best.on_edge.tolist(), strict=True)
    left_out = {why: _by_size(each, sizes) for why, each in scaling.left_out().items()}
    return {"tried": tried, "chosen": _by_size(([one] for one in chosen), sizes), **left_out}


def _by_size(each: Iterable[Iterable[Any]], sizes: Sequence[int]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for size, values in zip(sizes, each, strict=True):
        for value in values:
            found.setdefault(value, []).append(size)
    return found


def _sizes(scaling: Scaling, fit: dict[str, Any], departs: bool) -> Iterator[dict[str, Any]]:
    """Yields geometric means over seeds, and how many reached the target, of each batch size."""
    means = {
        axis: fastest_batch_size.geometric_means(taken.values, taken.tuned)
        for axis, taken in scaling.taken.items()
    }
    ends = [
        math.nan if fit[name] is None else fit[name] for name in ("updates_min", "examples_min")
    ]
    for at, size in enumerate(scaling.batch_sizes):
        taken = scaling.taken["updates"].values[at]
        count, of = int((taken < math.inf).sum()), int((taken == taken).sum())
        yield {
            "size": size,
            "means": [found[at].mean for found in means.values()],
            "count": count,
            "of": of,
            "share": intervals.share(count, of),
            "regime": critical_batch_size.regime(size, *ends)
            if scaling.fit and not departs
            else "",
        }


def _ratios(scaling: Scaling) -> list[tuple[int, wording.Estimate]]:
    """Returns the seconds of each batch size over those of the fastest, paired by seed."""
    if (fastest := scaling.measured_fastest("seconds")) is None:
        return []
    seconds = scaling.taken["seconds"]
    found = fastest_batch_size.relative_to_fastest(seconds.values, seconds.tuned)
    return [
        (size, wording.estimate(*ratio[:3]))
        for size, ratio in zip(scaling.batch_sizes, found, strict=True)
        if size != fastest and math.isfinite(ratio.mean)
    ]
