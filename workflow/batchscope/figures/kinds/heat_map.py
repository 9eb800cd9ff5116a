"""Heat map of batch size and learning rate: means of the cells, failures and chosen rates."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from batchscope.analysis import run_series
from batchscope.analysis.targets import Target
from batchscope.analysis.trainings import RUN_LOSS, Trainings, for_experiment
from batchscope.core import display
from batchscope.figures import FigureTables, canvas
from batchscope.figures.kinds.primary import TARGET_COLUMNS, deciding_outcomes, outcome_words
from batchscope.study import factor_maps, specifications
from batchscope.study.outcomes import COSTS, TARGET

_RATES = ["learning_rate", "effective_learning_rate"]  # before and after scaling
_COLUMNS = ["outcome", *TARGET_COLUMNS, "batch_size", *_RATES]
_COLUMNS += ["seeds", "finite", "failed", "mean", "chosen", "recommended"]
_MAX_SIZES_WITH_TEXT, _MAX_SIZES_WITH_THREE_DIGITS = 9, 6  # A cell of more sizes has no room.
_MAX_COST_RATIO = 4.0  # The light end of the colours has this ratio to the best mean.
# Cells are light with dark text on a dark page too, where canvas.INK would become light.
_BEST_TO_WORST = LinearSegmentedColormap.from_list("cost", ["#5ba3d0", "#f3f8fc"])
_NO_MEAN, _TEXT = "#e4e4e4", "#111111"
# Column -> label, colour and width of the frame of a cell.
_FRAMES = {"chosen": ("chosen rate", _TEXT, 1.4), "recommended": ("recommended", "#007a58", 3.0)}


def select(tables: FigureTables, spec: specifications.Figure) -> pandas.DataFrame:
    """Return a row per series, batch size and learning rate, if there is a choice of rates."""
    cells = []
    for _, factors, subset in tables.by_series("comparisons", "runs", "trajectories"):
        for outcome in deciding_outcomes(subset.advice)[:1]:
            for series in for_experiment(subset.runs, subset.trajectories, subset.metrics):
                shared = {**factors, **series.factors}
                cells += [{**shared, **cell} for cell in _cells(series, subset, outcome)]
    frame = pandas.DataFrame(cells)
    return frame if len(frame) and frame["mean"].notna().any() else frame.iloc[:0]


def _cells(series: Trainings, tables: FigureTables, outcome: str) -> Iterator[dict[str, Any]]:
    """Yield the cells of a series: costs to the target if they decide, or else losses."""
    if not series.has_several_rates:
        return
    compared = tables.comparisons
    compared = compared[compared["budget"].eq(TARGET) & compared["outcome"].eq(outcome)]
    if len(compared):
        value, column = compared[["budget_value", "budget_column"]].iloc[0]
        target = Target("" if pandas.isna(column) else column, value)
        shared = {"outcome": outcome, "target_column": target.column, "target_value": value}
        cell_values = target.cost_cube(series, outcome)
    else:
        shared = {"outcome": RUN_LOSS, **dict.fromkeys(TARGET_COLUMNS)}
        cell_values = series.column_cube(RUN_LOSS)
    advice = tables.advice.set_index("item")
    rates = advice.loc[["size"]].set_index("batch_size")["learning_rate"]
    recommended = advice["batch_size"].get("recommendation")
    effective_rates = run_series.rates_after_scaling(series.runs)
    for cell in series.cell_means(cell_values, geometric=shared["outcome"] in COSTS):
        size, rate = cell["batch_size"], cell["learning_rate"]
        chosen = rates.get(size) == rate
        cell |= {"chosen": int(chosen), "recommended": int(chosen and size == recommended)}
        yield {**shared, **cell, "effective_learning_rate": effective_rates.get((size, rate))}


def draw(frame: pandas.DataFrame, spec: specifications.Figure) -> Figure:
    """Return a panel for each of the first series."""
    factors = [name for name in frame if name not in _COLUMNS]
    groups = list(frame.groupby(factors, sort=False, dropna=False)) if factors else [((), frame)]
    groups = groups[: canvas.MAX_SERIES]
    count = max(cells["learning_rate"].nunique() for _, cells in groups)
    columns = min(len(groups), 2)
    figure, grid = canvas.panels(len(groups), columns, width=5.0, height=1.1 + 0.3 * count)
    for axes, (key, cells) in zip(grid, groups, strict=True):
        heading = outcome_words(cells.iloc[0])
        series = factor_maps.describe(dict(zip(factors, key, strict=True)))
        canvas.set_title(axes, display.titled(display.capital(heading), series))
        _draw_panel(axes, cells)
    canvas.draw_legend(figure, _legend_entries(frame))
    return figure


def _draw_panel(axes: Axes, cells: pandas.DataFrame) -> None:
    sizes, rates = (sorted(cells[name].unique()) for name in ("batch_size", "learning_rate"))
    cells = cells.assign(shade=_cell_colours(cells["mean"].to_numpy(float)))
    for _, cell in cells.sort_values(["chosen", "recommended"]).iterrows():
        x, y = sizes.index(cell["batch_size"]), rates.index(cell["learning_rate"])
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=cell["shade"], edgecolor="#ffffff"))
        for name, (_, colour, width) in _FRAMES.items():
            if cell[name]:
                corner = (x + 0.06, y + 0.1), 0.88, 0.8
                axes.add_patch(Rectangle(*corner, fill=False, edgecolor=colour, linewidth=width))
        if len(sizes) <= _MAX_SIZES_WITH_TEXT:
            text = _cell_text(cell, 3 if len(sizes) <= _MAX_SIZES_WITH_THREE_DIGITS else 2)
            props = {"color": canvas.FAILED_COLOUR if text == "failed" else _TEXT, "fontsize": 8}
            axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", **props)
    axes.set(xlim=(0, len(sizes)), ylim=(0, len(rates)))
    is_scaled = not np.allclose(*cells[_RATES].dropna().to_numpy(float).T)
    axes.set(xlabel="batch size", ylabel="learning rate" + " before scaling" * is_scaled)
    axes.set_xticks(np.arange(len(sizes)) + 0.5, [f"{size:.0f}" for size in sizes])
    axes.set_yticks(np.arange(len(rates)) + 0.5, [display.number(rate) for rate in rates])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _cell_colours(means: np.ndarray) -> list[str]:
    """Return the colour of each mean by its ratio to the smallest, on a logarithmic scale.

    If a mean is not positive, the scale is linear from the smallest to the largest mean.
    """
    finite = means[np.isfinite(means)]
    if len(finite) and finite.min() > 0:
        shares = np.log(means / finite.min()) / math.log(_MAX_COST_RATIO)
    else:
        shares = (means - finite.min(initial=np.inf)) / (np.ptp(finite) if len(finite) > 1 else 1.0)
    return [_NO_MEAN if math.isnan(share) else to_hex(_BEST_TO_WORST(share)) for share in shares]


def _cell_text(cell: pandas.Series, digits: int) -> str:
    """Return the mean of a cell; `failed` or `2/3` if not all seeds have a value."""
    if cell["failed"] == cell["seeds"]:
        return "failed"
    if cell["finite"] < cell["seeds"]:
        return f"{cell['finite']}/{cell['seeds']}"
    return display.number(cell["mean"], digits)


def _legend_entries(frame: pandas.DataFrame) -> list[tuple[Any, str]]:
    worst = f"{_MAX_COST_RATIO:.0f} × the best or more" if frame["mean"].min() > 0 else "worst"
    entries = [
        (Patch(facecolor=_BEST_TO_WORST(end), edgecolor=canvas.GRID), label)
        for end, label in ((0.0, "best"), (1.0, worst))
    ]
    partial = frame[frame["finite"].lt(frame["seeds"]) & frame["failed"].lt(frame["seeds"])]
    if len(partial):
        reached = "reached" if frame["outcome"].isin(COSTS).any() else "ended"
        entries.append((Patch(facecolor=_NO_MEAN), f"{_cell_text(partial.iloc[0], 2)} {reached}"))
    middle = _BEST_TO_WORST(0.5)
    entries += [
        (Patch(facecolor=middle, edgecolor=colour, linewidth=width), label)
        for name, (label, colour, width) in _FRAMES.items()
        if frame[name].any()
    ]
    return entries
