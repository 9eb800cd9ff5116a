"""Recommendations: rows of the advice and of comparisons as cards, and as text."""

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pytest

import commanded
from batchscope import figures
from batchscope.figures.kinds import primary
from batchscope.report import (
    experiment_section,
    recommendation,
    rendering,
    report_inputs,
    study_page,
)
from batchscope.report.text import bracketed, difference, level, rounded, unit
from batchscope.store import jobs
from batchscope.study import suggestions
from batchscope.study.decision_columns import ADVICE, COMPARISONS
from batchscope.study.study_file import Guess

RATIOS = {
    8: (2.0, 1.8, 2.2, "beyond"),
    16: (0.8, 0.7, 0.9, "within"),
    32: (1.2, 1.0, None, "not_resolved"),
}
SECONDS = {8: 0.2, 16: 0.1, 32: 0.12}
RATES = {0.05: "beyond", 0.1: "within", 0.3: "within", 1.0: "not_testable"}
EXPECTED = {
    "epochs": (7.5, 6, 9),
    "test_accuracy": (0.97, 0.9, 1.0),
    "seconds": (0.15, 0.14, 0.16),
    "seconds_per_epoch": (168, 160, 176),
    "patience": (2, 1, 3),
}
SERIES = {"model": "net", "dataset": "data", "machine": "local"}


def _advice(best: bool = True, scaling_base: int = 0, **head: Any) -> pandas.DataFrame:
    recommended = {"item": "recommendation", "headline": "no_outcome", "n": 6}
    if best:
        recommended |= {"headline": "not_distinguished", "name": "seconds", "batch_size": 16}
        recommended |= {"sizes": "16 32", "learning_rate": 0.1}
        recommended |= {"verdict": "within", "grade": "provisional"}
    rows = [recommended | head]
    limit = {"item": "limit", "estimate": 0.0, "low": -0.01, "high": 0.01, "bound": -0.02}
    for size, (*_, verdict) in RATIOS.items():
        at = {"batch_size": size, "learning_rate": 0.1, "n": 6}
        for name, numbers in EXPECTED.items():
            row = {**at, "item": "expectation", "name": name, "key": "convergence"}
            rows.append(row | dict(zip(("estimate", "low", "high"), numbers, strict=True)))
        rows.append({**at, "item": "size", "verdict": verdict})
        if verdict != "within":
            rows[-1]["name"] = "seconds"
            rows.append({"item": "check", "name": "still_falling", "passed": 0, "batch_size": size})
            longer = {"name": "still_falling", "key": "epochs", "value": "20"}
            longer |= {"batch_size": size, "minutes_to_resolve": 3}
            rows.append({"item": "suggestion", **longer})
        more = {"seeds_to_resolve": 9, "minutes_to_resolve": 2} if size == 32 else {}
        for name, limited in (("seconds", verdict), ("test_accuracy", "within")):
            rows.append({**limit, **more, "name": name, "batch_size": size, "verdict": limited})
    for rate, verdict in RATES.items():
        row = {"item": "rate", "batch_size": 16, "learning_rate": rate, "verdict": verdict}
        rows.append({**row, "reason": "failed" if verdict == "not_testable" else ""})
    rows += [
        {"item": "limit", "name": "memory", "estimate": 512, "reason": "lower_bound"},
        {"item": "check", "name": "rate_on_edge", "passed": 1},
        {"item": "check", "name": "seeds", "seeds_to_resolve": 9},
        {"item": "suggestion", "name": "test_set", "key": "test_examples", "value": "2401"},
    ]
    frame = pandas.DataFrame(rows, columns=[*ADVICE]).assign(**SERIES)
    factor = frame["batch_size"] / scaling_base if scaling_base else 1
    return frame.assign(effective_learning_rate=frame["learning_rate"] * factor)


def _comparisons() -> pandas.DataFrame:
    rows = []
    for size, (estimate, low, high, verdict) in RATIOS.items():
        shared = {"batch_size": size, "learning_rate": 0.1, "n": 6, "reached": 6}
        shared["against"] = 8 if size == 16 else 16
        target = {"budget": "target", "budget_value": 0.2, "budget_column": "validation_loss"}
        mean = SECONDS[size]
        target |= {"mean": mean, "mean_low": 0.8 * mean, "mean_high": 1.25 * mean, "margin": 0.1}
        target |= {"estimate": estimate, "low": low, "high": high, "verdict": verdict}
        end = {"budget": "convergence", "outcome": "test_accuracy", "margin": 0.02}
        end |= {"mean": 0.97, "mean_low": 0.9, "mean_high": 1.04, "verdict": "within"}
        epochs = {"budget": "epochs", "budget_value": 10, "outcome": "test_accuracy"}
        epochs |= {"mean": 1 - size / 100, "estimate": -0.1, "low": -0.2, "high": 0.0}
        rows.append({**shared, "outcome": "seconds", **target})
        rows.append({**shared, **end, "estimate": 0.0, "low": -0.01, "high": 0.01})
        rows.append({**shared, **epochs, "verdict": "beyond"})
    return pandas.DataFrame(rows, columns=[*COMPARISONS]).assign(**SERIES)


def _tables(**changes: pandas.DataFrame) -> figures.FigureTables:
    cells = itertools.product(RATIOS, (0.1, 1.0), (0, 1))
    runs = pandas.DataFrame(cells, columns=["batch_size", "learning_rate", "seed"])
    times = runs["learning_rate"] * runs["batch_size"] * (1 + runs["seed"] / 10)
    runs = runs.assign(run=runs.index.astype(str), status="finished", seconds_per_epoch=times)
    runs = runs.assign(epochs=40)
    taken = runs["batch_size"].map(SECONDS) + runs["seed"] / 100 + 5 * runs["learning_rate"].eq(1)
    evaluations = runs.assign(seconds=taken, updates=10, validation_loss=0.2, **SERIES)
    frames = {"comparisons": _comparisons(), "runs": runs.assign(**SERIES), "advice": _advice()}
    return figures.FigureTables(**{**frames, "trajectories": evaluations, **changes})


@pytest.fixture
def study(finished):
    return finished[0]


def card_of(study, **frames) -> dict[str, Any]:
    """Return the card of a series, with other tables in place of those above."""
    (card,) = recommendation.cards(study, {"gap": _tables(**frames)})
    return card


def more_advice(*rows, **head) -> pandas.DataFrame:
    return pandas.concat([_advice(**head), pandas.DataFrame(rows).assign(**SERIES)])


def sentence(macro: str, *card: dict[str, Any]) -> str:
    return str(
        getattr(rendering._environment().get_template("decision.txt.j2").module, macro)(*card)
    )


def terminal(*cards, guess=None) -> str:
    schedules = {"gap": {"ramps": [], "local_critical": []}}
    return rendering.render("advice.txt.j2", cards=cards, schedules=schedules, guess=guess)


def test_a_card_is_the_rows_of_its_tables(study):
    card = card_of(study)
    assert (card["best"]["batch_size"], card["best"]["rate"]) == (16, "0.1")
    assert card["best"]["grade"] == "provisional" and card["scope"] == ["net", "data"]
    assert (card["headline"], card["about"]) == ("not_distinguished", "16 and 32")
    limits = [(row["label"], row["equal"], row["margin"]) for row in card["outcomes"]]
    assert limits == [("Test accuracy", True, "2 points"), ("Time", False, "10 %")]
    reached = card["reached"]
    assert (reached["budget_column"], reached["budget_value"]) == ("validation_loss", 0.2)
    assert reached["shown"] == "100 [80, 125] ms (n = 6)"
    assert card["outcomes"][0]["within"] == [8, 16, 32]
    assert [row["name"] for row in card["limits"] if not row["batch_size"]] == ["memory"]
    single = card_of(study, advice=_advice(headline="recommended", sizes=16.0))
    assert single["about"] == "16" and "Batch size 16, learning rate 0.1 (" in terminal(single)


def test_a_card_says_how_to_train_and_which_results_to_expect(study):
    card = card_of(study, runs=_tables().runs.assign(optimizer="sgd"))
    expected = {row["name"]: row["shown"] for row in card["expected"]}
    assert expected == {"test_accuracy": "0.970 [0.900, 1.000]", "seconds": "150 [140, 160] ms"}
    stop = card["stop"]
    assert (stop["shown"], stop["early"], stop["patience"]) == ("7.5 (6 to 9)", True, 3)
    assert "epochs=40," in card["code"][-1] and "callbacks=[stop]" in card["code"][-1]
    assert "Learning rate 0.1: as good: 0.3; failed: 1; worse: 0.05\n" in terminal(card)


def test_counts_are_not_rounded():
    row = {"name": "epochs", "estimate": 127.5, "low": 125.0, "high": 128.0, "n": 6}
    assert recommendation._expectation_text(row, 128.0) == "128 (125 to 128)"
    assert rounded(15640.0) == "15640"


def test_a_learning_rate_is_the_one_after_scaling_as_in_the_code(study):
    runs = _tables().runs.assign(optimizer="sgd", learning_rate_scaling="linear")
    runs["effective_learning_rate"] = runs["learning_rate"] * runs["batch_size"] / 8
    card = card_of(study, runs=runs, advice=_advice(scaling_base=8))
    assert "SGD(learning_rate=0.2)" in card["code"][0]
    assert "Use 16, learning rate 0.2:" in sentence("choice", card)
    assert (card["best"]["rate"], card["best"]["rate_before_scaling"]) == ("0.2", "0.1")
    words = "Learning rate 0.2: as good: 0.6; failed: 2; worse: 0.1; before scaling: 0.1\n"
    assert words in (text := terminal(card, guess=Guess(batch_size=8, learning_rate=0.1)))
    assert text.count("2 times") == 2
    column = card["sizes"]["heads"].index("Learning rate")
    assert [row["cells"][column] for row in card["sizes"]["rows"]] == ["0.1", "0.2", "0.4"]
    best = card_of(study, advice=_advice(scaling_base=7))["best"]
    assert best["rate"] == "0.2286"
    best = card_of(study, advice=_advice(scaling_base=16))["best"]
    assert (best["rate"], best["rate_before_scaling"]) == ("0.1", "")


def test_the_patience_is_the_one_of_the_runs(study):
    """They stopped early, so their own patience is at least as long as what they needed."""
    card = card_of(study, runs=_tables().runs.assign(optimizer="sgd", patience=5))
    assert card["stop"]["patience"] == 5 and "patience 5" in sentence("stop", card["stop"])
    assert "patience=5" in "".join(card["code"])
    # External runs have empty columns.
    card = card_of(study, runs=_tables().runs.assign(patience=np.nan, epochs=np.nan))
    assert (card["stop"]["patience"], card["stop"]["last"]) == (3, 9)


def test_sizes_do_equally_well_only_within_every_margin(study):
    compared = _comparisons()
    assert "16 and 32" not in sentence("headline", card_of(study))
    assert card_of(study)["others"] == [32]
    open_time = compared["outcome"].eq("seconds") & compared["batch_size"].eq(32)
    compared.loc[open_time, ["estimate", "low", "high", "verdict"]] = [1.02, 1.0, 1.05, "within"]
    assert "16 and 32" in sentence("headline", card_of(study, comparisons=compared))


def test_a_grade_names_what_it_lacks(study):
    """Seeds come first. Without a failed check the open sizes are the reason."""
    assert sentence("grade_reasons", card_of(study)).startswith("6 of 9 seeds, ")
    interim = {"item": "check", "name": "interim", "passed": 0, "estimate": 6, "bound": 28}
    card = card_of(study, advice=more_advice(interim))
    assert "6 of 28" in sentence("grade_reasons", card)
    assert "6 of 9" not in sentence("grade_reasons", card)
    check = next(row for row in card["checks"] if row["name"] == "interim")
    assert "run the study again" in sentence("check", card, check)
    # Seeds decide nothing about a cost that is an upper bound.
    assert "again" not in sentence("check", card, {**check, "reason": "at_first_evaluation"})
    advice = _advice()
    card = card_of(study, advice=advice[advice["item"] != "check"])
    assert sentence("grade_reasons", card).endswith(" 32")
    assert sentence("grade_reasons", card_of(study, advice=_advice(grade="solid"))) == ""


def test_a_loss_that_still_falls_stops_no_training(study):
    falling = {"item": "check", "name": "still_falling", "passed": 0, "batch_size": 16}
    stop = card_of(study, advice=more_advice(falling))["stop"]
    assert (stop["early"], stop["falls"], stop["patience"], stop["last"]) == (False, True, None, 9)


def test_batch_sizes_have_a_row_each(study):
    table = card_of(study)["sizes"]
    heads = ["Learning rate", "Time to target (ms)", "Epochs", "Test accuracy", "Time per epoch"]
    assert table["heads"] == heads
    rows = table["rows"]
    assert [row["batch_size"] for row in rows] == [8, 16, 32]
    assert [row["inside"] for row in rows] == [False, True, False]
    assert rows[0]["cells"][:3] == ["0.1", "200 [160, 250]", "7.5 (6 to 9)"]
    words = ["slower than the margin allows", "recommended", "not resolved: time"]
    assert [row["verdict_words"] for row in rows] == words
    advice = _advice()
    epoch_seconds = advice["name"].eq("seconds_per_epoch")
    advice.loc[epoch_seconds, ["estimate", "low", "high"]] = [[1.5] * 3, [0.75] * 3, [0.5] * 3]
    table = card_of(study, advice=advice)["sizes"]  # one unit, so that the column can be sorted
    assert [row["cells"][-1] for row in table["rows"]] == ["1.5 s", "0.75 s", "0.5 s"]
    advice.loc[advice["item"].eq("size") & advice["batch_size"].eq(8), "name"] = "memory"
    (row, *_) = card_of(study, advice=advice)["sizes"]["rows"]
    assert row["verdict_words"] == "does not fit into memory"
    compared = _comparisons().replace({"budget": {"target": "epochs"}})  # ends of external runs
    card = card_of(study, comparisons=compared)
    assert "Time (ms)" in card["sizes"]["heads"]
    assert sentence("margins", card).endswith("10 % in time.")


def test_disturbed_timings_have_a_command_and_leave_seconds_out(study):
    change = {"item": "suggestion", "name": "timings_disturbed"}
    change |= {"key": suggestions.RERUN, "value": "time_epoch"}
    advice = more_advice(change).replace({"name": {"seconds": "examples"}})
    compared = _comparisons()
    examples = compared[compared["outcome"] == "seconds"].assign(outcome="examples")
    tables = _tables(advice=advice, comparisons=pandas.concat([compared, examples]))
    (card,) = recommendation.cards(study, {"gap": tables}, "mine.yaml")
    (command,) = [row["lines"] for row in card["suggestions"] if row["name"] == change["name"]]
    assert command == ["snakemake --cores all --configfile mine.yaml --forcerun time_epoch"]
    assert card["reached"]["name"] == "examples"


def test_checks_that_fail_come_first_and_suggestions_are_lines_of_the_study(study):
    card = card_of(study)
    states = [("still_falling", "failed"), ("seeds", "open"), ("rate_on_edge", "passed")]
    assert [(row["name"], row["state"]) for row in card["checks"]] == states
    assert card["checks"][0]["sizes"] == [8, 32]
    longer, data = card["suggestions"]
    assert longer["lines"] == ["set: {epochs: 20}"] and longer["cost"] == "3 min"
    assert data["lines"] == [] and data["listed"] == "2401"
    assert "experiments.gap: set: {epochs: 20}" in terminal(card)


def test_a_suggested_number_is_read_as_it_was_written(study):
    advice = _advice()
    advice = advice[advice["item"].ne("suggestion") | advice["batch_size"].eq(8)]
    card = card_of(study, advice=advice.assign(value=advice["value"].astype(float)))
    (row,) = card["suggestions"]
    assert row["lines"] == ["set: {epochs: 20}"]


def test_timings_that_are_disturbed_at_all_sizes_name_no_single_size(study):
    check = {"item": "check", "name": "timings_disturbed", "passed": 0}
    advice = more_advice(
        check | {"estimate": 1.0, "bound": 0.25},
        check | {"batch_size": 32, "estimate": 1.3, "bound": 1.2},
    )
    card = card_of(study, advice=advice)
    (row,) = [row for row in card["checks"] if row["name"] == "timings_disturbed"]
    assert row["sizes"] == [] and "100 % of the timed blocks" in terminal(card)


BASELINE = {"name": "baseline", "estimate": 0.49, "low": 0.44, "high": 0.55, "bound": 0.5}
EDGE = {"name": "rate_on_edge", "batch_size": 8, "learning_rate": 0.01, "low": 0.01}
EDGE |= {"effective_learning_rate": 0.01}
OTHER_EDGE = EDGE | {"batch_size": 16, "low": None, "high": 0.01}


@pytest.mark.parametrize(
    ("headline", "checks", "phrases"),
    [
        ("nothing_learned", [BASELINE], ["nothing was learned", "0.490 [0.440, 0.550]", "0.5)"]),
        (
            "rate_not_found",
            [EDGE, OTHER_EDGE],
            ["at least 0.01 at batch size 8; at most 0.01 at batch size 16"],
        ),
    ],
)
def test_an_essential_check_decides_the_headline(study, headline, checks, phrases):
    """Page, command and last line say the same, and none of them recommends a size."""
    advice = _advice(False, headline=headline)
    checks = pandas.DataFrame(checks).assign(item="check", passed=0, **SERIES)
    advice = pandas.concat([advice[advice["item"].ne("check")], checks], ignore_index=True)
    card = card_of(study, advice=advice)
    assert card["best"] is None and card["stop"] == {} and card["code"] == []
    counts = {"runs": 1, "parts": ["1 finished"]}
    headline = rendering.render("headline.txt.j2", title="t", card=card, counts=counts)
    for text in (terminal(card), headline):
        assert all(phrase in text for phrase in phrases) and "Use " not in text


def test_intervals_are_explained_where_only_some_sizes_have_enough_seeds(study):
    card = card_of(study, advice=_advice(n=2, grade="open"))
    assert card["few"] and "[" in "".join(card["lines"])
    assert "[a, b]: 95 % interval" in sentence("reading", card)


def test_limits_and_failures_have_words_of_their_own(study):
    critical = {"item": "limit", "name": "critical_batch_size", "low": 6429.0}
    knee = {"item": "limit", "name": "knee", "estimate": 1024.0}
    compared = _comparisons().astype({"reason": object})
    failed = (compared["batch_size"] == 32) & (compared["budget"] == "convergence")
    compared.loc[failed, ["verdict", "reason"]] = ["not_testable", "failed"]
    compared.loc[compared["outcome"] == "seconds", ["mean", "reason"]] = [float("nan"), "failed"]
    card = card_of(study, advice=more_advice(critical, knee), comparisons=compared)
    quality, time = card["outcomes"]
    assert quality["failed"] == [32] and quality["open"] == []
    assert time["failed"] == [8, 16, 32] and card["reached"] is None
    text = terminal(card)
    assert "6429" in text and "1024" in text


@pytest.mark.parametrize(
    ("reached", "phrase"),
    [(5, "5 of 6 seeds reached the target in 40 epochs"), (0, "target not reached in 40 epochs")],
)
def test_a_size_that_missed_the_target_says_how_many_seeds_reached_it(study, reached, phrase):
    compared = _comparisons()
    updates = compared[compared["outcome"] == "seconds"]
    updates = updates.assign(outcome="updates", seeds=6, epochs_run=40, reached=6)
    updates.loc[updates["batch_size"] == 32, "reached"] = reached
    advice = _advice().astype({"reason": object})
    missed = advice["item"].eq("size") & advice["batch_size"].eq(32)
    advice.loc[missed, ["verdict", "reason"]] = ["not_testable", "not_reached"]
    card = card_of(study, advice=advice, comparisons=pandas.concat([compared, updates]))
    assert card["sizes"]["rows"][-1]["verdict_words"] == phrase


def test_a_series_with_a_recommendation_comes_first(study):
    two = replace(study, experiments=dict.fromkeys(("gap", "second"), study.experiments["gap"]))
    cards = recommendation.cards(two, {"gap": _tables(advice=_advice(False)), "second": _tables()})
    assert [card["best"] is None for card in cards] == [False, True]
    assert cards[1]["reached"] is None


def test_a_noise_scale_is_next_to_the_critical_batch_size_of_its_experiment(study, finished):
    """The first card belongs to another experiment."""
    experiments = {name: replace(study.experiments["gap"], name=name) for name in ("gap", "noise")}
    results = {}
    for name, size in (("gap", 111), ("noise", 222)):
        critical = {"item": "limit", "name": "critical_batch_size", "low": size, "high": size + 1}
        runs = _tables().runs[lambda rows: rows["learning_rate"].eq(0.1)]
        norms = 10.0 + runs["seed"]
        runs = runs.assign(gradient_norm_squared=norms, gradient_variance=300 + norms)
        tables = _tables(advice=more_advice(critical), runs=runs, trends=pandas.DataFrame())
        results[name] = report_inputs.ExperimentResults(experiments[name], [], tables, [])
    two = replace(study, experiments=experiments)
    given = {"study": two, "experiments": results, "states": jobs.JobTable(two, finished[1])}
    html, _ = study_page.build(replace(report_inputs.read(*finished), **given))
    gap, noise = re.findall("Gradient noise scale after the training.*?</p>", html)
    assert "at least 111" in gap and "at least 222" in noise and "at least 111" not in noise


def test_the_first_guess_is_compared_with_the_recommendation(study):
    card = card_of(study)
    guess = Guess(batch_size=64, learning_rate=0.1)
    text = terminal(card, guess=guess).partition("First guess")[2]
    assert "batch size 64, learning rate 0.1" in text
    assert "batch size is 0.25 times" in text and "learning rate is the same" in text
    none = terminal(guess=guess)
    assert "No advice for gap" in none and "recommended" not in none
    assert "by a validation loss or an outcome under `margins`" in none
    assert "guess" not in terminal(card)


def test_the_command_of_a_card_is_that_of_its_series_size_and_rate(tmp_path):
    vary = {"batch_size": [8, 32], "learning_rate": [0.1, 0.2], "mode": ["slow", "fast"]}
    experiment = commanded.planned(tmp_path, "lr={learning_rate}", "mode={mode}", vary=vary)
    for mode in vary["mode"]:
        (command,) = recommendation._recommended_command(
            experiment, {"own_mode": mode}, {"batch_size": 32, "learning_rate": 0.2}
        )
        assert command == f"python script.py bs=32 seed=0 out=OUT lr=0.2 mode={mode}"
    assert recommendation._recommended_command(experiment, {}, None) == []


def test_each_budget_names_its_own_best_size():
    """32 has the lowest mean, over fewer timing jobs, and takes 1.2 times as long as 16."""
    compared = _comparisons()
    compared.loc[compared["outcome"].eq("seconds") & compared["batch_size"].eq(32), "mean"] = 0.05
    (group,) = experiment_section.equal_budgets(compared)
    assert group["sizes"] == [8, 16, 32]
    tabs = {tab["name"]: tab for tab in group["tabs"]}
    assert {*tabs} == {"epochs", "seconds", "convergence"}
    (row,) = tabs["seconds"]["rows"]
    assert (row["budget_column"], row["budget_value"], row["best"]) == ("validation_loss", 0.2, 16)
    assert [cell["verdict"] for cell in row["cells"]] == ["beyond", "within", "not_resolved"]
    assert [cell["against"] for cell in row["cells"]] == [16, 8, 16]
    (accuracy,) = tabs["epochs"]["rows"]
    assert difference(accuracy["cells"][0]) == ("−10", "−20", "0") and accuracy["shares"]
    assert experiment_section.equal_budgets(pandas.DataFrame()) == []
    (group,) = experiment_section.equal_budgets(compared.assign(bound=0.1, verdict="provisional"))
    (row,) = next(tab for tab in group["tabs"] if tab["name"] == "seconds")["rows"]
    assert row["provisional"] and {cell["verdict"] for cell in row["cells"]} == {"beyond"}
    at_epochs = compared["budget"].eq("epochs")
    compared.loc[at_epochs, ["estimate", "low", "high"]] = None
    compared["reason"] = np.where(at_epochs, "alone", "")
    (group,) = experiment_section.equal_budgets(compared)
    assert {tab["name"] for tab in group["tabs"]} == {"seconds", "convergence"}


def test_the_deciding_outcome_is_drawn_with_a_dot_per_seed():
    spec = figures.FIGURES["primary"]
    frame = primary.select(_tables(advice=_advice(sizes="8 32")), spec)
    assert len(frame) == 6 and set(frame["outcome"]) == {"seconds"}
    assert frame.loc[frame["recommended"].eq(1), "batch_size"].unique().tolist() == [8, 32]
    assert frame["value"].tolist() == pytest.approx([0.2, 0.21, 0.1, 0.11, 0.12, 0.13])
    assert "Shaded" in primary.with_title_and_caption(spec, frame).caption
    assert "Shaded" not in primary.with_title_and_caption(spec, frame.assign(recommended=0)).caption
    without_target = frame.assign(target_column=None, target_value=float("nan"))
    assert primary.with_title_and_caption(spec, without_target).title == "Seconds by batch size"
    (axes,) = figures.draw(frame, spec).axes
    shaded = [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]
    assert shaded == pytest.approx([3, 5])  # log2 of the sizes; 16 between them is not shaded
    assert primary.select(figures.FigureTables(), spec).empty


def test_the_dots_are_the_ends_of_the_runs_if_no_evaluation_has_the_outcome():
    tables = _tables()
    runs = tables.runs.assign(test_accuracy=0.9 + tables.runs["seed"] / 100)
    evaluations = tables.trajectories.assign(test_accuracy=float("nan"))
    tables = _tables(runs=runs, trajectories=evaluations)
    spec = figures.FIGURES["primary_outcome"]
    frame = primary.select(tables, spec)
    assert frame["value"].tolist() == pytest.approx([0.9, 0.91] * 3)
    # Other evaluations than the lowest have the outcome, and a run lacks it.
    higher = evaluations.assign(validation_loss=0.3, test_accuracy=0.5)
    runs.loc[runs["seed"].eq(1) & runs["learning_rate"].eq(0.1), "test_accuracy"] = float("nan")
    tables = _tables(runs=runs, trajectories=pandas.concat([evaluations, higher]))
    assert primary.select(tables, spec)["value"].tolist() == pytest.approx([0.9] * 3)


def test_intervals_have_one_form():
    assert bracketed((1.27, 1.13, 1.44)) == "1.27 [1.13, 1.44]"
    assert bracketed((1.27, 1.13, None)) == "1.27 [1.13, –]"
    assert (bracketed((1.27, None, None)), bracketed((None, None, None))) == ("1.27", "")
    assert level("test_accuracy", (0.5, -0.5, 1.5)) == "0.50 [0.00, 1.00]"
    assert unit("seconds", [0.1]).suffix == " ms" and unit("seconds", [0.1, 2]).suffix == " s"
