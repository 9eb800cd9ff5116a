"""What the report says of a machine: one column per configuration, nothing that is not there."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from batchscope.analysis import step_stairs
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


def test_measured_numbers_have_three_digits_and_batch_sizes_and_limits_all():
    known = [{"machine": "local", "sweep": "s", "batch_size": size} for size in (1, 2)]
    speeds = zip(known, (21.48, 10334.0), strict=True)
    frame = pandas.DataFrame([{**one, "images_per_second": speed} for one, speed in speeds])
    memory = {"memory_mb_per_image": 0.93512, "memory_fixed_mb": 636.61, "memory_limit_mb": 2048.0}
    sizes = {"knee_batch_size": 1536, "half_batch": 1536.4, "max_batch_size": 1408}
    found = timed(frame, plateau_images_per_second=9995.0, **memory, **sizes)
    assert found["Throughput by batch size"] == ["1: 21.5, 2: 10300 examples/s"]
    assert found["Plateau"] == ["10000 examples/s; 90 % of it: 9000"]
    assert found[KNEE] == ["40.2 [36.6, 44.2] by the fit; 1536 of the sizes timed"]
    assert found["Memory"] == ["0.935 MB per example, beside 637 MB"]
    assert found["Half of a step is fixed cost at batch size"] == ["1536"]
    assert found["Largest batch size"] == ["1408 within 2048 MB"]


def test_a_knee_that_is_not_there_is_reported():
    none = {name: None for name in TIMED if name.startswith("knee_")}
    rising = timed(**none, still_rising=True)
    assert rising[KNEE] == ["not reached: still rising at the largest batch size"]
    assert rising["Plateau"] == ["900 examples/s; 90 % of it: 810, beyond the sizes by the fit"]
    assert timed(**none)[KNEE][0].startswith("not resolved")
    assert timed(**{**none, "knee_batch_size": 48})[KNEE] == ["48 of the sizes timed"]
    by_fit = timed(knee_batch_size=None)[KNEE][0]
    assert by_fit.startswith("40.2 [36.6, 44.2] by the fit; not resolved")


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
    assert "above a noise floor of 20 % no plateau" in machine_answer.READING


def test_half_a_step_that_no_batch_size_has():
    label = "Half of a step is fixed cost at batch size"
    assert timed(half_batch=28.43)[label] == ["28.4"]
    assert label not in timed()  # records without a fit
    for costs in ({"fixed_seconds": -1e-4}, {"fixed_seconds": 0.0}, {"seconds_per_image": -1e-6}):
        assert timed(**costs)[label] == ["none: a cost of the fit is not positive"]


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


@pytest.mark.parametrize(("disturbed", "words"), [(3, "3 of 40"), (30, "30 of 40")])
def test_a_machine_that_was_not_alone(disturbed, words):
    (text,) = timed(disturbed_blocks=disturbed)["Blocks that other processes disturbed"]
    assert words in text
    assert ("the machine was not alone" in text) == (disturbed > 10)


def test_the_largest_batch_is_reported_with_its_bound():
    memory = {"max_batch_size": 1408, "memory_limit_mb": 2000.0, "max_batch_size_bound": "resolved"}
    assert answer(row(**memory))["Largest batch size"] == ["1408 within 2000 MB"]
    open_end = answer(row(**{**memory, "max_batch_size_bound": "most_fits"}))
    assert open_end["Largest batch size"][0].startswith("at least 1408")


def test_the_ceiling_is_reported_with_the_range_of_its_peaks():
    ceiling = {
        "ceiling_images_per_second": 12700.0,
        "matmul_flops_per_second": 1.27e11,
        "matmul_flops_per_second_lowest": 3.2e10,
        "flops_per_image": 1e7,
        "share_of_ceiling": 0.5,
    }
    text = "12700 examples/s (127 GFLOP/s{} over 10 MFLOP per example); 50.0 % of it reached"
    others = " (the highest measured; the lowest: 32)"
    assert answer(row(**ceiling))["Ceiling"] == [text.format(others)]
    one = {**ceiling, "matmul_flops_per_second_lowest": 1.27e11}
    assert answer(row(**one))["Ceiling"] == [text.format("")]
    (exceeded,) = answer(row(**{**one, "share_of_ceiling": 1.026}))["Ceiling"]
    assert exceeded.endswith("; 103 % of it reached, so it is no ceiling")


def test_a_ceiling_that_lacks_operations_is_none():
    (text,) = answer(row(flops_not_counted="rnn (LSTM)"))["Ceiling"]
    assert text == "none: the operations of rnn (LSTM) are not counted"


def test_configurations_stand_side_by_side():
    found = built(row(**TIMED), row(**{**TIMED, "loop": "eager", "noise_floor": None}))
    assert found["titles"] == ["loop in the graph", "eager"]
    assert dict(found["rows"])["Noise floor"] == ["3.1 %", "not measured"]


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


def test_the_reading_names_the_stairs_that_are_asked_for():
    for q in step_stairs.STAIRS:
        assert str(q) in machine_answer.READING.partition("Steps in the batch size")[2]
    assert "p, adjusted by Holm's method over the configurations" in machine_answer.READING
