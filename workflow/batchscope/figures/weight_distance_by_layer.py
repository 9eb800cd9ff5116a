"""Distance of each layer's weights from the initial ones against batch size."""

from __future__ import annotations

from dataclasses import replace

import pandas
from matplotlib.figure import Figure

from batchscope import wording
from batchscope.analysis import run_series, seed_pairs
from batchscope.figures import Tables
from batchscope.figures.drawing import against_batch_size, against_epoch, canvas
from batchscope.figures.drawing.against_batch_size import Panel

_COLUMNS = 4
_MOST = 24  # panels


def select(tables: Tables) -> pandas.DataFrame:
    """Returns one row per run and layer: factors, status and distances."""
    layers = against_batch_size.with_absent(tables.layers, tables.runs)
    layers["position"] = layers["position"].astype("Int64")
    columns = [*against_batch_size.factor_columns(layers), "position", "layer"]
    return layers[[*columns, "distance", "relative"]].reset_index(drop=True)


def draw(frame: pandas.DataFrame) -> Figure:
    """Returns the figure: one panel per layer, in the model's order."""
    layers = _layers(frame)
    shown = layers[:_MOST]
    count = max(1, len(shown))
    columns = min(_COLUMNS, count)
    figure, grid = canvas.some_panels(count, columns, width=2.5, height=2.1)
    groups = run_series.series(frame)
    handles: list = []
    finished = frame[frame["status"] == canvas.FINISHED]
    values = [finished.loc[finished["layer"] == layer, "distance"] for layer in shown]
    canvas.alike_scales(grid, values)
    for axes, layer in zip(grid, shown, strict=False):
        # Runs that failed have no layers; they are marked in every panel.
        chosen = frame[(frame["layer"] == layer) | frame["layer"].isna()]
        parts = [_of_layer(group, layer) for group in groups]
        panel = Panel("distance", layer, "‖w − w₀‖")
        handles = against_batch_size.draw_panel(axes, chosen, panel, parts)
    if not shown:
        canvas.empty(grid[0])
    for index, axes in enumerate(figure.axes):
        if index % columns:
            axes.set_ylabel("")
        if index < len(shown) - columns:
            axes.set_xlabel("")
    canvas.legend(figure, handles, [group.label for group in groups])
    cut = f"The first {_MOST} of {len(layers)} layers; all of them are in the CSV file."
    canvas.notes(figure, against_epoch.runs(frame), cut if layers[_MOST:] else "")
    return figure


def found(frame: pandas.DataFrame) -> str:
    """Returns the layers whose distance differs most and least between the ends."""
    groups = run_series.series(frame)
    ratios = {
        (layer, group.label): small / large
        for layer in _layers(frame)
        for group in groups
        if len(means := seed_pairs.by_batch_size(_of_layer(group, layer).frame, "distance")) > 1
        and (small := means[min(means)].interval.mean) > 0
        and (large := means[max(means)].interval.mean) > 0
    }
    if not ratios:
        return ""
    extremes = [
        f"{wording.number(ratios[at])} ({', '.join(filter(None, at))})"
        for at in (min(ratios, key=ratios.get), max(ratios, key=ratios.get))
    ]
    over = f"{len(_layers(frame))} layers" + (f" and {len(groups)} series" if groups[1:] else "")
    return (
        "The mean distance at the smallest batch size over that at the largest lay between "
        f"{extremes[0]} and {extremes[1]}, over {over}."
    )


def _of_layer(group: run_series.Series, layer: str) -> run_series.Series:
    return replace(group, frame=group.frame[group.frame["layer"] == layer])


def _layers(frame: pandas.DataFrame) -> list[str]:
    return list(frame.sort_values("position", kind="stable")["layer"].dropna().drop_duplicates())
