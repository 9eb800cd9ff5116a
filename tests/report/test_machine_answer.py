"""What the report says of a machine: one column per configuration, nothing that is not there."""

from __future__ import annotations

import numpy as np
import pandas

from batchscope.catalogue import timing_columns
from batchscope.report import machine_answer

NOTHING = pandas.DataFrame(
    columns=[*timing_columns.FIRST, *timing_columns.COLUMNS["throughput.csv"]]
)
KNEE = "Knee: batch size of 90 % of the plateau"


def row(**values: object) -> dict[str, object]:
    names = [*timing_columns.FIRST, *timing_columns.COLUMNS["sweeps.csv"]]
    given = {"machine": "local", "sweep": "s", "model": "small_cnn", "dataset": "digits"}
    return {**dict.fromkeys(names), **given, "loop": "graph", **values}


def built(*rows: dict[str, object], throughput: pandas.DataFrame = NOTHING):
    return machine_answer.build(pandas.DataFrame(rows), throughput)


def answer(*rows: dict[str, object], **more: pandas.DataFrame) -> dict[str, list[str]]:
    return dict((built(*rows, **more) or {"rows": []})["rows"])


TIMED = {
    "highest_images_per_second": 850.6,
    "plateau_images_per_second": 900.0,
    "knee_fitted": 40.2,
    "knee_fitted_low": 36.6,
    "knee_fitted_high": 44.2,
    "knee_batch_size": 48,
    "still_rising": False,
    "fixed_seconds": 0.0056,
    "fixed_seconds_low": 0.0049,
    "fixed_seconds_high": 0.0064,
    "noise_floor": 1.031,
    "blocks": 40,
    "disturbed_blocks": 0,
}


def timed(throughput: pandas.DataFrame = NOTHING, **changes: object) -> dict[str, list[str]]:
    return answer(row(**{**TIMED, **changes}), throughput=throughput)


def test_numbers_with_units_and_intervals():
    found = timed()
    assert found["Highest throughput"] == ["851 examples/s"]
    assert found["Plateau"] == ["900 examples/s; 90 % of it: 810"]
    assert found[KNEE] == ["40.2 [36.6, 44.2] by the fit; 48 of the sizes timed"]
    assert found["Fixed cost of a step"] == ["5.60 [4.90, 6.40] ms"]
    assert found["Noise floor"] == ["3.1 %"]
    assert found["Blocks that other processes disturbed"] == ["none of 40"]
    # What was not measured has no line.
    assert "Largest batch size" not in found and "Memory" not in found


def test_a_knee_that_is_not_there_is_reported():
    none = {name: None for name in TIMED if name.startswith("knee_")}
    assert timed(**none, still_rising=True)[KNEE][0].startswith("not reached")
    assert timed(**none)[KNEE][0].startswith("not resolved")
    assert timed(**{**none, "knee_batch_size": 48})[KNEE] == ["48 of the sizes timed"]


def test_too_noisy_to_tell():
    """Nothing that a level of the throughput is read from, and the noise floor itself."""
    empty = {name: None for name in TIMED if name.startswith(("knee_", "plateau", "still"))}
    counted = {"matmul_flops_per_second": 1.27e11, "flops_per_image": 1e7}
    given = {**empty, **counted, "noise_floor": 8.1, "seconds_per_image": 1e-4}
    found = timed(**given)
    for label in ("Plateau", KNEE, "Half of a step is fixed cost at batch size", "Ceiling"):
        assert found[label] == ["too noisy to tell"]
    assert found["Noise floor"] == ["710 %"]
    assert "Ceiling" not in timed(**{**given, **dict.fromkeys(counted)})


def test_throughput_is_reported_at_some_sizes_from_the_smallest_to_the_largest():
    sizes = [64, 1, 2, 4, 8, 16, 32, 128, 256]
    known = [{"machine": "local", "sweep": "s", "batch_size": size} for size in sizes]
    frame = pandas.DataFrame(
        [{**one, "images_per_second": 10 * one["batch_size"]} for one in known]
    )
    label = "Throughput by batch size"
    texts = answer(row(), throughput=frame)[label]
    assert texts == ["1: 10, 4: 40, 16: 160, 64: 640, 256: 2560 examples/s"]
    # Another machine's are not its own, and what ran out of memory has none.
    assert answer(row(machine="other"), throughput=frame) == {}
    frame.loc[frame["batch_size"] > 2, "images_per_second"] = np.nan
    assert answer(row(), throughput=frame)[label] == ["1: 10, 2: 20 examples/s"]


def test_what_waits_has_no_column_and_is_named_below():
    waiting = row(device="gpu", status="no_gpu")
    found = built(row(device="cpu", **TIMED), waiting)
    assert found["titles"] == ["CPU"]
    assert all(len(cells) == 1 for _, cells in found["rows"])
    assert found["left_out"] == "Left out: GPU (no GPU)."
    # Of what was searched on a GPU, the times alone wait.
    largest = {"max_batch_size": 64, "max_batch_size_bound": "resolved"}
    found = built(row(device="cpu", **TIMED), {**waiting, **largest})
    assert found["titles"] == ["CPU", "GPU"] and not found["left_out"]
    assert dict(found["rows"])["Largest batch size"] == ["not measured", "64"]


def test_nothing_measured_is_no_answer():
    assert built(row()) is None
    assert built(row(device="gpu", status="no_gpu")) is None
    assert machine_answer.build(pandas.DataFrame(columns=list(row())), NOTHING) is None
