"""Rows of the ledger in words, from a row of claims.csv."""

import json

import pytest

from batchscope.catalogue import decision_columns
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.report import claim_rows


def written(kind="trend", column="x", cells=None, sides=None, part=None, **more):
    """Returns a row as the table has it: of an open trend of six seeds."""
    return dict.fromkeys(decision_columns.CLAIMS, "") | {
        **{"type": kind, "column": column, "table": "runs", "experiment": "gap"},
        **{"over": "batch_size", "scale": "difference", "high_bound": "0.0", "level": "0.0125"},
        **{"estimate": "0.02", "low": "-0.03", "high": "0.07", "parts": "1", "n": "6"},
        **{"replicates": "6", "p": "0.2", "p_against": "0.8", "verdict": Verdict.NOT_RESOLVED},
        **{"per": "doubling" if kind in ("trend", "interaction") else ""},
        **{
            name: json.dumps(each) if each else ""
            for name, each in (("cells", cells), ("sides", sides), ("part", part))
        },
        **more,
    }


def row(*given, **more):
    (found,) = claim_rows.build([written(*given, **more)], lambda *_: None)
    return found


@pytest.mark.parametrize(
    ("kind", "column", "low"),
    [("value", "sharpness_full_0.001", "0.000"), ("trend", "sharpness_full_0.001", "−0.030")],
)
def test_only_a_value_ends_where_its_column_does(kind, column, low):
    found = row(kind, column)["estimate"]
    assert (found.value, found.low, found.high) == ("0.020", low, "0.070")


@pytest.mark.parametrize(
    ("kind", "unit", "scale", "shown"),
    [
        ("trend", "share", "difference", ("2.0", "−3.0", "points")),
        ("value", "share", "difference", ("2.0", "−3.0", "%")),
        ("order", "%", "difference", ("0.020", "−0.030", "points")),
        ("value", "s", "difference", ("20", "−30", "ms")),
        ("order", "s", "ratio", ("0.020", "−0.030", "")),
    ],
)
def test_numbers_are_in_the_unit_of_their_column(kind, unit, scale, shown):
    found = row(kind, unit=unit, scale=scale)
    assert (found["estimate"].value, found["estimate"].low, found["unit_shown"]) == shown


SIDES = [{"batch_size": 4}, {"batch_size": [64, 128]}]


@pytest.mark.parametrize("kind", ["value", "trend", "equivalence", "exception", "argmax"])
@pytest.mark.parametrize("scale", ["difference", "ratio"])
def test_every_claim_is_stated_with_its_numbers(kind, scale):
    sides = SIDES[:1] if kind in ("exception", "argmax") else None
    found = row(kind, scale=scale, sides=sides, cells={"epoch": 5}, low_bound="-1.0")
    assert "epoch 5" in found["stated"] and found["coverage"] == "97.5 %"
    assert "0.020 [−0.030, 0.070]" in claim_rows.in_words(found)


@pytest.mark.parametrize("kind", ["comparison", "interaction", "order"])
def test_what_is_compared_is_named(kind):
    found = row(kind, sides=SIDES, part={"device": "cpu", "batch_size": [4, 64]}, parts="2")
    for words in ("batch size 4", "batch size 64 and 128"):
        assert words in found["stated"]
    assert found["decides"] == "CPU, batch size 4 against batch size 64, which decides among 2"


@pytest.mark.parametrize("reason", list(claim_rows.MISSING))
def test_every_reason_is_put_into_words(reason):
    found = row(verdict=Verdict.NOT_TESTABLE, reason=reason, reason_of='{"updates": 40}', n="")
    assert found["missing"] and "{" not in found["missing"]


def test_what_would_settle_it_is_counted():
    assert "about 15 seeds (6 here)" in row(seeds_to_resolve="15")["missing"]
    assert "would not help" in row()["missing"]
    few = row(verdict=Verdict.PROVISIONAL, n="3", replicates="6")
    assert "6 seeds (3 here)" in few["missing"] and few["survivors"].startswith("3 of 6 seeds")


def test_verdicts_are_counted_by_document_beside_its_level():
    given = [
        written(document="D", p="0.001", verdict=Verdict.SUPPORTED),
        written(document="D", verdict=Verdict.SUPPORTED, reason=Reason.NOT_AT_EVERY_STEP, p="0.02"),
        written(document="E", verdict=Verdict.ONE_SEED),
    ]
    first, second = claim_rows.by_document(claim_rows.build(given, lambda *_: None))
    assert (first["counts"], first["level"]) == ("2 supported", "alpha* 0.025")
    assert (second["counts"], second["level"]) == ("1 one seed", "")
    assert [each["css"] for each in first["rows"]] == ["supported"] * 2
    against = row(verdict=Verdict.CONTRADICTED, p_against="0.01")
    assert (against["p_shown"], bool(against["p_of"])) == ("0.010", True)
