"""Made-up sweeps of throughput, and what is read off the figures drawn of them."""

import math

import numpy as np
import pandas

from batchscope import figures
from batchscope.catalogue import timing_columns
from drawing import drawn as draw
from drawing import reread

FACTORS = {
    "dataset": "patches",
    "dataset_digest": "1f0a93c2",
    "model": "benchmark_cnn",
    "optimizer": "sgd",
    "device": "cpu",
    "threads": 0,
    "momentum": 0.0,
    "nesterov": False,
    "replicas": 1,
    "loop": "graph",
    "input_pipeline": "plain",
    "delay_seconds": 0.0,
}
POWERS = (1, 2, 4, 8, 16, 32, 64)
DENSE = tuple(range(1, 67))
SPARSE = (1, 2, 4, 8, 12, 15, 16, 17, 18, 24, 31, 32, 33, 34, 48, 64, 66)
LOOPS = ("graph", "eager", "function", "fit", "fit_steps")


def line(a, b):
    return lambda size: a + b * size


def stairs(a, b, q):
    return lambda size: a + b * q * math.ceil(size / q)


def sweep(sizes=POWERS, time=None, machine="laptop", lost=(), disturbed=(), **other):
    """Returns the rows of throughput.csv and the row of sweeps.csv of one sweep.

    Args:
        time: Batch size -> seconds per step, 2 ms + 0.5 ms per example unless given; quartiles lie
            1 % around it.
        lost: Batch sizes that ran out of memory.
        disturbed: Batch sizes with two disturbed blocks of seven.
        other: Factors, and columns of sweeps.csv.
    """
    time = time or line(2e-3, 5e-4)
    first = {**FACTORS, **{name: other.pop(name) for name in FACTORS if name in other}}
    first |= {"machine": machine, "sweep": "+".join(str(value) for value in first.values())}
    rows = []
    for size in sizes:
        row = {**first, "batch_size": size, "status": "finished", "train_examples": 5000}
        if size in lost:
            rows.append(row | {"status": "out_of_memory", "blocks": 0, "disturbed_blocks": 0})
            continue
        row |= {"steps": 10, "blocks": 7, "disturbed_blocks": 2 if size in disturbed else 0}
        for end, factor in (("", 1.0), ("_q1", 0.99), ("_q3", 1.01)):
            row[f"seconds_per_step{end}"] = factor * time(size)
            row[f"iterations_per_second{end}"] = factor / time(size)
            row[f"images_per_second{end}"] = factor * size / time(size)
        rows.append(row)
    summary = {**first, "status": "finished", "sizes": len(sizes) - len(lost), **other}
    return rows, summary


def fitted(a, b, half=0.0, **other):
    """Returns the columns of a fit: intervals reach `half` of a value to either side."""
    found = {"half_batch": a / b if a > 0 else math.nan, "line_residual": 0.02}
    for name, value in (("fixed_seconds", a), ("seconds_per_image", b)):
        wide = half * abs(value)
        found |= {name: value, f"{name}_low": value - wide, f"{name}_high": value + wide}
    return {**found, "noise_floor": 1.03, **other}


def tables(*made):
    """Returns the tables of an experiment, as they are read back from CSV files."""
    rows = {
        "throughput": [row for part, _ in made for row in part],
        "sweeps": [summary for _, summary in made],
    }
    written = {}
    for name, found in rows.items():
        columns = [*timing_columns.FIRST, *timing_columns.COLUMNS[f"{name}.csv"]]
        written[name] = reread(pandas.DataFrame(found, columns=columns))
    return figures.Tables(**written)


def drawn(name, *made):
    drawing, frame = draw(name, tables(*made))
    return drawing, frame, figures.FIGURES[name].found(frame)


def levels(axes):
    """Returns the heights of the lines across a panel."""
    flat = [item for item in axes.lines if list(item.get_xdata()) == [0, 1]]
    return sorted(item.get_ydata()[0] for item in flat)


def points(axes):
    """Returns the medians of every series: a list of x and y."""
    return [container.lines[0].get_data() for container in axes.containers]


def bars(container):
    """Returns the ends of the error bars, shape (points, 2 ends, x and y)."""
    return np.array(container.lines[2][0].get_segments())


LIMITS = {
    "plateau_images_per_second": 1900.0,
    "knee_fitted": 36.0,
    "knee_fitted_low": 32.0,
    "knee_fitted_high": 40.5,
    "knee_batch_size": 48,
    "still_rising": False,
    "ceiling_images_per_second": 2500.0,
    "share_of_ceiling": 0.76,
    "noise_floor": 1.034,
    "step_verdict": "No steps seen: a straight line, 0.50% residual.",
}
