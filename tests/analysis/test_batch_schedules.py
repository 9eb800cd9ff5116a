"""Whether batch sizes may rise: ramps against constant sizes, and local critical batch sizes."""

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import batch_schedules
from batchscope.figures import FigureTables
from batchscope.measures.branches import critical_multiple
from batchscope.report import batch_schedules as schedule_section
from batchscope.report import rendering
from batchscope.study import names
from digit_runs import run_name

RISES = {"batch_schedule": "steps", "largest_batch_size": 64, "batch_rises": 2}


def runs(losses, seeds=8, scatter=0.01, rates=(0.1,), status=None, **more):
    """runs.csv of configurations, (factors, mean loss, updates): the rate 0.1 is the best one."""
    generator, found = np.random.default_rng(3), []
    shared = generator.normal(size=seeds)
    for factors, mean, updates in losses:
        for rate in rates:
            for seed in range(seeds):
                given = {"batch_size": 8, "learning_rate": rate, "seed": seed, **factors}
                run = run_name(**given)
                loss = mean + abs(math.log(rate / 0.1)) + shared[seed]
                loss += scatter * generator.normal()
                row = {**names.parse_run(run), "run": run, "status": "finished"}
                row |= {"best_validation_loss": loss, "test_loss": loss, "steps_run": updates}
                row |= {"train_seconds": updates * math.exp(0.02 * generator.normal())}
                found.append(row)
    return pandas.DataFrame(found).assign(**more)


def rows(frame, margins=()):
    table = batch_schedules.ramps_table(frame, dict(margins))
    return table.set_index("outcome").to_dict("index")


def test_a_ramp_that_pays():
    constant = [({}, 1.0, 400), ({"batch_size": 32}, 1.3, 100)]
    for rates in ((0.1,), (0.05, 0.1, 0.2)):
        found = rows(runs([*constant, (RISES, 1.01, 250)], rates=rates), {"test_loss": 0.05})
        assert [*found] == ["test_loss", "updates", "seconds"]
        loss, updates, seconds = found.values()
        assert loss["verdict"] == "within" and loss["against"] == 8
        assert loss["high"] < loss["bound"] == 0.05
        assert loss["learning_rate"] == 0.1
        assert updates["estimate"] == pytest.approx(250 / 400)
        assert seconds["estimate"] == pytest.approx(250 / 400, rel=0.03)
        assert seconds["low"] < 250 / 400 < seconds["high"] < 1
        assert {updates["verdict"], seconds["verdict"]} == {"supported"}
        assert updates["against"] == seconds["against"] == 8


def test_a_ramp_that_is_worse_than_some_constant_size_does_not_pay():
    frame = runs([({}, 1.5, 400), ({"batch_size": 32}, 1.0, 100), (RISES, 1.2, 250)])
    found = rows(frame, {"test_loss": 0.05})
    assert found["test_loss"]["verdict"] == "beyond" and found["test_loss"]["against"] == 32
    assert found["updates"]["verdict"] == "contradicted"
    assert found["updates"]["estimate"] == pytest.approx(2.5)
    accuracy = frame.assign(test_accuracy=-frame["test_loss"])
    found = rows(accuracy, {"test_accuracy": 0.05})["test_accuracy"]
    assert found["verdict"] == "beyond" and found["bound"] == -0.05
    assert found["low"] < found["estimate"] < found["high"] < -0.05


def test_a_step_decay_is_a_constant_size_and_other_horizons_are_not_compared():
    decay = {**RISES, "largest_batch_size": 8}
    found = batch_schedules.ramps_table(runs([(decay, 1.0, 400), (RISES, 1.0, 250)]), {})
    assert found["outcome"].tolist() == ["test_loss", "updates", "seconds"]
    assert (found["against"] == 8).all()
    longer = batch_schedules.ramps_table(runs([({"epochs": 9}, 1.0, 400), (RISES, 1.0, 250)]), {})
    assert longer["verdict"].tolist() == ["not_testable"]
    assert longer["reason"].tolist() == ["alone"]


def test_rates_are_chosen_by_the_seeds_of_each_look():
    """What is said at six seeds is not changed by rates that later ones choose."""
    both = [({}, 1.0, 400), ({"batch_size": 32}, 1.0, 100), (RISES, 1.0, 250)]
    frame = runs(both, 9, 0.02, rates=(0.1, 0.11))
    late, other = frame["seed"] >= 6, frame["learning_rate"] == 0.11
    frame.loc[late & other, "best_validation_loss"] -= 5
    before = batch_schedules.ramps_table(frame[~late], {"test_loss": 0.05}, (6, 9))
    found = batch_schedules.ramps_table(frame, {"test_loss": 0.05}, (6, 9))
    assert before["learning_rate"].tolist() == [0.1] * 3
    assert found["learning_rate"].tolist() == [0.11] * 3
    # The first analysis decided, and it is printed as it was.
    shown = ["estimate", "low", "high", "n", "verdict"]
    loss, then = (each.set_index("outcome").loc["test_loss", shown] for each in (found, before))
    assert then["verdict"] == "within" and loss.tolist() == then.tolist()


def test_failed_ramps_and_none():
    frame = runs([({}, 1.0, 400), (RISES, 1.0, 250)])
    frame.loc[len(frame) - 1, "status"] = "diverged"
    assert rows(frame)["test_loss"]["verdict"] == "beyond"
    assert rows(frame)["test_loss"]["reason"] == "failed"
    assert batch_schedules.ramps_table(runs([({}, 1.0, 400)]), {}).empty
    assert batch_schedules.ramps_table(pandas.DataFrame(), {}).empty


def test_external_runs_that_lack_factors_and_runs_that_something_stops():
    frame = runs([({}, 1.0, 400), (RISES, 1.0, 250)])
    assert batch_schedules.ramps_table(frame.assign(batch_rises=np.nan), {}).empty
    assert batch_schedules.ramps_table(frame[["batch_size", "batch_schedule", "run"]], {}).empty
    assert batch_schedules.ramps_table(frame.assign(patience=3), {}).empty


def test_a_constant_size_that_diverged_decides_nothing():
    frame = runs([({}, 1.0, 400), ({"batch_size": 64}, 0.5, 50), (RISES, 1.0, 250)])
    large = frame.index[frame["batch_size"] == 64]
    frame.loc[large[1:], "status"] = "diverged"
    found = rows(frame, {"test_loss": 0.05})
    assert found["test_loss"]["verdict"] == "within" and found["test_loss"]["n"] == 8
    assert found["test_loss"]["against"] == found["updates"]["against"] == 8


def test_a_ramp_that_diverged_before_any_loss_has_a_row_and_no_rate():
    frame = runs([({}, 1.0, 400), (RISES, 1.0, 250)], rates=(0.05, 0.1))
    rising_runs = frame["batch_schedule"] == "steps"
    frame.loc[rising_runs, "status"] = "diverged"
    frame.loc[rising_runs, ["test_loss", "best_validation_loss"]] = np.nan
    table = batch_schedules.ramps_table(frame, {})
    assert table["verdict"].tolist()[0] == "beyond" and table["reason"].tolist()[0] == "failed"
    (row,), text = shown(ramps=table.assign(learning_rate=np.nan))
    assert row["reduces_cost"] == "no" and "nan" not in text


def shown(**tables):
    """Returns the rows of a table of batch schedules, and the text of the advice."""
    schedules = schedule_section.for_experiment(FigureTables(**tables))
    given = {"cards": [], "guess": None, "seeds": False}
    text = rendering.render("advice.txt.j2", schedules={"a": schedules}, **given)
    return schedules["ramps" if "ramps" in tables else "local_critical"], text


@pytest.mark.parametrize(
    ("loss", "updates", "pays"), [(1.0, 250, "yes"), (2.0, 250, "no"), (1.0, 900, "no")]
)
def test_what_the_card_says_follows_from_the_verdicts(loss, updates, pays):
    frame = runs([({}, 1.0, 400), ({"batch_size": 32}, 1.3, 100), (RISES, loss, updates)])
    (row,), text = shown(ramps=batch_schedules.ramps_table(frame, {"test_loss": 0.05}))
    assert row["reduces_cost"] == pays
    assert row["saved"] == (["updates", "seconds"] if updates == 250 else [])
    assert row["outcomes"][0]["shown"] in text and row["costs"][1]["shown"] in text


@pytest.mark.parametrize(
    ("low", "seeds", "grows"),
    [(40.0, 6, True), (20.0, 6, False), (math.nan, 6, False), (40.0, 2, False)],
)
def test_a_local_critical_batch_size_grows_where_intervals_are_apart(low, seeds, grows):
    points = {"share": [0.1, 0.5], "examples_used": [100, 500], "batch_size": 8, "n": seeds}
    points |= {"critical_batch_size": [16, 64], "critical_batch_size_low": [8.0, low]}
    table = pandas.DataFrame({**points, "critical_batch_size_high": [32, math.nan], "reason": ""})
    # A factor that diverged everywhere has no losses, and takes none from the others.
    failed = table.assign(n=0, reason="failed")
    for frame in (table, pandas.concat([table, failed])):
        (row,), _ = shown(local_critical_batch_size=frame)
        assert (row["grows"], row["batch_size"], row["seeds"]) == (grows, 8, seeds)
    (row,), _ = shown(local_critical_batch_size=table[:1])
    assert len(row["ends"]) == 1 and not row["grows"]


MULTIPLES = (1, 2, 4)


def tables(losses):
    """branches.csv and branch_points.csv of seeds with these losses, shape (seeds, factors)."""
    branches, points = [], []
    for seed, row in enumerate(losses):
        same = {"run": f"r{seed}", "batch_size": 8, "seed": seed, "learning_rate": 0.1}
        same |= {"share": 0.5, "examples_used": 100 + seed}
        branches += [
            {**same, "factor": factor, "branch_loss": loss}
            for factor, loss in zip(MULTIPLES, row, strict=True)
        ]
        whole = [loss if math.isfinite(loss) else math.inf for loss in row]
        critical = 8 * critical_multiple(list(MULTIPLES), whole, 0.1)
        noise = {"gradient_variance": 30.0, "gradient_norm_squared": 2.0 + 0.1 * seed}
        points.append({**same, **noise, "local_critical_batch_size": critical})
    return pandas.DataFrame(branches), pandas.DataFrame(points)


def losses(means, scatter=0.01, seeds=8, seed=0):
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(seeds, 1))  # pairs cancel it
    return np.array(means) + shared + scatter * generator.normal(size=(seeds, len(means)))


def test_larger_factors_beside_the_best_smaller_one():
    found = batch_schedules.local_critical_table(*tables(losses([1.0, 0.8, 1.0])), 0.1)
    assert found["factor"].tolist() == [2, 4]
    assert found["verdict"].tolist() == ["within", "beyond"]
    assert found["against"].tolist() == [1, 2]
    assert found["estimate"].tolist() == pytest.approx([-0.2, 0.2], abs=0.02)
    assert (found["critical_batch_size"] == 16).all()
    # All seeds have 16: what lies between 16 and 32 was never seen.
    assert found["critical_batch_size_low"].tolist() == pytest.approx([16, 16])
    assert found["critical_batch_size_high"].tolist() == pytest.approx([32, 32])
    assert found["noise_scale"].tolist() == pytest.approx([30 / 2.35] * 2)
    assert (found["noise_scale_low"] < 30 / 2.35).all()


def test_ends_are_open_where_no_factor_was_small_or_large_enough():
    low = batch_schedules.local_critical_table(*tables(losses([1.0, 1.5, 2.0])), 0.1)
    assert low["critical_batch_size"].tolist() == [8, 8]
    assert low["critical_batch_size_low"].isna().all()
    assert low["critical_batch_size_high"].tolist() == pytest.approx([16, 16])
    high = batch_schedules.local_critical_table(*tables(losses([1.0, 1.0, 1.0])), 0.1)
    assert high["critical_batch_size_high"].isna().all()
    assert high["critical_batch_size_low"].tolist() == pytest.approx([32, 32])


def test_a_branch_that_diverged_is_beyond_and_stages_share_the_level():
    given = losses([1.0, 0.8, 1.0])
    given[3, 2] = math.nan
    found = batch_schedules.local_critical_table(*tables(given), 0.1)
    assert found["verdict"].tolist() == ["within", "beyond"]
    assert found["reason"].tolist() == ["", "failed"]
    assert found["estimate"].isna().tolist() == [False, True] and found["n"].tolist() == [8, 7]
    given = losses([1.0, 0.8, 1.0], 0.1, 9)
    one = batch_schedules.local_critical_table(*tables(given), 0.1)
    staged = batch_schedules.local_critical_table(*tables(given), 0.1, (6, 9, 13))
    assert (staged["high"] - staged["low"] > one["high"] - one["low"]).all()


def test_smaller_factors_that_diverged_for_a_seed_are_compared_over_the_others():
    given = losses([0.2, 0.8, 0.81])
    given[3, 0] = math.nan
    found = batch_schedules.local_critical_table(*tables(given), 0.1)
    assert found["verdict"].tolist() == ["beyond", "beyond"]
    assert found["against"].tolist() == [1, 1]
    given[:, 0] = math.nan
    found = batch_schedules.local_critical_table(*tables(given), 0.1)
    assert found["verdict"].tolist() == ["not_testable", "within"]
    assert found["reason"].tolist() == ["failed", ""]
    empty = pandas.DataFrame()
    assert batch_schedules.local_critical_table(empty, empty, math.nan).empty


def test_the_mean_lies_in_its_interval():
    rows = np.array([[1.0, 1.0, 2.0]] * 8 + [[1.0, 1.0, 1.0]] * 7)
    rows[:8] += np.array([0, -0.3, 0])
    branches, points = tables(rows)
    found = batch_schedules.local_critical_table(branches, points, 0.1).iloc[0]
    low, value = found["critical_batch_size_low"], found["critical_batch_size"]
    assert low < value and value == pytest.approx(16 ** (8 / 15) * 32 ** (7 / 15))
