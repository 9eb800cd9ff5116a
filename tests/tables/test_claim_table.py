"""claims.csv from the tables of experiments, as they are written."""

from __future__ import annotations

import dataclasses

import pytest

import made_claims
import synthetic
from batchscope.core.errors import UserError
from batchscope.study.claims import Claim
from batchscope.tables import experiment_tables


def claim(kind, column, table="runs", **given) -> Claim:
    return made_claims.claim(f"{table}_{kind}", kind, table=table, column=column, **given)


STATED = (
    claim("trend", "generalisation_gap", direction="rises"),
    claim("value", "validation_loss", "trajectories", above=0.0, cells={"updates": (100,)}),
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    planned = synthetic.study(synthetic.grid())
    synthetic.write(folder, planned)
    experiment_tables.write(folder, planned, "gap", folder / "tables" / "gap")
    return dataclasses.replace(planned, claims=STATED), folder / "tables"


@pytest.mark.slow
def test_it_is_written_whole_and_a_missing_table_is_named(tables, tmp_path):
    planned, folder = tables
    experiment_tables.write_claims(planned, folder, tmp_path / "claims.csv")
    header, *rows = (tmp_path / "claims.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("id,document,place,sentence,") and len(rows) == len(STATED)
    with pytest.raises(UserError, match=r"gap/runs\.csv"):
        experiment_tables.write_claims(planned, tmp_path, tmp_path / "claims.csv")
