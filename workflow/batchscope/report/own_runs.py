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
    run_series,
    to_target_tables,
)
from batchscope.analysis.updates_to_target import Rates, Scaling
from batchscope.catalogue import entries
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
    return ", ".join(filter(None, [run_series.describe(scaling.factors), target]))


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
    rates = scaling.rates_by("updates")
    return {
        **fit,
        "title": _title(scaling),
        "along": scaling.along,
        "rates": _rates(scaling.batch_sizes, rates) if rates else None,
        "seeds": len(scaling.seeds),
        "reached": int(fitted.sum()),
        "departs": departs,
        "axes": list(scaling.measured),
        "sizes": list(_sizes(scaling, fit, departs)),
        "ratios": _ratios(scaling),
        "first": list(compress(scaling.batch_sizes, scaling.at_first.any(axis=1))),
    }


def _rates(sizes: Sequence[int], rates: Rates) -> dict[str, Any]:
    """Returns which rates were tried, chosen and left out, each with its batch sizes."""
    chosen = zip(rates.chosen.tolist(), rates.on_edge.tolist(), strict=True)
    return {
        "tried": rates.tried,
        "chosen": _by_size(([one] for one in chosen), sizes),
        "diverged": _by_size(rates.diverged, sizes),
        "never": _by_size(rates.never, sizes),
    }


def _by_size(each: Iterable[Iterable[Any]], sizes: Sequence[int]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for size, values in zip(sizes, each, strict=True):
        for value in values:
            found.setdefault(value, []).append(size)
    return found


def _sizes(scaling: Scaling, fit: dict[str, Any], departs: bool) -> Iterator[dict[str, Any]]:
    """Yields geometric means over seeds, and how many reached the target, of each batch size."""
    means = {
        axis: fastest_batch_size.geometric_means(taken, scaling.differ(axis))
        for axis, taken in scaling.measured.items()
    }
    ends = [
        math.nan if fit[name] is None else fit[name] for name in ("updates_min", "examples_min")
    ]
    for at, size in enumerate(scaling.batch_sizes):
        taken = scaling.measured["updates"][at]
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
    if (fastest := scaling.measured_fastest) is None:
        return []
    found = fastest_batch_size.relative_to_fastest(
        scaling.measured["seconds"], scaling.differ("seconds")
    )
    return [
        (size, wording.estimate(*ratio[:3]))
        for size, ratio in zip(scaling.batch_sizes, found, strict=True)
        if size != fastest and math.isfinite(ratio.mean)
    ]
