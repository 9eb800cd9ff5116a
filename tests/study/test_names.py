"""The codec between factors and path names, and names that must never change."""

import contextlib
import itertools
from pathlib import Path

import pytest

from batchscope.study import names, run_factors, setting
from batchscope.study.versions import ENTRIES

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
    f"{RUN}+pat=3": {"patience": 3},
    f"{RUN}+lrs=linear+bbs=64": {"learning_rate_scaling": "linear", "base_batch_size": 64},
    f"{RUN.replace('small_cnn', 'mine-0a1b2c3d')}+dev=gpu+th=4": {
        **{"model": "mine-0a1b2c3d", "device": "gpu", "threads": 4}
    },
    "digits-065f9c58+small_cnn+bs=32+lr=0.1+opt=adamw+ep=40+seed=0+b1=0.8+b2=0.95+eps=1e-6+wd=0.1"
    "+bsc=half_life": {
        **{"optimizer": "adamw", "weight_decay": 0.1, "beta_scaling": "half_life", **BETAS},
    },
    f"{RUN}+method=sam+rho=0.1": {"method": "sam", "rho": 0.1},
    f"{RUN}+sch=cosine": {"schedule": "cosine"},
    f"{RUN.replace('bs=32', 'bs=256')}+mbs=32": {"batch_size": 256, "micro_batch_size": 32},
    f"{RUN}+prec=mixed_bfloat16": {"precision": "mixed_bfloat16"},
}
SUBSPACE = {"epsilons": (1e-3,), "spaces": ("subspace",), "examples": 0, "starts": 8}
GOLDEN_SETTINGS = [
    ("evaluate", {}, "default"),
    ("evaluate", {"weights": "best"}, "w=best"),
    ("evaluate", {"epoch": 3}, "at=3"),
    ("evaluate", {"weights": "best", "epoch": 16}, "w=best+at=16"),
    ("sharpness", {}, "default"),
    ("sharpness", SUBSPACE, "eps=0.001+sp=subspace+ex=0+st=8"),
    ("sharpness", {"batch_norm": "batch"}, "bn=batch"),
    ("weight_distance", {"weights": "best"}, "w=best"),
    ("time_epoch", {"blocks": 9, "block_seconds": 0.5}, "bl=9+bsec=0.5"),
]


@pytest.mark.parametrize("name", GOLDEN_RUNS)
def test_golden_run_names(name):
    factors = {**CORE, **GOLDEN_RUNS[name]}
    assert names.run_name(factors) == name
    parsed = names.parse_run(name)
    assert parsed.items() >= factors.items()
    assert list(parsed) == list(run_factors.FACTORS)


GOLDEN = [
    line.split()
    for line in Path(__file__).with_name("golden_names.txt").read_text().splitlines()[1:]
]


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in GOLDEN}))
def test_every_golden_name_is_parsed_and_spelled(kind):
    for name in (name for one, name in GOLDEN if one == kind):
        if kind == "run":
            assert names.run_name(names.parse_run(name)) == name
        elif kind == "timing":
            assert names.timing_name(names.parse_timing(name)) == name
        elif kind == "sweep":
            assert names.parse_sweep(name).name == name
        else:
            assert names.settings_name(kind, names.parse_settings(kind, name)) == name


def test_golden_name_of_a_command():
    values = {"width": 64, "seed": 3, "note": "Two words", "optimizer": "adamw"}
    values |= {"learning_rate": 1e-3, "nesterov": True, "batch_size": 32, "empty": ""}
    name = names.command_name("command-1f0a93c2", values)
    assert name == (
        "command-1f0a93c2+bs=32+lr=0.001+opt=adamw+nest=true+empty=-12ae32cb"
        "+note=two-words-4ccdba81+width=64+seed=3"
    )
    assert names.is_command(name) and not names.is_command("command-1f0a93c2+small_cnn+bs=8")


def test_golden_timing_name():
    name = "digits-065f9c58+small_cnn+bs=32+opt=sgd+dev=cpu+th=1+mom=0.9"
    assert names.timing_name({**CORE, "momentum": 0.9, "patience": 5}) == name
    assert names.parse_timing(name)["threads"] == 1


@pytest.mark.parametrize(("measure", "settings", "name"), GOLDEN_SETTINGS)
def test_golden_settings_names(measure, settings, name):
    assert names.settings_name(measure, settings) == name
    frozen = {key: each.default for key, each in ENTRIES[measure].parameters.items()}
    assert names.parse_settings(measure, name) == {**frozen, **settings}


def test_golden_digests():
    assert setting.digest({"source": "digits", "split": {"seed": 0, "train": 0.6}}) == "9f1809f4"
    assert setting.digest("abc") == "6cc43f85"


def _samples(parameter):
    """Return values of a parameter: its choices, or numbers that are awkward as text."""
    if parameter.choices:
        return parameter.choices
    if parameter.kind == "bool":
        return (False, True)
    if parameter.kind == "str":
        return ("name", "name-0123abcd")
    numbers = (0, 1, 7, 64, 4096, 10**6, 10**9, 2**32 - 1)
    if parameter.kind == "float":
        numbers = (0.0, 0.1, 1 / 3, 5e-324, 1e-7, 1e16, 1.5e300, 2**-30, 123456789.125, 1.0, 2.5)
    return tuple(number for number in numbers if _is_allowed(parameter, number))


def _is_allowed(parameter, value):
    with contextlib.suppress(ValueError):
        return parameter.read_item(value) == value
    return False


@pytest.mark.parametrize("factor", [name for name in run_factors.FACTORS if name != "seed"])
def test_every_factor_survives_the_round_trip(factor):
    for value, seed in itertools.product(_samples(run_factors.FACTORS[factor]), (0, 11)):
        name = names.run_name({**CORE, factor: value, "seed": seed})
        assert names.parse_run(name)[factor] == value
        assert "," not in name and name == name.lower()


@pytest.mark.parametrize("measure", ENTRIES)
def test_every_setting_survives_the_round_trip(measure):
    for key, parameter in ENTRIES[measure].parameters.items():
        assert parameter.default is not None
        for value in _samples(parameter):
            settings = {key: (value,) if parameter.is_list else value}
            name = names.settings_name(measure, settings)
            assert names.parse_settings(measure, name)[key] == settings[key]


@pytest.mark.parametrize(
    "name",
    [
        *("", "default", "digits+small_cnn", "digits+small_cnn+bs=32"),
        *(f"{RUN}{more}" for more in ("+mom=0", "+th=1", "+seed=1", "+moon=1", "+pat=03")),
        RUN.replace("lr=0.1", "lr=0.10"),
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


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), (0.1, "0.1"), (1e-3, "0.001"), (1e-7, "1e-7"), (1e16, "1e16")],
)
def test_numbers_have_one_text(value, text):
    assert setting.number_text(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1"])
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises(ValueError):
        setting.number_text(value)


def test_names_have_an_end():
    with pytest.raises(ValueError, match="200 characters"):
        names.run_name({**CORE, "model": "m" * 200})


def test_aliases_are_distinct_and_safe_in_paths():
    assert [name for name, factor in run_factors.FACTORS.items() if factor.required] == list(CORE)
    settings = [entry.parameters.values() for entry in ENTRIES.values()]
    for known in (run_factors.EVERY_FACTOR.values(), *settings):
        aliases = [parameter.alias for parameter in known]
        assert len(set(aliases)) == len(aliases)
        assert all(alias.isalnum() and alias.islower() for alias in aliases)
