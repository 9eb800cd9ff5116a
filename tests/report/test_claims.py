"""Verdicts on published claims."""

from __future__ import annotations

import math

import pandas
import pytest

import synthetic
from batchscope.analysis import outcome_answers
from batchscope.catalogue import outcomes, run_names
from batchscope.report import claims, content
from batchscope.study import config, planner
from batchscope.tables import run_table

PUBLISHED = {
    "figure": "Figure 6",
    "found": "It rises.",
    "claims": {"best_validation_loss": "rises"},
}
NOTHING = (math.nan, math.nan, math.nan)


@pytest.mark.parametrize(
    "stated, found, word",
    [
        ("rises", synthetic.answer("rises", (0.2, 0.1, 0.3)), "Held"),
        ("rises", synthetic.answer(), "Not resolved"),
        (
            "rises",
            synthetic.answer("falls, against what was stated", (-0.2, -0.3, -0.1)),
            "Not held",
        ),
        ("falls", synthetic.answer(slope=(-0.2, -0.3, -0.1)), "Not resolved"),
        (
            "rises",
            synthetic.answer("not enough seeds (3 of 6)", (-0.2, -0.3, -0.1)),
            "Not enough seeds (3 of 6)",
        ),
        ("rises", synthetic.answer("one batch size", NOTHING), "One batch size"),
        (
            "rises",
            synthetic.answer("not tested", (0.2, math.nan, math.nan), timed=True),
            "Seen, not tested",
        ),
        (
            "falls",
            synthetic.answer("not tested", (0.2, math.nan, math.nan), timed=True),
            "Not seen, not tested",
        ),
    ],
)
def test_a_verdict_claims_no_more_than_the_seeds_carry(stated, found, word):
    (verdict,) = claims.verdicts(
        {"test_accuracy": stated}, [found, synthetic.answer(column="other")]
    )
    assert verdict.word == word
    assert verdict.text.startswith(f"test accuracy {stated} (0.5 at 16 and 0.9 at 256")


@pytest.mark.parametrize(
    "stated, change, ran_out, word",
    [
        ("rises", -0.2, {16: (6, 6), 256: (6, 6)}, "Not resolved"),
        ("rises", 0.2, {16: (6, 6), 256: (6, 6)}, "Not resolved"),
        ("rises", -0.2, {256: (1, 6)}, "Not resolved"),
        ("falls", -0.2, {256: (1, 6)}, "Not resolved"),
        # The true value lies above the bound, and that above the other one.
        ("rises", 0.2, {256: (6, 6)}, "Seen, not tested"),
        ("rises", -0.2, {16: (6, 6)}, "Not seen, not tested"),
    ],
)
def test_a_time_of_runs_that_nothing_stopped_is_a_lower_bound(stated, change, ran_out, word):
    found = synthetic.answer(
        "not tested", (change, math.nan, math.nan), timed=True, ran_out=ran_out
    )
    (verdict,) = claims.verdicts({"test_accuracy": stated}, [found])
    assert verdict.word == word


def test_every_series_is_judged_with_its_numbers():
    found = [
        synthetic.answer("rises", (0.2, 0.1, 0.3), series="no scaling", p_holm=0.0004),
        synthetic.answer(series="linear scaling", note="3 of 6 seeds finished at every batch size"),
    ]
    first, second = claims.verdicts({"test_accuracy": "rises"}, found)
    assert first.text == (
        "no scaling: test accuracy rises (0.5 at 16 and 0.9 at 256; 0.20 [0.10, 0.30] per "
        "doubling; adjusted p < 0.001)."
    )
    assert second.text.endswith("adjusted p = 0.200; 3 of 6 seeds finished at every batch size).")
    (missing,) = claims.verdicts({"sam_sharpness_0.05": "rises"}, found)
    assert missing == ("Not measured", "SAM's sharpness, rho 0.05 rises.")
    assert claims.counts([missing, second, first, second]) == [
        ("Held", 1),
        ("Not resolved", 2),
        ("Not measured", 1),
    ]


def test_a_stated_direction_is_what_is_tested(tmp_path):
    runs = synthetic.grid()
    planned = synthetic.study(runs)
    synthetic.write(tmp_path, planned, {})
    frame = run_table.collect(tmp_path, planned, "gap")

    def found(stated=None):
        answers = outcome_answers.answers(frame, stated and {"gap": stated})
        return {one.outcome.column: one for one in answers}

    usual = found()
    assert usual["generalisation_gap"].verdict == "rises" and "train_loss" not in usual
    other = found(
        {
            column: outcomes.stated(column, "falls", "Figure 6")
            for column in ("generalisation_gap", "weight_distance", "train_loss")
        }
    )
    assert other["generalisation_gap"].outcome.direction == "falls"
    assert other["generalisation_gap"].outcome.source == "Figure 6"
    assert other["generalisation_gap"].p > 0.95
    (against,) = claims.verdicts({"generalisation_gap": "falls"}, [*other.values()])
    assert against.word == "Not held"
    # Stated as it is asked anyway: the source that is known stays.
    assert other["weight_distance"].outcome.source == usual["weight_distance"].outcome.source
    assert other["train_loss"].outcome.label == "Training loss"


def study(**published):
    return {
        "study": "claims",
        "experiments": {
            "gap": {
                "set": {"model": "small_cnn", "dataset": "digits", "optimizer": "sgd", "epochs": 2},
                "vary": {"batch_size": [16, 32], "learning_rate": [0.05]},
                "seeds": 2,
                "measure": ["evaluate"],
                "published": published,
            }
        },
    }


def test_the_plan_keeps_claims_apart_from_words():
    written = study(best_losses=PUBLISHED, accuracy={"figure": "Figure 7", "found": "It falls."})
    assert config.schema_problems(written) == []
    experiment = planner.make(written).experiments["gap"]
    assert experiment.trainings.claims == {"best_losses": {"best_validation_loss": "rises"}}
    assert experiment.published["best_losses"] == {"figure": "Figure 6", "found": "It rises."}


@pytest.mark.parametrize(
    "at_epochs, others", [([1], "1 epoch"), ([1, 2, 3, 5], "1, 2 and 3 epochs")]
)
def test_a_verdict_says_that_it_is_of_the_last_of_several_numbers_of_epochs(at_epochs, others):
    stated = {"figure": "Figure 7", "found": "It falls.", "claims": {"test_accuracy": "falls"}}
    written = study(accuracy=stated)
    written["experiments"]["gap"]["set"]["epochs"] = 5
    written["experiments"]["gap"]["at_epochs"] = at_epochs
    planned = planner.make(written)
    rows = [{**run_names.parse_run(run), "run": run, "status": "finished"} for run in planned.runs]
    frame = pandas.DataFrame(rows).assign(experiment="gap", machine="local", test_accuracy=0.9)
    frame["weight_distance"] = 1.0
    found = {one.outcome.column: one for one in content.answers(planned, [frame])["gap"]}
    note = f"after all epochs of a training alone, not after {others}"
    assert found["test_accuracy"].note == note
    assert found["weight_distance"].note == ""
    (verdict,) = claims.verdicts({"test_accuracy": "falls"}, [*found.values()])
    assert verdict.text.endswith(f"{note}).")
    written["experiments"]["gap"]["at_epochs"] = [5]
    (alone, *_) = content.answers(planner.make(written), [frame])["gap"]
    assert alone.note == ""


def test_they_change_no_table_and_no_run():
    from batchscope import snakefile

    without = {key: value for key, value in PUBLISHED.items() if key != "claims"}
    plans = [planner.make(study(best_losses=given)) for given in (PUBLISHED, without)]
    first, second = (snakefile.Jobs(planned, "config.yaml", "full", False) for planned in plans)
    assert first.also("gap") == second.also("gap")
    assert plans[0].runs.keys() == plans[1].runs.keys()
