"""The section of an experiment: answer, trends, winners of tabs, and timings."""

import copy
import math
import re
from dataclasses import replace

import pandas
import pytest

import made_advice
from batchscope.figures import FigureTables
from batchscope.report import experiment_section, page_figures, rendering, study_page, text
from batchscope.study import plan, table_entries
from batchscope.study.decision_columns import ADVICE, TRENDS
from batchscope.study.registry import ENTRIES
from html_page import Page


def trend(outcome="test_accuracy", ends=(-0.03, -0.01), n=6, **more):
    row = {"outcome": outcome, "budget": "end", "estimate": sum(ends) / 2, "n": n, "seeds": n}
    row |= {"low": ends[0], "high": ends[1], "direction": "rises", "verdict": "not_resolved"}
    for name, size in (("smallest", 16), ("largest", 256)):
        row |= {name: size, f"{name}_mean": 0.9, f"{name}_mean_low": 0.8, f"{name}_mean_high": 1}
    return {**row, **more}


def trends_of(*rows):
    return experiment_section.trend_rows(pandas.DataFrame(rows, columns=[*TRENDS]))


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (trend(ends=(0.01, 0.03)), "increases"),
        (trend(ends=(-0.03, -0.01)), "decreases"),
        (trend(ends=(-0.01, 0.03)), "unclear"),
        (trend(ends=(float("nan"), 0.03)), "unclear"),  # an open end
        (trend("updates", ends=(0.7, 0.9), budget="target"), "decreases"),
        (trend(ends=(0.01, 0.03), n=3), "increases"),
        (trend(ends=(0.01, 0.03), n=2), "few_seeds"),
        (trend(verdict="not_testable"), "not_testable"),
    ],
)
def test_a_change_is_read_off_its_interval(row, change):
    (found,) = trends_of(row)
    assert found["change"] == change


@pytest.mark.parametrize(
    ("row", "means", "change"),
    [
        (trend(n=2), ["0.9", "0.9"], "−2 points"),
        (trend("seconds_per_epoch", n=2), ["900", "900"], "−20 ms"),
        (trend("updates", budget="target", n=2), ["0.9", "0.9"], "−0.02 "),
    ],
)
def test_a_trend_has_the_units_of_its_outcome(row, means, change):
    (found,) = trends_of(row)
    assert found["means"] == means and f"{found['slope']} {found['slope_unit']}" == change


def test_too_few_seeds_have_no_interval():
    (enough,) = trends_of(trend(n=3))
    assert enough["slope"] == "−2.0 [−3.0, −1.0]" and "[" in enough["means"][0]
    (few,) = trends_of(trend(n=2, seeds=6))  # The means are over the paired seeds.
    assert few["means"] == ["0.9", "0.9"]
    (verdict,) = trends_of(trend(n=6))
    assert enough["change"] == verdict["change"] == "decreases"
    assert enough["provisional"] and not verdict["provisional"]
    cell = {"outcome": "test_accuracy", "estimate": -0.15, "low": -0.75, "high": 2.34}
    assert text.difference({**cell, "n": 2}) == ("−15", "", "")
    assert text.difference({**cell, "n": 3}) == ("−15", "−75", "234")


def test_series_with_the_same_numbers_share_a_row():
    rates = [{"learning_rate": rate} for rate in (0.1, 0.2, 0.4)]
    times = [{**trend("seconds_per_epoch", (-0.3, -0.1)), **rate} for rate in rates]
    ends = [f"{size}_mean_{end}" for size in ("smallest", "largest") for end in ("low", "high")]
    exact = {"low": -0.2, "high": -0.2, **dict.fromkeys(ends, 0.9)}  # no interval is shown
    few, *others = ({**row, **exact} for row in times)
    few["n"] = 2  # One of its runs failed.
    assert [row["change"] for row in trends_of(few, *others)] == ["few_seeds", "decreases"]
    losses = [{**trend("test_loss", (0.1, 0.2)), **rates[0]}]
    losses += [{**trend("test_loss", (0.3, 0.4)), **rate} for rate in rates[1:]]
    found = experiment_section.trend_rows(pandas.DataFrame(times + losses))
    assert [(row["outcome"], row["series"]) for row in found] == [
        ("seconds_per_epoch", ""),
        ("test_loss", "learning rate 0.1"),
        ("test_loss", "learning rate 0.2 and learning rate 0.4"),
    ]


@pytest.mark.parametrize(
    ("letters", "seeds", "winner"),
    [
        ("wbbbb", 6, 16),
        ("wbbbb", 3, None),
        ("bbnbb", 6, 64),  # all others are worse, so it is the best whatever its own interval
        ("wbbfb", 6, 16),  # a failed size is no rival
        ("wbnbb", 6, None),
        ("w", 6, None),  # nothing to beat
    ],
)
def test_a_size_wins_only_if_all_others_are_worse(letters, seeds, winner):
    cells = made_advice.rows("test_accuracy", letters, [0.9] * 5, n=seeds)
    assert experiment_section.winner(cells) == winner


def at_rates(results, *rates):
    """Return results with all runs at each learning rate."""
    tables = copy.copy(results.tables)
    tables.runs = pandas.concat(tables.runs.assign(learning_rate=rate) for rate in rates)
    return results._replace(tables=tables)


@pytest.mark.parametrize(
    ("changes", "rates", "expected"),
    [
        ({}, (0.1,), {"sharpness", "weight"}),  # every training has an accuracy and a time
        ({"primary": ("test_accuracy",)}, (0.1,), {"test"}),
        ({"figures": ("time",)}, (0.1,), {"seconds", "train"}),
        ({"figures": ("time", "sharpness")}, (0.1, 0.2), {"sharpness"}),
    ],
)
def test_the_answer_is_of_the_outcomes_that_the_question_is_about(whole, changes, rates, expected):
    found = at_rates(whole[1].experiments["gap"], *rates)
    keys = found.experiment.keys.model_copy(update=changes)
    found = found._replace(experiment=replace(found.experiment, keys=keys))
    answer = [row["outcome"] for row in experiment_section.build(found, [])["answer"]]
    assert {outcome.partition("_")[0] for outcome in answer} == expected


def with_measures(results, *names):
    experiment = results.experiment
    measure = {name: ENTRIES[name].settings() for name in names}
    keys = experiment.keys.model_copy(update={"measure": measure, "figures": ()})
    return results._replace(experiment=replace(experiment, keys=keys))


def test_a_measure_without_a_trend_has_no_answer_of_another_outcome(whole):
    _, inputs = whole
    results = with_measures(inputs.experiments["gap"], "noise_scale")
    assert experiment_section.build(results, [])["answer"] == []


def test_several_rates_of_a_batch_size_have_no_answer(whole):
    results = with_measures(whole[1].experiments["gap"], "evaluate")
    assert experiment_section.build(results, [])["answer"]
    assert experiment_section.build(at_rates(results, 0.1, 0.2), [])["answer"] == []
    rate = results.tables.runs["batch_size"] / 100  # it follows from the batch size
    assert experiment_section.build(at_rates(results, rate), [])["answer"]


def test_noise_scales_are_those_of_each_batch_size_after_the_training():
    runs = [
        {"batch_size": size, "seed": seed, "status": "finished", "gradient_norm_squared": norm}
        | {"gradient_variance": 300 + norm}
        for size, smallest in ((16, 9), (256, 0.5))  # the second mean may be zero
        for seed, norm in enumerate((smallest, smallest + 1, smallest + 2))
    ]
    rows = experiment_section.final_noise_scales(pandas.DataFrame(runs))
    first, second = ((row["batch_size"], row["shown"]) for row in rows)
    assert first[0] == 16 and first[1].startswith("31.0 [")
    assert second[0] == 256 and second[1].startswith("at least ")
    assert experiment_section.final_noise_scales(pandas.DataFrame()) == []


def test_outcomes_are_named_by_their_change():
    outcomes = trends_of(trend("sharpness_full_0.001", (0.1, 0.2)), trend("weight_distance"))
    assert experiment_section.outcomes_by_change(outcomes) == [
        ("increases", ["sharpness (full space, epsilon 0.001)"]),
        ("decreases", ["distance from the initial weights"]),
    ]


def test_the_answer_comes_before_the_figure_of_its_outcomes(whole):
    _, inputs = whole
    figure = {"of": "", "caption": "", "anchor": "a", "svg": "<svg/>"}
    figure |= {"packed": "", "width": 0, "axis": ""}
    columns = {"a": "test_loss", "b": "weight_distance", "c": "sharpness_full_0.001"}
    figures = [
        {**figure, "name": name, "title": name, "columns": [column], "anchor": f"gap-{name}"}
        for name, column in columns.items()
    ]
    results = inputs.experiments["gap"]._replace(figures=figures)
    section = experiment_section.build(results, [])
    links = page_figures.number([section])
    assert [block[0]["name"] for block in section["shown"]] == ["c", "b"]
    assert [block[0]["name"] for block in section["more"]] == ["a"]
    assert links["gap", "c"] == ("Figure 1", "#figure-1") and links["gap", "a"][0] == "Figure 3"
    html, _ = study_page.build(replace(inputs, experiments={"gap": results}))
    order = ['class="answer"', 'data-name="gap-c"', 'data-name="gap-b"', 'class="scope"']
    part = html[html.index('<section class="experiment"') :]
    places = [part.index(text) for text in order]
    assert places == sorted(places) and Page(html).open == []


@pytest.mark.parametrize(
    ("budget", "label"), [("convergence", "At the best loss reached"), ("end", "At the end")]
)
def test_a_tab_says_where_its_first_row_is_compared(whole, budget, label):
    _, inputs = whole
    compared = made_advice.comparisons(seconds="").assign(budget=budget)
    tables = FigureTables(comparisons=compared, advice=pandas.DataFrame(columns=[*ADVICE]))
    results = inputs.experiments["gap"]._replace(tables=tables)
    html, _ = study_page.build(replace(inputs, experiments={"gap": results}))
    (tab,) = re.findall(r"<label for=\"equal-[^>]*>(.*?):", html)
    assert tab == label


RACE = [
    {"optimizer": "sgd", "batch_size": 8, "learning_rate": 0.1, "status": "in_race"},
    {"optimizer": "sgd", "batch_size": 8, "learning_rate": 0.2, "status": "left", "left_after": 3}
    | {"against": 0.1, "budget": "target", "outcome": "updates", "n": 3}
    | {"estimate": 1.5, "low": 1.2, "high": 1.9},
    {"optimizer": "sgd", "batch_size": 8, "learning_rate": 0.4, "status": "left", "left_after": 6}
    | {"against": 0.1, "budget": "target", "outcome": "updates", "n": 6}
    | dict.fromkeys(("estimate", "low", "high"), math.nan),
]


def test_rates_that_left_are_listed():
    built = experiment_section.rates_that_left(pandas.DataFrame(RACE))
    assert (len(built["rows"]), built["tried"]) == (2, 3)
    template = '{% import "race.html.j2" as races %}{{ races.race(race, "<title>") }}'
    text = rendering._environment().from_string(template).render(race=built, explanations={})
    assert all(number in text for number in ("1.5", "1.2", "1.9")) and "<title>" not in text
    assert "before scaling" not in text and "failed or target not reached" in text
    scaled = pandas.DataFrame(RACE).assign(learning_rate_scaling="sqrt")
    assert experiment_section.rates_that_left(scaled)["scaled"]
    rows = text.split("<tr>")[2:]
    assert [("0.2" in row, "0.4" in row) for row in rows] == [(True, False), (False, True)]
    assert experiment_section.rates_that_left(pandas.DataFrame(RACE[:1])) is None
    assert experiment_section.rates_that_left(pandas.DataFrame()) is None


def test_rates_that_a_stage_added_are_named():
    """All begin with 3 seeds; the stage gives 0.2 at size 8 six of them, and adds 0.05 below it."""
    runs = {
        f"{rate} {seed}": {"batch_size": 8, "learning_rate": rate, "seed": seed}
        for rate, seeds in ((0.1, 3), (0.2, 6), (0.05, 3))
        for seed in range(seeds)
    }
    vary = {"learning_rate": (0.1, 0.2)}
    staged = plan.PlannedExperiment("a", None, vary, runs=runs, analyses=(3, 6))
    words = experiment_section._varied_factors(staged)
    assert words == "learning rate 0.05, 0.1 and 0.2; up to 6 seeds"


TIMED = {
    "highest_examples_per_second": 850.6,
    "plateau_examples_per_second": 900.0,
    **{"knee_fitted": 40.2, "knee_fitted_low": 36.6, "knee_fitted_high": 44.2},
    **{"knee_batch_size": 48, "still_rising": False, "noise_floor": 1.031},
    **{"fixed_seconds": 0.0056, "fixed_seconds_low": 0.0049, "fixed_seconds_high": 0.0064},
    **{"blocks": 40, "disturbed_blocks": 0},
}


def timing(**values: object) -> dict[str, object]:
    names = [*table_entries.TIMING_FIRST_COLUMNS, *table_entries.TIMING_TABLES["sweeps"].columns]
    given = {"machine": "local", "sweep": "s", "model": "small_cnn", "dataset": "digits"}
    return {**dict.fromkeys(names), **given, "loop": "graph", **values}


def timings(*rows: dict[str, object]):
    return experiment_section.timings(pandas.DataFrame(rows).replace({None: math.nan}))


def cells(*rows: dict[str, object]) -> dict[str, list[str]]:
    """Return the cells of each row of the page's table, by name."""
    template = rendering._environment().get_template("machine.html.j2")
    html = str(template.module.machine(timings(*rows), "T"))
    lines = re.findall(r'<tr data-row="(\w+)"><th.*?</th>(.*?)</tr>', html, re.S)
    return {name: re.findall(r"<td>(.*?)</td>", text, re.S) for name, text in lines}


def timed(**changes: object) -> dict[str, list[str]]:
    return cells(timing(**{**TIMED, **changes}))


def test_numbers_with_units_and_intervals():
    found = timed()
    assert found["highest_examples_per_second"] == ["851 examples/s"]
    assert found["plateau_examples_per_second"] == ["900 examples/s"]
    assert "40.2 [36.6, 44.2]" in found["knee"][0] and "48" in found["knee"][0]
    assert found["fixed_seconds"] == ["5.60 [4.90, 6.40] ms"]
    assert found["noise_floor"] == ["3.1 %"] and found["blocks"] == ["0 of 40"]
    # A value that was not measured has no line.
    assert not {"max_batch_size", "memory_mb_per_image"} & found.keys()


def test_a_knee_that_is_not_there_is_reported():
    none = {name: None for name in TIMED if name.startswith("knee_")}
    levels = {"rises": {"still_rising": True}, "": {}, "levels_off": {"knee_batch_size": 48}}
    for level, more in levels.items():
        (text,) = timed(**{**none, **more})["knee"]
        assert ("48" in text) == ("knee_batch_size" in more) and "[" not in text
        (configuration,) = timings(timing(**{**TIMED, **none, **more}))["configurations"]
        assert configuration["level"] == level


def test_too_noisy_to_tell():
    """Nothing that a level of the throughput is read from, beside a configuration that is not."""
    empty = {name: None for name in TIMED if name.startswith(("knee_", "plateau", "still"))}
    known = {**TIMED, "half_batch": 9.0}
    noisy = {**TIMED, **empty, "noise_floor": 8.1}
    found = cells(timing(device="cpu", **known), timing(device="gpu", **noisy))
    levels = ("plateau_examples_per_second", "knee", "half_batch")
    assert len({found[name][1] for name in levels}) == 1
    assert found["noise_floor"][1] == "710 %"


def test_a_configuration_that_waits_has_no_column_and_is_named():
    waiting = timing(device="gpu", status="no_gpu")
    answer = timings(timing(device="cpu", **TIMED), waiting)
    assert [timed["title"] for timed in answer["configurations"]] == ["CPU"]
    assert [timed["title"] for timed in answer["left_out"]] == ["GPU"]
    # The largest batch size was searched on a GPU; only its times wait.
    largest = {"max_batch_size": 64, "max_batch_size_bound": "resolved"}
    both = (timing(device="cpu", **TIMED), {**waiting, **largest})
    assert not timings(*both)["left_out"] and cells(*both)["max_batch_size"][1] == "64"


@pytest.mark.parametrize("rows", [[timing()], [timing(device="gpu", status="no_gpu")], []])
def test_nothing_measured_is_no_answer(rows):
    assert experiment_section.timings(pandas.DataFrame(rows, columns=list(timing()))) is None
