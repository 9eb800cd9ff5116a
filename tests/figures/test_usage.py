"""Utilisation, memory and throughput of commands: a line for each framework of the study."""

import itertools

import pandas

from batchscope import figures
from drawing import legend, titles

USED = {"process_percent": 0.05, "memory_peak_mb": 2.0, "examples_per_second": 50.0}


def runs(framework, scale, status="finished"):
    first = {"machine": "local", "own_framework": framework, "status": status}
    return [
        {**first, "batch_size": size, "seed": seed}
        | {name: scale * value * size for name, value in USED.items()}
        for size, seed in itertools.product((4, 64, 1024), (0, 1, 2))
    ]


def test_a_panel_has_a_line_for_each_framework_and_stars_of_the_published_values():
    rows = [*runs("jax", 1), *runs("pytorch", 2), *runs("mxnet", float("nan"), "not_installed")]
    tables = figures.FigureTables(runs=pandas.DataFrame(rows).assign(gpu_percent=float("nan")))
    figure = figures.FIGURES["usage"]
    numbers = pandas.DataFrame(
        {"figure": "usage", "document": "Table 1", "series": "jax", "own_framework": "jax"}
        | {"batch_size": [4, 64, 4096], "column": "utilisation_percent", "value": [20.0, 30.0, 9.0]}
    )
    drawing = figures.draw(figures.select(tables, figure), figure, numbers)
    assert titles(drawing) == ["CPU utilisation", "Resident memory", "Throughput"]
    (star,) = (line for line in drawing.axes[0].lines if line.get_marker() == "*")
    assert star.get_ydata().tolist() == [20, 30, 9]
    assert star.get_linestyle() != "None"  # the line style of its framework
    labels = legend(drawing)
    assert labels[:2] == ["framework jax", "framework pytorch"] and "Table 1" in labels[-1]
