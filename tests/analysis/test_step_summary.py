"""One fit over the timing jobs of a configuration: its line is that of the medians."""

import math

import numpy as np
import pandas
import pytest

from batchscope.analysis import step_cost, step_summary

SIZES = np.array([1, 4, 16, 64, 256])
ROW = {
    **{"matmul_flops_per_second": 5e10, "flops_per_image": 1e6},
    **{"device": "cpu", "replicas": 1},
}


def medians(table) -> pandas.DataFrame:
    """Returns rows by job of times in seconds, shape (sizes, jobs)."""
    rows = [
        {"repeat": job, "batch_size": size, "seconds_per_step": seconds}
        for job, column in enumerate(np.transpose(table), 1)
        for size, seconds in zip(SIZES, column, strict=True)
    ]
    return pandas.DataFrame(rows)


def test_one_outlying_job_leaves_the_line_on_the_medians():
    """Five jobs within 2 %, and one that takes twelve times as long."""
    line = 0.03 + 2e-4 * SIZES
    table = np.outer(line, [0.98, 1.0, 1.0, 1.02, 1.0, 12.0])
    found = step_summary.over_jobs(ROW, medians(table))
    assert found["fixed_seconds"] == pytest.approx(0.03)
    assert found["seconds_per_image"] == pytest.approx(2e-4)
    assert found["plateau_images_per_second"] == pytest.approx(5000)
    assert found["half_batch"] == pytest.approx(150)
    # All sizes of that job are slow alike: they differ from each other by nothing.
    assert found["noise_floor"] == pytest.approx(1) and found["line_residual"] < 1e-9
    assert found["highest_images_per_second"] == pytest.approx(256 / line[-1])
    assert found["share_of_ceiling"] == pytest.approx(256 / line[-1] / 5e4)


def test_one_job_is_no_fit_over_jobs_and_a_size_that_one_lacks_is_in_no_line():
    line = 0.03 + 2e-4 * SIZES
    assert step_summary.over_jobs(ROW, medians(line[:, None])) == {}
    table = np.outer(line, [1.0, 1.1, 1.2])
    table[-1] = [np.nan, 50, 60]
    assert step_summary.over_jobs(ROW, medians(table))["fixed_seconds"] == pytest.approx(0.033)
    table[1:, 1] = np.nan  # of this job one size is left: no line
    assert step_summary.over_jobs(ROW, medians(table))["fixed_seconds"] == pytest.approx(0.033)


def test_two_jobs_by_hand():
    """Their fixed costs differ, their costs per example do not: with two sizes no other error."""
    blocks = [[1.0, 1.5], [2.0, 2.5]]
    fit = step_cost.fixed_cost([1, 2], blocks, of_jobs=True)
    assert (fit.fixed.value, fit.per_image.value) == pytest.approx((0.25, 1))
    # The line of the jobs' logarithms about the medians 1.25 and 2.25, at no example.
    logs = np.log([[1 / 1.25, 1.5 / 1.25], [2 / 2.25, 2.5 / 2.25]]) * [[1.25], [2.25]]
    fixed, per_image = 2 * logs[0] - logs[1], logs[1] - logs[0]
    scale = math.sqrt(math.pi / 2 / 2) / math.sqrt(2)  # of two values' difference
    assert fit.fixed_error == pytest.approx(abs(np.diff(fixed)[0]) * scale)
    half = 12.7062 * abs(np.diff(per_image)[0]) * scale
    assert fit.per_image == pytest.approx((1, 1 - half, 1 + half), rel=1e-4)
    ratio = abs(np.diff(fixed / 0.25 - per_image)[0])
    assert math.log(fit.half_batch.high / 0.25) == pytest.approx(12.7062 * ratio * scale, rel=1e-4)
    assert math.isnan(step_cost.fixed_cost([1, 2], blocks).fixed.low)
    backwards = step_cost.fixed_cost([2, 1], blocks[::-1], of_jobs=True)
    assert backwards.fixed == pytest.approx(fit.fixed)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [2, 3, 6])
def test_intervals_cover_jobs_that_differ_in_either_cost(jobs):
    """In 300 draws, each cost of a job by 15 %, and its speed by 20 %."""
    generator, hits = np.random.default_rng(3), np.zeros(4)
    for _ in range(300):
        a, b, speed = np.exp(generator.standard_normal((3, jobs)) * [[0.15], [0.15], [0.2]])
        table = speed * (0.01 * a + 1e-4 * SIZES[:, None] * b)
        table = table * np.exp(0.01 * generator.standard_normal(table.shape))
        fit = step_cost.fixed_cost(SIZES, list(table), of_jobs=True)
        knee = step_cost.knee(SIZES, list(table), share=0.5, of_jobs=True).fitted
        true = (fit.fixed, 0.01), (fit.per_image, 1e-4), (fit.half_batch, 100), (knee, 100)
        hits += [found.low < value < found.high or math.isnan(found.low) for found, value in true]
    assert (hits / 300 >= 0.92).all()
