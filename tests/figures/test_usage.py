"""Utilisation, memory and throughput of commands: a line for each framework of the study."""

from __future__ import annotations

import pandas
import pytest

from batchscope import figures

pytestmark = pytest.mark.slow

SIZES, SEEDS = (4, 64, 1024), (0, 1, 2)


def runs(framework: str, status: str = "finished", **columns: float) -> list[dict]:
    first = {"machine": "local", "own_framework": framework, "status": status}
    return [
        {**first, "batch_size": size, "seed": seed, **{k: v * size for k, v in columns.items()}}
        for size in SIZES
        for seed in SEEDS
    ]


def test_frameworks_stand_in_the_panels_of_what_was_measured():
    used = {"process_percent": 0.05, "memory_peak_mb": 2.0, "examples_per_second": 50.0}
    rows = [
        *runs("jax", **used),
        *runs("pytorch", **{name: 2 * value for name, value in used.items()}),
        *runs("mxnet", "not_installed"),
    ]
    tables = figures.FigureTables(runs=pandas.DataFrame(rows).assign(gpu_percent=float("nan")))
    figure = figures.FIGURES["usage"]
    frame = figures.select(tables, figure)
    numbers = pandas.DataFrame(
        {"figure": "usage", "document": "Table 1", "series": "jax", "own_framework": "jax"}
        | {"batch_size": [4, 64, 4096], "column": "utilisation_percent", "value": [20.0, 30.0, 9.0]}
    )
    drawing = figures.draw(frame, figure, numbers)
    titles = [axes.get_title("left") for axes in drawing.axes]
    assert titles == ["CPU utilisation", "Resident memory", "Throughput"]
    stars = {
        axes.get_title("left"): line
        for axes in drawing.axes
        for line in axes.lines
        if line.get_marker() == "*"
    }
    assert stars.keys() == {"CPU utilisation"}
    assert stars["CPU utilisation"].get_ydata().tolist() == [20, 30, 9]
    assert stars["CPU utilisation"].get_linestyle() != "None"  # that of its framework
    labels = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert labels[:2] == ["framework jax", "framework pytorch"] and "Table 1" in labels[-1]
