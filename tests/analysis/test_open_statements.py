"""What a look finds open: which runs of which statement get how many seeds next."""

import itertools
import json
import math

import pandas
import pytest

from batchscope.analysis import open_statements
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables
from batchscope.study.stages import AddedRate
from made_claims import claim

ANALYSES = (6, 9, 13)
OPEN = {"verdict": "not_resolved", "reason": math.nan, "seeds_to_resolve": 11}
CELLS = {"estimate": 0.1, "low": -0.1, "high": 0.3, "n": 6}


def runs(sizes=(8, 16, 32), rates=(0.1, 0.2), seeds=None):
    """Returns runs; `seeds` is batch size -> how many, where there are not six."""
    seeds = seeds or {}
    return pandas.DataFrame(
        {"run": f"{size}-{rate}-{seed}", "machine": "local", "status": "finished"}
        | {"batch_size": size, "learning_rate": rate, "seed": seed, "optimizer": "sgd"}
        for size, rate in itertools.product(sizes, rates)
        for seed in range(seeds.get(size, 6))
    )


def of_claim(frame, row=None, **test):
    """Returns the seeds that the runs of a claim get, and those with seed 0."""
    kind = {"above": 0} if "sides" in test else {"direction": "falls"}
    name = "comparison" if "sides" in test else "trend"
    stated = [claim("c", name, experiment="a", **kind, **test)]
    table = pandas.DataFrame([{"id": "c", **CELLS, **OPEN, **(row or {})}])
    found = [*open_statements.claim_rows(stated, table, frame, ANALYSES)]
    return [(each["seeds"], json.loads(each["runs"] or "[]")) for each in found]


def test_the_runs_that_an_open_claim_reads_get_the_seeds_of_the_next_look():
    sides = ({"batch_size": (32,)}, {"batch_size": (8,)})
    named = of_claim(runs(), cells={"learning_rate": (0.2,)}, sides=sides)
    # At every rate: one with fewer seeds than another would never be chosen.
    assert named == [(9, ["32-0.1-0", "32-0.2-0", "8-0.1-0", "8-0.2-0"])]
    [(seeds, every)] = of_claim(runs())
    assert seeds == 9 and len(every) == 6
    later = runs()
    later["seed"] += 100
    assert of_claim(later) == [(seeds, every)]  # of the first seed, whichever it is
    # A seed of which a run failed is left out, so that too few are paired.
    assert of_claim(runs(), {"verdict": "provisional", "n": 5}) == [(seeds, every)]
    timed = {"table": "throughput", "column": "examples_per_second"}
    assert of_claim(runs(), {"verdict": "provisional", "n": 3}, **timed) == [(None, [])]
    # Keys of rows that are no factors of runs select none of them.
    assert of_claim(runs(), cells={"epoch": (3,)}) == [(seeds, every)]


def test_what_has_fewer_seeds_than_others_comes_up_to_them():
    frame = runs(seeds={8: 9, 16: 9, 32: 6})
    assert of_claim(frame)[0][0] == 9
    assert of_claim(frame, cells={"batch_size": (8, 16)})[0][0] == 13
    assert of_claim(runs(seeds=dict.fromkeys((8, 16, 32), 13))) == [(None, [])]


@pytest.mark.parametrize(
    "row",
    [
        {"verdict": "supported"},
        {"low": math.nan},  # an open end
        {"low": 0.1, "high": 0.1},  # replicates that are alike
        {"reason": "rate_on_edge"},
        {"verdict": "one_seed"},
    ],
)
def test_what_seeds_do_not_settle_asks_for_none(row):
    assert of_claim(runs(), row) == [(None, [])]


def test_no_more_seeds_are_asked_where_other_results_lack_them():
    """Those of another machine, and times of which there are a fixed number of jobs."""
    assert of_claim(runs(), {"verdict": "not_testable"}) == []
    assert of_claim(runs(), {"seeds_to_resolve": math.nan})[0][0] == 9  # however many it needs
    sides = ({"machine": ("local",)}, {"machine": ("other",)})
    assert of_claim(runs(), sides=sides) == [(None, [])]
    open_rows = comparisons(*["not_resolved"] * 3)
    assert of_advice(open_rows, runs(seeds=dict.fromkeys((8, 16, 32), 9)))[8] == (None, set())


def comparisons(*verdicts):
    """Returns the rows of three sizes, 8 with the best mean."""
    frame = pandas.DataFrame({"batch_size": [8, 16, 32], "verdict": verdicts, **CELLS})
    frame["seeds_to_resolve"] = frame["verdict"].map({"not_resolved": 20})
    frame = frame.assign(optimizer="sgd", learning_rate=0.1, outcome="test_accuracy", seeds=6)
    frame = frame.assign(mean=0.9 - frame["batch_size"] / 1000, bound=-0.01, margin=0.01)
    return frame.assign(budget="convergence", reason=math.nan, on_edge=0, still_falling=0)


def of_advice(frame, table=None):
    """Returns batch size -> the seeds that are asked for it, and the sizes of their runs."""
    tables = AdviceTables(frame, runs() if table is None else table)
    asked = AdviceRequest({"test_accuracy": 0.01}, analyses=ANALYSES)
    found = open_statements.comparison_rows(tables, asked)
    return {
        json.loads(each["statement"])["batch_size"]: (
            each["seeds"],
            {int(run.split("-")[0]) for run in json.loads(each["runs"] or "[]")},
        )
        for each in found
    }


def test_an_open_comparison_needs_all_sizes_that_are_not_beyond_at_every_rate():
    nothing = (None, set())
    found = of_advice(comparisons("within", "not_resolved", "beyond"))
    assert found == {8: nothing, 16: (9, {8, 16}), 32: nothing}
    found = of_advice(comparisons(*["not_resolved"] * 3))
    assert found[8] == (9, {8, 16, 32})
    # The range ends below 16, so that 32 is not asked for.
    found = of_advice(comparisons("within", "beyond", "not_resolved"))
    assert found == {8: nothing, 16: nothing, 32: nothing}


HIGHER = AddedRate(0.2, 0.4, (8, 16)), AddedRate(0.4, 0.8, (8, 16))


@pytest.mark.parametrize(
    ("rates", "best", "before", "added"),
    [
        ((0.1, 0.2), 0.2, (), (0.2, 0.4)),
        ((0.1, 0.2), 0.1, HIGHER, (0.1, 0.05)),
        ((0.1, 0.2, 0.4), 0.4, HIGHER[:1], (0.4, 0.8)),
        ((0.1, 0.2, 0.4, 0.8), 0.8, HIGHER, None),
    ],
)
def test_a_rate_beyond_the_edge_of_a_grid_is_tried_at_most_twice(rates, best, before, added):
    frame = comparisons(*["not_resolved"] * 3)
    frame.loc[frame["batch_size"] < 32, ["learning_rate", "on_edge"]] = best, 1
    tables = AdviceTables(frame, runs(rates=rates))
    asked = AdviceRequest({"test_accuracy": 0.01}, analyses=ANALYSES)
    rows = [*open_statements.edge_rows(tables, asked, before, (3, *ANALYSES))]
    found = [(row["edge"], row["rate"], row["batch_sizes"], row["seeds"]) for row in rows]
    assert found == ([(*added, "[8, 16]", 3)] if added else [])
    assert not [*open_statements.edge_rows(tables, asked, before, ())]
