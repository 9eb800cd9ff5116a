"""Rows of the ledger, from a row of claims.csv."""

import pytest

from batchscope.catalogue import decision_columns
from batchscope.report import claim_rows


def row(kind, column, **more):
    row = dict.fromkeys(decision_columns.CLAIMS, "") | {
        **{"type": kind, "column": column, "unit": "", "verdict": "not resolved"},
        **{"effect": "0.02", "effect_low": "-0.03", "effect_high": "0.07", **more},
    }
    (found,) = claim_rows.build([row], lambda *_: None)
    return found


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
    found = row(kind, column)["estimate"]
    assert (found.value, found.low, found.high) == ("0.020", low, "0.070")


@pytest.mark.parametrize(
    ("kind", "unit", "effect", "expected"),
    [
        ("trend", "share", -0.0132, "−1.32 [−1.44, −1.20] points"),
        ("value", "share", 0.9346, "93.46 [93.34, 93.58] %"),
        ("comparison", "%", 1.73, "1.7300 [1.7288, 1.7312] points"),
        ("value", "s", 1.73, "1.7300 [1.7288, 1.7312] s"),
    ],
)
def test_shares_are_in_per_cent_and_their_differences_in_points(kind, unit, effect, expected):
    ends = {"effect_low": str(effect - 0.0012), "effect_high": str(effect + 0.0012)}
    found = row(kind, "", unit=unit, effect=str(effect), effect_is="of it", **ends)
    assert claim_rows.in_words(found) == f"of it {expected}, 90 % interval"


def test_short_times_are_reported_in_milliseconds():
    text = claim_rows.in_words(row("value", "recovered_delay_seconds", unit="s", effect_is="mean"))
    assert text == "mean 20 [\N{MINUS SIGN}30, 70] ms, 90 % interval"
    long = row("value", "training_seconds", unit="s", effect_is="mean", effect_high="2.07")
    assert claim_rows.in_words(long).endswith("2.07] s, 90 % interval")


def test_the_cells_of_a_test_are_named():
    text = claim_rows.in_words(row("comparison", "x", effect_is="ratio", cells="epoch 5 (mean)"))
    assert text.endswith("90 % interval, epoch 5 (mean)")
    text = claim_rows.in_words(row("comparison", "x", cells="epoch 5", part="epoch 5", parts="2"))
    assert text.endswith("90 % interval, epoch 5, which decides among 2")  # and not twice
    everywhere = row("comparison", "x", effect_is="ratio")
    assert claim_rows.in_words(everywhere).endswith("90 % interval")


def test_the_seeds_that_finished_are_counted():
    found = row("trend", "x", survivors="6 of 12 seeds finished in every cell")
    assert claim_rows.in_words(found).endswith("; 6 of 12 seeds finished in every cell")


def test_the_part_that_decides_is_named():
    text = claim_rows.in_words(row("trend", "x", part="batch size 50", parts="3"))
    assert text.endswith(", batch size 50, which decides among 3")
    assert row("trend", "x", parts="3")["decides"] == "which decides among 3"
