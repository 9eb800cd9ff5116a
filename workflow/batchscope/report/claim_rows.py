"""The rows of claims.csv in words: verdict, effect with interval, and what is open."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.analysis import contrasts, run_series
from batchscope.catalogue import tables, value_ranges
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.catalogue.outcomes import LEAST_SEEDS, LEVEL, Reason, Verdict
from batchscope.report.text import format_interval, format_p, is_number, parsed
from batchscope.study.claims import RATIO

Row = dict[str, str]
# (experiment, figure) -> label and address of that figure, or None where there is none.
Link = Callable[[str, str], tuple[str, str] | None]

READING = (
    "A claim is supported where its interval lies inside what it states, and contradicted where it "
    "lies outside; all else is open. Of the claims said to be supported or contradicted, on "
    f"average at most {wording.percent(LEVEL, 0)} are wrong: what a document states in one study "
    "is judged together (Benjamini and Hochberg), and each end of an interval is a one-sided bound "
    "at the level alpha*, which stands beside the document. Where a claim is of several series or "
    "cells, all must hold; the numbers are those of the one that decides, and several ends share "
    f"alpha*. Below {LEAST_SEEDS} seeds or timing jobs a claim is provisional."
)
WORDS = {
    Verdict.SUPPORTED: "supported",
    Verdict.CONTRADICTED: "contradicted",
    Verdict.NOT_RESOLVED: "not resolved",
    Verdict.PROVISIONAL: "provisional",
    Verdict.ONE_SEED: "one seed",
    Verdict.NOT_TESTABLE: "not testable here",
}
_TESTED = (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.NOT_RESOLVED)
MISSING = {
    Reason.NO_GPU: "a GPU",
    Reason.FEW_GPUS: "several GPUs",
    Reason.NO_MACHINE: "the results of a second machine",
    Reason.NO_CORES: "as many cores as threads",
    Reason.NOT_INSTALLED: "an installation of {what}",
    Reason.NO_RESULTS: "results of {experiment}",
    Reason.NOT_IN_GRID: "not in the grid of {experiment}: {what}",
    Reason.NO_BUDGET: "a value at {what} of every training",
    Reason.NOT_POSITIVE: "values above 0, of which ratios are taken",
    Reason.NO_VALUE: "a finished run with a value at {what}",
}
_NAMED = ("optimizer", "device", "framework")  # factors that their values name
_MANY = 1000  # seeds or jobs that nobody makes
_SECONDS = wording.Unit(" s")


def read(path: Path | str) -> list[Row]:
    """Reads a table of claims; raises as `disk.read_rows` does."""
    return disk.read_rows(path, *CLAIMS)


def build(rows: Iterable[Row], link: Link) -> list[dict[str, Any]]:
    """Returns what a page shows of claims, in order."""
    return [_shown(row, link) for row in rows]


def by_document(shown: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each document with its rows, from `build`, their counts, and their level.

    That of each study where rows name theirs.
    """
    documents: dict[str, list[dict[str, Any]]] = {}
    for row in shown:
        documents.setdefault(row["document"], []).append(row)
    return [
        {"document": document, "rows": rows, "counts": counts(rows), "level": _levels(rows)}
        for document, rows in documents.items()
    ]


def counts(rows: Iterable[Row]) -> str:
    """Returns how many claims have each verdict: `3 supported, 1 not resolved`."""
    found = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{found[each]} {words}" for each, words in WORDS.items() if found[each])


def _levels(rows: list[dict[str, Any]]) -> str:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["verdict"] in _TESTED:
            p = [float(row["p"]), float(row["p_against"])]
            found.setdefault(row.get("study", ""), []).extend(p)
    levels = [
        wording.number(contrasts.family_level(p), 2) + wording.aside(study)
        for study, p in found.items()
    ]
    return f"alpha* {wording.listed(levels)}" if levels else ""


def _shown(row: Row, link: Link) -> dict[str, Any]:
    unit = _unit(row)
    found = [parsed(row[name]) for name in ("estimate", "low", "high")]
    if row["type"] == "value" and None not in found:  # all others are differences or ratios
        found[1:] = value_ranges.clipped(row["column"], found[1:])
    if unit == _SECONDS and all(abs(number or 0) < 1 for number in found):
        unit = wording.Unit(" ms", 1000.0)
    numbers = [None if number is None else unit.times * number for number in found]
    against = row["verdict"] == Verdict.CONTRADICTED
    p = row["p_against" if against else "p"]
    effect = _effect(row)
    word = WORDS[Verdict(row["verdict"])]
    if row["reason"] == Reason.NOT_AT_EVERY_STEP:
        word += ", not at every step"
    elif row["verdict"] == Verdict.ONE_SEED and row["table"] in tables.OF_TIMINGS:
        word = "one timing job"
    return {
        **row,
        "word": wording.capital(word),
        "css": row["verdict"],
        "place": wording.capital(row["place"]),
        "estimate": format_interval(*numbers),
        "effect_is": effect + (f" ({unit.suffix.strip()})" if unit.suffix else ""),
        "effect": effect,
        "unit_shown": unit.suffix.strip(),
        "coverage": f"{wording.number(100 - 200 * float(row['level']), 4)} %"
        if row["level"]
        else "",
        "decides": _decides(row),
        "survivors": _survivors(row),
        "stated": _stated(row),
        "cells": _cells(_read(row["cells"])),
        "p_shown": format_p(parsed(p)) if p else "",
        "p_of": "of the contrary" if against else "",
        "missing": _open(row),
        "figure_link": link(row["experiment"], row["figure"]) if row["figure"] else None,
    }


def _coverage(row: Row) -> str:
    """Returns the coverage of an interval whose ends have the row's level: `97.5 %`."""
    level = parsed(row["level"])
    return "" if level is None else f"{wording.number(100 * (1 - 2 * level), 4)} %"


def in_words(shown: dict[str, Any]) -> str:
    """Returns the numbers of a row in a phrase: `0.5 [0.3, 0.7] points per doubling`.

    What is no change per doubling is named before its number: `ratio 1.7 [1.5, 2.0]`. The coverage
    of an interval is stated, since others beside it have 95 %.
    """
    estimate = shown["estimate"]
    parts = [shown["missing"]]
    if estimate:
        number, what = f"{estimate.bracketed} {shown['unit_shown']}".rstrip(), shown["effect"]
        where = shown["decides"] or shown["cells"]
        level = f"{shown['coverage']} interval" if estimate.low else ""
        stated = f"{number} {what}" if what.startswith("per ") else f"{what} {number}"
        parts = [", ".join(filter(None, [stated, level, where])), shown["survivors"], *parts]
    return "; ".join(filter(None, parts))


def _read(text: str) -> Any:
    return json.loads(text) if text else {}


def _unit(row: Row) -> wording.Unit:
    """Returns the unit to show numbers in: shares in per cent, their differences in points."""
    unit = "" if row["scale"] == RATIO else row["unit"]
    if unit not in ("share", "%"):
        return wording.Unit(f" {unit}" if unit else "")
    suffix = " %" if row["type"] == "value" else " points"
    return wording.Unit(suffix, 100.0 if unit == "share" else 1.0)


def _effect(row: Row) -> str:
    """Returns what the estimate is: `per doubling of epoch`, `ratio`."""
    ratio, slope = row["scale"] == RATIO, f"per {row['per']} of {_name(row['over'])}"
    difference = "ratio" if ratio else "difference"
    words = {
        "trend": f"factor {slope}" if ratio else slope,
        "value": "mean",
        "interaction": f"{difference} {slope}",
        "exception": "factor from the line between its neighbours",
    }.get(row["type"], difference)
    if words == "difference" and row["type"] == "comparison":
        of, to = _read(row["sides"])
        return f"{words} ({_cells(of)} minus {_cells(to)})"
    return words


def _stated(row: Row) -> str:
    """Returns what is tested: `test accuracy falls over batch size (at epoch 1)`."""
    over, sides = _name(row["over"]), _read(row["sides"]) or []
    cells, compared = _cells(_read(row["cells"])), " against ".join(map(_cells, sides))
    rises, bounds = bool(row["low_bound"]), _bounds(row)
    chosen = ", ".join(_cells(each, "or") for each in sides)
    words = {
        "trend": f"{'rises' if rises else 'falls'} over {over}",
        "equivalence": f"differs by {bounds} over {over}",
        "value": f"is {bounds}",
        "comparison": f"with {compared}: {row['scale']} {bounds}",
        "interaction": f"per {row['per']} of {over}, {compared}: {row['scale']} {bounds}",
        "argmax": f"is {'highest' if rises else 'lowest'} at {chosen}",
        "order": "rises from " + " to ".join(map(_cells, sides)),
        "exception": f"at {chosen} lies {'above' if rises else 'below'} the line between its "
        "neighbours",
    }[row["type"]]
    found = tables.column(row["table"], row["column"])
    what = found.label if found and found.label else row["column"].replace("_", " ")
    return f"{wording.lower(what)} {words}{wording.aside(cells)}"


def _bounds(row: Row) -> str:
    unit, ratio = _unit(row), row["scale"] == RATIO
    low, high = float(row["low_bound"] or -math.inf), float(row["high_bound"] or math.inf)

    def amount(end: float) -> str:
        text = wording.tick(unit.times * end)
        if unit.suffix == " points" and text in ("1", f"{wording.MINUS}1"):
            return f"{text} point"
        return text + (unit.suffix if end else "")

    if row["type"] == "equivalence":
        return f"less than {'a factor of ' if ratio else ''}{amount(high)}"
    # Where a value cannot be beyond a bound, that bound says nothing beside the other.
    least, most = value_ranges.possible(row["column"]) if row["type"] == "value" else (low, high)
    if math.isinf(high) or least < low < most <= high:
        return f"above {amount(low)}"
    if math.isinf(low) or low <= least < high < most:
        return f"below {amount(high)}"
    # The lower end may be what no decimals write: 1 / 1.05.
    return f"between {wording.number(unit.times * low, 4)} and {amount(high)}"


def _cells(cells: dict[str, Any], last: str = "and") -> str:
    """Returns cells in words: `batch size 4, epoch 1 and 2`; empty for all."""
    found = []
    for name, values in cells.items():
        if not isinstance(values, list):
            found.append(run_series.describe({name: values}))
        elif name in _NAMED:
            words = [run_series.describe({name: value}) for value in values]
            found.append(wording.listed(words, last))
        else:
            numbers = [wording.shortest(each) if is_number(each) else each for each in values]
            found.append(f"{_name(name)} {wording.listed(numbers, last)}")
    return ", ".join(found)


def _name(factor: str) -> str:
    return "number of epochs" if factor == "at_epoch" else factor.replace("_", " ")


def _decides(row: Row) -> str:
    """Returns words for what decides: a series or cell, or one cell against another."""
    part, parts = _read(row["part"]), int(row["parts"] or 0)
    pairs = {name: each for name, each in part.items() if isinstance(each, list)}
    if parts < 2:
        return ""
    single = _cells({name: each for name, each in part.items() if name not in pairs})
    ends = [_cells({name: each[end] for name, each in pairs.items()}) for end in (0, 1)]
    against = " against ".join(filter(None, ends))
    return ", ".join(filter(None, [single, against, f"which decides among {parts}"]))


def _replicates(row: Row) -> str:
    timed = row["table"] in tables.OF_TIMINGS
    return "timing jobs of every configuration" if timed else "seeds"


def _survivors(row: Row) -> str:
    """Returns `6 of 12 seeds have a value in every cell`; empty where all of them count."""
    if not row["n"] or int(row["n"]) >= int(row["replicates"]):
        return ""
    noun = "timing jobs" if row["table"] in tables.OF_TIMINGS else "seeds"
    return f"{row['n']} of {row['replicates']} {noun} have a value in every cell"


def _open(row: Row) -> str:
    """Returns what would decide an open claim; empty of one that is decided."""
    verdict, of = row["verdict"], _replicates(row)
    if verdict == Verdict.NOT_TESTABLE:
        what = _read(row["reason_of"])
        names = [*what.get("framework", ())] if row["reason"] == Reason.NOT_INSTALLED else []
        words = wording.listed(names) or _cells(what) or "these cells"
        return MISSING[Reason(row["reason"])].format(experiment=row["experiment"], what=words)
    if verdict in (Verdict.PROVISIONAL, Verdict.ONE_SEED):
        return f"at least {LEAST_SEEDS} {of} ({row['n']} here)"
    if verdict != Verdict.NOT_RESOLVED:
        return ""
    if not row["seeds_to_resolve"]:
        return f"more {of} would not help, were the effect as found"
    wanted = int(row["seeds_to_resolve"])
    many = f"more than {_MANY:,}" if wanted > _MANY else f"about {wanted}"
    return f"{many} {of} ({row['n']} here), were the effect as found"
