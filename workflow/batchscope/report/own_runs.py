"""What one's own trainings say of their critical and fastest batch size: text, table, figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas

from batchscope import disk, wording
from batchscope.analysis import budgets
from batchscope.analysis.critical_batch_size import LEAST_SIZES, CriticalBatchSize
from batchscope.analysis.run_series import describe
from batchscope.analysis.updates_to_target import Scaling, Target

NAME = "critical_batch_size"
TITLE = "Updates, examples and seconds to a target against batch size"
COLUMNS = (
    *("target", "points", "updates_min", "examples_min", "critical_batch_size"),
    *("critical_batch_size_low", "critical_batch_size_high", "residual", "lack_of_fit"),
)


def target_text(target: Target) -> str:
    """Returns a target as the command line takes it; the file's own where it states none."""
    if not target.column:
        return "as in the file"
    return f"{target.column}={wording.shortest(float(f'{target.value:.6g}'))}"


def text(scalings: Sequence[Scaling]) -> str:
    """Returns what is printed of every series and target."""
    return "\n\n".join("\n".join(_told(each)) for each in scalings)


def rows(scalings: Sequence[Scaling]) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Returns columns and rows of critical_batch_size.csv; an open end is empty."""
    factors = tuple(dict.fromkeys(name for each in scalings for name in each.factors))
    found = []
    for each in scalings:
        row: dict[str, Any] = {**each.factors, "target": target_text(each.target), "points": 0}
        if each.fit:
            row |= {
                "points": each.fit.points,
                "updates_min": _number(each.fit.updates_min),
                "examples_min": _number(each.fit.examples_min),
                "critical_batch_size": _number(each.fit.critical_batch_size),
                "critical_batch_size_low": _number(each.fit.low),
                "critical_batch_size_high": _number(each.fit.high),
                "residual": each.fit.residual,
                "lack_of_fit": each.fit.lack_of_fit,
            }
        found.append(row)
    return (*factors, *COLUMNS), found


def write(scalings: Sequence[Scaling], folder: Path) -> list[Path]:
    """Writes critical_batch_size.csv, .svg and .png; returns their paths."""
    from batchscope.figures.drawing import canvas, to_target

    panels = [
        to_target.Panel(each, _title(each), _caption(each), _fastest(each)) for each in scalings
    ]
    svg, png = canvas.svg_and_png(to_target.draw(panels), TITLE)
    paths = [folder / f"{NAME}{suffix}" for suffix in (".csv", ".svg", ".png")]
    disk.write_rows(paths[0], *rows(scalings))
    disk.write_text(paths[1], svg)
    with disk.atomic_path(paths[2]) as temporary:
        temporary.write_bytes(png)
    return paths


def critical(fit: CriticalBatchSize) -> str:
    """Returns `B_crit 39 [27, 57]`, with an open end in words."""
    low, high = fit.low, fit.high
    known = not math.isnan(fit.critical_batch_size)
    value = f" {wording.number(fit.critical_batch_size)}" if known else ""
    if math.isnan(low) and math.isnan(high):
        return f"B_crit{value} (not resolved: open at both ends)"
    if math.isnan(high):
        return f"B_crit{value or ' beyond these sizes'}, at least {wording.number(low)}"
    if math.isnan(low):
        return f"B_crit{value or ' below these sizes'}, at most {wording.number(high)}"
    return f"B_crit{value} [{wording.number(low)}, {wording.number(high)}]"


def _caption(scaling: Scaling) -> str:
    """Returns what stands above a panel of the figure."""
    if scaling.fit is None:
        return _too_few(scaling)
    bends = f"\nlack of fit ({scaling.fit.lack_of_fit})" if scaling.fit.lack_of_fit else ""
    return f"{critical(scaling.fit)}, residual {wording.percent(scaling.fit.residual)}{bends}"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _title(scaling: Scaling) -> str:
    words = describe(scaling.factors)
    return ", ".join(part for part in (words, target_text(scaling.target)) if part)


def _too_few(scaling: Scaling) -> str:
    return (
        f"{wording.count(int(scaling.fitted.sum()), 'batch size reaches', 'batch sizes reach')} "
        f"the target with every seed; a fit needs {LEAST_SIZES}"
    )


def _told(scaling: Scaling) -> Iterator[str]:
    yield f"{_title(scaling)}"
    for name, values in scaling.along.items():
        shown = ", ".join(wording.shortest(value) for value in values)
        yield f"  along the batch sizes: {name.replace('_', ' ')} {shown}"
    if scaling.fit is None:
        yield f"  no fit: {_too_few(scaling)}"
    else:
        yield from _told_of_fit(scaling, scaling.fit)
    yield from _table(scaling)
    yield from _told_of_seconds(scaling)


def _told_of_fit(scaling: Scaling, fit: CriticalBatchSize) -> Iterator[str]:
    interval = "interval over seeds" if fit.by_seed else "profile interval"
    yield f"  {critical(fit)} (95 %, {interval}); at B_crit the examples double"
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
            middle = budgets.median(times[pandas.notna(times)])
            cells.append(wording.cell(middle, 3) if math.isfinite(middle) else "never")
        updates = scaling.measured["updates"][index]
        count, of, low, high = budgets.reached(updates[pandas.notna(updates)])
        cells.append(f"{count}/{of} [{low:.2f}, {high:.2f}]")
        cells.append(scaling.fit.regime(size) if scaling.fit else "")
        lines.append(cells)
    yield from _aligned(lines)


def _told_of_seconds(scaling: Scaling) -> Iterator[str]:
    if "seconds" in scaling.measured:
        ratios = scaling.ratios()
        known = [(each.mean, size) for each, size in zip(ratios, scaling.batch_sizes, strict=True)]
        best = min((pair for pair in known if math.isfinite(pair[0])), default=None)
        if best:
            yield f"  fastest as measured: {best[1]}; seconds over its own, paired by seed:"
            parts = []
            for ratio, size in zip(ratios, scaling.batch_sizes, strict=True):
                if size != best[1] and math.isfinite(ratio.mean):
                    ends = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.n > 1 else ""
                    parts.append(f"{size}: {ratio.mean:.2f}{ends}")
            yield f"    {', '.join(parts)}"
    if scaling.step is None and scaling.cost is not None:
        yield "  no fastest size in closed form: the fitted cost of a step or image is not positive"
    if scaling.step is None:
        return
    fixed, per_image = (wording.number(1e3 * each) for each in scaling.step)
    half = wording.number(scaling.step[0] / scaling.step[1])
    yield f"  a step takes {fixed} ms + {per_image} ms per image (B_half {half})"
    if scaling.fastest:
        best = scaling.fastest
        yield (
            f"  fastest in closed form: {_fastest(scaling)}; {wording.number(best.seconds)} s, "
            f"within 10 % of it from {wording.number(best.low)} to {wording.number(best.high)}"
        )


def _fastest(scaling: Scaling) -> str:
    """Returns `B* 55 [52, 57]`; empty where there is none."""
    best = scaling.fastest
    if best is None:
        return ""
    told = f"B* {wording.number(best.batch_size)}"
    if math.isfinite(best.batch_size_low):
        low, high = best.batch_size_low, best.batch_size_high
        told += f" [{wording.number(low)}, {wording.number(high)}]"
    return told


def _aligned(lines: list[list[str]]) -> Iterator[str]:
    frame = pandas.DataFrame(lines)
    widths = [int(frame[column].str.len().max()) for column in frame]
    for line in lines:
        *numbers, words = line
        cells = [text.rjust(width) for text, width in zip(numbers, widths, strict=False)]
        yield f"  {'  '.join([*cells, words])}".rstrip()
