"""What exists, what is missing, and what the rest takes."""

from dataclasses import replace

import pytest

import small_study
from batchscope import disk
from batchscope.errors import UserError
from batchscope.host import absence
from batchscope.store import estimates, job_files, paths, states, status
from batchscope.study import config, names, planner
from batchscope.study.versions import VERSIONS

CONFIG = """
study: s
defaults:
  {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.1, epochs: 8}
experiments:
  a:
    vary: {batch_size: [16, 32, 64]}
    seeds: 2
    measure: [evaluate, time_epoch]
  b:
    set: {batch_size: 16}
    seeds: 3
    measure: [evaluate]
"""
EARLY = CONFIG.replace("[evaluate, time_epoch]", "[evaluate]\n    at_epochs: [1, 4, 8]")
DATA = "digits-065f9c58"


def planned(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    return config.study(tmp_path / "config.yaml")


@pytest.fixture
def study(tmp_path):
    return planned(tmp_path, CONFIG)


def described(study, results):
    """Returns where a study stands, and what is said of it."""
    found = status.overview(study, results)
    return found, status.describe(study, found, "c.yaml", 2)


def unsized(found):
    return {what for what, size in found.sizes if size is None}


def finish(results, run, seconds, word="finished"):
    """Writes a run's record, and files of 1,000 bytes beside it."""
    folder, factors = paths.run_folder(results, run), names.parse_run(run)
    record = {"status": word, "contended_seconds": seconds, "epochs_run": factors["epochs"]}
    disk.write_json(folder / paths.RECORD, record)
    for name in paths.run_files(factors)[1:]:
        (folder / name).write_bytes(bytes(1000))


def prepare(results):
    for name in (paths.RECORD, *paths.ARRAYS):
        disk.write_json(paths.dataset_folder(results, DATA) / name, {})


def complete(study, results, train=None, evaluate=None):
    """Writes every file of a study, of some version of the training and of evaluate."""
    prepare(results)
    for state in states.JobTable(study, results).every.values():
        if state.job.measure == "train":
            finish(results, state.job.runs[0], 8.0)
            record = disk.read_json(state.job.path)
            disk.write_json(state.job.path, {**record, "version": train})
        else:
            version = evaluate if state.job.measure == "evaluate" else None
            disk.write_json(state.job.path, {"version": version})


def test_of_an_empty_folder(study, tmp_path):
    found = status.overview(study, tmp_path / "nothing")
    assert found.total.statuses == {"missing": 7}
    assert [row.unmade for row in found.experiments] == [
        {"evaluate": 6, "time_epoch": 6},
        {"evaluate": 3},
    ]
    assert found.total.unmade == {"evaluate": 7, "time_epoch": 6}
    assert len(found.untimed("training")) == 7 and found.seconds("training") == 0
    assert found.missing_data == (DATA,)
    assert found.disk_bytes == 1797 * 64
    assert unsized(found) == {f"small_cnn on {DATA}"}  # until a run is finished
    assert not found.complete
    lines = status.main(str(tmp_path / "config.yaml"), "full", tmp_path / "nothing").splitlines()
    assert lines[3].split() == ["a", "6", "0", "0", "0", "6", "evaluate", "6,", "time_epoch", "6"]
    assert lines[5].split()[:6] == ["all", "7", "0", "0", "0", "7"] and "115 kB" in lines[9]
    assert not (tmp_path / "nothing").exists()


def test_of_a_study_half_done(study, tmp_path):
    runs = list(study.runs)
    finish(tmp_path, runs[0], 8.0)  # batch 16
    finish(tmp_path, runs[1], 16.0)
    finish(tmp_path, runs[2], 1.0, "diverged")  # batch 32
    disk.write_json(paths.measure_path(tmp_path, runs[0], "evaluate", "default"), {})
    prepare(tmp_path)
    found = status.overview(study, tmp_path)
    assert found.total.statuses == {"finished": 2, "diverged": 1, "missing": 4}
    assert found.total.unmade["evaluate"] == 6
    assert found.missing_data == () and found.untimed("training") == []
    assert found.seconds("training") == pytest.approx(4 * 12.0)  # as batch 16; above it: the same
    assert found.disk_bytes == (4 * 2 + 3) * 1000  # as of finished runs
    (paths.run_folder(tmp_path, runs[1]) / "history.csv").unlink()
    (paths.dataset_folder(tmp_path, DATA) / "test_labels.npy").unlink()
    found = status.overview(study, tmp_path)
    assert found.total.statuses["missing"] == 5 and found.missing_data == (DATA,)


def test_runs_without_the_weights_that_are_read_now_are_trained_again(tmp_path):
    study = planned(tmp_path, EARLY)
    complete(study, tmp_path)
    runs = [*study.experiments["a"].runs]
    assert status.overview(study, tmp_path).to_epoch == 0  # measured: nothing is read
    for epoch in (1, 8):
        paths.measure_path(tmp_path, runs[0], "evaluate", f"at={epoch}").unlink()
    paths.measure_path(tmp_path, runs[1], "evaluate", "at=4").unlink()
    paths.snapshot_path(tmp_path, runs[1], 4).parent.mkdir()
    paths.snapshot_path(tmp_path, runs[1], 4).touch()  # kept by its training
    found = status.overview(study, tmp_path)
    assert not found.complete and found.total.statuses["missing"] == 0
    assert found.to_epoch == sum(job.noun == "training" for job, _ in found.jobs) == 1
    assert found.seconds("training") == pytest.approx(1.0)  # one epoch of eight that took 8 s
    assert found.disk_bytes == 1000


def test_what_other_versions_made_is_reported_and_counted_in_time(study, tmp_path, monkeypatch):
    complete(study, tmp_path, VERSIONS["train"], VERSIONS["evaluate"])
    assert status.overview(study, tmp_path).complete
    complete(study, tmp_path)  # without versions, as records once were
    found, text = described(study, tmp_path)
    assert found.complete and found.disk_bytes == 0 and found.jobs == []
    assert "all exist" in text and "Time left" not in text
    complete(study, tmp_path, VERSIONS["train"], "evaluate-v0")
    found = status.overview(study, tmp_path)
    assert found.outdated == {("evaluate", "evaluate-v0"): 7}
    assert [job.measure for job, _ in found.jobs] == ["evaluate"] * 7
    complete(study, tmp_path, "train-v1")
    found, text = described(study, tmp_path)
    assert not found.complete and found.outdated == {("train", "train-v1"): 7}
    assert found.total.statuses == {"finished": 7} and found.untimed("training") == []
    assert [job.noun for job, _ in found.jobs] == ["training"] * 7 + ["measure"] * 7
    assert found.seconds("training") == pytest.approx(7 * 8.0)
    # Their seven evaluations follow; times of an epoch read no run.
    assert found.start_seconds == pytest.approx((7 + 7) * status.FORK_SECONDS)
    assert f"train-v1; now {VERSIONS['train']}" in text
    # One that needs what is not here stays.
    monkeypatch.setattr(absence, "of", lambda factors: absence.GPU)
    assert not status.overview(study, tmp_path).outdated


def measured(results, study, run, measure, seconds, word="finished", settings="default"):
    """Writes the record of a measure of a run, or of its timing job."""
    name, path = run, paths.measure_path(results, run, measure, settings)
    if measure == "time_epoch":
        factors, here = study.runs[run], next(job_files.places(study, results))
        name = names.timing_name(factors)
        path = job_files.time_path(here, study.experiments["a"], factors, measure)
    disk.write_json(path, {"status": word})
    estimates.note(results, measure, name, path, seconds)


def test_measures_and_timings_take_what_finished_ones_of_their_kind_took(study, tmp_path):
    runs = list(study.runs)
    for run in runs:
        finish(tmp_path, run, 1.0)
    measured(tmp_path, study, runs[0], "evaluate", 2.0)
    measured(tmp_path, study, runs[1], "evaluate", 4.0)
    measured(tmp_path, study, runs[2], "evaluate", 0.1, "diverged")  # measured nothing
    measured(tmp_path, study, runs[0], "evaluate", 9.0, settings="w=best")  # of another kind
    found, text = described(study, tmp_path)
    assert found.seconds("measure") == pytest.approx(4 * 3.0)  # of seven runs
    assert found.seconds("timing") == 0 and len(found.untimed("timing")) == 6
    assert "together at least " in text
    measured(tmp_path, study, runs[0], "time_epoch", 5.0)
    found, text = described(study, tmp_path)
    assert found.seconds("timing") == pytest.approx(5 * 5.0) and found.untimed("timing") == []
    # Measures on both cores, timings one after the other; starts are in what was noted.
    assert "together 31 s on 2 cores" in text
    with open(tmp_path / "job_seconds.csv", "a") as file:
        file.write(f"evaluate,default,{DATA},small_cnn,\nevalu")  # torn by a full disk
    assert status.overview(study, tmp_path).seconds("measure") == pytest.approx(12)
    (tmp_path / "job_seconds.csv").unlink()
    (tmp_path / "job_seconds.csv").mkdir()  # where it cannot be noted, nothing fails
    measured(tmp_path, study, runs[0], "evaluate", 2.0)


def test_a_prepared_data_set_says_which_batch_is_too_large(tmp_path):
    """Of what a local file holds nothing is known before."""
    (tmp_path / "mnist.npz").touch()
    path = tmp_path / "config.yaml"
    local = f"datasets: {{local: {{source: mnist, path: {tmp_path / 'mnist.npz'}}}}}"
    text = CONFIG.replace("dataset: digits", "dataset: local").replace("64]", "50001]")
    path.write_text(f"{text}\n{local}")
    results = tmp_path / "results"
    status.main(path, "full", results)
    (token,) = config.study(path).datasets
    record = paths.dataset_record(results, token)
    disk.write_json(record, {"counts": {"train": 50001}})
    status.main(path, "full", results)
    disk.write_json(record, {"counts": {"train": 50000}})
    with pytest.raises(UserError, match=r"^experiments.a.vary.batch_size\[2\]: received 50001;"):
        status.main(path, "full", results)


def test_records_that_do_not_say_predict_nothing_and_damaged_ones_are_named(study, tmp_path):
    run = next(iter(study.runs))
    for name in (run.replace("ep=8", "ep=9"), f"{DATA}+small_cnn+old"):
        disk.write_json(paths.run_folder(tmp_path, name) / paths.RECORD, {"status": "finished"})
    assert len(status.overview(study, tmp_path).untimed("training")) == 7
    finish(tmp_path, run, 1.0)
    disk.write_json(paths.run_folder(tmp_path, run) / paths.RECORD, {})
    with pytest.raises(UserError, match=r"record.json: received a damaged file \(without status\)"):
        status.overview(study, tmp_path)


@pytest.mark.parametrize(
    ("given", "cores", "expected"),
    [
        ({}, 2, 3 * 3600.0),  # six hours of one core each
        ({}, 64, 3600.0),  # no run is divided
        ({"threads": 8}, 8, 6 * 3600.0),
        ({"device": "gpu"}, 8, 6 * 3600.0),  # one at a time
    ],
)
def test_the_time_left_goes_by_cores_and_gpus(given, cores, expected):
    study = planner.make(small_study.config(defaults=given, experiment={"seeds": 3}))
    jobs = [(job_files.training_job("nowhere", run), 3600.0) for run in study.runs]
    left = replace(status.overview(study, "nowhere"), jobs=jobs)
    assert expected <= left.wall_seconds(cores) <= expected + 10
