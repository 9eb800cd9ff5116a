"""Learning rates leave a race if they are shown to be worse by every criterion."""

import itertools
import json
import math

import numpy as np
import pandas
import pytest
from scipy import stats

from batchscope.analysis import open_statements, racing
from batchscope.analysis.racing import Criterion
from batchscope.analysis.targets import ComparisonRequest

INF, NAN = math.inf, math.nan
ANALYSES = (3, 6, 9)
FIRST = 0.025  # level of the first analysis


def criterion(*rates, budget="epochs", **more):
    """Return the criterion of one batch size, from the numbers of each rate by seed."""
    return Criterion(budget, "validation_loss", np.array([rates], float), **more)


def test_a_rate_leaves_by_the_paired_t_test_of_logarithms():
    logs = np.array([0.8, 1.0, 1.2])
    better = np.array([0.1, 0.4, 0.2])  # scatter of seeds that both rates share
    left = racing.rates_that_leave([criterion(better, better * np.exp(logs))], 0, ANALYSES)
    assert list(left) == [1]
    p = stats.ttest_1samp(logs, 0, alternative="greater").pvalue
    t = stats.t.isf(FIRST, 2)
    error = 0.2 / math.sqrt(3)
    ends = zip(("low", "high"), (math.exp(1 - t * error), math.exp(1 + t * error)), strict=True)
    expected = {"left_after": 3, "against": 0, "level": FIRST, "p": p, "estimate": math.e}
    assert left[1] == pytest.approx({**left[1], **expected, **dict(ends)})


def test_rates_share_the_level_and_analyses_halve_it():
    assert racing.levels_of_analyses(3) == [0.025, 0.0125, 0.00625]
    assert sum(racing.levels_of_analyses(50)) == pytest.approx(0.05)
    # p is .017: enough against one rate, too much for one of two.
    logs = np.array([0.6, 0.8, 1.2])
    values = np.exp(np.array([np.zeros(3), logs]))
    assert 0.0125 < stats.ttest_1samp(logs, 0, alternative="greater").pvalue < FIRST
    assert list(racing.rates_that_leave([criterion(*values)], 0, ANALYSES)) == [1]
    assert not racing.rates_that_leave([criterion(*values, np.exp([0.1, -0.1, 0.05]))], 0, ANALYSES)
    # A rate with a failed run has no part of the level.
    assert list(racing.rates_that_leave([criterion(*values, [1, 1, INF])], 0, ANALYSES)) == [1, 2]


def test_all_criteria_must_agree():
    better, worse, same = [1, 1.1, 1.2], [3, 3.2, 3.7], [1, 1.2, 1.1]
    agree = [criterion(better, worse), criterion(better, worse, budget="updates")]
    assert list(racing.rates_that_leave(agree, 0, ANALYSES)) == [1]
    open_one = criterion(better, same, budget="updates")
    assert not racing.rates_that_leave([*agree, open_one], 0, ANALYSES)
    # A budget that no run reached is no criterion.
    empty = Criterion("seconds", "validation_loss", np.full((1, 2, 3), NAN))
    assert list(racing.rates_that_leave([*agree, empty], 0, ANALYSES)) == [1]


def test_a_slower_rate_with_a_lower_loss_stays():
    costs = [10, 11, 12, NAN], [30, 32, 37, NAN]  # the losses of the last seed come too late
    for losses, left in (([0.1, 0.1, 0.1, 9], []), ([0.3, 0.3, 0.3, 0], [1])):
        compared = criterion(*costs, losses=np.array([[[0.2] * 4, losses]]))
        assert list(racing.rates_that_leave([compared], 0, ANALYSES)) == left


@pytest.mark.parametrize(
    ("values", "leaves"),
    [
        ([[1, 2, 3], [INF, INF, INF]], [1]),
        ([[1, 2, 3], [1, INF, 2]], [1]),  # it would never be chosen
        ([[INF, INF, INF], [INF, INF, INF]], []),
        ([[1, INF, 2], [INF, INF, INF]], []),
    ],
)
def test_a_rate_that_fails_leaves_if_another_does_not(values, leaves):
    assert list(racing.rates_that_leave([criterion(*values)], 0, ANALYSES)) == leaves


def test_a_rate_is_compared_when_it_has_the_seeds_of_an_analysis():
    seeds = np.arange(6.0)
    best, worse = 1 + 0.01 * seeds, 4 + 0.1 * seeds
    late = np.where(seeds < 2, worse, NAN)  # two of the first three seeds
    assert list(racing.rates_that_leave([criterion(best, late, worse)], 0, ANALYSES)) == [2]
    later = np.where(seeds < 3, worse, NAN)
    assert racing.rates_that_leave([criterion(best, later)], 0, ANALYSES)[1]["left_after"] == 3


def race(seeds=3, sizes=(8, 16), **more):
    """Return race.csv and runs.csv of rates 0.1 and 0.2; the second one is twice as good."""
    runs, rows = [], []
    for size, rate, seed in itertools.product(sizes, (0.1, 0.2), range(seeds)):
        run = {"run": f"{size}-{rate}-{seed}", "machine": "laptop", "status": "finished"}
        run |= {"optimizer": "sgd", "learning_rate": rate, "batch_size": size, "seed": seed}
        for step in range(1, 5):
            loss = math.exp(-step * rate * 5) * (1 + 0.01 * seed * (1 + rate))
            used = {"examples": 32 * step, "updates": 32 // size * step, "epoch": float(step)}
            losses = {"validation_loss": loss, "test_loss": loss}
            rows.append({**run, **used, "seconds": NAN, **losses})
        runs.append({**run, "best_validation_loss": loss})
    frames = pandas.DataFrame(runs), pandas.DataFrame(rows)
    request = ComparisonRequest({"target": {"validation_loss": 0.3}}, analyses=ANALYSES)
    return racing.table(*frames, request, **more), frames[0]


def test_the_table_says_which_rates_left():
    table, runs = race()
    by_rate = table.groupby("learning_rate")["status"].unique().map(list).to_dict()
    assert by_rate == {0.1: ["left"], 0.2: ["in_race"]}
    row = table.iloc[0]
    assert row[["run", "left_after", "against"]].to_list() == ["8-0.1-0", 3, 0.2]
    assert row["low"] > 1 and row["p"] < row["level"] == FIRST
    assert {*racing.without_rates_that_left(runs, table)["learning_rate"]} == {0.2}
    kept, runs = race(protected={"8-0.1-0"})
    assert {*kept.loc[kept["status"] == "in_race", "run"]} == {"8-0.1-0", "8-0.2-0", "16-0.2-0"}
    assert racing.table(runs, runs[:0], ComparisonRequest()).empty


def test_rates_in_the_race_get_the_seeds_of_a_verdict():
    rows = open_statements.race_rows(race()[0], ANALYSES)
    next_seeds = {row["statement"]: (row["seeds"], json.loads(row["runs"])) for row in rows}
    sizes = {'{"batch_size": 8}': (6, ["8-0.2-0"]), '{"batch_size": 16}': (6, ["16-0.2-0"])}
    assert next_seeds == sizes
    assert not [*open_statements.race_rows(race(seeds=6)[0], ANALYSES)]
