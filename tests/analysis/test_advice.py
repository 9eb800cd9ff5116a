"""Advice on batch sizes: what is recommended, how sure that is, what is missing."""

import itertools

import pandas
import pytest
import yaml

from batchscope.study import advice_needs, plan
from made_advice import ASKED, SIZES, TAKEN, advised, comparisons, one, rows, runs


def range_of(found):
    row = one(found, "recommendation")
    return row["smallest"], row["largest"], row["batch_size"], row["grade"]


def test_a_solid_range_around_the_fastest_size():
    found = advised()
    assert range_of(found) == (32, 128, 32, "solid")
    assert set(found["dataset"]) == {"digits"} and not (found["item"] == "need").any()
    assert (found.loc[found["item"] == "check", "passed"] == 1).all()


@pytest.mark.parametrize(
    ("seconds", "accuracy", "expected"),
    [
        ("bwwwb", "wwbww", (32, 32)),  # only neighbours
        ("bwwwb", "bbwww", (64, 128)),  # the fastest of those that are not excluded
        ("wwwww", "wwwww", (16, 256)),
        ("fwwfb", "wwwww", (32, 64)),
        ("", "wwbww", (16, 32)),  # the best outcome, without seconds
    ],
)
def test_the_range_by_its_limits(seconds, accuracy, expected):
    accurate = (0.96, 0.95, 0.9, 0.95, 0.95)
    found = advised(comparisons(seconds, accuracy, accurate=accurate))
    row = one(found, "recommendation")
    assert (row["smallest"], row["largest"]) == expected


def test_memory_excludes_and_is_a_limit():
    limits = pandas.DataFrame(
        {"max_batch_size": [100.0], "max_batch_size_bound": ["fits"], "knee_fitted": [70.0]}
    )
    found = advised(limits=limits)
    assert range_of(found) == (32, 64, 32, "solid")
    assert one(found, "limit", "memory")["largest"] == 100
    assert one(found, "limit", "knee")["estimate"] == 70
    sizes = found[found["item"] == "size"].set_index("batch_size")
    assert sizes.loc[128, ["name", "verdict"]].tolist() == ["memory", "beyond"]
    open_ = advised(limits=limits.assign(max_batch_size_bound="most_fits"))
    assert range_of(open_) == (32, 128, 32, "solid")
    assert one(open_, "limit", "memory")["reason"] == "lower_bound"


def flagged(outcome, column, size=32, *given):
    frame = comparisons(*given)
    frame.loc[(frame["outcome"] == outcome) & (frame["batch_size"] == size), column] = 1
    return frame


CRITICAL = pandas.DataFrame(
    {"target_column": ["validation_loss"], "target_value": [0.2], "critical_batch_size": [50.0]}
    | {"critical_batch_size_low": [30.0], "critical_batch_size_high": [float("nan")]}
)
NOISY = runs().assign(seconds_per_epoch_q3=1.3)
UNLIKE = CRITICAL.assign(lack_of_fit=0.01)
MAJORITY = ASKED._replace(baselines={"digits": {"test_accuracy": 0.95}})
DISTURBED = pandas.DataFrame({"blocks": [10], "disturbed_blocks": [5]})
ON_EDGE = ("seconds", "on_edge")
FRESH = "{until: decided, at_most: 12, first: 6}"
IN_A_FILE = ASKED._replace(given_by=advice_needs.IN_A_FILE)
RATES, BLOCKS = "vary.learning_rate", "measure.time_epoch.blocks"
# The rate of the outcome, at which the seconds are not read.
OTHER_RATE = {"frame": flagged("test_accuracy", "on_edge", 16), "made": runs(rates=[0.1, 0.32])}


@pytest.mark.parametrize(
    ("given", "name", "key", "value"),
    [
        ({"asked": MAJORITY}, "baseline", "epochs", "20"),
        ({"made": runs().assign(test_examples=50)}, "test_set", "margins.test_accuracy", "0.04"),
        ({"frame": flagged(*ON_EDGE, 128)}, "rate_on_edge", RATES, "[0.1, 0.2, 0.4, 0.8]"),
        (OTHER_RATE, "rate_on_edge", RATES, "[0.1, 0.32, 1.02]"),
        ({"made": NOISY[NOISY["batch_size"] == 32]}, "timings_disturbed", BLOCKS, "21"),
        ({"frame": flagged("test_accuracy", "still_falling")}, "still_falling", "epochs", "20"),
        ({"critical": UNLIKE}, "lack_of_fit", None, None),
        ({"asked": ASKED._replace(planned=12)}, "seeds_planned", "seeds", "12"),
    ],
)  # fmt: skip
def test_a_failed_check_lowers_the_grade_and_says_what_to_change(given, name, key, value):
    found = advised(**given)
    assert range_of(found) == (32, 128, 32, "provisional")
    row = one(found, "check", name)
    assert row["passed"] == 0
    assert key is None or (row["key"], row["value"]) == (key, value)


@pytest.mark.parametrize(
    ("given", "rule", "share"),
    [
        ({"made": runs().assign(disturbed_share=0.26)}, "time_epoch", 0.26),
        ({"limits": DISTURBED}, "throughput", 0.5),
    ],
)
def test_disturbed_timings_rank_no_sizes_and_are_to_be_repeated(given, rule, share):
    """By seconds 32 is the fastest; by examples 16 is the best, and 256 is beyond."""
    examples = rows("examples", "wnnnb", [1e3, 1.2e3, 1.4e3, 1.6e3, 2e3])
    frame = pandas.concat([comparisons(), pandas.DataFrame(examples)], ignore_index=True)
    found = advised(frame, **given)
    assert range_of(found) == (16, 16, 16, "provisional")
    limits = found[(found["item"] == "limit") & found["batch_size"].notna()]
    assert [*limits["name"].unique()] == ["examples", "test_accuracy"]
    check = one(found, "check", "timings_disturbed")
    assert (check["passed"], check["bound"]) == (0, 0.25)
    assert check["estimate"] == pytest.approx(share)
    assert (check["key"], check["value"]) == (advice_needs.RERUN, rule)
    assert "times_compared" not in {*found["name"]}


def test_a_quarter_of_disturbed_blocks_is_borne_and_runs_of_one_timing_job_count_once():
    """Of 6 seeds of 5 sizes, one size has all blocks disturbed, and more rates than the others."""
    made = runs()
    share = (made["batch_size"] == 16).astype(float)
    more = made[share == 1].assign(learning_rate=0.8)
    made = pandas.concat([made.assign(disturbed_share=share), more.assign(disturbed_share=1.0)])
    found = advised(made=made)
    check = one(found, "check", "timings_disturbed")
    assert check["passed"] == 1 and check["estimate"] == pytest.approx(0.2)
    assert range_of(found) == (32, 128, 32, "solid")


@pytest.mark.parametrize(
    ("outcome", "mean", "bound", "passed"),
    [
        ("test_r2", 0.4, 0.38, 1),  # its interval is 0.39 to 0.41
        ("test_r2", 0.4, 0.395, 0),
        ("test_r2", 0.4, -0.01, 1),
        ("test_mae", 0.4, 0.42, 1),
        ("test_mae", 0.4, 0.405, 0),
        ("test_f1", 0.4, 0.3, 1),
    ],
)
def test_the_baseline_of_other_tasks_is_in_the_record_of_the_data(outcome, mean, bound, passed):
    frame = pandas.DataFrame(rows("seconds", "bwwwb", TAKEN) + rows(outcome, "wwwww", [mean] * 5))
    asked = ASKED._replace(margins={outcome: 0.02}, baselines={"digits": {outcome: bound}})
    found = advised(frame, asked=asked)
    row = one(found, "check", "baseline")
    assert (row["passed"], row["bound"], row["estimate"]) == (passed, bound, mean)
    assert "test_set" not in {*found["name"]}  # the error of a share of so many examples


def test_without_seconds_the_best_size_has_the_least_error():
    means = [44.0, 43.0, 41.0, 42.0, 45.0]
    for outcome, best in (("test_mae", 64), ("test_r2", 256)):
        frame = pandas.DataFrame(rows(outcome, "wwwww", means))
        found = advised(frame, asked=ASKED._replace(margins={outcome: 2.0}))
        assert one(found, "recommendation")["batch_size"] == best


@pytest.mark.parametrize(
    ("column", "name"), [("on_edge", "rate_on_edge")] + [["still_falling"] * 2]
)
@pytest.mark.parametrize(
    ("size", "seconds", "passed"),
    [(32, "bwbbb", 0), (64, "bwbbb", 0), (128, "bwbnb", 0), (128, "bwbbb", 1)],
)
def test_a_flag_counts_unless_its_size_is_beyond_and_far_from_the_range(
    column, name, size, seconds, passed
):
    found = advised(flagged("seconds", column, size, seconds))
    assert one(found, "check", name)["passed"] == passed


UNTIMED = runs().drop(columns="train_seconds")
FIRST = comparisons("bwnwb")
FIRST.loc[FIRST["verdict"] == "not_resolved", "reason"] = "at_first_evaluation"


@pytest.mark.parametrize(
    ("given", "need", "value"),
    [
        ({"frame": comparisons(n=4), "made": runs(4)}, "seeds", "6"),
        ({"frame": comparisons("bwwwn")}, "seeds", FRESH),
        ({"frame": comparisons("bnwwb")}, "seeds", FRESH),
        ({"frame": comparisons("bnwwb"), "asked": IN_A_FILE}, "seeds", "12"),
        ({"made": runs(rates=[0.1])}, "rates", "[0.05, 0.1, 0.2]"),
        ({"frame": comparisons(""), "made": UNTIMED}, "time_epoch", "time_epoch"),
        ({"frame": comparisons(accuracy="")}, "evaluate", "evaluate"),
        ({"frame": comparisons("")}, "target", "100"),
        ({"frame": comparisons("fffff")}, "longer_training", "20"),
        ({"frame": FIRST}, "target", "100"),
    ],
)
def test_what_is_missing_lowers_the_grade(given, need, value):
    found = advised(**given)
    row = one(found, "recommendation")
    assert row["grade"] == "provisional"
    needed = one(found, "need", need)
    assert needed["value"] == value
    if need == "seeds":  # a minute each
        there = 0 if value == FRESH else row["n"]
        assert needed["minutes_to_resolve"] == needed["seeds_to_resolve"] - there


def test_without_any_value_all_needs_stand_at_once_the_cheapest_first():
    frame = comparisons("fffff", "", n=2)
    found = advised(frame, runs(2, [0.1]).drop(columns="train_seconds"))
    assert not (found["item"] == "recommendation").any()
    needs = found[found["item"] == "need"]
    assert [*needs["name"]] == ["evaluate", "longer_training", "rates", "seeds"]
    assert needs["minutes_to_resolve"].fillna(0).is_monotonic_increasing


def test_examples_decide_where_nothing_else_is_known():
    frame = pandas.DataFrame(rows("seconds", "wwwww", [5, 4, 3, 2, 9])).assign(outcome="examples")
    found = advised(frame, UNTIMED)
    assert range_of(found)[2:] == (128, "provisional")
    assert {"time_epoch", "evaluate"} <= {*found.loc[found["item"] == "need", "name"]}


def test_trends_at_other_budgets_are_the_rows_of_their_table():
    given = {"budget": ["epochs", "updates", "end"], "outcome": "test_accuracy", "estimate": -0.01}
    found = advised(trends=pandas.DataFrame(given))
    assert [*found.loc[found["item"] == "trend", "key"]] == ["epochs", "updates"]


def test_series_stand_apart_and_two_sizes_get_no_advice():
    two = comparisons()[lambda rows: rows["batch_size"] < 64]
    frames = {"sgd": comparisons(), "adam": comparisons(), "few": two}
    given = pandas.concat(each.assign(optimizer=name) for name, each in frames.items())
    made = pandas.concat(runs().assign(optimizer=name) for name in frames)
    found = advised(given.reset_index(drop=True), made)
    assert found.groupby("optimizer").size().to_dict() == {"adam": 21, "sgd": 21}
    assert advised(comparisons().iloc[:0]).empty


def planned(sizes, rates, seeds, **more):
    every = itertools.product(sizes, rates, range(seeds))
    names = ("batch_size", "learning_rate", "seed")
    made = [dict(zip(names, each, strict=True)) | {"evaluate_every": 0} for each in every]
    trainings = plan.Trainings(dict(enumerate(made)), tuple(range(seeds)), **more)
    return advice_needs.planned(plan.Experiment("a", "", "", {}, trainings=trainings))


def test_a_plan_says_what_its_advice_will_lack():
    needs = planned([8, 16], [0.1], 2)
    assert [advice_needs.line(each.key, each.value) for each in needs] == [
        "vary: {batch_size: [8, 16, 32]}",
        "measure: [time_epoch]",
        "measure: [evaluate]",
        "seeds: 6",
        "vary: {learning_rate: [0.05, 0.1, 0.2]}",
    ]
    assert not planned([8, 16, 32], [0.1, 0.2], 6, timed=True, measures={"evaluate": {}})
    assert not planned([8], [0.1], 1)


def test_seeds_in_stages_are_wanted_after_the_last_look_alone():
    """Twelve would settle it: as long as a look follows, more seeds come by themselves."""
    frame = comparisons("bwwwn")
    found = advised(frame, asked=ASKED._replace(looks=(6, 9, 13, 19, 28)))
    assert "seeds" not in set(found.loc[found["item"] == "need", "name"])
    check = one(found, "check", "looks")
    assert (check["passed"], check["estimate"], check["bound"]) == (0, 6, 28)
    need = one(advised(frame, asked=ASKED._replace(looks=(6,))), "need", "seeds")
    assert yaml.safe_load(need["value"]) == {"until": "decided", "at_most": 12, "first": 6}
    elsewhere = advised(frame, made=runs().iloc[:0], asked=ASKED)  # of another machine
    assert "seeds" not in set(elsewhere["name"])
    decided = advised(asked=ASKED._replace(looks=(6, 9)))
    assert one(decided, "check", "looks")["passed"] == 1


def rated(lost):
    """Runs at three rates, by which the accuracy at that of the seconds is so much lower."""
    made = pandas.concat(runs(rates=[0.32, 0.64]).assign(batch_size=size) for size in SIZES)
    lower = made["learning_rate"] == 0.32
    noise = (made["seed"] + lower).mod(2) / 1000
    return made.assign(test_accuracy=0.95 + noise - lost * lower)


@pytest.mark.parametrize(("lost", "passed"), [(0.0, 1), (0.005, 1), (0.026, 0)])
def test_outcomes_hold_at_the_rate_that_is_recommended(lost, passed):
    """The best rate of the seconds is 0.32, that of the accuracy 0.64."""
    frame = comparisons("bbwbb")
    frame["learning_rate"] = frame["outcome"].map({"seconds": 0.32, "test_accuracy": 0.64})
    found = advised(frame, rated(lost).drop_duplicates(["batch_size", "learning_rate", "seed"]))
    check = one(found, "check", "one_rate")
    assert check["passed"] == passed
    assert one(found, "recommendation")["grade"] == ("solid" if passed else "provisional")
    if not passed:
        assert check["batch_size"] == 64 and check["low"] < check["estimate"] < check["high"]
        assert check["estimate"] == pytest.approx(lost) and check["bound"] == 0.02


def test_a_size_at_a_single_rate_is_not_tuned():
    made = runs()
    made = made[(made["batch_size"] != 64) | (made["learning_rate"] == 0.1)]
    found = advised(made=made)
    assert one(found, "need", "rates") and one(found, "recommendation")["grade"] == "provisional"
    unknown = advised(made=runs().drop(columns="learning_rate"), asked=IN_A_FILE)
    assert one(unknown, "need", "rates")["value"] == "learning_rate"


def test_a_fastest_size_that_something_excludes_is_told():
    frame = comparisons("bbbbw", "wwwwb", taken=[5, 4, 3, 2.9, 1], accurate=[0.95] * 4 + [0.5])
    check = one(advised(frame), "check", "fastest")
    assert (check["passed"], check["batch_size"]) == (0, 256)
    assert yaml.safe_load(check["value"]) == [16, 32, 64, 128]
    assert "fastest" not in set(advised()["name"])


def test_seconds_that_are_known_are_not_asked_for():
    """They may be compared at no target: then that is told, and not where a rate falls anyway."""
    timed = ASKED._replace(timed=True)
    made = runs().drop(columns="train_seconds")
    found = advised(comparisons(""), made, timed)
    assert "time_epoch" not in set(found["name"])
    assert one(found, "check", "times_compared")["passed"] == 0
    falling = comparisons("").assign(schedule="cosine")
    assert "times_compared" not in set(advised(falling, made, timed)["name"])


def test_accuracies_of_positions_are_no_shares_of_the_examples():
    asked = ASKED._replace(by_position={"digits"})
    made = runs().assign(test_examples=20)
    assert one(advised(made=made), "check", "test_set")["passed"] == 0
    assert "test_set" not in set(advised(made=made, asked=asked)["name"])


def test_no_number_of_seeds_is_said_to_settle_what_none_settles():
    frame = comparisons("bnwnb")
    assert one(advised(frame), "need", "seeds")
    frame.loc[1, ["seeds_to_resolve", "reason"]] = [float("nan"), "at_first_evaluation"]
    assert not len(advised(frame).query("item == 'need' and name == 'seeds'"))
