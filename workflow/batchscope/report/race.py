"""The race of learning rates over seeds: the rates that left it, and by how much."""

from __future__ import annotations

from typing import Any

import pandas

from batchscope.analysis import run_series
from batchscope.analysis.racing import LEFT
from batchscope.report import text
from batchscope.study import factor_words

RATE = "learning_rate"
Row = dict[str, Any]


def build(race: pandas.DataFrame) -> Row | None:
    """Return the rates that left, from the rows of race.csv; None if no rate did."""
    left = race[race["status"] == LEFT] if len(race) else race
    if left.empty:
        return None
    several = run_series.varying(race.drop(columns=RATE))
    rows = [
        {
            **row,
            "budget_value": None,
            "series": factor_words.describe({name: row[name] for name in several}),
            "ratio": text.bracketed([row[name] for name in text.ESTIMATE]),
        }
        for row in left.to_dict("records")
    ]
    return {"tried": len(race), "racing": len(race) - len(left), "rows": rows}
