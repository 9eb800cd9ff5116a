"""The line that says how far the first guess of `init` was off."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from batchscope.report import decision, study_page
from batchscope.study.study_file import Guess


@pytest.fixture
def guessed(whole):
    file = whole[0].file.model_copy(update={"guess": Guess(batch_size=64, learning_rate=0.01)})
    return replace(whole[0], file=file)


def test_ratios_are_of_recommendation_over_guess(guessed):
    best = {"batch_size": 16, "learning_rate": 0.01}
    line = decision.first_guess(guessed, [{"best": None}, {"best": best}])
    assert "batch size 64, learning rate 0.01" in line
    assert "batch size is 0.25 times" in line and "learning rate is the same" in line


@pytest.mark.parametrize(
    ("best", "there"),
    [(None, ()), ({"batch_size": 32, "learning_rate": math.nan}, ("0.5 times",))],
)
def test_what_is_not_recommended_has_no_ratio(guessed, best, there):
    line = decision.first_guess(guessed, [{"best": best}])
    assert all(part in line for part in there)
    assert line.count("times") == len(there)


def test_a_study_without_a_guess_says_nothing(whole):
    assert decision.first_guess(whole[0], []) == ""


def test_the_page_has_the_line_below_its_first_card(guessed, whole):
    study, inputs = whole
    cards = decision.cards(study, {name: each.tables for name, each in inputs.experiments.items()})
    line = decision.first_guess(guessed, cards)
    html = study_page.build(guessed, inputs)
    assert html.count(line) == 1 and html.index(line) < html.index("<main")
    assert line not in study_page.build(study, inputs)
