"""Made-up sweeps of throughput, and what is read off the figures drawn of them."""

import math

import pandas

from batchscope import figures
from batchscope.study import run_factors
from batchscope.study.tables import TIMING_FIRST_COLUMNS, TIMING_TABLES
from drawing import drawn as drawing_of
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
LOOPS = ("graph", "eager", "function", "fit", "fit_steps")


def line(a, b):
    return lambda size: a + b * size


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
            row[f"examples_per_second{end}"] = factor * size / time(size)
        rows.append(row)
    summary = {**first, "status": "finished", **other}
    return rows, summary


def fitted(a, b, half=0.0, **other):
    """Returns the columns of a fit: intervals reach `half` of a value to either side."""
    found = {"half_batch": a / b if a > 0 else math.nan, "line_residual": 0.02}
    for name, value in (("fixed_seconds", a), ("seconds_per_image", b)):
        wide = half * abs(value)
        found |= {name: value, f"{name}_low": value - wide, f"{name}_high": value + wide}
    return {**found, "noise_floor": 1.03, **other}


def first(**given):
    """Returns what a row of a table of timings is of."""
    factors = {name: factor.default for name, factor in run_factors.SWEEP_FACTORS.items()}
    del factors["batch_size"]
    factors |= {"machine": "laptop", "dataset": "digits", "model": "cnn", "optimizer": "sgd"}
    factors |= {"dataset_digest": "12345678", "model_digest": "", "device": "cpu", "threads": 0}
    factors |= given
    factors["sweep"] = "+".join(str(value) for value in factors.values())
    return {name: factors[name] for name in TIMING_FIRST_COLUMNS}


def tables_of(**rows):
    """Returns an experiment's tables of timings, as they are read back from CSV files."""
    written = {}
    for name in ("throughput", "sweeps", "utilisation", "samples", "largest", "profiles"):
        columns = [*TIMING_FIRST_COLUMNS, *TIMING_TABLES[name].columns]
        written[name] = reread(pandas.DataFrame(rows.get(name, []), columns=columns))
    return figures.FigureTables(**written)


def tables(*made):
    """Returns the tables of sweeps."""
    rows = [row for part, _ in made for row in part]
    return tables_of(throughput=rows, sweeps=[summary for _, summary in made])


def drawn(name, *made):
    """Returns a figure drawn from its own CSV alone, and that frame."""
    return drawing_of(name, tables(*made))


def points(axes):
    """Returns the medians of every series: a list of x and y."""
    return [container.lines[0].get_data() for container in axes.containers]


LIMITS = {
    "plateau_examples_per_second": 1900.0,
    "knee_fitted": 36.0,
    "knee_fitted_low": 32.0,
    "knee_fitted_high": 40.5,
    "knee_batch_size": 48,
    "still_rising": False,
    "noise_floor": 1.034,
}
