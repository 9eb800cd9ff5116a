"""What an experiment says of a batch size that rises: its ramps, and what its trainings bear.

Words are the templates' own, in `decision.txt.j2`; this makes dicts of the rows of two tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas

from batchscope import wording
from batchscope.analysis import intervals, run_series
from batchscope.analysis.ramps import COSTS
from batchscope.figures import FigureTables
from batchscope.report.text import ESTIMATE, bracketed, label, of_difference, rounded
from batchscope.study import factor_words
from batchscope.study.outcomes import LEAST_SEEDS, Reason, Verdict
from batchscope.study.run_factors import CONSTANT, Affects, affecting, is_used

_CRITICAL = [f"critical_batch_size{end}" for end in intervals.ENDS]
Row = dict[str, Any]


def of_experiment(tables: FigureTables) -> dict[str, list[Row]]:
    """Returns the `ramps` of an experiment, and what its trainings are seen to bear (`borne`)."""
    return {
        "ramps": _ramps(tables.ramps),
        "borne": _borne(tables.local_critical_batch_size),
    }


def _ramps(table: pandas.DataFrame) -> list[Row]:
    """Returns a row for each configuration whose batch size rises."""
    found = []
    names = [name for name in run_series.varying(table) if name != "learning_rate"]
    keys = ["batch_size", *names] if len(table) else []
    for _, rows in table.groupby(keys, sort=False, dropna=False) if keys else ():
        of_costs = rows["outcome"].isin(COSTS.values())
        outcomes = [_outcome(row) for row in rows[~of_costs].to_dict("records")]
        costs = [_cost(row) for row in rows[of_costs].to_dict("records")]
        first = rows.iloc[0]
        rate = first["learning_rate"]
        schedules = {"batch_schedule": (first["batch_schedule"],)}
        described = dict.fromkeys((*affecting(Affects.HORIZON), "largest_batch_size", *names))
        factors = {
            name: value
            for name in described
            if is_used(name, schedules)
            if pandas.notna(value := first.get(name)) and value != CONSTANT
        }
        found.append(
            {
                "words": factor_words.describe(factors),
                "batch_size": int(first["batch_size"]),
                "rate": "" if pandas.isna(rate) else wording.shortest(float(rate)),
                "outcomes": outcomes,
                "costs": costs,
                "pays": _pays(outcomes, costs),
                "saved": [row["name"] for row in costs if row["verdict"] == Verdict.SUPPORTED],
            }
        )
    return found


def _pays(outcomes: list[Row], costs: list[Row]) -> str:
    """Returns whether a rise pays: `yes`, `no` or `open`, by verdicts alone.

    Yes where nothing is lost beyond the margin and something is saved for sure.
    """
    verdicts = {row["verdict"] for row in outcomes}
    saved = {row["verdict"] for row in costs}
    if verdicts == {Verdict.WITHIN} and Verdict.SUPPORTED in saved:
        return "yes"
    if Verdict.BEYOND in verdicts or (saved and saved == {Verdict.CONTRADICTED}):
        return "no"
    return "open"


def _outcome(row: Mapping[str, Any]) -> Row:
    how = of_difference(row["outcome"])
    margin = rounded(how.times * abs(float(row["bound"])))
    return {
        **row,
        "label": label(row["outcome"]),
        "shown": bracketed([row[name] for name in ESTIMATE], how),
        "margin": margin + (how.suffix.rstrip("s") if margin == "1" else how.suffix),
    }


def _cost(row: Mapping[str, Any]) -> Row:
    return {**row, "name": row["outcome"], "shown": bracketed([row[name] for name in ESTIMATE])}


def _borne(table: pandas.DataFrame) -> list[Row]:
    """Returns a row per series and batch size: the first and the last local critical batch size.

    It grows where the last one's interval lies above the first one's.
    """
    found = []
    for group in run_series.series(table) if len(table) else ():
        for size, rows in group.frame.groupby("batch_size"):
            points = rows.drop_duplicates("share").sort_values("share")
            first, last = points.iloc[0], points.iloc[-1]
            # Those of a factor that diverged say nothing of it, and all of the others.
            known = rows.loc[rows["reason"] != Reason.FAILED, "n"]
            seeds = int(known.min()) if len(known) else 0
            lowest, highest = (float(last[_CRITICAL[1]]), float(first[_CRITICAL[2]]))
            ends = [
                {
                    "shown": bracketed([point[name] for name in _CRITICAL]),
                    "examples": float(point["examples_used"]),
                }
                for point in points.iloc[[0, -1][: len(points)]].to_dict("records")
            ]
            found.append(
                {
                    "series": group.label,
                    "batch_size": int(size),
                    "ends": ends,
                    "grows": lowest > highest and seeds >= LEAST_SEEDS,
                    "seeds": seeds,
                }
            )
    return found
