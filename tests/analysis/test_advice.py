"""Advice on batch sizes: what is recommended, how sure that is, what to change."""

import itertools

import numpy as np
import pandas
import pytest
import yaml

from batchscope.study import plan, suggestions
from batchscope.study.experiments import TrainingExperiment
from made_advice import ASKED, SIZES, TAKEN, advised, comparisons, one, rows, runs


def recommended(found):
    row = one(found, "recommendation")
    return row["headline"], row["batch_size"], row["sizes"], row["grade"]


def names(found, item):
    return {*found.loc[found["item"] == item, "name"]}


def test_sizes_within_every_margin_do_equally_well():
    found = advised()
    assert recommended(found) == ("not_distinguished", 32, "32 64 128", "solid")
    row = one(found, "recommendation")
    assert (row["name"], row["verdict"]) == ("seconds", "within")
    assert set(found["dataset"]) == {"digits"}
    assert (found.loc[found["item"] == "check", "passed"] == 1).all()
    assert names(found, "suggestion") == set()


@pytest.mark.parametrize(
    ("seconds", "accuracy", "expected"),
    [
        ("bwbbb", "wwwww", ("recommended", 32, "32", "solid")),  # the others are excluded
        ("bwwwb", "bbwww", ("not_distinguished", 64, "64 128", "provisional")),  # not the fastest
        ("wwwww", "wwwww", ("not_distinguished", 32, "16 32 64 128 256", "solid")),
        ("fwwfb", "wwwww", ("not_distinguished", 32, "32 64", "solid")),
        ("bnnwb", "wwwww", ("not_distinguished", 128, "32 64 128", "provisional")),
        ("bnnnb", "wwwww", ("not_distinguished", 32, "32 64 128", "provisional")),
        ("bwwwb", "wnnnw", ("not_distinguished", 32, "32 64 128", "provisional")),
        ("", "wwbww", ("not_distinguished", 16, "16 32 128 256", "provisional")),
    ],
)
def test_the_recommended_size_is_within_every_margin_where_one_is(seconds, accuracy, expected):
    """The fastest of those, or else the fastest measured; without seconds by the outcome."""
    accurate = (0.96, 0.95, 0.9, 0.95, 0.95)
    found = advised(comparisons(seconds, accuracy, accurate=accurate))
    assert recommended(found) == expected
    row = one(found, "recommendation")
    verdicts = found[found["item"] == "size"].set_index("batch_size")["verdict"]
    assert (row["verdict"] == "within") == (verdicts[row["batch_size"]] == "within")


def test_learning_rates_are_told_before_and_after_scaling():
    made = runs()
    made["effective_learning_rate"] = made["learning_rate"] * made["batch_size"] / 16
    found = advised(comparisons().assign(learning_rate=0.1), made)
    rows = found[found["item"].isin(["recommendation", "size", "rate"])]
    expected = rows["learning_rate"] * rows["batch_size"] / 16
    assert len(rows) == 9 and np.allclose(rows["effective_learning_rate"], expected)
    row = one(advised(made=made.assign(effective_learning_rate=np.nan)), "recommendation")
    assert row["effective_learning_rate"] == row["learning_rate"]


def test_three_to_five_seeds_are_read_off_their_intervals():
    found = advised(comparisons("bwwwb", n=4), runs(4))
    assert recommended(found) == ("not_distinguished", 32, "32 64 128", "provisional")
    assert recommended(advised(comparisons("bwbbb", n=3), runs(3)))[:3] == ("recommended", 32, "32")
    found = advised(comparisons("bwwwb", "wwnww", n=4), runs(4))
    sizes = found[found["item"] == "size"].set_index("batch_size")
    assert sizes.loc[64, "name"] == "test_accuracy"  # the limit that is open, not the first one


@pytest.mark.parametrize("n", [1, 2])
def test_below_three_seeds_nothing_is_distinguished_and_no_baseline_is_beaten(n):
    made = comparisons("bwbbb", "bwbbb", n=n)
    found = advised(made, runs(n), ASKED._replace(baselines={"digits": {"test_accuracy": 0.99}}))
    assert recommended(found) == ("not_distinguished", 32, "16 32 64 128 256", "open")
    assert "baseline" not in names(found, "check")


def test_memory_excludes_and_is_a_limit():
    limits = pandas.DataFrame(
        {"max_batch_size": [100.0], "max_batch_size_bound": ["fits"], "knee_fitted": [70.0]}
    )
    found = advised(limits=limits)
    assert recommended(found) == ("not_distinguished", 32, "32 64", "solid")
    assert one(found, "limit", "memory")["estimate"] == 100
    assert one(found, "limit", "knee")["estimate"] == 70
    sizes = found[found["item"] == "size"].set_index("batch_size")
    assert sizes.loc[128, ["name", "verdict"]].tolist() == ["memory", "beyond"]
    open_ = advised(limits=limits.assign(max_batch_size_bound="most_fits"))
    assert recommended(open_)[2] == "32 64 128"
    assert one(open_, "limit", "memory")["reason"] == "lower_bound"


def baseline(value, **more):
    return ASKED._replace(baselines={"digits": {"test_accuracy": value}}, **more)


def test_nothing_was_learned_where_no_size_beats_the_baseline():
    """Accuracies of 0.95, from 0.94 to 0.96: one line tries other rates, and nothing else."""
    found = advised(asked=baseline(0.945))
    row = one(found, "recommendation")
    assert row["headline"] == "nothing_learned"
    assert all(pandas.isna(row[name]) for name in ("batch_size", "learning_rate", "grade"))
    check = one(found, "check", "baseline")
    assert (check["passed"], check["estimate"], check["bound"], check["n"]) == (0, 0.95, 0.945, 6)
    change = one(found, "suggestion")
    assert (change["name"], change["key"]) == ("baseline", "learning_rate")
    tried = [0.1, 0.2, 0.4]
    assert yaml.safe_load(change["value"]) == [0.0125, 0.025, 0.05, *tried, 0.8, 1.6, 3.2]
    assert change["minutes_to_resolve"] == 10  # six more rates; three took 6 x 50 s


def test_a_size_that_learned_nothing_is_no_candidate_beside_one_that_did():
    frame = comparisons("nwnnn", accurate=(0.95, 0.7, 0.95, 0.95, 0.7))
    found = advised(frame, asked=baseline(0.8))
    assert recommended(found)[:3] == ("not_distinguished", 64, "16 64 128")
    assert one(found, "check", "baseline")["passed"] == 1


def flagged(outcome, column, size=32, *given):
    frame = comparisons(*given)
    frame.loc[(frame["outcome"] == outcome) & (frame["batch_size"] == size), column] = 1
    return frame


@pytest.mark.parametrize(
    ("size", "rate", "ends", "value"),
    [
        (32, 0.4, (0.4, None), [0.1, 0.2, 0.4, 0.8, 1.6]),
        (128, 0.1, (None, 0.1), [0.025, 0.05, 0.1, 0.2, 0.4]),
    ],
)
def test_a_best_rate_on_the_edge_is_not_found_yet(size, rate, ends, value):
    frame = flagged("seconds", "on_edge", size)
    frame.loc[frame["batch_size"] == size, "learning_rate"] = rate
    found = advised(frame)
    row = one(found, "recommendation")
    assert (row["headline"], row["sizes"]) == ("rate_not_found", str(size))
    check = one(found, "check", "rate_on_edge")
    assert (check["passed"], check["batch_size"], check["learning_rate"]) == (0, size, rate)
    assert [None if pandas.isna(check[end]) else check[end] for end in ("low", "high")] == [*ends]
    change = one(found, "suggestion")
    assert (change["key"], change["batch_size"]) == ("learning_rate", size)
    assert yaml.safe_load(change["value"]) == value


@pytest.mark.parametrize(
    ("seconds", "accuracy", "size", "passed"),
    [
        ("bwbbb", "wwwww", 64, 0),  # beyond by the edge alone, and next to the best
        ("bwbbb", "wwbww", 64, 1),  # excluded by its accuracy as well
        ("bwbbb", "wwwww", 128, 1),  # far from the best
        ("bwbnb", "wwwww", 128, 0),
    ],
)
def test_a_rate_on_the_edge_counts_where_its_size_may_be_the_best(seconds, accuracy, size, passed):
    found = advised(flagged("seconds", "on_edge", size, seconds, accuracy))
    assert one(found, "check", "rate_on_edge")["passed"] == passed


def test_the_edge_counts_at_the_recommended_rates_and_among_several():
    """The accuracy was compared at a rate on the edge, at which no size is recommended."""
    found = advised(flagged("test_accuracy", "on_edge", 64))
    check = one(found, "check", "rate_on_edge")
    assert (check["passed"], check["sizes"]) == (1, "32 64 128")
    single = advised(made=runs(rates=[0.1]))
    assert "rate_on_edge" not in names(single, "check")
    assert one(single, "suggestion", "rates")["minutes_to_resolve"] == 10  # two more of 6 x 50 s


CRITICAL = pandas.DataFrame(
    {"target_column": ["validation_loss"], "target_value": [0.2], "critical_batch_size": [50.0]}
    | {"critical_batch_size_low": [30.0], "critical_batch_size_high": [float("nan")]}
)
NOISY = runs().assign(seconds_per_epoch_q3=1.3)
UNLIKE = CRITICAL.assign(lack_of_fit=0.01)
NOISY_SWEEP = pandas.DataFrame({"noise_floor": [1.3]})
DISTURBED = pandas.DataFrame({"blocks": [10], "disturbed_blocks": [5]})
FRESH = "{until: decided, at_most: 12, first: 6}"
EXTERNAL = ASKED._replace(keys_to_add=suggestions.EXTERNAL_KEYS)
BLOCKS = "measure.time_epoch.blocks"


@pytest.mark.parametrize(
    ("given", "name", "key", "value"),
    [
        ({"made": runs().assign(test_examples=50)}, "test_set", "test_examples", "119"),
        ({"made": NOISY[NOISY["batch_size"] == 32]}, "timings_disturbed", BLOCKS, "21"),
        ({"limits": NOISY_SWEEP}, "timings_disturbed", "--forcerun", "throughput"),
        ({"frame": flagged("test_accuracy", "still_falling")}, "still_falling", "epochs", "20"),
        ({"critical": UNLIKE}, "lack_of_fit", None, None),
        ({"asked": ASKED._replace(planned=12)}, "seeds_planned", "seeds", "12"),
    ],
)
def test_a_failed_check_lowers_the_grade_and_says_what_to_change(given, name, key, value):
    found = advised(**given)
    assert recommended(found) == ("not_distinguished", 32, "32 64 128", "provisional")
    assert one(found, "check", name)["passed"] == 0
    if key:
        change = one(found, "suggestion", name)
        assert (change["key"], change["value"]) == (key, value)
    assert not found["key"].astype(str).str.startswith("margins").any()


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
    assert recommended(found) == ("not_distinguished", 16, "16 32 64 128", "provisional")
    limits = found[(found["item"] == "limit") & found["batch_size"].notna()]
    assert [*limits["name"].unique()] == ["examples", "test_accuracy"]
    check = one(found, "check", "timings_disturbed")
    assert (check["passed"], check["bound"]) == (0, 0.25)
    assert check["estimate"] == pytest.approx(share)
    change = one(found, "suggestion", "timings_disturbed")
    assert (change["key"], change["value"]) == (suggestions.RERUN, rule)
    assert "times_compared" not in {*found["name"]}


@pytest.mark.parametrize(
    ("outcome", "mean", "bound", "passed"),
    [
        ("test_r2", 0.4, 0.38, 1),  # its interval is 0.39 to 0.41
        ("test_r2", 0.4, 0.395, 0),
        ("test_mae", 0.4, 0.42, 1),
        ("test_mae", 0.4, 0.405, 0),
    ],
)
def test_the_baseline_of_other_tasks_is_in_the_record_of_the_data(outcome, mean, bound, passed):
    frame = pandas.DataFrame(rows("seconds", "bwwwb", TAKEN) + rows(outcome, "wwwww", [mean] * 5))
    asked = ASKED._replace(margins={outcome: 0.02}, baselines={"digits": {outcome: bound}})
    found = advised(frame, asked=asked)
    row = one(found, "check", "baseline")
    assert (row["passed"], row["bound"], row["estimate"]) == (passed, bound, mean)
    assert "test_set" not in {*found["name"]}  # the error of a share of so many examples


UNTIMED = runs().drop(columns="train_seconds")
FIRST = comparisons("bwnwb")
FIRST.loc[FIRST["verdict"] == "not_resolved", "reason"] = "at_first_evaluation"
RARE = runs().assign(evaluate_every=59)
# One value for all sizes evaluates none of them less often, and trains none of them shorter.
BY_SIZE = runs().assign(evaluate_every=runs()["batch_size"], epochs=runs()["batch_size"])


@pytest.mark.parametrize(
    ("given", "need", "key", "value"),
    [
        ({"frame": comparisons(n=4), "made": runs(4)}, "seeds", "seeds", "6"),
        ({"frame": comparisons("bwwwn")}, "seeds", "seeds", FRESH),
        ({"frame": comparisons("bnwwb")}, "seeds", "seeds", FRESH),
        ({"frame": comparisons("bnwwb"), "asked": EXTERNAL}, "seeds", "seeds", "12"),
        ({"made": runs(rates=[0.1])}, "rates", "learning_rate", "[0.0333, 0.1, 0.3]"),
        ({"frame": comparisons(""), "made": UNTIMED}, "time_epoch", "measure.time_epoch", ""),
        ({"frame": comparisons(accuracy="")}, "evaluate", "measure.evaluate", ""),
        ({"frame": comparisons("")}, "target", "evaluate_every", "100"),
        ({"frame": comparisons(""), "made": RARE}, "target", "evaluate_every", "29"),
        ({"frame": comparisons("fffff")}, "longer_training", "epochs", "20"),
        ({"frame": comparisons("fffff"), "made": BY_SIZE}, "longer_training", "epochs", "512"),
        ({"frame": FIRST}, "target", "evaluate_every", "100"),
        ({"frame": FIRST, "made": BY_SIZE}, "target", "evaluate_every", "8"),
    ],
)
def test_what_is_missing_lowers_the_grade(given, need, key, value):
    found = advised(**given)
    row = one(found, "recommendation")
    assert row["grade"] == "provisional"
    check = one(found, "check", need)
    assert pandas.isna(check["passed"])
    change = one(found, "suggestion", need)
    assert (change["key"], change["value"]) == (key, value)
    if need == "seeds":  # a minute each
        there = 0 if value == FRESH else row["n"]
        assert change["minutes_to_resolve"] == change["seeds_to_resolve"] - there


def test_suggestions_begin_with_the_first_failed_check_and_have_no_seeds_beside_others():
    """A failed check comes before a need, whose time is known."""
    found = advised(comparisons("bwwwb", n=4), runs(4, [0.1]).assign(test_examples=50))
    changes = found[found["item"] == "suggestion"]
    assert [*changes["name"]] == ["test_set", "rates"]
    assert {"seeds", "rates"} <= names(found, "check")


def test_examples_decide_where_nothing_else_is_known():
    frame = pandas.DataFrame(rows("seconds", "wwwww", [5, 4, 3, 2, 9])).assign(outcome="examples")
    found = advised(frame, UNTIMED)
    assert recommended(found)[1:] == (128, "16 32 64 128 256", "provisional")
    assert {"time_epoch", "evaluate"} <= names(found, "check")


def test_logs_without_test_data_are_to_have_those_of_their_own_outcome():
    frame = comparisons("", "wwwww").replace({"outcome": {"test_accuracy": "validation_wer"}})
    found = advised(frame, asked=EXTERNAL._replace(margins={}))
    assert one(found, "suggestion", "evaluate")["value"] == "test_wer"


def test_ends_at_equal_updates_rank_no_sizes_and_their_test_data_are_not_asked_for():
    found = advised(comparisons("").assign(budget="updates"), asked=EXTERNAL)
    assert one(found, "recommendation")["headline"] == "no_outcome"
    assert "evaluate" not in names(found, "check")


def test_every_series_has_one_recommendation_and_two_sizes_get_no_advice():
    two = comparisons()[lambda rows: rows["batch_size"] < 64]
    frames = {"sgd": comparisons(), "adam": comparisons("fffff", ""), "few": two}
    given = pandas.concat(each.assign(optimizer=name) for name, each in frames.items())
    made = pandas.concat(runs().assign(optimizer=name) for name in frames)
    found = advised(given.reset_index(drop=True), made)
    heads = found[found["item"] == "recommendation"].set_index("optimizer")
    assert heads["headline"].to_dict() == {"sgd": "not_distinguished", "adam": "no_outcome"}
    assert heads["batch_size"].isna().to_dict() == {"sgd": False, "adam": True}
    assert {*found["optimizer"]} == {"sgd", "adam"}
    assert advised(comparisons().iloc[:0]).empty


def planned(sizes, rates, seeds, timed=False, measure="sharpness"):
    every = itertools.product(sizes, rates, range(seeds))
    names = ("batch_size", "learning_rate", "seed")
    made = [dict(zip(names, each, strict=True)) | {"evaluate_every": 0} for each in every]
    keys = TrainingExperiment.model_validate({"seeds": seeds, "measure": [measure]})
    runs = dict(enumerate(made))
    found = plan.PlannedExperiment("a", keys, {}, runs=runs, timed=timed)
    return suggestions.planned_needs(found)


def test_a_plan_says_what_its_advice_will_lack():
    assert [(need.key, need.value) for need in planned([8, 16], [0.1], 2)] == [
        ("batch_size", [8, 16, 32]),
        ("measure.time_epoch", ""),
        ("measure.evaluate", ""),
        ("seeds", 6),
        ("learning_rate", [0.0333, 0.1, 0.3]),
    ]
    assert not planned([8, 16, 32], [0.1, 0.2], 6, timed=True, measure="evaluate")
    assert not planned([8], [0.1], 1)


def test_seeds_in_stages_are_wanted_after_the_last_interim_analysis_alone():
    """Twelve would settle it: as long as an analysis follows, more seeds come by themselves."""
    frame = comparisons("bwwwn")
    staged = ASKED._replace(analyses=(6, 9, 13, 19, 28))
    found = advised(frame, asked=staged)
    assert "seeds" not in names(found, "suggestion")
    check = one(found, "check", "interim")
    assert (check["passed"], check["estimate"], check["bound"]) == (0, 6, 28)
    assert check["reason"] == ""
    bounded = frame.assign(reason=frame["verdict"].map({"not_resolved": "at_first_evaluation"}))
    found = advised(bounded, asked=staged)
    assert one(found, "check", "interim")["reason"] == "at_first_evaluation"
    frame.loc[frame["verdict"] == "not_resolved", "n"] = 13  # the recommended size was decided at 6
    assert one(advised(frame, asked=staged), "check", "interim")["estimate"] == 13
    frame = comparisons("bwwwn")
    change = one(advised(frame, asked=ASKED._replace(analyses=(6,))), "suggestion", "seeds")
    assert yaml.safe_load(change["value"]) == {"until": "decided", "at_most": 12, "first": 6}
    elsewhere = advised(frame, made=runs().iloc[:0], asked=ASKED)  # of another machine
    assert "seeds" not in names(elsewhere, "suggestion")
    frame = comparisons().astype({"n": "Int64"})  # as in a file
    decided = advised(frame, asked=ASKED._replace(analyses=(6, 9)))
    assert one(decided, "check", "interim")["passed"] == 1


@pytest.mark.parametrize(
    ("seconds", "size", "end", "sizes"),
    [("wbbbb", 16, "high", [8, *SIZES]), ("bbbbw", 256, "low", [*SIZES, 512])],
)
def test_a_best_size_at_an_end_is_told_with_the_line_that_adds_one(seconds, size, end, sizes):
    found = advised(comparisons(seconds, taken=[1, 2, 3, 4, 5][:: 1 if end == "high" else -1]))
    assert recommended(found)[:2] == ("recommended", size)
    check = one(found, "check", "size_on_edge")
    assert (check["passed"], check[end]) == (0, size)
    change = one(found, "suggestion", "size_on_edge")
    assert pandas.isna(change["batch_size"])  # it is a change of all sizes
    assert (change["key"], yaml.safe_load(change["value"])) == ("batch_size", sizes)


def test_a_fastest_size_that_something_excludes_is_told():
    frame = comparisons("bbbbw", "wwwwb", taken=[5, 4, 3, 2.9, 1], accurate=[0.95] * 4 + [0.5])
    found = advised(frame)
    check = one(found, "check", "fastest")
    assert (check["passed"], check["sizes"]) == (0, "256")
    change = one(found, "suggestion", "fastest")
    assert pandas.isna(change["batch_size"])  # it is a change of all sizes
    assert (change["key"], yaml.safe_load(change["value"])) == ("batch_size", [16, 32, 64, 128])
    three = advised(frame[frame["batch_size"] >= 64])  # two sizes would have no recommendation
    assert "fastest" not in set(three.loc[three["item"] == "suggestion", "name"])
    assert "fastest" not in set(advised()["name"])


def test_seconds_that_are_known_are_not_asked_for():
    """They may be compared at no target: then that is told, and not where a rate falls anyway."""
    timed = ASKED._replace(timed=True)
    made = runs().drop(columns="train_seconds")
    found = advised(comparisons("").assign(schedule=np.nan), made, timed)  # a log without one
    assert "time_epoch" not in set(found["name"])
    assert one(found, "check", "times_compared")["passed"] == 0
    assert "times_compared" not in set(advised(asked=timed)["name"])
    falling = comparisons("").assign(schedule="cosine")
    assert "times_compared" not in set(advised(falling, made, timed)["name"])


@pytest.mark.parametrize("change", [{"by_position": {"digits"}}, {"margins": {"test_loss": 0.05}}])
def test_the_test_set_is_checked_for_a_share_of_the_examples_that_decides(change):
    losses = pandas.DataFrame(rows("test_loss", "wwwww", [0.3] * 5))
    frame = pandas.concat([comparisons(), losses], ignore_index=True)
    made = runs().assign(test_examples=20)
    assert one(advised(frame, made), "check", "test_set")["passed"] == 0
    assert "test_set" not in names(advised(frame, made, ASKED._replace(**change)), "check")


def test_no_number_of_seeds_is_said_to_settle_what_none_settles():
    frame = comparisons("bnwnb")
    assert one(advised(frame), "suggestion", "seeds")
    frame.loc[1, ["seeds_to_resolve", "reason"]] = [float("nan"), "at_first_evaluation"]
    assert "seeds" not in names(advised(frame), "suggestion")
