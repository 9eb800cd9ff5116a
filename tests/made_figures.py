"""Figures of trainings, of tables that are made up."""

import synthetic
from batchscope import figures
from batchscope.study.registry import SWEEP_TIMINGS

RATES = [{"learning_rate": 0.05}, {"learning_rate": 0.1}]
# Figures of trainings; those of timings are tested beside their own tables.
NAMES = [
    name
    for name, figure in figures.FIGURES.items()
    if not set(figure.measures) & set(SWEEP_TIMINGS)
]


def tables_of(folder, runs, failed=None, patience=False, measures=None, only=()):
    """Writes a made-up experiment; returns the folder of its tables, all or some.

    Args:
        measures: Names of its measures; all where left out.
    """
    measures = synthetic.MEASURES if measures is None else measures
    planned = synthetic.study(runs, {name: synthetic.MEASURES[name] for name in measures})
    synthetic.write(folder / "results", planned, failed, patience)
    synthetic.tabulate(folder / "results", planned, folder / "tables", only)
    return folder / "tables"


def two_rates(folder, measures=None, only=()):
    """Tables of 5 batch sizes, 6 seeds and 2 rates, with every kind of failure."""
    runs = synthetic.grid(cases=RATES)
    failed = {run: "diverged" for run in synthetic.grid([256], [0, 1], RATES[1:])}
    failed |= {run: "missing" for run in synthetic.grid([64], [5], RATES)}
    failed |= {run: "out_of_memory" for run in synthetic.grid([256], [5], RATES[:1])}
    return tables_of(folder, runs, failed, True, measures, only)


def frame_of(name, folder):
    figure = figures.FIGURES[name]
    return figure, figures.select(figures.FigureTables(folder), figure)


def drawing_of(name, folder):
    figure, frame = frame_of(name, folder)
    return figures.draw(frame, figure), frame
