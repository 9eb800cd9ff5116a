"""The tables that most figures of trainings are drawn from."""

import pytest

import made_figures
import synthetic
from batchscope import figures


@pytest.fixture(scope="session")
def two_rates(tmp_path_factory):
    """The tables of single runs of `made_figures.two_rates`."""
    only = ("runs", "history", "layers", "updates", "alignment", "published")
    return made_figures.two_rates(tmp_path_factory.mktemp("two_rates"), only)


@pytest.fixture(scope="session")
def all_finished():
    """Runs of 3 batch sizes, 2 seeds and 2 rates."""
    return synthetic.grid([16, 32, 64], range(2), made_figures.RATES)


@pytest.fixture(scope="session")
def finished_tables(all_finished, tmp_path_factory):
    """All tables of `all_finished`."""
    folder = tmp_path_factory.mktemp("all_finished")
    return figures.read(made_figures.tables_of(folder, all_finished))
