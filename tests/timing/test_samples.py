"""What samples say together: known series give known summaries."""

import numpy as np
import pytest

from batchscope.timing.instruments import samples

UNKNOWN = np.nan


def series(seconds, phase, **columns) -> dict[str, np.ndarray]:
    given = {name: np.full(len(seconds), UNKNOWN) for name in samples.COLUMNS}
    given.update({name: np.asarray(values, float) for name, values in columns.items()})
    return {**given, "seconds": np.asarray(seconds, float), "phase": np.asarray(phase)}


def test_a_sample_weighs_what_it_stands_for():
    found = samples.summary(
        series([0, 1, 2, 6, 7], [-1, 0, 0, 0, 1], process_percent=[UNKNOWN, 10, 20, 80, 5]), 0
    )
    assert (found["samples"], found["seconds"]) == (3, 6.0)
    assert found["process_percent_mean"] == pytest.approx((10 + 20 + 4 * 80) / 6)
    assert found["process_percent"] == 80
    assert (found["process_percent_q1"], found["process_percent_q3"]) == (20, 80)


def test_the_share_at_zero():
    cores = [UNKNOWN, 0.0, 0.009, 0.01, 1.0]
    gpu = [UNKNOWN, 0, UNKNOWN, 1, 100]
    given = series([0, 1, 2, 3, 7], [0] * 5, process_cores=cores, gpu_percent=gpu)
    found = samples.summary(given, 0)
    assert found["process_zero_share"] == pytest.approx(2 / 7)
    assert found["gpu_zero_share"] == pytest.approx(1 / 6)  # one second is unknown


def test_energy_is_the_trapezoid_integral_of_power():
    # 100 W + 20 W/s * t over 5 s: 750 J, whatever the spacing.
    seconds = np.array([0, 0.1, 0.5, 2, 4.5, 5])
    given = series(seconds, [-1, 0, 0, 0, 0, 0], gpu_power_watts=100 + 20 * seconds)
    found = samples.summary(given, 0)
    assert found["gpu_power_watts"] == pytest.approx(150)
    assert (found["gpu_energy_joules"], found["gpu_energy_source"]) == (pytest.approx(750), "power")


def test_a_failed_reading_of_power_does_not_lose_energy():
    power = np.array([100, 100, UNKNOWN, 100, 100.0])
    given = series(np.arange(5), [0] * 5, gpu_power_watts=power)
    assert samples.summary(given, 0)["gpu_energy_joules"] == pytest.approx(400)
    given["gpu_power_watts"][-1] = UNKNOWN  # nothing is known to go on from
    assert samples.summary(given, 0)["gpu_energy_joules"] == pytest.approx(300)
    assert samples.summary(given, 0)["gpu_power_watts"] == pytest.approx(100)


def test_the_counter_of_energy_comes_before_the_power():
    given = series(
        [0, 1, 2, 3, 4],
        [-1, 0, 0, 1, 1],
        gpu_power_watts=[500] * 5,
        gpu_energy_joules=[0, 100, 250, UNKNOWN, 650],
    )
    for phase, joules in ((0, 250), (1, 400), (None, 650)):
        found = samples.summary(given, phase)
        assert found["gpu_energy_joules"] == pytest.approx(joules)
        assert found["gpu_energy_source"] == "counter"


def test_a_phase_that_is_entered_again_is_one_phase():
    given = series(
        np.arange(7),
        [-1, 0, 1, 1, 0, 0, -1],
        process_cores=[UNKNOWN, 1, 9, 9, 1, 1, 9],
        gpu_power_watts=[10, 10, 90, 90, 10, 10, 90],
        memory_mb=[900, 1, 800, 800, 3, 2, 900],
    )
    found = samples.summary(given, 0)
    assert (found["samples"], found["seconds"]) == (3, 3.0)
    assert found["process_cores_mean"] == 1
    assert found["gpu_energy_joules"] == pytest.approx(10 + 50 + 10)  # 90 -> 10 is a trapezoid
    assert found["memory_peak_mb"] == 3


def test_utilisation_of_the_gpu_leaves_out_what_came_before_the_phase():
    seconds = np.arange(0, 3.01, 0.25)
    phase = np.where(seconds > 1, 1, 0)
    # NVML's window of a second: in phase 1, with 80 %, it still sees phase 0 for a while.
    seen = np.where(seconds < 2, 30, 80)
    given = series(seconds, phase, gpu_percent=seen)
    found = samples.summary(given, 1)
    assert (found["gpu_percent_mean"], found["gpu_settled"]) == (80, True)
    short = {name: values[:7] for name, values in given.items()}
    assert samples.summary(short, 1)["gpu_settled"] is False
    assert samples.summary(short, 1)["gpu_percent_mean"] == 30
    into = [*np.arange(0, 1.01, 0.25), *np.arange(0.25, 2.01, 0.25)]
    np.testing.assert_allclose(samples.seconds_into_phase(given), into)


@pytest.mark.parametrize("phase", [0, 5, -1, None])
def test_what_is_unknown_is_none(phase):
    found = samples.summary(series([0.0, 0.1, 0.2], [0, 0, 0]), phase)
    known = {"samples", "seconds"}
    assert all(value is None for name, value in found.items() if name not in known)
    empty = samples.summary(series([], np.array([], int)), phase)
    assert (empty["samples"], empty["seconds"]) == (0, 0)
