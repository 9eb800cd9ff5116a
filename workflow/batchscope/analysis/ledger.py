"""The ledger: what the runs say of every sentence that documents state, with a verdict.

What one document states in one study is a family of tests: Holm's adjustment runs over it, once for
what is stated and once for the contrary. A verdict needs six replicates, and of Page's test as many
as its smallest p needs among the family's tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import (
    claim_cells,
    claim_gaps,
    claim_power,
    claim_tests,
    claim_words,
    intervals,
    paired_tests,
    run_series,
)
from batchscope.analysis.claim_tests import Found
from batchscope.catalogue import outcomes, tables
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.host import absence
from batchscope.study.claims import GPU, MACHINE, Claim, seeds_needed

HELD, NOT_HELD, NOT_RESOLVED = "held", "not held", "not resolved"
UNTESTED = "cannot be tested here"
VERDICTS = (HELD, NOT_HELD, NOT_RESOLVED, UNTESTED)

_TOO_MANY = 1000  # seeds or jobs that nobody makes


@dataclass(frozen=True)
class _Judged:
    """A claim before any adjustment.

    Attributes:
        found: What the rows say; None where they say nothing.
        missing: Why it cannot be tested; empty where it can.
        positions: How many values its factor has in the rows.
        doublings: Whether its slopes are per doubling, or per unit.
        survivors: How many replicates of how many it is decided by; empty for all.
    """

    claim: Claim
    found: Found | None
    missing: str
    positions: int
    doublings: bool
    survivors: str


def table(
    claims: Iterable[Claim], read: Callable[[str, str], pandas.DataFrame], machine: str
) -> pandas.DataFrame:
    """Returns one row per claim, in order; see `CLAIMS`.

    Args:
        read: (experiment, table) -> its rows.
        machine: This machine, on which claims are tested that name none.
    """
    judged = [
        _judge(claim, read(claim.test.experiment, claim.test.file), machine) for claim in claims
    ]
    rows: dict[int, dict[str, Any]] = {}
    for document in {one.claim.document for one in judged}:
        family = [one for one in judged if one.claim.document == document]
        rows |= dict(zip(map(id, family), _family(family), strict=True))
    return run_series.table([rows[id(one)] for one in judged], CLAIMS)


def _judge(claim: Claim, frame: pandas.DataFrame, machine: str) -> _Judged:
    test = claim.test
    if "machine" in frame and not any("machine" in cells for cells in test.selections()):
        frame = frame[frame["machine"] == machine]
    rows = claim_cells.rows(frame, test)
    parts = claim_cells.parts(rows, test) if len(rows) and test.column in rows else []
    found = claim_tests.every(parts) if parts else None
    positions = rows[test.over].nunique() if test.over in rows else 1
    missing = _missing(claim, frame, rows, found)
    survivors = claim_gaps.survivors(rows, test, found.tested.n) if found and not missing else ""
    doublings = claim_cells.doublings(rows, test)
    return _Judged(claim, found, missing, positions, doublings, survivors)


def _missing(
    claim: Claim, frame: pandas.DataFrame, rows: pandas.DataFrame, found: Found | None
) -> str:
    """Returns what a test, of some rows of a table, lacks beside replicates; empty for nothing."""
    test = claim.test
    absent = claim_cells.absent(frame, test)
    undecidable = "" if absent else claim_gaps.undecidable(rows, test)
    if found is not None and found.tested.n > 0 and not absent:
        return undecidable
    if claim.requires == MACHINE:
        return "the results of a second machine"
    statuses = set(rows["status"]) if "status" in rows else set()
    if claim.requires == GPU or absence.NO_GPU in statuses:
        several = any("replicas" in cells for cells in test.selections())
        return "several GPUs" if several else "a GPU"
    if absence.NO_CORES in statuses:
        return "as many cores as threads"
    if absence.NOT_INSTALLED in statuses:
        lacking = rows.loc[rows["status"] == absence.NOT_INSTALLED, "framework"].unique()
        return f"an installation of {wording.listed(lacking)}"
    if frame.empty:
        return f"results of {test.experiment}"
    if absent:
        return f"not in the grid of {test.experiment}: {absent}"
    if found is None:
        return f"a grid of {test.experiment} with these cells"
    if undecidable:
        return undecidable
    lacking = f": {found.deciding}" if found.deciding else ""
    return f"a finished run with a value in every cell{lacking}"


def _family(judged: Sequence[_Judged]) -> list[dict[str, Any]]:
    """Returns the rows of what one document states."""
    least = outcomes.LEAST_SEEDS
    open_ = [one for one in judged if not one.missing and one.found.tested.n >= least]
    needed = {id(one): seeds_needed(one.claim.test, one.positions, len(open_)) for one in judged}
    tested = [one for one in open_ if one.found.tested.n >= needed[id(one)]]
    p_holm, against = (
        dict(zip(map(id, tested), paired_tests.holm(values), strict=True))
        for values in (
            [one.found.tested.p for one in tested],
            [one.found.tested.p_against for one in tested],
        )
    )
    # Whatever becomes of the other open ones, Holm's method tests one at no less than this.
    levels = [
        outcomes.LEVEL / max(1, sum(p >= outcomes.LEVEL for p in found.values()))
        for found in (p_holm, against)
    ]
    rows = []
    for one in judged:
        p, contrary = (found.get(id(one), math.nan) for found in (p_holm, against))
        verdict, missing = UNTESTED, one.missing
        if p < outcomes.LEVEL:
            verdict = HELD
        elif contrary < outcomes.LEVEL:
            verdict = NOT_HELD
        elif id(one) in p_holm:
            verdict, missing = NOT_RESOLVED, _wanted(one, *levels)
        elif not missing:
            found = f"{_replicates(one.claim)} ({one.found.tested.n} here)"
            missing = f"at least {needed[id(one)]} {found}"
        rows.append(
            {
                **_row(one),
                "p_holm": p,
                "p_against_holm": contrary,
                "verdict": verdict,
                "missing": missing,
            }
        )
    return rows


def _replicates(claim: Claim) -> str:
    """Returns what repeats a claim."""
    return "timing jobs of every configuration" if claim.test.timed else "seeds"


def _wanted(one: _Judged, level: float, contrary: float) -> str:
    """Returns how many replicates would decide an open claim, in words.

    It is tested at `level`, its contrary at `contrary`.
    """
    of, n = _replicates(one.claim), one.found.tested.n
    parts = one.found.tested.found
    found = claim_power.replicates_wanted(parts, level, contrary)
    if found is None:
        mixed = [part for part in parts if isinstance(part, claim_power.Order) and part.mixed]
        if any(part.flat for part in mixed):
            return f"no change was found; were there none, more {of} would not help"
        why = "it lies this near to its bound"
        if mixed:
            why = "its order, which is tested, and its slope do not go the same way"
        return f"more {of} would not help, were the effect as found: {why}"
    wanted, way = found
    shown = "" if way == claim_power.HOLDS else " to show the contrary"
    many = f"more than {_TOO_MANY:,}" if wanted > _TOO_MANY else f"about {max(wanted, n + 1)}"
    return f"{many} {of} ({n} here){shown}, were the effect as found"


def _row(one: _Judged) -> dict[str, Any]:
    """Returns a row's columns before any verdict."""
    claim, test = one.claim, one.claim.test
    about = tables.column(test.table, test.column)
    row: dict[str, Any] = {
        **{name: getattr(claim, name) for name in ("id", "document", "place", "sentence")},
        **{name: getattr(test, name) for name in ("type", "experiment", "table", "column")},
        "stated": claim_words.stated(test, one.doublings),
        "cells": claim_words.cells(test.cells),
        "effect_is": claim_words.effect(test, one.doublings),
        "unit": about.unit if about and not claim_words.is_ratio(test) else "",
        "figure": claim.figure,
    }
    if one.found is not None:
        tested = one.found.tested
        row |= {"part": one.found.deciding, "parts": one.found.parts, "n": tested.n, "p": tested.p}
        row |= intervals.columns("effect", (tested.effect, tested.low, tested.high))
        row["survivors"] = one.survivors
    return row
