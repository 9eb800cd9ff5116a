"""claims.csv from the tables of experiments, as they are written."""

from __future__ import annotations

import dataclasses

import pytest

import synthetic
from batchscope.catalogue.outcomes import Verdict
from batchscope.errors import UserError
from batchscope.study import claims
from batchscope.study.claims import Claim
from batchscope.tables import experiment_tables


def claim(kind, column, table="runs", **given) -> Claim:
    test = claims.Test(type=kind, experiment="gap", table=table, column=column, **given)
    return Claim(f"{table}_{kind}", "A document", "Figure 1", "It does.", test)


STATED = (
    claim("trend", "generalisation_gap", direction="rises"),
    claim("trend", "epoch_distance", "history", direction="falls", cells={"epoch": (1, 2)}),
    claim("value", "validation_loss", "trajectories", low=0.0, cells={"updates": (100,)}),
    claim("value", "test_accuracy", "at_epochs", low=0.0, cells={"at_epoch": (1, 5)}),
    claim("trend", "distance", "layers", direction="falls"),
    claim("trend", "ratio", "alignment", over="examples", direction="falls"),
    claim("comparison", "loss", "lines", cells={"split": ("train",)}, low=0.0,
          sides=({"alpha": (2.0,)}, {"alpha": (-1.0,)})),
    claim("trend", "loss", "landscapes", cells={"kind": ("line",), "a": (0.0,)}, direction="rises"),
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    planned = synthetic.study(synthetic.grid())
    synthetic.write(folder, planned)
    experiment_tables.write(folder, planned, "gap", folder / "tables" / "gap")
    return dataclasses.replace(planned, claims=STATED), folder / "tables"


@pytest.mark.slow
def test_every_table_of_trainings_can_be_stated_about(tables):
    planned, folder = tables
    found = experiment_tables.stated(planned, folder).set_index("id")
    assert (found["n"] == 6).all(), found["reason_of"].to_dict()
    sizes = len({run.partition("+bs=")[2].partition("+")[0] for run in synthetic.grid()})
    assert found["parts"].to_dict() == {
        "runs_trend": 1,
        "history_trend": 2,
        "trajectories_value": sizes,
        "at_epochs_value": 2 * sizes,
        "layers_trend": len(synthetic.LAYERS),
        "alignment_trend": 3 * sizes,
        "lines_comparison": 1,
        "landscapes_trend": 2,
    }
    assert (
        found["verdict"]["runs_trend"] == Verdict.SUPPORTED
        and found["unit"]["at_epochs_value"] == "share"
    )


@pytest.mark.slow
def test_it_is_written_whole_and_a_missing_table_is_named(tables, tmp_path):
    planned, folder = tables
    experiment_tables.write_claims(planned, folder, tmp_path / "claims.csv")
    header, *rows = (tmp_path / "claims.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("id,document,place,sentence,") and len(rows) == len(STATED)
    with pytest.raises(UserError, match=r"gap/runs\.csv"):
        experiment_tables.stated(planned, tmp_path)
