"""The reference page is what the specifications say, and `explain` prints its entries."""

import pytest

from batchscope.cli import reference
from batchscope.core.errors import UserError
from batchscope.study import decision_columns
from batchscope.study.specifications import Table
from batchscope.study.table_entries import TABLES
from project import ROOT

PAGE = ROOT / "docs" / "reference.md"


def test_the_page_is_printed():
    same = PAGE.read_text(encoding="utf-8") == reference.full_page()
    assert same, "Run `python workflow/run.py explain > docs/reference.md`."


@pytest.mark.parametrize("name", ["batch_size", "loop", "hessian", "throughput", "status"])
def test_the_entries_of_a_name_are_printed(name):
    text = reference.entries(name)
    assert f"`{name}`" in text or f"### {name}" in text
    assert len(text) < len(reference.full_page()) / 4


def test_a_column_with_settings_in_its_name_is_explained():
    text = reference.entries("sharpness_full_0.001")
    assert text.startswith("### sharpness\n") and "`sharpness_{spaces}_{epsilons}`" in text


@pytest.mark.slow
def test_every_column_of_every_table_is_explained():
    tables = {**TABLES, "claims": Table(decision_columns.CLAIMS)}
    columns = {name: table.columns for name, table in tables.items() if table.columns}
    assert set(tables) - set(columns) == {"runs", "limits", "published"}
    for name, table_columns in columns.items():
        assert reference.entries(f"{name}.csv").startswith(f"### {name}.csv\n")
        for column in table_columns:
            assert f"`{column}`" in reference.entries(column)
    assert "### comparisons.csv" in reference.entries("still_falling")


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="received 'hesian'.*Did you mean 'hessian'"):
        reference.entries("hesian")
