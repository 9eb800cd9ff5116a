"""Records of timings to tables: medians, fits, several machines."""

import math
from pathlib import Path

import pytest
import yaml

from batchscope import figures
from batchscope.core import disk
from batchscope.store import jobs
from batchscope.study import config, table_entries
from batchscope.tables import study_tables, timing_tables
from synthetic import edited

STUDY = {
    "study": "timed",
    "machine": "desktop",
    "machines": {"cluster": {"results": "elsewhere"}},
    "defaults": {"dataset": "digits", "model": "small_cnn", "optimizer": "sgd"},
    "experiments": {
        "machine": {
            "vary": {"batch_size": [1, 2, 4, 8, 16, 32, 64, 128], "loop": ["graph", "eager"]},
            "timing": ["throughput", "utilisation", "max_batch_size", "profile"],
        }
    },
}
FIXED, PER_IMAGE = 3e-3, 2e-4
EAGER = {"eager": 5}  # times as slow


def throughput(sizes: tuple[int, ...], fixed: float = FIXED) -> dict:
    """Blocks that lie symmetrically around t = a + b * B."""
    rows = []
    for size in sizes:
        factors, seconds = (0.98, 0.99, 1.0, 1.01, 1.02), fixed + PER_IMAGE * size
        blocks = [
            {"seconds_per_step": seconds * factor, "foreign_cores": 0.0, "disturbed": factor > 1.01}
            for factor in factors
        ]
        rows.append({"batch_size": size, "status": "finished", "steps": 10, "blocks": blocks})
    record = {"measure": "throughput", "status": "finished", "train_examples": 1000}
    return {**record, "threads": 2, "sizes": rows}


def record_of(job, slow: float = 1) -> dict:
    """The record of a timing job on a machine that is so slow."""
    sizes = job.sweep.batch_sizes
    if job.measure == "throughput":
        return throughput(sizes, slow * EAGER.get(job.sweep.factors["loop"], 1) * FIXED)
    if job.measure == "utilisation":
        return utilisation(sizes)
    return {"max_batch_size": LARGEST, "profile": PROFILE}[job.measure]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A study and its results: of this machine all, of the other the throughput alone."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(yaml.safe_dump(STUDY))
    study = config.study("study.yaml")
    experiment = study.experiments["machine"]
    for job in jobs.timing_jobs(experiment, "results", "desktop"):
        disk.write_json(job.path, record_of(job))
    for job in jobs.timing_jobs(experiment, "elsewhere", "local"):
        if job.measure == "throughput":
            disk.write_json(job.path, record_of(job, slow=2))
    return study


def own_jobs(study, measure: str) -> list:
    timings = jobs.timing_jobs(study.experiments["machine"], "results", "desktop")
    return [job for job in timings if job.measure == measure]


PROFILE = {"measure": "profile", "status": "finished", "steps": 20, "steps_per_second": 100.0}
PROFILE |= {"compute_share": 0.5, "input_share": 0.2, "host_share": 0.3}
PROFILE["utilisation"] = {"process_percent": 80.0, "gpu_percent": None}


def utilisation(sizes: tuple[int, ...]) -> dict:
    used = {"process_percent": 90.0, "process_zero_share": 0.1}
    same = {"status": "finished", "steps": 7, "seconds": 5.0, "utilisation": used}
    rows = [{"batch_size": size, "memory_peak_mb": 500.0 + size, **same} for size in sizes[:-1]]
    rows.append({"batch_size": sizes[-1], "status": "out_of_memory", "utilisation": None})
    samples = {"batch_size": [None, 1, 1], "seconds": [0.0, 0.1, 0.2], "memory_mb": [1, 2, 3]}
    return {"measure": "utilisation", "status": "finished", "sizes": rows, "samples": samples}


LARGEST = {
    **{"measure": "max_batch_size", "status": "finished"},
    **{"largest": 96, "bound": "resolved", "limit_mb": 1000.0},
    "tries": [
        {"batch_size": 64, "outcome": "fits", "peak_mb": 720.0, "seconds": 4.0},
        {"batch_size": 128, "outcome": "over_limit", "peak_mb": 1010.0, "seconds": 4.0},
        {"batch_size": 1, "outcome": "fits", "peak_mb": 500.0, "seconds": 4.0},
        {"batch_size": 96, "outcome": "fits", "peak_mb": 880.0, "seconds": 4.0},
    ],
}


def test_medians_and_quartiles_of_blocks(written):
    frame = timing_tables.job_rows("results", written, "machine", "throughput")
    assert len(frame) == 2 * 2 * 8
    row = frame[(frame["machine"] == "desktop") & (frame["loop"] == "graph")].iloc[3]
    seconds = FIXED + PER_IMAGE * 8
    expected = {
        **{"seconds_per_step": seconds, "seconds_per_step_q1": 0.99 * seconds},
        **{"seconds_per_step_q3": 1.01 * seconds, "iterations_per_second": 1 / seconds},
        # The slow quarter of the blocks is the lower quartile of the speeds.
        **{"examples_per_second": 8 / seconds, "examples_per_second_q1": 8 / seconds / 1.01},
        **{"batch_size": 8, "seconds_per_epoch": 1000 * seconds / 8},
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert (row["blocks"], row["disturbed_blocks"]) == (5, 1)
    assert (row["dataset"], row["model"], row["threads"]) == ("digits", "small_cnn", 1)


def test_each_configuration_on_each_machine_is_a_row(written):
    frame = timing_tables.sweep_summaries("results", written, "machine").set_index(
        ["machine", "loop"]
    )
    assert len(frame) == 4
    for machine, slow in (("desktop", 1), ("cluster", 2)):
        for loop, factor in (("graph", 1), ("eager", 5)):
            row = frame.loc[(machine, loop)]
            assert row["fixed_seconds"] == pytest.approx(slow * factor * FIXED)
            assert row["seconds_per_image"] == pytest.approx(PER_IMAGE)
            assert row["half_batch"] == pytest.approx(slow * factor * FIXED / PER_IMAGE)
            assert (row["blocks"], row["disturbed_blocks"]) == (40, 8)
    own = frame.loc["desktop"]
    # Memory does not depend on the loop, and nothing is known of the other machine's.
    assert list(own["max_batch_size"]) == [96, 96]
    assert own["memory_mb_per_image"].tolist() == pytest.approx([5.0, 5.0])
    assert own["memory_fixed_mb"].tolist() == pytest.approx([400.0, 400.0])
    assert frame.loc["cluster"]["max_batch_size"].isna().all()


def test_over_jobs_line_and_points_are_of_the_same_medians(written):
    """Six jobs, of which one was slow beyond all measure; an even number has two in its middle."""
    timed = STUDY["experiments"]["machine"] | {"timing": {"throughput": {"repeats": 6}}}
    study = STUDY | {"machines": {}, "experiments": {"machine": timed | {"at_epochs": [2]}}}
    Path("jobs.yaml").write_text(yaml.safe_dump(study))
    study = config.study("jobs.yaml")
    slow = (1.0, 1.1, 1.2, 1.3, 1.4, 30.0)
    for job in jobs.timing_jobs(study.experiments["machine"], "of_jobs", "desktop"):
        record = throughput(job.sweep.batch_sizes)
        for size in record["sizes"]:
            for each in size["blocks"]:
                each["seconds_per_step"] *= slow[job.repeat - 1]
        disk.write_json(job.path, record)
    made = timing_tables.for_experiment("of_jobs", study, "machine")
    assert {*made["throughput"]["repeat"]} == {*range(1, 7)} and len(made["sweeps"]) == 12
    study_tables.write("of_jobs", study, "machine", Path("tables"))
    found = figures.FigureTables("tables")
    speeds, sweeps, times = found.throughput, found.sweeps, found.training_times
    assert (len(speeds), len(sweeps)) == (16, 2)
    row = sweeps.iloc[0]
    assert row["fixed_seconds"] == pytest.approx(1.25 * FIXED)
    assert row["seconds_per_image"] == pytest.approx(1.25 * PER_IMAGE)
    assert row["fixed_seconds_low"] < row["fixed_seconds"] < row["fixed_seconds_high"]
    assert (row["blocks"], row["noise_floor"]) == (240, pytest.approx(1))
    of_it = speeds[speeds["sweep"] == row["sweep"]]
    line = row["fixed_seconds"] + row["seconds_per_image"] * of_it["batch_size"]
    assert list(of_it["seconds_per_step"]) == pytest.approx(list(line))
    assert list(of_it["examples_per_second"]) == pytest.approx(list(of_it["batch_size"] / line))
    assert row["highest_examples_per_second"] == pytest.approx(of_it["examples_per_second"].max())
    assert made["sweeps"]["fixed_seconds"].max() == pytest.approx(30 * FIXED)
    seconds = 2 * 1000 / of_it["batch_size"] * line
    assert list(times["train_seconds"][: len(of_it)]) == pytest.approx(list(seconds))
    assert not {"repeat"} & {*speeds, *sweeps, *times}


def test_utilisation_and_its_samples(written):
    with edited(own_jobs(written, "utilisation")[0].path) as record:
        for size, disturbed in zip(record["sizes"][:3], (False, True, False), strict=True):
            size["disturbed"] = disturbed
    frame = timing_tables.job_rows("results", written, "machine", "utilisation")
    assert list(frame["status"][:8]) == ["finished"] * 7 + ["out_of_memory"]
    assert frame["process_percent"][0] == 90.0 and math.isnan(frame["process_percent"][7])
    assert frame["memory_peak_mb"][3] == 508.0
    assert list(frame["disturbed"][:3]) == [False, True, False]
    assert frame["disturbed"][3:8].isna().all() and frame["gpu_percent"].isna().all()
    samples = timing_tables.job_rows("results", written, "machine", "samples")
    assert list(samples["seconds"][:3]) == [0.0, 0.1, 0.2]
    assert samples["batch_size"].isna()[0] and samples["batch_size"][1] == 1
    assert set(samples["machine"]) == {"desktop"}
    assert samples["phase"][1] == "training" and samples["phase"].isna()[0]


def test_memory_per_example_is_that_of_the_best_count_that_resolves_it(written):
    graph, eager = own_jobs(written, "utilisation")
    with edited(graph.path) as record, edited(eager.path) as constant:
        for size, other in zip(record["sizes"], constant["sizes"], strict=True):
            # Up to 16 under a floor of what starting takes.
            size["tensorflow_peak_mb"] = max(104.0, 100 + 0.25 * size["batch_size"])
            other["memory_peak_mb"] = 500.0
    frame = timing_tables.job_rows("results", written, "machine", "utilisation").set_index("sweep")
    names = [f"memory_mb_per_image{end}" for end in ("", "_low", "_high")]
    rows = frame.loc[graph.sweep.name]
    assert set(rows["memory_of"]) == {"tensorflow_peak_mb"}
    assert rows[names].to_numpy(float) == pytest.approx(0.25)
    assert frame.loc[eager.sweep.name, [*names, "memory_of"]].isna().all(axis=None)


def test_tries_and_profiles(written):
    tries = timing_tables.job_rows("results", written, "machine", "largest")
    assert list(tries["outcome"]) == ["fits", "over_limit", "fits", "fits"]
    assert (tries["peak_mb"][0], tries["seconds"][0]) == (720.0, 4.0)
    profiles = timing_tables.job_rows("results", written, "machine", "profiles")
    assert len(profiles) == 2 * 8  # one per loop and batch size
    assert (profiles["compute"][0], profiles["input"][0]) == (0.5, 0.2)
    assert profiles["process_percent"][0] == 80.0 and profiles["gpu_percent"].isna().all()


def test_nothing_measured_is_headers(written):
    for name, made in timing_tables.for_experiment("nowhere", written, "machine").items():
        frame, own = made[made["machine"] == "desktop"], table_entries.TABLES[name].columns
        assert frame.empty and list(frame.columns) == [*table_entries.TIMING_FIRST_COLUMNS, *own]
        whole = {column for column in frame if frame[column].dtype == "Int64"}
        assert whole == {column for column in own if own[column].kind == "int"}, name
