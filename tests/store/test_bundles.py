"""Bundles of jobs: what goes together, in which order, and how it is written."""

import os
from pathlib import Path

import pytest

import small_study
from batchscope.cli import entry
from batchscope.errors import UserError
from batchscope.store import bundles, estimates, job_files, paths, states, status
from batchscope.study import planner
from batchscope.study.registry import TIMINGS

MEASURED = {
    "evaluate": None,
    "sharpness": None,
    "time_epoch": None,
    "line": {"between": {"batch_size": [16, 32]}},
}


def planned(results, jobs_each="auto", models=None, **experiment):
    given = {"measure": MEASURED, "seeds": 3, **experiment}
    study = planner.make(small_study.config(models=models or {}, experiment=given))
    return study, bundles.planned(study, results, status.rows(study, results), jobs_each)


def files(found):
    return [file for bundle in found for step in bundle.steps for file in step.files]


def make(bundle):
    for step in bundle.steps:
        for file in step.files:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text('{"status": "finished"}' if file.endswith(".json") else "")


@pytest.mark.parametrize("jobs_each", ["auto", 1, 2, 100])
def test_all_that_is_missing_is_made_once(tmp_path, jobs_each):
    study, found = planned(tmp_path, jobs_each)
    written = files(found)
    assert len({*written}) == len(written)
    table = states.JobTable(study, tmp_path)
    assert {state.job.path.as_posix() for state in table.every.values()} <= {*written}
    assert sum(len(bundle.records) for bundle in found) == len(table.every)
    trainings = [bundle for bundle in found if bundle.steps[0].words[0] == "train"]
    assert jobs_each == "auto" or len(trainings) == -(-len(study.runs) // jobs_each)


def test_a_run_stays_with_what_is_measured_of_it_and_is_trained_first(tmp_path):
    study, found = planned(tmp_path)
    for bundle in found:
        seen = set()
        for step in bundle.steps:
            if step.words[0] in ("evaluate", "sharpness"):
                assert {*step.after} <= seen
            seen |= {*step.files}


def test_times_have_the_machine_to_themselves_in_turns(tmp_path):
    _, found = planned(tmp_path, 100)
    (alone,) = (bundle for bundle in found if bundle.alone)
    assert {step.words[0] for step in alone.steps} <= {*TIMINGS}
    turns = [Path(step.files[0]).stem for step in alone.steps]
    assert turns == sorted(turns) and len({*turns[:2]}) == 1  # all sizes before the next turn
    assert not any(
        step.words[0] in TIMINGS for each in found if not each.alone for step in each.steps
    )


def test_measures_of_two_runs_come_after_theirs(tmp_path):
    _, found = planned(tmp_path, 2)
    pairs = [each for each in found if each.steps[0].words[0] == "line"]
    assert sum(len(each.steps) for each in pairs) == 3
    assert all(len(step.after) == 2 for each in pairs for step in each.steps)
    for each in pairs:
        needed = {file for step in each.steps for file in step.after}
        assert {*each.after} == {other.name for other in found if needed & {*other.records}}


def test_weights_before_the_last_are_there_before_they_are_read(tmp_path):
    _, found = planned(tmp_path, measure=["evaluate"], at_epochs=[1, 2])
    steps = [step for bundle in found for step in bundle.steps]
    names = [step.words[0] for step in steps]
    for index, step in enumerate(steps):
        if step.words[0] == "evaluate" and "epoch=1" in step.files[0]:
            assert steps[index - 1].files[0].endswith("epochs/1.npz")
    assert names.count("snapshot") == names.count("train") == 6


def test_what_is_made_is_left_out_and_its_name_is_another(tmp_path):
    _, found = planned(tmp_path, 2)
    make(found[0])
    _, rest = planned(tmp_path, 2)
    assert {*files(rest)} == {*files(found)} - {*files(found[:1])}
    make(rest[0])
    assert rest[0].steps[0].made(0.0) and not rest[1].steps[0].made(0.0)
    assert not {each.name for each in rest} & {each.name for each in found}


def test_a_run_that_is_trained_again_is_measured_again(tmp_path):
    study, found = planned(tmp_path, 1, measure=["evaluate", "weight_distance"])
    for bundle in found:
        make(bundle)
    assert planned(tmp_path, 1, measure=["evaluate", "weight_distance"])[1] == []
    run = next(iter(study.runs))
    os.unlink(job_files.training_job(tmp_path, run).path)
    _, (again,) = planned(tmp_path, 1, measure=["evaluate", "weight_distance"])
    assert [step.words[0] for step in again.steps] == ["train", "evaluate", "weight_distance"]
    assert all(run in word for step in again.steps for word in step.words[2:3])


def test_a_step_is_made_again_after_what_it_needs(tmp_path):
    record, measure = tmp_path / "record.json", tmp_path / "measure.json"
    step = bundles.Step((str(measure),), ("evaluate",), "log", (str(record),))
    assert (step.ready, step.made(0.0)) == (False, False)
    measure.touch()
    record.touch()
    os.utime(measure, (1.0, 1.0))
    assert (step.ready, step.made(0.0)) == (True, False)
    os.utime(record, (1.0, 1.0))
    assert step.made(1.0) and not step.made(2.0)  # it was there when it was planned anew
    weights = bundles.Step((str(tmp_path / "1.npz"),), ("snapshot",), "log", (str(record),))
    (tmp_path / "1.npz").touch()
    assert weights.made(10.0**12)  # a training may have kept them


def test_bundles_take_about_as_long_where_times_are_known(tmp_path):
    study = planner.make(small_study.config(experiment={"seeds": 100}))
    for run in study.runs:
        size = study.runs[run]["batch_size"]
        estimates.note_epoch(tmp_path, study.runs[run], {16: 30.0, 32: 10.0}[size])
        break
    run = next(run for run, factors in study.runs.items() if factors["batch_size"] == 32)
    estimates.note_epoch(tmp_path, study.runs[run], 10.0)
    found = bundles.planned(study, tmp_path, status.rows(study, tmp_path))
    seconds = [
        sum(2 * (30 if "+bs=16" in step.files[0] else 10) for step in bundle.steps)
        for bundle in found
    ]
    assert sum(seconds) == 8000 and max(seconds) <= bundles.SECONDS + 60
    assert max(seconds) - min(seconds) <= 60
    least = bundles.planned(
        planner.make(small_study.config(experiment={"seeds": 6})),
        tmp_path,
        status.rows(planner.make(small_study.config(experiment={"seeds": 6})), tmp_path),
    )
    assert len(least) == bundles.SIDE_BY_SIDE  # eight minutes: nodes have several cores


def test_a_bundle_reads_as_it_was_written(tmp_path):
    _, found = planned(tmp_path, 2)
    for bundle in found:
        bundle.write(tmp_path / "s")
        assert bundles.read(tmp_path / "s", bundle.name)[0] == bundle
    path = paths.bundle_file(tmp_path / "s", found[0].name, paths.BUNDLED)
    path.write_text('{"steps": 1}')
    with pytest.raises(UserError, match="damaged"):
        bundles.read(tmp_path / "s", found[0].name)
    bundles.clear(tmp_path / "s")
    assert not path.exists()


def test_the_command_line_knows_every_step(tmp_path):
    _, found = planned(
        tmp_path,
        measure={**MEASURED, "landscape": None, "weight_distance": None},
        models=small_study_model(),
        vary={"batch_size": [16, 32], "model": ["mine", "small_cnn"]},
    )
    for bundle in found:
        for step in bundle.steps:
            given = vars(entry.parser().parse_args([*step.words]))
            assert given.get("output") in (None, Path(step.files[0]))
            built = "+mine-" in step.files[0] and step.words[0] != "weight_distance"
            assert bool(given.get("model_file")) == built


def small_study_model():
    return {"mine": str(small_study.MODEL_FILE)}
