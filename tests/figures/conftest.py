"""The tables that most figures of trainings are drawn from."""

import pytest

import made_figures
import synthetic
from batchscope import figures


@pytest.fixture(scope="session")
def two_rates(tmp_path_factory):
    """The folder with tables of single runs of `made_figures.two_rates`."""
    measures = ("evaluate", "weight_distance", "displacement", "gradient_alignment", "time_epoch")
    only = ("runs", "history", "updates", "alignment")
    return made_figures.two_rates(tmp_path_factory.mktemp("two_rates"), measures, only)


@pytest.fixture(scope="session")
def finished_tables(tmp_path_factory):
    """All tables of runs of 3 batch sizes, 2 seeds and 2 rates."""
    runs = synthetic.grid([16, 32, 64], range(2), made_figures.RATES)
    measures = ("evaluate", "landscape", "line", "time_epoch")
    folder = tmp_path_factory.mktemp("finished")
    return figures.FigureTables(made_figures.tables_of(folder, runs, measures=measures))
