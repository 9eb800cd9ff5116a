"""What one's own trainings say of their critical and fastest batch size: text, table, figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from batchscope import disk, wording
from batchscope.analysis import (
    critical_batch_size,
    fastest_batch_size,
    intervals,
    to_target_tables,
)
from batchscope.analysis.updates_to_target import Scaling
from batchscope.catalogue import entries
from batchscope.catalogue.own_columns import AXES
from batchscope.figures.drawing.to_target import Panel
from batchscope.report import target_words

NAME = "critical_batch_size"
TITLE = "Updates, examples and seconds to a target against batch size"


def text(scalings: Sequence[Scaling], base: int | None = None) -> str:
    """Returns what is printed of every series and target; `base` is that of B_20."""
    return "\n\n".join("\n".join(_lines(each, base)) for each in scalings)


def write(scalings: Sequence[Scaling], folder: Path) -> list[Path]:
    """Writes critical_batch_size.csv, .svg and .png; returns their paths."""
    from batchscope.figures.drawing import canvas
    from batchscope.figures.kinds import to_target

    panels = [_panel(each) for each in scalings]
    known = [name for name in AXES if any(panel.known(name) for panel in panels)]
    columns = [entries.Panel(name, name.capitalize(), f"{name} to the target") for name in known]
    drawing = to_target.draw_panels(panels, columns)
    svg, png = canvas.svg_and_png(drawing, TITLE)
    paths = [folder / f"{NAME}{suffix}" for suffix in (".csv", ".svg", ".png")]
    with disk.atomic_path(paths[0]) as temporary:
        to_target_tables.fits(scalings).to_csv(temporary, index=False, lineterminator="\n")
    disk.write_text(paths[1], svg)
    with disk.atomic_path(paths[2]) as temporary:
        temporary.write_bytes(png)
    return paths


def _panel(scaling: Scaling) -> Panel:
    tables = (to_target_tables.fits([scaling]), to_target_tables.trainings([scaling]))
    return Panel(scaling.factors, to_target_tables.joined(*tables))


def _lines(scaling: Scaling, base: int | None) -> Iterator[str]:
    panel = _panel(scaling)
    yield target_words.title(panel)
    for name, values in scaling.trainings.along.items():
        shown = ", ".join(wording.shortest(value) for value in values)
        yield f"  along the batch sizes: {name.replace('_', ' ')} {shown}"
    if scaling.trainings.tuned:
        yield from _rate_lines(panel, scaling)
    yield from _fit_lines(panel, base)
    yield from _table(panel)
    yield from (f"  {words}" for words in target_words.at_first(panel))
    if panel.known("seconds"):
        yield from _measured_lines(panel)
    yield from _closed_lines(panel)


def _rate_lines(panel: Panel, scaling: Scaling) -> Iterator[str]:
    tried = wording.listed(map(wording.shortest, scaling.trainings.axes[1]))
    chosen = panel.rates("updates")
    yield f"  learning rate chosen of {tried}: {target_words.chosen(chosen)}"
    if panel.rows["seed"].nunique() > 1:
        yield "  each seed is read at the rate that the other seeds choose"
    else:
        yield "  one seed: read at the rate that it chooses itself, which flatters it"
    if scaling.taken["updates"].on_edge.any():
        yield "  edge: the lowest or highest rate tried there; a better one may lie beyond it"
    for words in target_words.left_out(panel):
        yield f"  {words}"


def _fit_lines(panel: Panel, base: int | None) -> Iterator[str]:
    if not panel.points:
        yield f"  no fit: {target_words.too_few(panel)}"
        return
    interval = "interval over seeds" if panel.value("by_seed") else "profile interval"
    critical = target_words.critical_text(*panel.interval("critical_batch_size"))
    yield f"  {critical} (95 %, {interval}); at B_crit the examples double"
    parts = [f"points {panel.points}"]
    for name in ("updates_min", "examples_min"):
        if math.isfinite(panel.value(name)):
            parts.append(f"{name} {wording.grouped(panel.value(name))}")
    parts.append(f"residual {wording.percent(panel.value('residual'))}")
    yield f"  {', '.join(parts)}"
    if panel.departs:
        yield (
            f"  {target_words.lack_of_fit(panel)}: the updates depart from the curve; B_crit is an "
            "order of magnitude, its interval too narrow, and no more is read off the curve"
        )
    elif math.isfinite(value := panel.value("critical_batch_size")):
        base = base or critical_batch_size.default_base(panel.fitted)
        size = wording.number(critical_batch_size.twenty_percent(value, base))
        yield f"  20 % more examples than at batch size {base} (B_20): {size}"
    if math.isfinite(fewest := panel.value("examples_fewest")):
        yield f"  fewest examples as measured: {fewest:.0f}"


def _table(panel: Panel) -> Iterator[str]:
    """Yields one line per batch size: the geometric mean over seeds, and how many reached it."""
    yield "  to the target, geometric means over seeds:"
    axes = [axis for axis in AXES if axis != "seconds" or panel.known(axis)]
    means = {axis: panel.means(axis) for axis in axes}
    lines = [["batch size", *axes, "reached [95 %]", "regime"]]
    constants = (panel.value("updates_min"), panel.value("examples_min"))
    for at, (size, updates) in enumerate(panel.taken("updates").iterrows()):
        known = updates.dropna()
        count, of = sum(map(math.isfinite, known)), len(known)
        low, high = intervals.share(count, of)
        missing = "never" if count == 0 else "not all"
        cells = [means[axis][at].mean for axis in axes]
        shown = [wording.cell(each, 3) if math.isfinite(each) else missing for each in cells]
        regime = ""
        if panel.points and not panel.departs:
            regime = critical_batch_size.regime(size, *constants)
        lines.append([str(size), *shown, f"{count}/{of} [{low:.2f}, {high:.2f}]", regime])
    yield from _aligned(lines)


def _measured_lines(panel: Panel) -> Iterator[str]:
    taken, best = panel.taken("seconds").to_numpy(), panel.value("measured_fastest")
    if math.isnan(best):
        if fastest_batch_size.usable(taken).any():
            text = "the batch sizes that reached the target share no seed"
            yield f"  no fastest as measured: {text}"
        return
    yield f"  fastest as measured: {best:.0f}; seconds over its own, paired by seed:"
    ratios = fastest_batch_size.relative_to_fastest(taken, panel.differ("seconds"))
    parts = []
    for ratio, size in zip(ratios, panel.batch_sizes, strict=True):
        if size != best and math.isfinite(ratio.mean):
            ends = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.n > 1 else ""
            parts.append(f"{size}: {ratio.mean:.2f}{ends}")
    yield f"    {', '.join(parts)}"


def _closed_lines(panel: Panel) -> Iterator[str]:
    names = ("fixed_seconds", "seconds_per_image", "half_batch")
    fixed, per_image, half = map(panel.value, names)
    if math.isnan(half):
        if panel.known("seconds"):
            yield f"  no fastest size in closed form: {target_words.NO_LINE}"
        return
    fixed, per_image = (wording.number(1e3 * each) for each in (fixed, per_image))
    half = wording.number(half)
    yield f"  a step takes {fixed} ms + {per_image} ms per example (B_half {half})"
    if best := target_words.fastest(panel):
        names = ("fastest_seconds", "fastest_from", "fastest_to")
        seconds, low, high = (wording.number(panel.value(name)) for name in names)
        yield (
            f"  fastest in closed form: {best}; {seconds} s, within 10 % of it from {low} to {high}"
        )


def _aligned(lines: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        *numbers, words = line
        cells = [text.rjust(width) for text, width in zip(numbers, widths, strict=False)]
        yield f"  {'  '.join([*cells, words])}".rstrip()
