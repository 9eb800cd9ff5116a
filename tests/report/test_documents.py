"""Claims and published values of documents, as templates show them."""

import json
import math
from types import SimpleNamespace

import pytest

import small_study
from batchscope.report import documents, rendering
from batchscope.study import decision_columns, planner
from batchscope.study.outcomes import Reason, Verdict
from html_page import Page


def written(kind="trend", column="x", cells="", sides="", part="", **more):
    """Returns a row as the table has it: of an open trend of six seeds."""
    return dict.fromkeys(decision_columns.CLAIMS, "") | {
        **{"type": kind, "column": column, "table": "runs", "experiment": "gap"},
        **{"over": "batch_size", "scale": "difference", "high_bound": "0.0", "level": "0.0125"},
        **{"estimate": "0.02", "low": "-0.03", "high": "0.07", "parts": "1", "n": "6"},
        **{"replicates": "6", "p": "0.2", "p_against": "0.8", "verdict": Verdict.NOT_RESOLVED},
        **{"per": "doubling" if kind in ("trend", "interaction") else ""},
        **{"cells": cells and json.dumps(cells), "sides": sides and json.dumps(sides)},
        **{"part": part and json.dumps(part), **more},
    }


def row(*given, **more):
    return documents.described_claim(written(*given, **more))


def page_of(*rows):
    """Return the section of some rows, with their figure."""
    links = {("gap", ""): ("Figure 1", "#figure-1")}
    return Page(rendering.render("claims.html.j2", section=documents.claims(rows, links)))


@pytest.mark.parametrize(("kind", "low"), [("value", "0.000"), ("trend", "−0.030")])
def test_only_a_value_ends_where_its_column_does(kind, low):
    found = row(kind, "sharpness_full_0.001")["estimate"]
    assert (found.value, found.low, found.high) == ("0.020", low, "0.070")


@pytest.mark.parametrize(
    ("kind", "unit", "scale", "texts"),
    [
        ("trend", "share", "difference", ("2.0", "−3.0", "points")),
        ("value", "share", "difference", ("2.0", "−3.0", "%")),
        ("order", "%", "difference", ("0.020", "−0.030", "points")),
        ("order", "s", "ratio", ("0.020", "−0.030", "")),
    ],
)
def test_numbers_are_in_the_unit_of_their_column(kind, unit, scale, texts):
    claim = row(kind, unit=unit, scale=scale)
    assert (claim["estimate"].value, claim["estimate"].low, claim["unit"]) == texts


KINDS = ["value", "trend", "equivalence", "exception", "argmax", "comparison", "interaction"]


@pytest.mark.parametrize("kind", [*KINDS, "order"])
def test_every_claim_is_stated_with_its_cells_and_numbers(kind):
    sides = [{"batch_size": 4}, {"batch_size": [64, 128]}]
    given = {"scale": "ratio", "low_bound": "-1.0", "sides": sides, "cells": {"epoch": 5}}
    part = {"device": "cpu", "batch_size": [4, 64]}
    text = page_of(written(kind, **given, part=part, parts="2")).text
    assert "(epoch 5)" in text and "97.5 %" in text and "0.020" in text
    assert "CPU, batch size 4 against batch size 64" in text
    has_two_sides = kind in ("comparison", "interaction", "order")
    assert ("batch size 64 and 128" in text) == has_two_sides


@pytest.mark.parametrize("verdict", [each for each in Verdict if each not in ("within", "beyond")])
@pytest.mark.parametrize("table", ["runs", "throughput"])
def test_every_verdict_has_words(verdict, table):
    given = {"reason": Reason.NO_GPU, "p_against": "0.01", "table": table}
    text = page_of(written(verdict=verdict, **given)).text
    assert (" 0.010 " in text) == (verdict == Verdict.CONTRADICTED)


def test_every_reason_of_claims_has_words():
    reasons = [Reason.NO_BUDGET, Reason.NOT_POSITIVE, Reason.NO_VALUE, Reason.NOT_IN_GRID]
    reasons += [Reason.NO_GPU, Reason.FEW_GPUS, Reason.NO_MACHINE, Reason.NO_CORES]
    for reason in (*reasons, Reason.NO_RESULTS, Reason.NOT_INSTALLED):
        cells = json.dumps({"own_framework": ["jax"]})
        given = {"reason": reason, "reason_of": cells, "n": "", "estimate": ""}
        text = page_of(written(verdict=Verdict.NOT_TESTABLE, **given)).text
        assert ": framework jax" in text


def test_seeds_that_would_decide_are_counted():
    assert row(seeds_to_resolve="15")["seeds_needed"] == 15 and row()["seeds_needed"] == 0
    assert row(verdict=Verdict.PROVISIONAL, n="3", replicates="6")["incomplete"]
    assert not row()["incomplete"]


def test_verdicts_are_counted_by_document():
    rows = [
        written(document="D", verdict=Verdict.SUPPORTED),
        written(document="D", verdict=Verdict.SUPPORTED, experiment="second"),
        written(document="<E>", verdict=Verdict.ONE_SEED),
    ]
    section = documents.claims(rows, {})
    assert [group["verdicts"] for group in section] == [{"supported": 2}, {"one_seed": 1}]
    html = rendering.render("claims.html.j2", section=section)
    assert html.count("<table") == 2 and "<E>" not in html


def test_ours_and_theirs_stand_side_by_side():
    first = {"column": "test_accuracy", "value": 0.55, "series": "SGD <1>", "document": "Table 4"}
    first |= {"figure": "accuracy", "batch_size": 16, "here_n": 6, "here_reason": math.nan}
    ours = {"here": 0.6, "here_low": 0.5, "here_high": 0.7}
    values = [(ours, ("Figure 3", "#figure-3")), (dict.fromkeys(ours, math.nan), None)]
    row, absent = (
        {**documents.described_value({**first, **given}), "experiment": "Ours", "link": link}
        for given, link in values
    )
    assert (row["published"], row["unit"], row["here"]) == ("55", "%", ("60", "50", "70"))
    assert absent["here"] is None
    stated = {"digits": {"examples": 23262, "place": "Setup"}}
    study = planner.make(small_study.config(published=stated))
    datasets = dict.fromkeys(study.datasets, {"counts": {"test": 355}})
    inputs = SimpleNamespace(study=study, datasets=datasets, experiments={})
    beside = documents.published_values(inputs, {}) | {"measured": [row], "absent": [absent]}
    parsed = Page(rendering.render("published.html.j2", section=beside))
    assert len(parsed.all("table")) == 2 and "SGD <1>" in parsed.text and "23,262" in parsed.text
    assert "here 355 test" in parsed.text
    assert [each["href"] for each in parsed.all("a")] == ["#figure-3"]
