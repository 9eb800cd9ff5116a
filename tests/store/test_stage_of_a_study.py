"""The stage of a study, as it is known by the tables of its looks."""

import itertools
import json

import pytest

import commanded
from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.store import interims, jobs, paths
from batchscope.study import planner
from batchscope.study.stages import Stage
from small_study import config

STAGED = {"until": "decided", "at_most": 13}


def wrote(results, number, *rows, **more):
    """Writes the table of a look: rows are (seeds, runs, seeds that would settle it)."""
    path = paths.interim_table(results, "s", number)
    path.parent.mkdir(parents=True, exist_ok=True)
    own = ("experiment", "planned", "seeds_to_resolve", "seeds", "runs", *more)
    cells = [
        {"experiment": "a", "planned": "13", "seeds_to_resolve": wanted, "seeds": seeds, **more}
        | {"runs": json.dumps(runs) if runs else ""}
        for seeds, runs, wanted in rows
    ]
    disk.write_rows(path, own, cells)


def planned(stage=None, **experiment):
    raw = config(experiment={"seeds": STAGED, **experiment})
    return planner.make(raw, looked=lambda _: {"a": stage} if stage else {})


def counts(study):
    """Returns batch size -> how many seeds its runs have."""
    found = {}
    for factors in study.runs.values():
        found[factors["batch_size"]] = found.get(factors["batch_size"], 0) + 1
    return found


def test_a_study_begins_with_the_seeds_of_the_first_look(tmp_path):
    study = planned()
    assert counts(study) == {16: 6, 32: 6}
    assert study.experiments["a"].looks == (6, 9, 13)
    assert study.experiments["a"].seeds == tuple(range(6))
    assert interims.count(tmp_path, "s") == 0 and interims.is_open(tmp_path, "s")


def test_each_configuration_has_the_most_seeds_that_a_look_gave_it(tmp_path):
    first = next(iter(planned().runs))
    wrote(tmp_path, 1, ("9", [first], "11"), ("", [], ""))
    wrote(tmp_path, 2, ("13", [first], "12"), ("9", [first], "7"))
    stage = interims.stages(tmp_path, "s")["a"]
    assert stage == Stage(13, {first: 13})
    study = planned(stage)
    assert counts(study) == {16: 13, 32: 6}
    assert study.experiments["a"].seeds == tuple(range(13))
    assert interims.count(tmp_path, "s") == 2 and interims.is_open(tmp_path, "s")
    wrote(tmp_path, 3, ("", [], ""))
    assert not interims.is_open(tmp_path, "s")


def test_the_seeds_of_a_pilot_are_left_out():
    def begun(stage=None):
        return planned(stage, seeds={**STAGED, "first": 4})

    runs = begun().runs
    assert {factors["seed"] for factors in runs.values()} == {4, 5, 6, 7, 8, 9}
    first = next(name for name in runs if name.endswith("seed=4"))
    study = begun(Stage(13, {first: 9}, first=4))
    assert counts(study) == {16: 9, 32: 6}
    assert study.experiments["a"].seeds == tuple(range(4, 13))


def test_later_seeds_have_timing_jobs_of_their_own():
    def timed(first):
        given = {"seeds": {**STAGED, "first": first}, "measure": ["time_epoch"]}
        experiment = planned(**given).experiments["a"]
        return {job.path for job in jobs.measure_jobs(experiment, "results", "local")}

    assert len(timed(0)) == len(timed(6)) == 12 and not timed(0) & timed(6)


def test_other_seeds_are_another_plan(tmp_path):
    """They begin at the first look; one that shares seeds with the last plan is told."""

    def told(first, stage):
        study = planned(stage, seeds={**STAGED, "first": first})
        assert counts(study) == {16: 6, 32: 6}
        return [each for each in study.warnings if each.startswith("experiments.a.seeds: ")]

    run = next(iter(planned().runs))
    wrote(tmp_path, 1, ("9", [run], "11"), first="0")
    stage = interims.stages(tmp_path, "s")["a"]
    assert not told(9, stage) and "9" in told(8, stage)[0]
    wrote(tmp_path, 2, ("", [], ""), first="9")
    assert interims.stages(tmp_path, "s")["a"] == Stage(13, {}, first=9)


def test_another_plan_after_a_look_is_said():
    first = next(iter(planned().runs))
    stage = Stage(28, {first: 19})
    study = planned(stage)
    assert counts(study) == {16: 13, 32: 6}
    (warning,) = [each for each in study.warnings if "28" in each]
    assert warning.startswith("experiments.a.seeds: ") and "(received 13)" in warning
    assert not any("28" in each for each in planned(Stage(13, {})).warnings)


def test_runs_of_a_command_come_in_stages_too(tmp_path):
    raw = commanded.study(tmp_path, seeds=STAGED)
    first = next(iter(planner.make(raw, folder=tmp_path).commands))
    stage = {"a": Stage(13, {first: 9})}
    later = planner.make(raw, folder=tmp_path, looked=lambda _: stage)
    assert len(later.commands) == 6 + 6 + 9


@pytest.mark.parametrize(
    ("number", "content", "delete"),
    [(1, "", "interims"), (2, "", "it"), (2, "experiment,planned\n", "it"), (2, "a,b\n1\n", "it")],
)
def test_a_damaged_analysis_is_an_error(tmp_path, number, content, delete):
    """It never counts as an analysis that left nothing open."""
    for each in (1, 2):
        wrote(tmp_path, each, ("9", ["r"], "11"))
    path = paths.interim_table(tmp_path, "s", number)
    header = path.read_text().splitlines()[0]
    for text in (content, f"{header}\n", path.read_text().replace(",9,", ",x,")):
        path.write_text(text)
        with pytest.raises(
            UserError, match=f"interims/{number}.csv.* [Dd]elete .*{delete} and run"
        ):
            interims.stages(tmp_path, "s")


def test_a_missing_analysis_before_another_is_an_error(tmp_path):
    for number in (1, 2):
        wrote(tmp_path, number, ("9", ["r"], "11"))
    paths.interim_table(tmp_path, "s", 1).unlink()
    for read in (interims.count, interims.stages, interims.is_open, interims.current):
        with pytest.raises(UserError, match="interims/1.csv: missing.* delete .*interims and run"):
            read(tmp_path, "s")


RACE = {"vary": {"batch_size": [16, 32], "learning_rate": [0.1, 0.2]}}


def test_a_race_begins_with_three_seeds_of_every_rate(tmp_path):
    study = planned(**RACE)
    experiment = study.experiments["a"]
    assert counts(study) == {16: 6, 32: 6}
    assert (experiment.race, experiment.looks) == ((3, 6, 9, 13), (6, 9, 13))
    first = next(iter(study.runs))
    wrote(tmp_path, 1, ("6", [first], ""))
    assert counts(planned(interims.stages(tmp_path, "s")["a"], **RACE)) == {16: 9, 32: 6}
    cases = [{"batch_size": 16, "learning_rate": rate} for rate in (0.1, 0.2)]
    assert counts(planned(cases=cases, vary={})) == {16: 6}
    cases = [{"batch_size": size, "learning_rate": size / 100} for size in (16, 32)]
    assert counts(planned(cases=cases, vary={})) == {16: 6, 32: 6}


def test_a_stage_adds_a_rate_beyond_the_edge_for_the_sizes_that_are_best_there(tmp_path):
    row = ("3", [], "")
    wrote(tmp_path, 1, row, edge="0.2", rate="0.4", batch_sizes="[16]")
    wrote(tmp_path, 2, row, edge="0.4", rate="0.8", batch_sizes="[16]")
    stage = interims.stages(tmp_path, "s")["a"]
    assert stage.added_rates == ((0.2, 0.4, (16,)), (0.4, 0.8, (16,)))
    runs = planned(stage, **RACE).runs.values()
    assert {(run["batch_size"], run["learning_rate"]) for run in runs} == {
        *itertools.product((16, 32), (0.1, 0.2)),
        (16, 0.4),
        (16, 0.8),
    }
    # A file that has the rate by now plans it once.
    written = {"vary": {"batch_size": [16, 32], "learning_rate": [0.1, 0.2, 0.4]}}
    assert counts(planned(stage, **written)) == {16: 12, 32: 9}
    cases = [{"batch_size": 16, "learning_rate": rate} for rate in (0.1, 0.2, 0.4)]
    assert counts(planned(stage, cases=cases, vary={})) == {16: 12}
    assert interims.is_open(tmp_path, "s")
    wrote(tmp_path, 3, ("", [], ""), first="9")
    assert interims.stages(tmp_path, "s")["a"] == Stage(13, {}, first=9)  # another plan
