"""What one's own trainings say of their critical and fastest batch size: text, table, figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas

from batchscope import disk, wording
from batchscope.analysis import intervals, to_target_tables
from batchscope.analysis.critical_batch_size import CriticalBatchSize
from batchscope.analysis.updates_to_target import Rates, Scaling
from batchscope.figures.drawing import target_words

NAME = "critical_batch_size"
TITLE = "Updates, examples and seconds to a target against batch size"


def text(scalings: Sequence[Scaling]) -> str:
    """Returns what is printed of every series and target."""
    return "\n\n".join("\n".join(_lines(each)) for each in scalings)


def write(scalings: Sequence[Scaling], folder: Path) -> list[Path]:
    """Writes critical_batch_size.csv, .svg and .png; returns their paths."""
    from batchscope.figures.drawing import canvas, to_target

    panels = [
        to_target.Panel(
            each, target_words.title(each), target_words.caption(each), target_words.fastest(each)
        )
        for each in scalings
    ]
    svg, png = canvas.svg_and_png(to_target.draw(panels), TITLE)
    paths = [folder / f"{NAME}{suffix}" for suffix in (".csv", ".svg", ".png")]
    with disk.atomic_path(paths[0]) as temporary:
        to_target_tables.fits(scalings).to_csv(temporary, index=False, lineterminator="\n")
    disk.write_text(paths[1], svg)
    with disk.atomic_path(paths[2]) as temporary:
        temporary.write_bytes(png)
    return paths


def _lines(scaling: Scaling) -> Iterator[str]:
    yield target_words.title(scaling)
    for name, values in scaling.along.items():
        shown = ", ".join(wording.shortest(value) for value in values)
        yield f"  along the batch sizes: {name.replace('_', ' ')} {shown}"
    if rates := scaling.rates_by("updates"):
        yield from _rate_lines(scaling, rates)
    if scaling.fit is None:
        yield f"  no fit: {target_words.too_few(scaling)}"
    else:
        yield from _fit_lines(scaling, scaling.fit)
    yield from _table(scaling)
    yield from (f"  {words}" for words in target_words.at_first(scaling))
    yield from _seconds_lines(scaling)


def _rate_lines(scaling: Scaling, rates: Rates) -> Iterator[str]:
    tried = wording.listed(map(wording.shortest, rates.tried))
    yield f"  learning rate chosen of {tried}: {target_words.chosen(scaling, rates)}"
    if len(scaling.seeds) > 1:
        yield "  each seed is read at the rate that the other seeds choose"
    else:
        yield "  one seed: read at the rate that it chooses itself, which flatters it"
    if rates.on_edge.any():
        yield "  edge: the lowest or highest rate tried there; a better one may lie beyond it"
    for words in target_words.left_out(scaling, rates):
        yield f"  {words}"


def _fit_lines(scaling: Scaling, fit: CriticalBatchSize) -> Iterator[str]:
    interval = "interval over seeds" if fit.by_seed else "profile interval"
    critical = to_target_tables.critical_text(fit)
    yield f"  {critical} (95 %, {interval}); at B_crit the examples double"
    parts = [f"points {fit.points}"]
    for name, value in (("updates_min", fit.updates_min), ("examples_min", fit.examples_min)):
        if math.isfinite(value):
            parts.append(f"{name} {wording.grouped(value)}")
    parts.append(f"residual {wording.percent(fit.residual)}")
    yield f"  {', '.join(parts)}"
    if fit.lack_of_fit:
        yield (
            f"  lack of fit ({fit.lack_of_fit}): the residuals bend; the hyperbola is an "
            "approximation and the interval too narrow"
        )
    if math.isfinite(fit.critical_batch_size):
        pairs = zip(scaling.batch_sizes, scaling.fitted, strict=True)
        base = min(size for size, fitted in pairs if fitted)
        size = wording.number(fit.twenty_percent(base))
        yield f"  20 % more examples than at batch size {base} (B_20): {size}"


def _table(scaling: Scaling) -> Iterator[str]:
    """Yields one line per batch size: the median over seeds, and how many reached it."""
    axes = list(scaling.measured)
    lines = [["batch size", *axes, "reached [95 %]", "regime"]]
    for index, size in enumerate(scaling.batch_sizes):
        cells = [str(size)]
        for axis in axes:
            times = scaling.measured[axis][index]
            known = times[pandas.notna(times)]
            middle = float(np.median(known)) if len(known) else math.nan
            word = wording.ABSENT if math.isnan(middle) else "never"
            cells.append(wording.cell(middle, 3) if math.isfinite(middle) else word)
        updates = scaling.measured["updates"][index]
        updates = updates[pandas.notna(updates)]
        if len(updates):
            count, of = int(np.isfinite(updates).sum()), len(updates)
            low, high = intervals.share(count, of)
            cells.append(f"{count}/{of} [{low:.2f}, {high:.2f}]")
        else:
            cells.append(wording.ABSENT)
        cells.append(scaling.fit.regime(size) if scaling.fit else "")
        lines.append(cells)
    yield from _aligned(lines)


def _seconds_lines(scaling: Scaling) -> Iterator[str]:
    best = scaling.measured_fastest
    if best is not None:
        yield f"  fastest as measured: {best}; seconds over its own, paired by seed:"
        parts = []
        for ratio, size in zip(scaling.ratios(), scaling.batch_sizes, strict=True):
            if size != best and math.isfinite(ratio.mean):
                ends = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.n > 1 else ""
                parts.append(f"{size}: {ratio.mean:.2f}{ends}")
        yield f"    {', '.join(parts)}"
    elif "seconds" in scaling.measured and scaling.share_no_seed:
        yield "  no fastest as measured: the batch sizes that reached the target share no seed"
    if scaling.step is None:
        if scaling.cost is not None:
            yield f"  no fastest size in closed form: {target_words.NO_LINE}"
        return
    fixed, per_image = (wording.number(1e3 * each) for each in scaling.step.costs)
    half = wording.number(scaling.step.half_batch.value)
    yield f"  a step takes {fixed} ms + {per_image} ms per example (B_half {half})"
    if scaling.fastest:
        best = scaling.fastest
        open_ = scaling.cost is not None and math.isnan(best.batch_size_low)
        yield (
            f"  fastest in closed form: {target_words.fastest(scaling)}"
            f"{' (its interval is open)' if open_ else ''}; "
            f"{wording.number(best.seconds)} s, within 10 % of it from {wording.number(best.low)} "
            f"to {wording.number(best.high)}"
        )


def _aligned(lines: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        *numbers, words = line
        cells = [text.rjust(width) for text, width in zip(numbers, widths, strict=False)]
        yield f"  {'  '.join([*cells, words])}".rstrip()
