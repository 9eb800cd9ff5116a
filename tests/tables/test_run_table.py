"""Records on disk to tidy tables."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pandas
import pytest

import synthetic
from batchscope.core import disk
from batchscope.store import jobs, paths, records
from batchscope.study import names, plan, run_factors, table_entries
from batchscope.study.experiments import TimingExperiment
from batchscope.study.registry import MEASURES
from batchscope.study.study_file import Machine
from batchscope.tables import csv_tables, long_tables, study_tables


class Written(NamedTuple):
    """Results on disk, and their study."""

    results: Path
    planned: plan.Study

    @property
    def gap(self):
        return self.planned.experiments["gap"]

    def made(self, table) -> pandas.DataFrame:
        return synthetic.made(table, *self)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Results of 2 batch sizes and 2 seeds, to read: one run diverged, one is missing."""
    runs, results = synthetic.grid([16, 32], [0, 1]), tmp_path_factory.mktemp("results")
    planned = synthetic.study(runs)
    synthetic.write(results, planned, {runs[1]: "diverged", runs[3]: "missing"})
    return Written(results, planned)


@pytest.fixture
def written(shared, tmp_path):
    """A copy of those results, to change."""
    results = shutil.copytree(shared.results, tmp_path / "results")
    return Written(results, synthetic.study([*shared.gap.runs]))


def test_one_row_per_run_in_the_plans_order(shared):
    frame = shared.made("runs")
    assert [*frame["run"]] == [*shared.gap.runs]
    assert list(frame["status"]) == ["finished", "diverged", "finished", "missing"]
    first = frame.iloc[0]
    expected = {"study": "made_up", "experiment": "gap", "machine": "local", "test_examples": 360}
    expected |= {"dataset": "digits", "dataset_digest": "1f0a93c2", "model": "small_cnn"}
    expected |= {"model_digest": None, "batch_size": 16, "learning_rate": 0.05, "nesterov": False}
    assert first[list(expected)].to_dict() == expected
    assert first["train_seconds"] == first["epochs_run"] * first["seconds_per_epoch"]


def test_what_is_not_there_is_empty(tmp_path, shared):
    frame = shared.made("runs")
    diverged, missing = frame.iloc[1], frame.iloc[3]
    assert math.isnan(diverged["test_accuracy"])
    assert diverged["epochs_run"] == 7 and diverged["stop_reason"] == "diverged"
    assert pandas.isna(missing["epochs_run"]) and math.isnan(missing["weight_distance"])
    assert math.isnan(missing["train_seconds"])
    assert diverged["seconds_per_epoch"] > 0  # its configuration was timed all the same
    assert math.isnan(missing["seconds_per_epoch"])  # the second seed's job of it was not
    nothing = shared._replace(results=tmp_path / "nothing").made("runs")
    assert list(nothing.columns) == list(frame.columns) and set(nothing["status"]) == {"missing"}


def test_the_csv_reads_back_as_it_was(shared, tmp_path):
    study_tables.write(*shared, "gap", tmp_path / "tables")
    frame = shared.made("runs")
    read = csv_tables.read(tmp_path / "tables" / "runs.csv")
    assert list(read.columns) == list(frame.columns)
    assert read["learning_rate_scaling"].tolist() == ["none"] * 4
    for name in ("test_accuracy", "weight_distance", "seconds_per_epoch", "epochs_run"):
        expected = frame[name].astype("float64").tolist()
        assert read[name].tolist() == pytest.approx(expected, abs=0, rel=0, nan_ok=True)
    assert "40.0" not in (tmp_path / "tables" / "runs.csv").read_text()
    found = {path.name for path in (tmp_path / "tables").iterdir()}
    assert found == {*table_entries.FILES, paths.DEFAULT_TARGETS}


def test_how_much_others_disturbed_the_timing_job_of_a_run(written):
    """Two of three blocks of the first seed's job; the records of others have no blocks."""
    factors = next(iter(written.gap.runs.values()))
    (place,) = jobs.machine_results(written.planned, written.results)
    path = jobs.time_path(place, written.gap, factors, "time_epoch")
    with synthetic.edited(path) as record:
        record["blocks"] = [
            {"seconds_per_epoch": 1.0, "foreign_cores": cores, "disturbed": cores > 0.2}
            for cores in (1.9, 0.1, 1.7)
        ]
    frame = written.made("runs")
    assert frame.loc[0, "disturbed_share"] == pytest.approx(2 / 3)
    assert frame.loc[0, "foreign_cores"] == 1.7
    assert frame.loc[2:, ["disturbed_share", "foreign_cores"]].isna().all(axis=None)


def test_lines(shared):
    frame = shared.made("lines")
    small, _, large, _ = shared.gap.runs
    assert frame["run"].unique().tolist() == [small]  # those of the other seed failed
    assert frame["other"].unique().tolist() == [large]
    (line,) = frame[["factor", "small", "large"]].drop_duplicates().to_numpy().tolist()
    assert line == ["batch_size", 16, 32]
    assert frame["split"].tolist() == [split for split in paths.SPLITS for _ in range(7)]
    test = frame[frame["split"] == "test"]
    assert test["alpha"].tolist() == pytest.approx([-1, -0.5, 0, 0.5, 1, 1.5, 2])
    assert test["loss"].iloc[2] == pytest.approx(0.12)


def test_at_epochs(shared):
    frame = shared.made("at_epochs")
    runs = [*shared.gap.runs]
    assert frame["run"].tolist() == [run for run in runs[:3] for _ in synthetic.AT_EPOCHS]
    assert frame["at_epoch"].tolist() == list(synthetic.AT_EPOCHS) * 3
    assert set(frame["machine"]) == {"local"}
    finished = frame[frame["run"] == runs[0]]
    per_epoch = shared.made("runs")["seconds_per_epoch"].iloc[0]
    expected = [epoch * per_epoch for epoch in synthetic.AT_EPOCHS]
    assert finished["train_seconds"].tolist() == pytest.approx(expected, rel=1e-12)
    row = finished[finished["at_epoch"] == 5].iloc[0]
    for measure in ("evaluate", "noise_scale"):
        path = paths.measure_path(shared.results, runs[0], measure, "at=5")
        values = disk.read_json(path)["values"]
        known = [name for name in values if name in row]
        assert row[known].tolist() == [values[name] for name in known] and len(known) > 2
    diverged = frame[frame["run"] == runs[1]]  # after seven epochs
    assert diverged["test_accuracy"].isna().all()
    assert diverged["train_seconds"].isna().tolist() == [False, False, False, True]


def test_at_epochs_of_another_machine_stand_below_with_its_own_times(written, tmp_path):
    other = tmp_path / "other"
    run, timed = [*written.gap.runs][0], written.gap.measures
    shutil.copytree(paths.run_folder(written.results, run), paths.run_folder(other, run))
    timing = names.timing_name(names.parse_run(run))
    settings = names.settings_name("time_epoch", timed["time_epoch"])
    path = paths.timing_path(other, "theirs", timing, settings, "time_epoch")
    disk.write_json(path, {"values": {"seconds_per_epoch": 1.5}})
    written.planned.machines["cluster"] = Machine(results=str(other), machine="theirs")
    frame = written.made("at_epochs")
    found = frame[frame["machine"] == "cluster"]
    assert found["train_seconds"].tolist() == [1.5 * epoch for epoch in synthetic.AT_EPOCHS]
    assert set(found["run"]) == {run} and found["test_loss"].notna().all()


def test_a_trajectory_of_epochs_ends_is_that_of_the_history(written):
    long = long_tables.for_experiment(*written, "gap")
    frame, history = long["trajectories"], long["history"]
    assert frame["examples"].tolist() == (history["epoch"] * 1149).tolist()
    assert frame["updates"].tolist() == history["step"].tolist()
    assert frame["validation_loss"].equals(history["validation_loss"])
    for name in ("epoch", "examples", "seconds"):
        assert frame[name].tolist() == history[name].tolist()
    del written.gap.measures["time_epoch"]
    untimed = long_tables.for_experiment(*written, "gap")
    assert untimed["trajectories"]["seconds"].isna().all()
    assert untimed["at_epochs"]["train_seconds"].isna().all()


@pytest.mark.parametrize("loop, known", [("graph", True), ("eager", False)])
def test_seconds_of_a_throughput_beside_where_no_epoch_was_timed(written, loop, known):
    """Steps that another loop drives are not the training's."""
    results, planned = written
    chosen = planned.experiments["gap"]
    first = names.parse_run([*chosen.runs][0])
    factors = {name: first[name] for name in run_factors.TIMING_FACTORS if name != "batch_size"}
    only = run_factors.TIMING_ONLY_FACTORS
    factors |= {**{name: only[name].default for name in only}, "loop": loop}
    keys = TimingExperiment.model_validate({"timing": "throughput"})
    sweeps = (names.Sweep(factors, (16,)),)
    planned.experiments["speed"] = plan.PlannedExperiment("speed", keys, {}, sweeps=sweeps)
    (job,) = jobs.timing_jobs(planned.experiments["speed"], results, planned.machine)
    blocks = [{"seconds_per_step": seconds} for seconds in (0.01, 0.02, 0.9)]
    disk.write_json(job.path, {"sizes": [{"batch_size": 16, "blocks": blocks}]})
    chosen = replace(chosen, keys=chosen.keys.model_copy(update={"beside": ("speed",)}))
    measures = vars(chosen)["measures"] = dict(written.gap.measures)
    planned.experiments["gap"] = chosen
    own_seconds = long_tables.for_experiment(results, planned, "gap")["trajectories"]["seconds"]
    del measures["time_epoch"]
    frame = long_tables.for_experiment(results, planned, "gap")["trajectories"]
    # The only job of the sweep is the first seed's.
    here = (frame["batch_size"] == 16) & (frame["seed"] == 0)
    assert frame["seconds"].notna().tolist() == (here & known).tolist()
    if known:
        expected = frame.loc[here, "examples"] / (16 / 0.02)
        assert frame.loc[here, "seconds"].tolist() == pytest.approx(expected.tolist())
        assert (frame.loc[here, "seconds"] != own_seconds[here]).all()


def test_a_trajectory_has_what_the_training_wrote(tmp_path):
    """Three evaluations within an epoch."""
    planned = synthetic.study(synthetic.grid([32], [0], evaluate_every=500, epochs=1))
    synthetic.write(tmp_path, planned)
    (run,) = planned.experiments["gap"].runs
    names = ("examples", "updates", "train_loss", "test_loss")
    numbers = ((512, 16, 1.5, 1.75), (1024, 32, 0.5, math.inf), (1149, 36, 0.25, 0.75))
    rows = [dict(zip(names, each, strict=True)) for each in numbers]
    same = {"validation_loss": 1.0, "validation_accuracy": 0.5, "test_accuracy": 0.5}
    rows = [{**same, **row, "epoch": row["examples"] / 1149} for row in rows]
    path = paths.run_folder(tmp_path, run) / "trajectory.csv"
    disk.write_rows(path, records.trajectory_columns("classification"), rows)
    synthetic.write_sha256(path.parent)
    frame = synthetic.made("trajectories", tmp_path, planned)
    assert frame[[*rows[0]]].to_dict("records") == rows
    assert frame["evaluate_every"].tolist() == [500] * 3
    rate = frame["examples"] / frame["seconds"]
    assert rate.tolist() == pytest.approx([rate[0]] * 3) and rate[0] > 0


def test_long_tables_have_the_same_columns_whatever_exists(written, tmp_path):
    whole = long_tables.for_experiment(*written, "gap")
    nothing = long_tables.for_experiment(tmp_path / "nothing", written.planned, "gap")
    written.gap.measures.clear()
    unmeasured = long_tables.for_experiment(*written, "gap")
    measured = {name for entry in MEASURES.values() for name in entry.tables}
    assert {*whole} >= {"history", "trajectories", "at_epochs", *measured}
    for name, frame in whole.items():
        columns = list(frame.columns)
        assert columns[: len(long_tables.FIRST_COLUMNS)] == list(long_tables.FIRST_COLUMNS), name
        assert list(nothing[name].columns) == list(unmeasured[name].columns) == columns, name
        assert nothing[name].empty and len(frame) > 0, name
        assert unmeasured[name].empty == (name not in ("history", "trajectories")), name


def test_seconds_of_a_rising_batch_size_are_those_of_its_examples_at_each_size(tmp_path):
    ramp = {"batch_schedule": "steps", "largest_batch_size": 32, "batch_rises_from": 0.25}
    (rising,) = synthetic.grid([16], [0], **ramp)
    planned = synthetic.study([*synthetic.grid([16, 32], [0]), rising], {"time_epoch": {}})
    synthetic.write(tmp_path, planned)
    runs = synthetic.made("runs", tmp_path, planned).set_index("run")
    small, large = runs["seconds_per_epoch"].iloc[:2]
    found = runs.loc[rising]
    assert found["seconds_per_epoch"] == pytest.approx(0.25 * small + 0.75 * large)
    assert found["train_seconds"] == pytest.approx(found["seconds_per_epoch"] * 40)
    slow, fast = runs["examples_per_second"].iloc[:2]
    assert found["examples_per_second"] == pytest.approx(1 / (0.25 / slow + 0.75 / fast))
    frame = synthetic.made("trajectories", tmp_path, planned)
    frame = frame[frame["run"] == rising]
    expected = small * frame["epoch"].clip(upper=10) + large * (frame["epoch"] - 10).clip(lower=0)
    assert frame["seconds"].tolist() == pytest.approx(expected.tolist(), rel=1e-3)
    (last,) = [path for path in tmp_path.rglob("*time_epoch*/*.json") if "bs=32" in str(path)]
    last.unlink()  # without a time at one of its sizes it has none
    assert math.isnan(synthetic.made("runs", tmp_path, planned)["seconds_per_epoch"].iloc[-1])
    measures = jobs.measure_jobs(planned.experiments["gap"], tmp_path, "local")
    timed = [job.path for job in measures if job.runs == (rising,) and job.alone]
    assert len(timed) == 2 and last in timed
