"""The codec between factors and path names, and names that must never change."""

import contextlib
from pathlib import Path

import pytest

from batchscope.store import jobs
from batchscope.study import names, run_factors
from batchscope.study.registry import ENTRIES

CORE = {
    "dataset": "digits-065f9c58",
    "model": "small_cnn",
    **{"batch_size": 32, "learning_rate": 0.1, "optimizer": "sgd", "epochs": 40, "seed": 0},
}
RUN = "digits-065f9c58+small_cnn+bs=32+lr=0.1+opt=sgd+ep=40+seed=0"
BETAS = {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-6}
MNIST = {"dataset": "mnist-1f0a93c2", "model": "campbell_cnn", "batch_size": 1024}
# Frozen: a name that is here stands in somebody's results. Append; never edit.
GOLDEN_RUNS = {
    RUN: {},
    "mnist-1f0a93c2+campbell_cnn+bs=1024+lr=0.001+opt=adam+ep=3+seed=4294967295": {
        **MNIST,
        **{"learning_rate": 1e-3, "optimizer": "adam", "epochs": 3, "seed": 4294967295},
    },
    f"{RUN.replace('lr=0.1', 'lr=1')}+mom=0.9+nest=true": {
        **{"learning_rate": 1.0, "momentum": 0.9, "nesterov": True}
    },
    f"{RUN}+lrs=linear+bbs=64": {"learning_rate_scaling": "linear", "base_batch_size": 64},
    f"{RUN.replace('small_cnn', 'mine-0a1b2c3d')}+dev=gpu+th=4": {
        **{"model": "mine-0a1b2c3d", "device": "gpu", "threads": 4}
    },
    "digits-065f9c58+small_cnn+bs=32+lr=0.1+opt=adamw+ep=40+seed=0+b1=0.8+b2=0.95+eps=1e-6+wd=0.1"
    "+bsc=half_life": {
        **{"optimizer": "adamw", "weight_decay": 0.1, "beta_scaling": "half_life", **BETAS},
    },
    f"{RUN.replace('bs=32', 'bs=256')}+mbs=32": {"batch_size": 256, "micro_batch_size": 32},
}
SUBSPACE = {"epsilons": (1e-3,), "spaces": ("subspace",), "examples": 0, "starts": 8}
GOLDEN_SETTINGS = [
    ("evaluate", {}, "default"),
    ("evaluate", {"weights": "best", "epoch": 16}, "w=best+at=16"),
    ("sharpness", SUBSPACE, "eps=0.001+sp=subspace+ex=0+st=8"),
    ("time_epoch", {"blocks": 9, "block_seconds": 0.5}, "bl=9+bsec=0.5"),
]
COMMAND = {"width": 64, "seed": 3, "note": "Two words", "optimizer": "adamw", "empty": ""}
COMMAND |= {"learning_rate": 1e-3, "nesterov": True, "batch_size": 32}


@pytest.mark.parametrize("name", GOLDEN_RUNS)
def test_golden_run_names(name):
    factors = {**CORE, **GOLDEN_RUNS[name]}
    assert names.run_name(factors) == name
    parsed = names.parse_run(name)
    assert parsed.items() >= factors.items()
    assert list(parsed) == list(run_factors.FACTORS)


def test_every_golden_name_is_parsed_and_spelled():
    path = Path(__file__).with_name("golden_names.txt")
    for line in path.read_text().splitlines()[1:]:
        kind, name = line.split()
        if kind == "run":
            assert names.run_name(names.parse_run(name)) == name
        elif kind == "timing":
            assert names.timing_name(names.parse_timing(name)) == name
        elif kind == "sweep":
            assert names.parse_sweep(name).name == name
        else:
            assert names.settings_name(kind, names.parse_settings(kind, name)) == name


def test_golden_names_of_a_command_and_of_a_timing():
    name = names.command_name("command-1f0a93c2", COMMAND)
    assert name == (
        "command-1f0a93c2+bs=32+lr=0.001+opt=adamw+nest=true+empty=-12ae32cb"
        "+note=two-words-4ccdba81+width=64+seed=3"
    )
    assert names.is_command(name) and not names.is_command("command-1f0a93c2+small_cnn+bs=8")
    name = "digits-065f9c58+small_cnn+bs=32+opt=sgd+dev=cpu+th=1+mom=0.9"
    assert names.timing_name({**CORE, "momentum": 0.9, "patience": 5}) == name
    assert names.parse_timing(name)["threads"] == 1


@pytest.mark.parametrize(("measure", "settings", "name"), GOLDEN_SETTINGS)
def test_golden_settings_names(measure, settings, name):
    assert names.settings_name(measure, settings) == name
    defaults = {key: item.default for key, item in ENTRIES[measure].parameters.items()}
    assert names.parse_settings(measure, name) == {**defaults, **settings}


def _samples(parameter):
    """Return values of a parameter: its choices, or numbers that are awkward as text."""
    if parameter.choices:
        return parameter.choices
    if parameter.kind == "bool":
        return (False, True)
    if parameter.kind == "str":
        return ("name", "name-0123abcd")
    numbers = (0, 1, 7, 64, 4096, 10**9, 2**32 - 1)
    if parameter.kind == "float":
        numbers = (0.0, 0.1, 1 / 3, 5e-324, 1e-7, 1e16, 1.5e300, 123456789.125, 1.0, 2.5)
    valid = []
    for number in numbers:
        with contextlib.suppress(ValueError):
            valid.append(parameter.read_item(number))
    return valid


PARAMETERS = [
    *(("run", name) for name in run_factors.FACTORS),
    *((measure, name) for measure, entry in ENTRIES.items() for name in entry.parameters),
]


@pytest.mark.parametrize(("kind", "name"), PARAMETERS)
def test_every_value_survives_the_round_trip(kind, name):
    parameter = (run_factors.FACTORS if kind == "run" else ENTRIES[kind].parameters)[name]
    for value in _samples(parameter):
        values = {name: (value,) if parameter.is_list else value}
        if kind == "run":
            parsed = names.parse_run(names.run_name({**CORE, **values}))
        else:
            parsed = names.parse_settings(kind, names.settings_name(kind, values))
        assert parsed[name] == values[name]


@pytest.mark.parametrize(
    "name",
    [
        *("", "default", "digits+small_cnn+bs=32"),
        *(f"{RUN}{more}" for more in ("+mom=0", "+seed=1", "+moon=1", "+pat=03")),
        RUN.replace("lr=0.1", "lr=1e-03"),
        RUN.replace("lr=0.1", "lr=nan"),
        RUN.replace("opt=sgd", "opt=sdg"),
        RUN.replace("bs=32+lr=0.1", "lr=0.1+bs=32"),
        RUN.replace("digits-", "Digits-"),
        RUN.replace("digits-065f9c58", "../etc"),
    ],
)
def test_only_canonical_names_are_read(name):
    with pytest.raises(ValueError):
        names.parse_run(name)


def test_a_long_name_and_an_infinite_number_are_refused():
    with pytest.raises(ValueError, match="200 characters"):
        names.run_name({**CORE, "model": "m" * 200})
    with pytest.raises(ValueError, match="inf"):
        names.command_name("command-1f0a93c2", {**COMMAND, "width": float("inf")})


def sweep(*batch_sizes: int, **factors: object) -> names.Sweep:
    frozen = {name: each.default for name, each in run_factors.SWEEP_FACTORS.items()}
    del frozen["batch_size"]
    timed = {"dataset": "mnist-1f0a93c2", "model": "campbell_cnn", "optimizer": "adam"}
    return names.Sweep({**frozen, **timed, **factors}, batch_sizes)


def test_batch_sizes_are_ranges():
    sizes, text = (1, 2, 4, 15, 16, 17, 18, 64, 66), "1_2_4_15-18_64_66"
    assert f"+bs={text}+" in sweep(*sizes).name
    assert names.parse_sweep(sweep(*sizes).name).batch_sizes == sizes


@pytest.mark.parametrize("text", ["", "0", "1_2_3", "3_1", "4_4", "1-2", "1-", "5-1"])
def test_other_spellings_of_batch_sizes_are_refused(text):
    with pytest.raises(ValueError, match="Expected"):
        names.parse_sweep(f"digits-065f9c58+mlp+bs={text}+opt=sgd+dev=cpu+th=1")


GOLDEN_SWEEPS = {
    "mnist-1f0a93c2+campbell_cnn+bs=16_128+opt=adam+dev=cpu+th=0+loop=eager+delay=0.001": sweep(
        16, 128, threads=0, loop="eager", delay_seconds=0.001
    ),
    "mnist-1f0a93c2+campbell_cnn+opt=adam+dev=cpu+th=1": sweep(),
}


@pytest.mark.parametrize("name", GOLDEN_SWEEPS)
def test_golden_names_of_sweeps(name):
    assert GOLDEN_SWEEPS[name].name == name
    assert names.parse_sweep(name) == GOLDEN_SWEEPS[name]


def test_combinations_that_differ_in_batch_size_alone_are_one_sweep():
    combinations = [
        {**sweep().factors, "batch_size": batch_size, "threads": threads, "epochs": 3}
        for batch_size, threads in ((8, 1), (4, 1), (8, 2), (4, 2), (8, 1))
    ]
    sweeps = list(names.group_into_sweeps(combinations))
    assert sweeps == [sweep(4, 8), sweep(4, 8, threads=2)]


def test_jobs_of_each_timing():
    two = sweep(4, 8, loop="eager", delay_seconds=0.001)
    assert list(jobs.job_sweeps("throughput", two)) == [two]
    assert [job.batch_sizes for job in jobs.job_sweeps("profile", two)] == [(4,), (8,)]
    # Memory is that of the step, whatever drives it.
    assert list(jobs.job_sweeps("max_batch_size", two)) == [sweep()]
