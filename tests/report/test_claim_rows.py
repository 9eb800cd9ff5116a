"""Rows of the ledger, from a row of claims.csv."""

import pytest

from batchscope.analysis import ledger
from batchscope.report import claim_rows


def shown(kind, column):
    row = dict.fromkeys(ledger.COLUMNS, "") | {
        **{"type": kind, "column": column, "unit": "", "verdict": "not resolved"},
        **{"effect": "0.02", "effect_low": "-0.03", "effect_high": "0.07"},
    }
    (found,) = claim_rows.build([row], lambda *_: None)
    return found["estimate"]


@pytest.mark.parametrize(
    ("kind", "column", "low"),
    [
        ("value", "sharpness_full_0.001", "0.000"),
        ("value", "recovered_delay_seconds", "\N{MINUS SIGN}0.030"),
        ("trend", "sharpness_full_0.001", "\N{MINUS SIGN}0.030"),
    ],
)
def test_only_a_value_ends_where_its_column_does(kind, column, low):
    """A trend is a difference, which may well be negative."""
    found = shown(kind, column)
    assert (found.value, found.low, found.high) == ("0.020", low, "0.070")
