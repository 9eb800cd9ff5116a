"""The page lists the learning rates that left the race, each with its difference."""

import math

import pandas

from batchscope.report import page, race

ROWS = [
    {"optimizer": "sgd", "batch_size": 8, "learning_rate": 0.1, "status": "in_race"},
    {"optimizer": "sgd", "batch_size": 8, "learning_rate": 0.2, "status": "left", "left_after": 3}
    | {"against": 0.1, "budget": "target", "outcome": "updates", "n": 3}
    | {"estimate": 1.5, "low": 1.2, "high": 1.9},
    {"optimizer": "sgd", "batch_size": 8, "learning_rate": 0.4, "status": "left", "left_after": 6}
    | {"against": 0.1, "budget": "target", "outcome": "updates", "n": 6}
    | dict.fromkeys(("estimate", "low", "high"), math.nan),
]


def test_rates_that_left_are_listed():
    built = race.build(pandas.DataFrame(ROWS))
    assert (built["racing"], built["tried"]) == (1, 3)
    template = '{% import "race.html.j2" as races %}{{ races.race(race, "<title>") }}'
    text = page._environment().from_string(template).render(race=built, explanations={})
    assert all(number in text for number in ("1.5", "1.2", "1.9")) and "<title>" not in text
    rows = text.split("<tr>")[2:]
    assert [("0.2" in row, "0.4" in row) for row in rows] == [(True, False), (False, True)]
    assert race.build(pandas.DataFrame(ROWS[:1])) is None
    assert race.build(pandas.DataFrame()) is None
