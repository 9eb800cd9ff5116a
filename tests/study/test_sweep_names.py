"""Names of timing sweeps: batch sizes as ranges, every name parsed back to what it was."""

import pytest

from batchscope.store import jobs
from batchscope.study import names, run_factors

FACTORS = {"dataset": "mnist-1f0a93c2", "model": "campbell_cnn", "optimizer": "adam"}


def sweep(*batch_sizes: int, **factors: object) -> names.Sweep:
    frozen = {name: each.default for name, each in run_factors.SWEEP_FACTORS.items()}
    del frozen["batch_size"]
    return names.Sweep({**frozen, **FACTORS, **factors}, batch_sizes)


@pytest.mark.parametrize(
    ("batch_sizes", "text"),
    [
        ([1], "1"),
        ([1, 2], "1_2"),
        ([1, 2, 3], "1-3"),
        ([1, 2, 4, 8], "1_2_4_8"),
        (range(1, 67), "1-66"),
        ([1, 2, 4, 15, 16, 17, 18, 64, 66], "1_2_4_15-18_64_66"),
        (range(100, 1001, 100), "100_200_300_400_500_600_700_800_900_1000"),
        ([8, 4, 4], "4_8"),
    ],
)
def test_batch_sizes_are_ranges(batch_sizes, text):
    assert names.format_sizes(batch_sizes) == text
    name = f"digits-065f9c58+mlp+bs={text}+opt=sgd+dev=cpu+th=1"
    assert names.parse_sweep(name).batch_sizes == tuple(sorted(set(batch_sizes)))


@pytest.mark.parametrize("text", ["", "0", "1_2_3", "3_1", "1-2", "1-", "-3", "01", "1,2", "5-1"])
def test_other_spellings_are_refused(text):
    with pytest.raises(ValueError, match="Expected"):
        names.parse_sweep(f"digits-065f9c58+mlp+bs={text}+opt=sgd+dev=cpu+th=1")


GOLDEN = {
    "mnist-1f0a93c2+campbell_cnn+bs=1-66+opt=adam+dev=cpu+th=1": sweep(*range(1, 67)),
    "mnist-1f0a93c2+campbell_cnn+bs=16_128+opt=adam+dev=cpu+th=0+loop=eager+delay=0.001": sweep(
        16, 128, threads=0, loop="eager", delay_seconds=0.001
    ),
    "mnist-1f0a93c2+campbell_cnn+bs=8+opt=sgd+dev=gpu+th=1+mom=0.9+loop=fit+in=jpeg": sweep(
        8, optimizer="sgd", device="gpu", momentum=0.9, loop="fit", input_pipeline="jpeg"
    ),
    "mnist-1f0a93c2+campbell_cnn+opt=adam+dev=cpu+th=1": sweep(),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_names(name):
    """Never change one of these: results lie under them."""
    assert GOLDEN[name].name == name
    assert names.parse_sweep(name) == GOLDEN[name]


def test_combinations_that_differ_in_batch_size_alone_are_one_sweep():
    def of(batch_size: int, threads: int) -> dict[str, object]:
        return {**sweep().factors, "batch_size": batch_size, "threads": threads, "epochs": 3}

    found = list(names.sweeps([of(8, 1), of(4, 1), of(8, 2), of(4, 2), of(8, 1)]))
    assert found == [sweep(4, 8), sweep(4, 8, threads=2)]


def test_jobs_of_each_timing():
    two = sweep(4, 8, loop="eager", delay_seconds=0.001)
    assert list(jobs.job_sweeps("throughput", two)) == [two]
    assert list(jobs.job_sweeps("utilisation", two)) == [two]
    assert [job.batch_sizes for job in jobs.job_sweeps("profile", two)] == [(4,), (8,)]
    # Memory is that of the step, whatever drives it.
    assert list(jobs.job_sweeps("max_batch_size", two)) == [sweep()]
