"""Rising batch sizes: rows of ramps.csv and local critical batch sizes -> values of the section.

A ramp is a training whose batch size rises; ramps.csv compares it with constant sizes. A new value
is a key of the rows here and a word in the macros `ramp` and `local_critical` of decision.txt.j2.
"""

from collections.abc import Mapping
from typing import Any

import pandas

from batchscope.analysis import intervals, run_series
from batchscope.analysis.batch_schedules import COSTS
from batchscope.analysis.chosen_rates import RATE
from batchscope.core import display
from batchscope.figures import FigureTables
from batchscope.report.text import ESTIMATE, bracketed, difference_unit, label, margin
from batchscope.study import factor_maps
from batchscope.study.outcomes import MIN_SEEDS, Reason, Verdict
from batchscope.study.run_factors import CONSTANT, Affects, factors_affecting, is_used

_CRITICAL = [f"critical_batch_size{end}" for end in intervals.SUFFIXES]
Row = dict[str, Any]


def for_experiment(tables: FigureTables) -> dict[str, list[Row]]:
    return {
        "ramps": _ramps(tables.ramps),
        "local_critical": _local_critical(tables.local_critical_batch_size),
    }


def _ramps(table: pandas.DataFrame) -> list[Row]:
    """Return a row for each ramp: its outcomes, its costs, and whether it reduces a cost."""
    ramps, names = [], run_series.varying_factors(table)
    # The rate is chosen for each outcome, so it distinguishes no ramp.
    keys = ["batch_size", *(name for name in names if name != RATE)]
    # Factors that may describe the schedule: those that shape it, and those that distinguish ramps.
    factors = dict.fromkeys((*factors_affecting(Affects.HORIZON), "largest_batch_size", *keys[1:]))
    for _, frame in table.groupby(keys, sort=False, dropna=False) if len(table) else ():
        first, rate = frame.iloc[0], frame[RATE].iloc[0]
        rows = [_outcome(row) for row in frame.to_dict("records")]
        costs = [row for row in rows if row["outcome"] in COSTS.values()]
        outcomes = [row for row in rows if row["outcome"] not in COSTS.values()]
        verdicts, cost_verdicts = ({row["verdict"] for row in part} for part in (outcomes, costs))
        schedule = {
            name: first[name]
            for name in factors
            if is_used(name, {"batch_schedule": (first["batch_schedule"],)})
            and pandas.notna(first.get(name))
            and first[name] != CONSTANT
        }
        ramps.append(
            {
                "schedule": factor_maps.describe(schedule),
                "batch_size": int(first["batch_size"]),
                "rate": "" if pandas.isna(rate) else display.shortest(float(rate)),
                "outcomes": outcomes,
                "costs": costs,
                "reduces_cost": _reduces_cost(verdicts, cost_verdicts),
                "saved": [row["outcome"] for row in costs if row["verdict"] == Verdict.SUPPORTED],
            }
        )
    return ramps


def _reduces_cost(outcomes: set[str], costs: set[str]) -> str:
    """Return `yes` if outcomes are within the margin and a cost is saved, else `no` or `open`."""
    if outcomes == {Verdict.WITHIN} and Verdict.SUPPORTED in costs:
        return "yes"
    return "no" if Verdict.BEYOND in outcomes or costs == {Verdict.CONTRADICTED} else "open"


def _outcome(row: Mapping[str, Any]) -> Row:
    unit = difference_unit(row["outcome"])
    texts = {"label": label(row["outcome"]), "margin": margin(row["bound"], unit)}
    return {**row, **texts, "shown": bracketed([row[name] for name in ESTIMATE], unit)}


def _local_critical(table: pandas.DataFrame) -> list[Row]:
    """Return the first and the last local critical batch size of each series and batch size.

    It grows if the last interval is above the first one.
    """
    local = []
    for series in run_series.split_series(table) if len(table) else ():
        for size, frame in series.frame.groupby("batch_size"):
            points = frame.drop_duplicates("share").sort_values("share").to_dict("records")
            # Comparisons of multiples that diverged do not count; all others have all seeds.
            seeds = frame.loc[frame["reason"] != Reason.FAILED, "n"].min()
            seeds = int(seeds) if pandas.notna(seeds) else 0
            is_above = points[-1][_CRITICAL[1]] > points[0][_CRITICAL[2]]
            row = {"series": series.label, "batch_size": int(size), "seeds": seeds}
            row["grows"] = is_above and seeds >= MIN_SEEDS
            row["ends"] = [
                {
                    "shown": bracketed([point[name] for name in _CRITICAL]),
                    "examples": float(point["examples_used"]),
                }
                for point in (points[0], *points[1:][-1:])
            ]
            local.append(row)
    return local
