"""Tables of an experiment in, rows of an interim analysis out: the runs that get more seeds.

Every testable statement has a row: claims of documents, and comparisons behind the advice on batch
sizes. It is open if `runs` is not empty. A statement gets no seeds if it is decided, or if more
seeds cannot decide it: an end of its interval is unbounded, or its replicates are not seeds. A new
kind of statement is a function that yields `_statement_row`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas

from batchscope.analysis import advice, advice_series, run_series
from batchscope.analysis.advice_series import RATE, AdviceSeries, AdviceTables, Row
from batchscope.analysis.racing import IN_RACE
from batchscope.study import stages
from batchscope.study.claims import Claim
from batchscope.study.outcomes import MIN_SEEDS, Reason, Verdict
from batchscope.study.stages import AddedRate
from batchscope.study.suggestions import rounded
from batchscope.study.table_entries import TIMING_TABLES

_VERDICT_COLUMNS = ["estimate", "low", "high", "n", "verdict", "reason", "seeds_to_resolve"]
MAX_RATES_BEYOND = 2  # number of learning rates that stages add beyond each edge of a grid


def claim_rows(
    stated_claims: Iterable[Claim],
    claims: pandas.DataFrame,
    runs: pandas.DataFrame,
    analyses: Sequence[int],
) -> Iterator[Row]:
    """Yield one row per testable claim of an experiment; `claims` has rows of claims.csv."""
    judged, runs = claims.set_index("id"), run_series.of_this_machine(runs)
    factors = {*run_series.factor_columns(runs), "batch_size"} - {RATE}
    for claim in stated_claims:
        row = judged.loc[claim.id]
        if row["verdict"] != Verdict.NOT_TESTABLE:
            selected = np.zeros(len(runs), bool)
            selections = [*claim.test.selections()]
            for cells in selections:
                matches = [runs[name].isin(cells[name]) for name in cells if name in factors]
                selected |= np.all(matches, axis=0)  # without factors all runs are selected
            # Seeds are added on this machine only, and a timing has jobs instead of seeds.
            has_seeds = not any("machine" in cells for cells in selections)
            has_seeds &= claim.test.table not in TIMING_TABLES
            claim_runs = runs[selected] if has_seeds else runs.iloc[:0]
            yield _statement_row(claim.id, row, claim_runs, analyses)


def race_rows(race: pandas.DataFrame, analyses: Sequence[int]) -> Iterator[Row]:
    """Yield one row per batch size and number of seeds, for rates in the race that are behind.

    Such a rate has fewer seeds than another rate of its batch size, or than a verdict needs.
    """
    factors = [*run_series.varying_factors(race.drop(columns=RATE)), "batch_size"]
    for key, rates in race.groupby(factors, dropna=False):
        racing = rates[rates["status"] == IN_RACE]
        behind = racing[racing["seeds"] < max(MIN_SEEDS, rates["seeds"].max())]
        for seeds, rows in behind.groupby("seeds"):
            values = dict(zip(factors, key, strict=True))
            yield {
                "statement": json.dumps(values, default=np.generic.item),
                "n": seeds,
                "seeds": stages.next_seeds(seeds, analyses),
                "runs": json.dumps(sorted(rows["run"])),
            }


def edge_rows(
    tables: AdviceTables,
    request: advice_series.AdviceRequest,
    added_rates: Sequence[AddedRate],
    analyses: Sequence[int],
) -> Iterator[Row]:
    """Yield one row per edge of the grid that is the rate of a batch size that may be the best.

    The next stage tries a rate beyond such an edge, at most `MAX_RATES_BEYOND` times.

    Args:
        added_rates: Rates beyond the grid so far.
        analyses: Numbers of seeds at the analyses of the race; empty without one.
    """
    for series in advice_series.from_tables(tables, request) if analyses else ():
        sizes: dict[tuple[float, float], list[int]] = {}
        for check in advice.edge_checks(series):
            if check["passed"]:
                continue
            size, edge = check["batch_size"], check[RATE]
            tried = series.tried_rates(size)
            is_highest = edge == tried[-1]
            rate = rounded(edge * edge / (tried[-2] if is_highest else tried[1]))
            added_before = sum(
                size in added.batch_sizes and (added.rate > added.edge) == is_highest
                for added in added_rates
            )
            if added_before < MAX_RATES_BEYOND:
                sizes.setdefault((edge, rate), []).append(size)
        for (edge, rate), batch_sizes in sizes.items():
            yield {
                "statement": json.dumps({RATE: edge}),
                "seeds": analyses[0],
                "edge": edge,
                "rate": rate,
                "batch_sizes": json.dumps(batch_sizes),
            }


def comparison_rows(tables: AdviceTables, request: advice_series.AdviceRequest) -> Iterator[Row]:
    """Yield one row per comparison that limits a batch size, in every series of an experiment."""
    varying = run_series.varying_factors(tables.comparisons.drop(columns=advice_series.RATE))
    for series in advice_series.from_tables(tables, request):
        factors = {name: series.factors[name] for name in varying if name in series.factors}
        unresolved = series.unresolved_limits.index
        for index, row in series.limits.iterrows():
            if row["verdict"] == Verdict.NOT_TESTABLE:
                continue
            compared = {name: row[name] for name in ("budget", "outcome", "batch_size")}
            sizes = _sizes_of_interval(series, row) if index in unresolved else []
            runs = series.tables.runs[series.tables.runs["batch_size"].isin(sizes)]
            if row["n"] < _fewest_seeds(runs):  # the replicates are timing jobs, not seeds
                runs = runs.iloc[:0]
            statement = json.dumps({**factors, **compared}, default=np.generic.item)
            yield _statement_row(statement, row, runs, request.analyses)


def _sizes_of_interval(series: AdviceSeries, row: pandas.Series) -> list[int]:
    """Return the batch sizes that determine the interval of a row: all that are not excluded."""
    limits = series.limits
    rows = limits[(limits["outcome"] == row["outcome"]) & (limits["budget"] == row["budget"])]
    return [*{row["batch_size"], *rows.loc[~rows["excluded"], "batch_size"]}]


def _statement_row(
    statement: str, row: pandas.Series, runs: pandas.DataFrame, analyses: Sequence[int]
) -> Row:
    """Return the row of a statement, with the next number of seeds if more may decide it."""
    result = {"statement": statement, **row[_VERDICT_COLUMNS].to_dict(), "seeds": None, "runs": ""}
    ends = row[["low", "high"]].astype(float)
    bounded = ends.notna().all() and ends["low"] != ends["high"]
    has_reason = pandas.notna(row["reason"]) and row["reason"] != Reason.NONE
    undecided = row["verdict"] in (Verdict.NOT_RESOLVED, Verdict.PROVISIONAL)
    if not undecided or has_reason or not bounded or runs.empty:
        return result
    if next_seeds := stages.next_seeds(_fewest_seeds(runs), analyses):
        names = sorted(runs.loc[runs["seed"] == runs["seed"].min(), "run"])
        result |= {"seeds": next_seeds, "runs": json.dumps(names)}
    return result


def _fewest_seeds(runs: pandas.DataFrame) -> float:
    configured = [*run_series.factor_columns(runs), "batch_size"]
    return runs.groupby(configured, dropna=False)["seed"].nunique().min()
