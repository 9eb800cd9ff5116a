"""The rows of claims.csv as a page shows them: verdict, effect with interval, and what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.analysis import claim_words, ledger
from batchscope.catalogue import value_ranges
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.report.text import format_interval, format_p, parsed

Row = dict[str, str]
# (experiment, figure) -> label and address of that figure, or None where there is none.
Link = Callable[[str, str], tuple[str, str] | None]

READING = (
    "A claim holds where the runs show it: one-sided tests at 5 %, adjusted by Holm's method over "
    "what the document states. It does not where they show its contrary. All else is open. Where a "
    "claim is of several series or cells, all must hold, and the numbers are those of the one that "
    "decides. Intervals have 90 %, so that each end is a one-sided 95 % bound. A trend is tested "
    "by its order (Page's test), and beside it stands its mean slope, whose interval may hold 0."
)

_SECONDS = wording.Unit(" s")


def read(path: Path | str) -> list[Row]:
    """Reads a table of claims; raises as `disk.read_rows` does."""
    return disk.read_rows(path, *CLAIMS)


def build(rows: Iterable[Row], link: Link) -> list[dict[str, Any]]:
    """Returns what a page shows of claims, in order."""
    return [_shown(row, link) for row in rows]


def by_document(shown: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each document with its rows, from `build`, and how many of them have each verdict."""
    documents: dict[str, list[dict[str, Any]]] = {}
    for row in shown:
        documents.setdefault(row["document"], []).append(row)
    return [
        {"document": document, "rows": rows, "counts": counts(rows)}
        for document, rows in documents.items()
    ]


def counts(rows: Iterable[Row]) -> str:
    """Returns how many claims have each verdict: `3 held, 1 not resolved`."""
    found = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{found[each]} {each}" for each in ledger.VERDICTS if found[each])


def _shown(row: Row, link: Link) -> dict[str, Any]:
    unit = claim_words.display_unit(row["type"], row["unit"])
    found = [parsed(row[name]) for name in ("effect", "effect_low", "effect_high")]
    if row["type"] == "value" and None not in found:  # all others are differences or ratios
        found[1:] = value_ranges.clipped(row["column"], found[1:])
    if unit == _SECONDS and all(abs(number or 0) < 1 for number in found):
        unit = wording.Unit(" ms", 1000.0)
    numbers = [None if number is None else unit.times * number for number in found]
    against = row["verdict"] == ledger.NOT_HELD
    parts = int(row["parts"] or 0)
    among = f"which decides among {parts}" if parts > 1 else ""
    p = row["p_against_holm" if against else "p_holm"]
    return {
        **row,
        "word": wording.capital(row["verdict"]),
        "css": row["verdict"].replace(" ", "-"),
        "place": wording.capital(row["place"]),
        "estimate": format_interval(*numbers),
        "effect_is": row["effect_is"] + (f" ({unit.suffix.strip()})" if unit.suffix else ""),
        "unit_shown": unit.suffix.strip(),
        "decides": ", ".join(filter(None, [row["part"], among])),
        "p_shown": format_p(parsed(p)) if p else "",
        "p_of": "of the contrary" if against else "",
        "figure_link": link(row["experiment"], row["figure"]) if row["figure"] else None,
    }


def in_words(shown: dict[str, Any]) -> str:
    """Returns the numbers of a row in a phrase: `0.5 [0.3, 0.7] points per doubling; n 6`.

    What is no change per doubling is named before its number: `ratio 1.7 [1.5, 2.0]`. Intervals
    of claims have 90 %, which is stated, since others beside them have 95 %.
    """
    estimate = shown["estimate"]
    parts = [shown["missing"]]
    if estimate:
        of = f", {shown['decides']}" if shown["decides"] else ""
        unit = shown["unit_shown"]
        what = shown["effect_is"].removesuffix(f" ({unit})")
        number = f"{estimate.bracketed} {unit}".rstrip()
        level = ", 90 % interval" if estimate.low else ""
        if shown["cells"] and not shown["decides"]:
            level += f", {shown['cells']}"
        stated = f"{number} {what}" if what.startswith("per ") else f"{what} {number}"
        parts.insert(0, stated + level + of)
        parts.insert(1, shown["survivors"])
    return "; ".join(filter(None, parts))
