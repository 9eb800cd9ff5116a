"""Records on disk to tidy tables."""

import json
import math
import os
import time

import pandas
import pytest

import synthetic
from batchscope import errors, frames, names, records, tables
from batchscope.measures import evaluate, sharpness


@pytest.fixture
def written(tmp_path):
    """Results of 2 batch sizes and 2 seeds: one run diverged, one is missing."""
    runs = synthetic.grid([16, 32], [0, 1])
    planned = synthetic.study(runs)
    synthetic.write(tmp_path, planned, {runs[1]: "diverged", runs[3]: "missing"})
    return tmp_path, planned


def test_one_row_per_run_in_the_plans_order(written):
    results, planned = written
    frame = tables.collect(results, planned, "gap")
    assert list(frame["run"]) == planned.experiments["gap"].runs
    assert list(frame["status"]) == ["finished", "diverged", "finished", "missing"]
    first = frame.iloc[0]
    assert (first["study"], first["experiment"], first["machine"]) == ("made_up", "gap", "local")
    assert (first["dataset"], first["dataset_digest"]) == ("digits", "1f0a93c2")
    assert (first["model"], first["model_digest"]) == ("small_cnn", None)
    assert (first["batch_size"], first["learning_rate"], first["seed"]) == (16, 0.05, 0)
    assert first["nesterov"] == False  # noqa: E712  a column of its own, as a bool
    assert first["train_seconds"] == first["epochs_run"] * first["seconds_per_epoch"]
    assert first["test_examples"] == 360


def test_what_is_not_there_is_empty(written):
    results, planned = written
    frame = tables.collect(results, planned, "gap")
    diverged, missing = frame.iloc[1], frame.iloc[3]
    assert math.isnan(diverged["test_accuracy"])
    assert diverged["epochs_run"] == 7 and diverged["stop_reason"] == "diverged"
    assert pandas.isna(missing["epochs_run"]) and math.isnan(missing["weight_distance"])
    assert math.isnan(missing["train_seconds"])
    assert missing["seconds_per_epoch"] > 0  # its configuration was timed all the same


def test_every_column_is_documented_and_in_the_documented_order(written):
    results, planned = written
    frame = tables.collect(results, planned, "gap")
    assert all(tables.describe(name) for name in frame.columns)
    places = [tables._position(name) for name in frame.columns]
    assert places == sorted(places)
    for column in tables.COLUMNS.values():
        assert column.doc.endswith(".")
    assert set(names.FACTORS) < set(frame.columns)


def test_the_columns_do_not_depend_on_what_exists(tmp_path, written):
    results, planned = written
    nothing = tables.collect(tmp_path / "nothing", planned, "gap")
    assert list(nothing.columns) == list(tables.collect(results, planned, "gap").columns)
    assert set(nothing["status"]) == {"missing"}


def test_the_measures_fill_the_columns_that_tables_expect():
    for module, measure in ((evaluate, "evaluate"), (sharpness, "sharpness")):
        settings = names.parse_settings(measure, "default")
        assert tuple(tables.measure_columns(measure, settings)) == module.columns(settings)


def test_a_column_that_is_not_registered_is_kept_at_the_end(written):
    results, planned = written
    run = planned.experiments["gap"].runs[0]
    path = records.measure_path(results, run, "evaluate", "default")
    record = json.loads(path.read_text())
    record["values"]["new_measure"] = 4.5
    records.write_json(path, record)
    frame = tables.collect(results, planned, "gap")
    assert frame.columns[-1] == "new_measure" and frame["new_measure"].iloc[0] == 4.5
    assert tables.describe("new_measure") is None


def test_the_csv_reads_back_as_it_was(written, tmp_path):
    results, planned = written
    tables.write(results, planned, "gap", tmp_path / "tables")
    frame = tables.collect(results, planned, "gap")
    read = frames.read(tmp_path / "tables" / "runs.csv")
    assert list(read.columns) == list(frame.columns)
    assert read["learning_rate_scaling"].tolist() == ["none"] * 4
    for name in ("test_accuracy", "weight_distance", "seconds_per_epoch", "epochs_run"):
        expected = frame[name].astype("float64").tolist()
        assert read[name].tolist() == pytest.approx(expected, abs=0, rel=0, nan_ok=True)
    assert "40.0" not in (tmp_path / "tables" / "runs.csv").read_text()
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "history.csv",
        "layers.csv",
        "runs.csv",
    ]


def test_digests_and_names_stay_text(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("dataset,dataset_digest,batch_size\nnull,12345678,16\nnan,1e234567,32\n")
    frame = frames.read(path)
    assert frame["dataset"].tolist() == ["null", "nan"]
    assert frame["dataset_digest"].tolist() == ["12345678", "1e234567"]


def test_histories(written):
    results, planned = written
    frame = tables.histories(results, planned, "gap")
    assert list(frame.columns) == list(tables.HISTORY_COLUMNS)
    assert frame.groupby("run", sort=False).size().tolist() == [40, 7, 40]
    diverged = frame[frame["status"] == "diverged"]
    assert math.isnan(diverged["train_loss"].iloc[-1])
    assert diverged["epoch"].tolist() == list(range(1, 8))


def test_layers(written):
    results, planned = written
    frame = tables.layers(results, planned, "gap")
    assert list(frame.columns) == list(tables.LAYER_COLUMNS)
    assert frame["layer"].tolist() == list(synthetic.LAYERS) * 2
    assert frame["position"].tolist() == [0, 1, 2, 3] * 2
    planned.experiments["gap"].measures.pop("weight_distance")
    empty = tables.layers(results, planned, "gap")
    assert list(empty.columns) == list(tables.LAYER_COLUMNS) and len(empty) == 0


def test_measures_are_read_by_their_settings(written):
    results, planned = written
    planned.experiments["gap"].measures["evaluate"] = {"weights": "best"}
    frame = tables.collect(results, planned, "gap")
    assert frame["test_accuracy"].isna().all()


def test_damaged_records_are_named(written):
    results, planned = written
    run = planned.experiments["gap"].runs[0]
    path = records.run_folder(results, run) / "record.json"
    path.write_text("{")
    with pytest.raises(errors.UserError, match="expected JSON"):
        tables.collect(results, planned, "gap")


def test_datasets_and_machines(written):
    results, planned = written
    (dataset,) = tables.datasets(results, planned).to_dict("records")
    assert dataset["dataset"] == "digits" and dataset["train_examples"] == 1149
    (machine,) = tables.machines(results, planned).to_dict("records")
    assert machine["runs"] == 3 and machine["cpu"] == "A CPU"
    assert machine["version_tensorflow"] == "2.21.0"


def test_the_readmes_table_names_every_column():
    table = tables.markdown()
    assert all(f"| `{name}` |" in table for name in tables.COLUMNS)


def test_a_thousand_runs_are_collected_in_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # this test's own files may be lost
    planned = synthetic.study(synthetic.grid(range(1, 101), range(10), epochs=40))
    synthetic.write(tmp_path, planned)
    start = time.process_time()
    frame = tables.collect(tmp_path, planned, "gap")
    assert time.process_time() - start < 3.0
    assert len(frame) == 1000 and (frame["status"] == "finished").all()
