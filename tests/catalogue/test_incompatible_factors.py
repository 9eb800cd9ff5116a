"""Incompatible factors, and where a study reports them."""

import ast
import pkgutil
from pathlib import Path

import pytest

from batchscope.catalogue import framework_names, incompatible_factors, run_factors
from batchscope.errors import UserError
from batchscope.study import experiment_kinds, planner
from small_study import MODEL_FILE, config, problems, timed

TOKENS = {"dataset": "mine-1f0a93c2", "model": "campbell_cnn", "optimizer": "sgd"}
TRAINING = {
    **{name: factor.birth for name, factor in run_factors.FACTORS.items() if name != "seed"},
    **{**TOKENS, "batch_size": 32, "learning_rate": 0.1, "epochs": 4},
}
TIMING = {
    **{name: factor.birth for name, factor in experiment_kinds.TIMING.factors.items()},
    **{**TOKENS, "batch_size": 32},
}


def of_training(size=None, source="npz", **changes):
    return list(incompatible_factors.of_training({**TRAINING, **changes}, size, source))


def of_timing(size=None, timings=("throughput",), **changes):
    return list(incompatible_factors.of_timing({**TIMING, **changes}, size, timings))


def lines(found):
    return [f"{factor}: {text}" for factor, text in found]


def test_births_are_sound_together():
    assert of_training() == of_timing() == []


@pytest.mark.parametrize("found", [of_training, of_timing])
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"size": 31},
            "batch_size: received 32; at most 31 is expected, the training examples of mine.",
        ),
        (
            {"optimizer": "adam", "momentum": 0.5},
            "momentum: received 0.5 for adam; it is expected of sgd and rmsprop alone.",
        ),
        (
            {"nesterov": True},
            "nesterov: received true for sgd without momentum; sgd with a momentum above 0 is "
            "expected.",
        ),
        (
            {"nesterov": True, "optimizer": "rmsprop", "momentum": 0.5},
            "nesterov: received true for rmsprop; sgd with a momentum above 0 is expected.",
        ),
        ({"replicas": 33}, "replicas: received 33; at most the batch size, 32, is expected."),
        (
            {"inner_steps": 3},
            "inner_steps: received 3 with method plain; it is expected of conservative alone.",
        ),
        (
            {"replicas": 2, "method": "robust"},
            "method: received robust with 2 replicas; plain is expected, or 1 replica.",
        ),
        (
            {"micro_batch_size": 33},
            "micro_batch_size: received 33; at most the batch size, 32, is expected.",
        ),
        (
            {"micro_batch_size": 8, "method": "robust"},
            "micro_batch_size: received 8 with method robust; 0 is expected, or method plain.",
        ),
        (
            {"precision": "mixed_float16", "method": "robust"},
            "precision: received mixed_float16 with method robust, which would use gradients of "
            "the scaled loss; mixed_bfloat16 or float32 is expected, or method plain.",
        ),
        (
            {"precision": "mixed_bfloat16", "replicas": 2},
            "precision: received mixed_bfloat16 with 2 replicas; float32 is expected, or 1 "
            "replica.",
        ),
        (
            {"micro_batch_size": 8, "replicas": 2},
            "micro_batch_size: received 8 with 2 replicas; 0 is expected, or 1 replica.",
        ),
        (
            {"replicas": 2, "augmentation": "random"},
            "augmentation: received random with 2 replicas; none is expected, or 1 replica.",
        ),
    ],
)
def test_of_a_step(found, changes, problem):
    assert lines(found(**changes)) == [problem]


@pytest.mark.parametrize("found", [of_training, of_timing])
def test_a_batch_of_crops_may_have_every_image_twice(found):
    assert found(size=16, augmentation="crop") == []
    ((_, text),) = found(size=15, augmentation="crop")
    assert text == "received 32; at most 30 is expected, the training examples of mine."


def test_the_search_for_the_largest_batch_may_name_any():
    assert of_timing(size=31, timings=["max_batch_size"]) == []
    assert of_timing(size=31, timings=["max_batch_size", "throughput"]) != []


def test_a_batch_above_the_training_set_is_refused_by_the_step():
    incompatible_factors.check_batch_size(TRAINING, 31, 31)
    with pytest.raises(UserError) as raised:
        incompatible_factors.check_batch_size(TRAINING, 32, 31)
    text = "received 32; at most 31 is expected, the training examples of mine."
    assert str(raised.value) == f"batch_size: {text}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"warmup_epochs": 5, "learning_rate_scaling": "linear"},
            "warmup_epochs: received 5; at most 4, the epochs, is expected.",
        ),
        (
            {"warmup_epochs": 2, "learning_rate_scaling": "sqrt", "method": "conservative"},
            "warmup_epochs: received 2 with method conservative, whose inner steps would count as "
            "updates; 0 is expected.",
        ),
        (
            {"source": "patches"},
            "dataset: received mine, which is for times alone: its splits overlap; another data "
            "set is expected.",
        ),
        (
            {"threads": 0},
            "threads: received 'all'; a positive whole number is expected: a training's last bits "
            "depend on it.",
        ),
        (
            {"gamma": 2.0},
            "gamma: received 2.0 with method plain; it is expected of conservative alone.",
        ),
        (
            {"rho": 0.1, "method": "conservative"},
            "rho: received 0.1 with method conservative; it is expected of robust alone.",
        ),
        (
            {"schedule": "linear", "method": "conservative"},
            "schedule: received linear with method conservative, whose inner steps would count as "
            "updates; constant is expected.",
        ),
        (
            {"schedule": "cosine", "warmup_epochs": 4, "learning_rate_scaling": "sqrt"},
            "schedule: received cosine with a warm-up of all 4 epochs; constant is expected, or a "
            "shorter warm-up.",
        ),
        (
            {"beta_2": 0.99},
            "beta_2: received 0.99 for sgd; it is expected of adam, adamax, adamw, lamb, lion and "
            "nadam alone.",
        ),
        (
            {"optimizer": "lion", "epsilon": 1e-8},
            "epsilon: received 1e-08 for lion; it is expected of adadelta, adagrad, adam, adamax, "
            "adamw, lamb, nadam and rmsprop alone.",
        ),
        (
            {"optimizer": "ftrl", "weight_decay": 0.1},
            "weight_decay: received 0.1 for ftrl; it is expected of adadelta, adafactor, adagrad, "
            "adam, adamax, adamw, lamb, lion, nadam, rmsprop and sgd alone.",
        ),
        (
            {"optimizer": "adam", "beta_1": 1.0},
            "beta_1: received 1; a number below 1 is expected: at 1 nothing is forgotten.",
        ),
        (
            {"beta_scaling": "half_life"},
            "beta_scaling: received half_life for sgd; it is expected of adam, adamax, adamw, "
            "lamb, lion and nadam alone.",
        ),
        (
            {"optimizer": "lion", "beta_scaling": "square_root"},
            "beta_scaling: received square_root for lion; it is expected of adam, adamax, adamw, "
            "lamb and nadam alone.",
        ),
        (
            {"optimizer": "adam", "beta_scaling": "square_root", "base_batch_size": 2},
            "beta_scaling: received square_root at batch size 32 and base_batch_size 2, where "
            "beta_1 would be -0.6; at least 0 is expected.",
        ),
        (
            {"optimizer": "adam", "weight_decay_scaling": "linear"},
            "weight_decay_scaling: received linear without a weight decay; weight_decay above 0 is "
            "expected.",
        ),
    ],
)
def test_of_a_training(changes, problem):
    assert lines(of_training(**changes)) == [problem]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"input_pipeline": "cache"},
            "input_pipeline: received cache with loop graph, which takes its batches from its own "
            "arrays; plain, or another loop, is expected.",
        ),
        (
            {"delay_seconds": 0.1},
            "delay_seconds: received with loop graph, which cannot wait between steps; another "
            "loop is expected.",
        ),
        (
            {"loop": "fit", "replicas": 2},
            "replicas: received 2 with loop fit; 1 is expected, or loop graph.",
        ),
        (
            {"loop": "eager", "method": "robust"},
            "method: received robust with loop eager; plain is expected, or loop graph.",
        ),
        (
            {"loop": "function", "augmentation": "crop"},
            "augmentation: received crop with loop function; none is expected, or loop graph.",
        ),
        (
            {"loop": "fit", "precision": "mixed_bfloat16"},
            "precision: received mixed_bfloat16 with loop fit; float32 is expected, or loop graph.",
        ),
        (
            {"loop": "fit", "micro_batch_size": 8},
            "micro_batch_size: received 8 with loop fit; 0 is expected, or loop graph.",
        ),
        (
            {"framework": "jax", "micro_batch_size": 8},
            "framework: received 'jax' with micro_batch_size 8; micro_batch_size 0 is expected.",
        ),
        (
            {"framework": "jax", "momentum": 0.9},
            "framework: received 'jax' with momentum 0.9; momentum 0 is expected.",
        ),
        (
            {"framework": "jax", "optimizer": "adam", "weight_decay": 0.1},
            "framework: received 'jax' with weight_decay 0.1; weight_decay 0 or default is "
            "expected.",
        ),
        (
            {"framework": "jax", "method": "robust", "timings": ("throughput", "profile")},
            "framework: received 'jax' with method robust and profile; method plain and throughput "
            "or utilisation in timing alone are expected.",
        ),
    ],
)
def test_of_a_timing(changes, problem):
    assert lines(of_timing(**changes)) == [problem]


def test_what_holds_of_trainings_alone():
    assert of_timing(threads=0) == of_training(size=32) == []
    crops = {"replicas": 2, "augmentation": "crop"}
    assert of_training(**crops) == of_timing(**crops) == []
    assert of_timing(loop="eager", input_pipeline="prefetch", delay_seconds=0.1) == []
    assert of_training(weight_decay=0.1, weight_decay_scaling="linear") == []
    assert of_training(optimizer="adamw", weight_decay_scaling="linear") == []


def test_momentum_only_where_an_optimizer_has_it():
    cases = [
        {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
        {"optimizer": "rmsprop", "momentum": 0.9},
        {"optimizer": "adam"},
    ]
    assert len(planner.make(config(experiment={"cases": cases})).runs) == 12


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"method": "robust", "gamma": 2},
            "gamma: received 2.0 with method robust; it is expected of conservative alone.",
        ),
        ({"augmentation": "flip"}, "augmentation: received 'flip'; one of none, crop, random is"),
    ],
)
def test_a_method_has_its_own_parameters_and_a_whole_batch(case, message):
    cases = [{"method": "conservative", "gamma": 10}, {"method": "robust"}, case]
    experiment = {"vary": {"batch_size": [16]}, "seeds": 1, "cases": cases}
    (found,) = problems(config(experiment=experiment))
    assert found.startswith(f"experiments.a.cases[2].{message}")


@pytest.mark.parametrize(
    ("factor", "value", "expected"),
    [
        ("model", "small_cnn", "model campbell_cnn or lheureux_cnn is"),
        ("optimizer", "rmsprop", "optimizer sgd or adam is"),
        ("loop", "eager", "loop graph is"),
        ("replicas", 2, "replicas 1 is"),
        ("momentum", 0.9, "momentum 0 is"),
    ],
)
def test_what_another_framework_does_not_have(factor, value, expected):
    assert problems(timed(set={factor: value})) == [
        f"experiments.a.vary.framework[1]: received 'pytorch' with {factor} {value}; "
        f"{expected} expected."
    ]


def test_another_framework_waits_for_nothing_and_has_its_arrays_in_memory():
    given = {"loop": "eager", "input_pipeline": "prefetch", "delay_seconds": 0.1}
    assert problems(timed(set=given)) == [
        "experiments.a.vary.framework[1]: received 'pytorch' with loop eager, input_pipeline "
        "prefetch and delay_seconds 0.1; loop graph, input_pipeline plain and delay_seconds 0 are "
        "expected."
    ]


@pytest.mark.parametrize("timing", ["max_batch_size", "profile"])
def test_another_framework_is_timed_in_two_ways(timing):
    assert problems(timed(timing=["throughput", timing])) == [
        f"experiments.a.vary.framework[1]: received 'pytorch' with {timing}; throughput or "
        "utilisation in timing alone is expected."
    ]


def test_a_users_model_is_for_tensorflow_alone(tmp_path):
    raw = timed(set={"model": "mine"})
    raw["models"] = {"mine": str(MODEL_FILE)}
    (line,) = problems(raw)
    assert "with model mine-58f02d97; model campbell_cnn or lheureux_cnn is expected." in line


def test_what_the_plan_says_of_frameworks_is_what_there_is():
    from batchscope import frameworks

    modules = {module.name for module in pkgutil.iter_modules(frameworks.__path__)}
    assert modules == {*framework_names.FRAMEWORKS}
    # Their own environments alone can import them.
    for path in Path(frameworks.__file__).parent.glob("[!_]*.py"):
        functions = {
            each.name for each in ast.parse(path.read_text()).body if hasattr(each, "name")
        }
        assert {*incompatible_factors.FRAMEWORK_MODELS} <= functions


def test_sequences_with_one_class_each_need_a_model_of_ones_own():
    factors = {**TRAINING, "model": "tiny_transformer"}
    ((factor, text),) = incompatible_factors.of_examples(factors, "sequences", None)
    assert factor == "model" and text == (
        "received tiny_transformer for mine, which has sequences of tokens with one class each; "
        "sequences of tokens are expected, or another model, of your own."
    )
    own = {**TRAINING, "model": "mine-1f0a93c2"}
    assert not [*incompatible_factors.of_examples(own, "sequences", None)]
