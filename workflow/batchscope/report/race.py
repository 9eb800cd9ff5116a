"""The race of learning rates over seeds: rows of race.csv -> the rates that left the race."""

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
    """Return the rates that left, with their ratios to a better rate; None if no rate left."""
    left_rates = race[race["status"] == LEFT] if len(race) else race
    if left_rates.empty:
        return None
    varying = run_series.varying_factors(race.drop(columns=RATE))
    rows = [
        {
            **row,
            "budget_value": None,
            "series": factor_words.describe({name: row[name] for name in varying}),
            "ratio": text.bracketed([row[name] for name in text.ESTIMATE]),
        }
        for row in left_rates.to_dict("records")
    ]
    return {"tried": len(race), "racing": len(race) - len(left_rates), "rows": rows}
