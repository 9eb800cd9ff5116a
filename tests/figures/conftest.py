"""The tables that most figures of trainings are drawn from."""

import pytest

import synthetic
from made_figures import RATES, tables_of


@pytest.fixture(scope="session")
def two_rates(tmp_path_factory):
    """Tables of 5 batch sizes, 6 seeds and 2 rates, with every kind of failure."""
    runs = synthetic.grid(cases=RATES)
    failed = {run: "diverged" for run in synthetic.grid([256], [0, 1], RATES[1:])}
    failed |= {run: "missing" for run in synthetic.grid([64], [5], RATES)}
    failed |= {run: "out_of_memory" for run in synthetic.grid([256], [5], RATES[:1])}
    return tables_of(tmp_path_factory.mktemp("two_rates"), runs, failed, patience=True)
