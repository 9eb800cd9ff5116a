"""Incompatible factors, and where a study reports them."""

import pytest

from batchscope.core.errors import UserError
from batchscope.datasets.sources.scikit_learn import Patches
from batchscope.study import incompatible_factors, run_factors
from batchscope.study.dataset_definitions import BUILT_IN, DatasetInfo

IDS = {"dataset": "mine-1f0a93c2", "model": "campbell_cnn", "optimizer": "sgd", "batch_size": 32}
ADAM = {"optimizer": "adam"}
RMSPROP = {"optimizer": "rmsprop", "momentum": 0.5}
STEPS = {"batch_schedule": "steps", "largest_batch_size": 64}
SEESAW = {**STEPS, "batch_schedule": "seesaw"}
TRAINING = {name: factor.default for name, factor in run_factors.FACTORS.items()}
TRAINING |= {**IDS, "learning_rate": 0.1, "epochs": 4}
TIMING = {name: factor.default for name, factor in run_factors.SWEEP_FACTORS.items()} | IDS


def info(size=None, definition=BUILT_IN["digits"], kind="images", side=None):
    return DatasetInfo("mine", IDS["dataset"], definition, size, side, kind, task=None)


DIGITS = info()


def of_training(data=DIGITS, **changes):
    return list(incompatible_factors.training_problems({**TRAINING, **changes}, data))


def of_timing(data=DIGITS, timings=("throughput",), **changes):
    return list(incompatible_factors.timing_problems({**TIMING, **changes}, data, timings))


@pytest.mark.parametrize("found", [of_training, of_timing])
@pytest.mark.parametrize(
    ("changes", "factor", "received"),
    [
        ({"data": info(31)}, "batch_size", "32"),
        ({"optimizer": "adam", "momentum": 0.5}, "momentum", "0.5 for adam"),
        ({"nesterov": True}, "nesterov", "true for sgd without momentum"),
        ({"nesterov": True, **RMSPROP}, "nesterov", "true for rmsprop"),
        ({"replicas": 33}, "replicas", "33"),
        ({"inner_steps": 3}, "inner_steps", "3 with method plain"),
        ({"replicas": 2, "method": "sam"}, "method", "'sam' with 2 replicas"),
        ({"micro_batch_size": 33}, "micro_batch_size", "33"),
        ({"micro_batch_size": 8, "method": "sam"}, "micro_batch_size", "8 with method sam"),
        ({"micro_batch_size": 8, "replicas": 2}, "micro_batch_size", "8 with 2 replicas"),
        ({"replicas": 2, "augmentation": "random"}, "augmentation", "'random' with 2 replicas"),
    ],
)
def test_of_a_step(found, changes, factor, received):
    ((place, text),) = found(**changes)
    assert place == (factor,) and f"(received {received})" in text


@pytest.mark.parametrize("found", [of_training, of_timing])
def test_a_batch_of_crops_may_have_every_image_twice(found):
    assert found(info(16), augmentation="crop") == []
    ((_, text),) = found(info(15), augmentation="crop")
    assert "at most 30, " in text and "(received 32)" in text


def test_a_batch_above_the_training_set_is_refused():
    assert of_timing(info(31), timings=["max_batch_size"]) == []  # a search for the largest batch
    assert of_timing(info(31), timings=["max_batch_size", "throughput"]) != []
    incompatible_factors.check_batch_size(TRAINING, 16, 16)
    with pytest.raises(UserError, match=r"batch_size: Expected at most 16, .* \(received 17\)"):
        incompatible_factors.check_batch_size(TRAINING, 17, 16)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({"warmup_epochs": 5}, "warmup_epochs"),
        ({"warmup_epochs": 1, "method": "proximal"}, "warmup_epochs"),
        ({"data": info(definition=Patches(source="patches", image_size=32))}, "dataset"),
        ({"threads": 0}, "threads"),
        ({"gamma": 2.0}, "gamma"),
        ({"precision": "mixed_float16", "method": "sam"}, "precision"),
        ({"rho": 0.1, "method": "proximal"}, "rho"),
        ({"schedule": "linear", "method": "proximal"}, "schedule"),
        ({"schedule": "cosine", "warmup_epochs": 4}, "schedule"),
        ({"beta_2": 0.99}, "beta_2"),
        ({"optimizer": "ftrl", "weight_decay": 0.1}, "weight_decay"),
        ({"optimizer": "adam", "beta_1": 1.0}, "beta_1"),
        ({"optimizer": "lion", "beta_scaling": "square_root"}, "beta_scaling"),
        ({**ADAM, "beta_scaling": "square_root", "base_batch_size": 2}, "beta_scaling"),
        ({"batch_rises": 2}, "batch_rises"),
        ({"largest_batch_size": 64}, "largest_batch_size"),
        ({"batch_schedule": "steps"}, "largest_batch_size"),
        ({**STEPS, "largest_batch_size": 16}, "largest_batch_size"),
        ({**STEPS, "largest_batch_size": 10**6, "data": info(100)}, "largest_batch_size"),
        ({**STEPS, "schedule": "cosine"}, "schedule"),
        (SEESAW, "schedule"),
        ({**SEESAW, "schedule": "cosine", "batch_rises": 2}, "batch_rises"),
        ({**STEPS, "warmup_epochs": 3, "batch_rises_from": 0.5}, "batch_rises_from"),
        ({**STEPS, "method": "proximal"}, "batch_schedule"),
    ],
)
def test_of_a_training(changes, factor):
    assert [place for place, _ in of_training(**changes)] == [(factor,)]


@pytest.mark.parametrize(
    ("changes", "factor", "received"),
    [
        ({"input_pipeline": "cache"}, "input_pipeline", "'cache' with loop graph"),
        ({"delay_seconds": 0.1}, "delay_seconds", "0.1 with loop graph"),
        ({"loop": "fit", "replicas": 2}, "replicas", "2 with loop fit"),
        ({"loop": "eager", "method": "sam"}, "method", "'sam' with loop eager"),
    ],
)
def test_of_a_timing(changes, factor, received):
    ((place, text),) = of_timing(**changes)
    assert place == (factor,) and f"(received {received}" in text


def test_what_goes_together():
    assert of_training() == of_timing() == []  # the defaults
    assert of_timing(threads=0) == of_training(info(32)) == []
    crops = {"replicas": 2, "augmentation": "crop"}
    assert of_training(**crops) == of_timing(**crops) == []
    assert of_timing(loop="eager", input_pipeline="prefetch", delay_seconds=0.1) == []
    assert of_training(optimizer="rmsprop", momentum=0.9) == []


@pytest.mark.parametrize(
    ("changes", "kind", "wrong"),
    [
        ({"model": "tiny_transformer"}, "sequences", ["model"]),
        ({"model": "mine-1f0a93c2"}, "sequences", []),
        ({"model": "mlp", "augmentation": "crop"}, "rows", ["augmentation"]),
        ({"model": "chang_vgg"}, "images", ["model"]),  # of 4 x 4 pixels
    ],
)
def test_of_examples(changes, kind, wrong):
    found = incompatible_factors.example_problems({**TRAINING, **changes}, info(kind=kind, side=4))
    assert [factor for (factor,), _ in found] == wrong
