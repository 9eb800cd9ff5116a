"""The reference page is what the specifications say, and one entry of it can be asked for."""

from pathlib import Path

import pytest

from batchscope.cli import reference
from batchscope.errors import UserError
from batchscope.study import decision_columns
from batchscope.study.specifications import Table
from batchscope.study.tables import TABLES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"


def test_the_page_is_printed():
    same = PAGE.read_text(encoding="utf-8") == reference.whole()
    assert same, "Run `python workflow/run.py explain > docs/reference.md`."


@pytest.mark.parametrize("name", ["batch_size", "loop", "hessian", "throughput", "status"])
def test_an_entry_is_printed_alone(name):
    text = reference.one(name)
    assert f"`{name}`" in text or f"### {name}" in text
    assert len(text) < len(reference.whole()) / 4


@pytest.mark.slow
def test_every_column_of_every_table_is_on_the_page_and_can_be_asked_for():
    page = reference.whole()
    tables = {**TABLES, "claims": Table(decision_columns.CLAIMS)}
    described = {name: table.columns for name, table in tables.items() if table.columns}
    assert set(tables) - set(described) == {"runs", "limits", "published"}
    for name, found in described.items():
        section = page.split(f"### {name}.csv")[1].split("\n#")[0]
        assert reference.one(f"{name}.csv") in section + "\n"
        for column in found:
            assert f"`{column}`" in page and f"`{column}`" in reference.one(column)
    assert "comparisons.csv:" in reference.one("still_falling")


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="received 'hesian'.*Did you mean 'hessian'"):
        reference.one("hesian")
