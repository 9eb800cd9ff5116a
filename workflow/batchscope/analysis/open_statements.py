"""Open statements of an interim analysis, and the runs that get more seeds for them.

The statements are the claims of documents and the comparisons behind the advice on batch sizes. A
decided statement needs no seeds. Neither does one that no number of seeds decides: an end of its
interval is open, or its replicates do not grow with the seeds. Trends that no claim states need no
seeds. The learning rates of a batch size that are still in the race get the same number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from batchscope.analysis import advice, advice_series, run_series
from batchscope.analysis.advice_series import RATE, AdviceSeries, AdviceTables
from batchscope.analysis.racing import IN_RACE
from batchscope.study import stages
from batchscope.study.advice_needs import rounded
from batchscope.study.claims import Claim
from batchscope.study.outcomes import MIN_SEEDS, Reason, Verdict
from batchscope.study.stages import AddedRate

_COPIED = ["estimate", "low", "high", "n", "verdict", "reason", "seeds_to_resolve"]
MAX_BEYOND = 2  # learning rates that stages try beyond each edge of a grid
Row = dict[str, Any]


def open_claims(
    stated_claims: Iterable[Claim],
    claims: pandas.DataFrame,
    runs: pandas.DataFrame,
    analyses: Sequence[int],
) -> Iterator[Row]:
    """Yield the claims of one experiment that can be tested.

    Args:
        claims: Rows of claims.csv.
        runs: Rows of the experiment's runs.csv.
        analyses: Numbers of seeds at the interim analyses.
    """
    judged, runs = claims.set_index("id"), run_series.local(runs)
    factors = {*run_series.factor_columns(runs), "batch_size"} - {RATE}
    for claim in stated_claims:
        row = judged.loc[claim.id]
        if row["verdict"] != Verdict.NOT_TESTABLE:
            selected = np.zeros(len(runs), bool)
            selections = [*claim.test.selections()]
            for cells in selections:
                matches = [runs[name].isin(cells[name]) for name in cells if name in factors]
                selected |= np.all(matches, axis=0)  # of none, all
            elsewhere = any("machine" in cells for cells in selections)
            yield _row(claim.id, row, runs.iloc[:0] if elsewhere else runs[selected], analyses)


def open_races(race: pandas.DataFrame, analyses: Sequence[int]) -> Iterator[Row]:
    """Yield the batch sizes with rates in the race that have fewer seeds than others, or than a
    verdict needs.

    Args:
        race: Rows of race.csv.
        analyses: Numbers of seeds at the analyses of the race.
    """
    factors = [*run_series.varying(race.drop(columns=RATE)), "batch_size"]
    for key, rates in race.groupby(factors, dropna=False):
        racing = rates[rates["status"] == IN_RACE]
        behind = racing[racing["seeds"] < max(MIN_SEEDS, rates["seeds"].max())]
        for seeds, rows in behind.groupby("seeds"):
            yield {
                "statement": json.dumps(dict(zip(factors, key, strict=True)), default=_plain),
                "n": seeds,
                "seeds": stages.next_seeds(seeds, analyses),
                "runs": json.dumps(sorted(rows["run"])),
            }


def edge_rates(
    tables: AdviceTables,
    request: advice_series.AdviceRequest,
    added_rates: Sequence[AddedRate],
    analyses: Sequence[int],
) -> Iterator[Row]:
    """Yield the edges of the grid of learning rates at which a size that could win is best.

    The next stage tries a rate beyond such an edge, at most `MAX_BEYOND` times.

    Args:
        added_rates: Rates beyond the grid so far.
        analyses: Numbers of seeds at the analyses of the race; empty without one.
    """
    for series in advice_series.from_tables(tables, request) if analyses else ():
        sizes: dict[tuple[float, float], list[int]] = {}
        for check in advice.edges(series):
            if check["passed"]:
                continue
            size, edge = check["batch_size"], check[RATE]
            tried = series.tried(size)
            is_highest = edge == tried[-1]
            rate = rounded(edge * edge / (tried[-2] if is_highest else tried[1]))
            before = [
                added
                for added in added_rates
                if size in added.batch_sizes and (added.rate > added.edge) == is_highest
            ]
            if len(before) < MAX_BEYOND:
                sizes.setdefault((edge, rate), []).append(size)
        for (edge, rate), batch_sizes in sizes.items():
            yield {
                "statement": json.dumps({RATE: edge}),
                "seeds": analyses[0],
                "edge": edge,
                "rate": rate,
                "batch_sizes": json.dumps(batch_sizes),
            }


def open_comparisons(tables: AdviceTables, request: advice_series.AdviceRequest) -> Iterator[Row]:
    """Yield the comparisons that limit the batch sizes of every series of one experiment."""
    several = run_series.varying(tables.comparisons.drop(columns=advice_series.RATE))
    for series in advice_series.from_tables(tables, request):
        factors = {name: series.factors[name] for name in several if name in series.factors}
        asking = series.unresolved.index
        for at, row in series.limits.iterrows():
            if row["verdict"] == Verdict.NOT_TESTABLE:
                continue
            compared = {name: row[name] for name in ("budget", "outcome", "batch_size")}
            sizes = _sizes_of_interval(series, row) if at in asking else []
            runs = series.tables.runs[series.tables.runs["batch_size"].isin(sizes)]
            if row["n"] < _fewest(runs):  # times with a number of jobs of their own
                runs = runs.iloc[:0]
            statement = json.dumps({**factors, **compared}, default=_plain)
            yield _row(statement, row, runs, request.analyses)


def _sizes_of_interval(series: AdviceSeries, row: pandas.Series) -> list[int]:
    """Return a batch size and those that its interval rests on: not those that are beyond."""
    limits = series.limits
    same = limits[(limits["outcome"] == row["outcome"]) & (limits["budget"] == row["budget"])]
    kept = same[~advice_series.excludes(same)]
    return [*{row["batch_size"], *kept["batch_size"]}]


def _row(
    statement: str, row: pandas.Series, runs: pandas.DataFrame, analyses: Sequence[int]
) -> Row:
    """Return a statement with the seeds that its runs get next, where more may settle it."""
    result = {"statement": statement, **row[_COPIED].to_dict(), "seeds": None, "runs": ""}
    ends = row[["low", "high"]].astype(float)
    bounded = ends.notna().all() and ends["low"] != ends["high"]
    explained = pandas.notna(row["reason"]) and row["reason"] != Reason.NONE
    if row["verdict"] != Verdict.NOT_RESOLVED or explained or not bounded or runs.empty:
        return result
    if following := stages.next_seeds(_fewest(runs), analyses):
        names = sorted(runs.loc[runs["seed"] == runs["seed"].min(), "run"])
        result |= {"seeds": following, "runs": json.dumps(names)}
    return result


def _fewest(runs: pandas.DataFrame) -> float:
    configured = [*run_series.factor_columns(runs), "batch_size"]
    return runs.groupby(configured, dropna=False)["seed"].nunique().min()


def _plain(value: Any) -> Any:
    return value.item()
