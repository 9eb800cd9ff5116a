"""The stage of a study, by the tables of its interim analyses."""

import json
from collections import Counter

import pytest

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import interims, jobs, paths
from batchscope.study import planner
from batchscope.study.stages import Stage
from small_study import config

STAGED = {"until": "decided", "at_most": 13}


def wrote(results, number, *rows, **more):
    """Write the table of an interim analysis: rows are (seeds, runs, seeds to resolve it)."""
    cells = [
        {"experiment": "a", "planned": "13", "seeds_to_resolve": needed, "seeds": seeds}
        | {"runs": json.dumps(runs) if runs else "", **more}
        for seeds, runs, needed in rows
    ]
    path = paths.interim_table(results, "s", number)
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.write_rows(path, tuple(cells[0]), cells)


def planned(stage=None, **experiment):
    raw = config(experiment={"seeds": STAGED, **experiment})
    return planner.make(raw, interim_results=lambda _: {"a": stage} if stage else {})


def counts(study):
    """Return batch size -> number of its runs."""
    return Counter(factors["batch_size"] for factors in study.runs.values())


def test_a_study_begins_with_the_seeds_of_the_first_analysis(tmp_path):
    study = planned()
    assert counts(study) == {16: 6, 32: 6}
    assert study.experiments["a"].analyses == (6, 9, 13)
    assert study.experiments["a"].seeds == tuple(range(6))
    assert interims.count(tmp_path, "s") == 0 and interims.is_open(tmp_path, "s")
    pilot = planned(seeds={**STAGED, "first": 4})  # its seeds are left out
    assert {factors["seed"] for factors in pilot.runs.values()} == {4, 5, 6, 7, 8, 9}


def test_each_configuration_has_the_most_seeds_that_an_analysis_gave_it(tmp_path):
    first = next(iter(planned().runs))
    wrote(tmp_path, 1, ("9", [first], "11"), ("", [], ""))
    wrote(tmp_path, 2, ("13", [first], "12"), ("9", [first], "7"))
    stage = interims.stages(tmp_path, "s")["a"]
    assert stage == Stage(13, {first: 13})
    study = planned(stage)
    assert counts(study) == {16: 13, 32: 6}
    assert study.experiments["a"].seeds == tuple(range(13))
    assert interims.count(tmp_path, "s") == 2 and interims.is_open(tmp_path, "s")
    assert interims.current_number(tmp_path, "s") == 3
    wrote(tmp_path, 3, ("", [], ""))
    assert not interims.is_open(tmp_path, "s") and interims.current_number(tmp_path, "s") == 3


def test_later_seeds_have_their_own_timing_jobs():
    def timed(first):
        keys = {"seeds": {**STAGED, "first": first}, "measure": ["time_epoch"]}
        experiment = planned(**keys).experiments["a"]
        return {job.path for job in jobs.measure_jobs(experiment, "results", "local")}

    assert len(timed(0)) == len(timed(6)) == 12 and not timed(0) & timed(6)


def test_other_seeds_are_another_plan(tmp_path):
    """They begin at the first analysis, with a warning if they share seeds with the last plan."""

    def warnings(first, stage):
        study = planned(stage, seeds={**STAGED, "first": first})
        assert counts(study) == {16: 6, 32: 6}
        return [text for text in study.warnings if text.startswith("experiments.a.seeds: ")]

    run = next(iter(planned().runs))
    wrote(tmp_path, 1, ("9", [run], "11"), first="0")
    stage = interims.stages(tmp_path, "s")["a"]
    assert not warnings(9, stage) and "9" in warnings(8, stage)[0]
    wrote(tmp_path, 2, ("", [], ""), first="9")
    assert interims.stages(tmp_path, "s")["a"] == Stage(13, {}, first=9)


def test_another_plan_after_an_analysis_is_warned_of(tmp_path):
    first = next(iter(planned().runs))
    study = planned(Stage(28, {first: 19}))
    assert counts(study) == {16: 13, 32: 6}
    (warning,) = [text for text in study.warnings if "28" in text]
    assert warning.startswith("experiments.a.seeds: ") and "(received 13)" in warning
    wrote(tmp_path, 1, ("9", [first], "11"))
    wrote(tmp_path, 2, ("13", [first], "11"), planned="28")  # at_most was raised in between
    assert interims.stages(tmp_path, "s")["a"].planned == 13


@pytest.mark.parametrize(("number", "delete"), [(1, "interims"), (2, "it")])
def test_a_damaged_or_missing_analysis_is_an_error(tmp_path, number, delete):
    """It never counts as an analysis that left nothing open."""
    for each in (1, 2):
        wrote(tmp_path, each, ("9", ["r"], "11"))
    path = paths.interim_table(tmp_path, "s", number)
    whole = path.read_text()
    header = whole.splitlines()[0]
    message = f"interims/{number}.csv.* [Dd]elete .*{delete} and run"
    for text in ("", "a,b\n1\n", f"{header}\n", whole.replace(",9,", ",x,")):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            interims.stages(tmp_path, "s")
    path.unlink()
    reads = (interims.count, interims.stages, interims.is_open, interims.current_number)
    for read in reads if number == 1 else ():
        with pytest.raises(UserError, match="interims/1.csv: missing.* delete .*interims and run"):
            read(tmp_path, "s")


RACE = {"vary": {"batch_size": [16, 32], "learning_rate": [0.1, 0.2]}}


def test_a_race_begins_with_three_seeds_of_every_rate(tmp_path):
    study = planned(**RACE)
    experiment = study.experiments["a"]
    assert counts(study) == {16: 6, 32: 6}
    assert (experiment.race, experiment.deciding_analyses) == ((3, 6, 9, 13), (6, 9, 13))
    first = next(iter(study.runs))
    wrote(tmp_path, 1, ("6", [first], ""))
    assert counts(planned(interims.stages(tmp_path, "s")["a"], **RACE)) == {16: 9, 32: 6}
    # One rate per size is no race.
    cases = [{"batch_size": size, "learning_rate": size / 100} for size in (16, 32)]
    assert counts(planned(cases=cases, vary={})) == {16: 6, 32: 6}


def test_a_stage_adds_a_rate_beyond_the_edge_for_the_sizes_that_are_best_there(tmp_path):
    row = ("3", [], "")
    wrote(tmp_path, 1, row, edge="0.2", rate="0.4", batch_sizes="[16]")
    wrote(tmp_path, 2, row, edge="0.4", rate="0.8", batch_sizes="[16]")
    stage = interims.stages(tmp_path, "s")["a"]
    assert stage.added_rates == ((0.2, 0.4, (16,)), (0.4, 0.8, (16,)))
    runs = planned(stage, **RACE).runs.values()
    rates = Counter((run["batch_size"], run["learning_rate"]) for run in runs)
    assert rates.keys() == {(16, 0.1), (16, 0.2), (16, 0.4), (16, 0.8), (32, 0.1), (32, 0.2)}
    # A file that has the rate by now plans it once.
    written = {"vary": {"batch_size": [16, 32], "learning_rate": [0.1, 0.2, 0.4]}}
    assert counts(planned(stage, **written)) == {16: 12, 32: 9}
    cases = [{"batch_size": 16, "learning_rate": rate} for rate in (0.1, 0.2, 0.4)]
    assert counts(planned(stage, cases=cases, vary={})) == {16: 12}
    wrote(tmp_path, 3, row, edge="0.8", rate="damaged", batch_sizes="[16]")
    with pytest.raises(UserError, match="interims/3.csv: "):
        interims.stages(tmp_path, "s")
