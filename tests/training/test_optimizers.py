"""The optimizers that trainings are made with: their constants, against Keras and by hand."""

import inspect
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.study import names, run_factors
from batchscope.study.batch_phases import Course
from batchscope.training import optimizers
from digit_runs import run_name


def built(**factors):
    return optimizers.make_optimizer(names.parse_run(run_name(**factors)))


@pytest.mark.parametrize("name", run_factors.DEFAULT_CONSTANTS)
def test_constants_are_those_of_keras_where_none_is_given(name):
    own = built(optimizer=name)
    of_keras = inspect.signature(type(own).__init__).parameters
    has = {item for item in run_factors.CONSTANT_NAMES if item in of_keras} - {"weight_decay"}
    stated = dict(run_factors.DEFAULT_CONSTANTS[name])
    assert (of_keras["weight_decay"].default or 0) == stated.pop("weight_decay", 0)
    assert stated == {item: of_keras[item].default for item in has}
    (kind,) = (item for item in dir(keras.optimizers) if item.lower() == type(own).__name__.lower())
    plain = getattr(keras.optimizers, kind)(learning_rate=0.05).get_config()
    decay = {"weight_decay": 0 if name != "adamw" else 0.004}
    for result in (own, built(optimizer=name, **decay)):
        assert result.get_config() == {**plain, "name": result.name}


def test_given_constants_reach_the_optimizer_after_their_rules():
    given = {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3, "weight_decay": 0.1}
    result = built(batch_size=64, optimizer="adamw", beta_scaling="half_life", **given)
    assert (result.beta_1, result.epsilon, result.weight_decay) == (0.8, 1e-3, 0.1)
    assert result.beta_2 == pytest.approx(0.81)


def updates(optimizer):
    """Return the changes of four weights after three updates in a graph, and its operations."""
    values = [np.linspace(-1, 2, 7 + i, dtype="float32") for i in range(4)]
    weights = [keras.Variable(value, name=f"weight_{i}") for i, value in enumerate(values)]
    optimizer.build(weights)

    @tf.function(autograph=False)
    def update():
        optimizer.apply([0.1 * weight.value + 0.3 for weight in weights], weights)

    for _ in range(3):
        update()
    operations = update.get_concrete_function().graph.get_operations()
    pairs = zip(weights, values, strict=True)
    return np.concatenate([weight.numpy() - value for weight, value in pairs]), operations


CONSTANTS = {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3, "weight_decay": 0.1}


@pytest.mark.parametrize(
    ("name", "constants"), [("Adam", {}), ("AdamW", {}), ("AdamW", CONSTANTS), ("SGD", {})]
)
def test_an_update_is_that_of_keras_in_fewer_operations(name, constants):
    """The same bits; of Adam to the rounding of 1 - beta_2, which Keras has in double precision."""
    own = built(optimizer=name.lower(), **constants)
    result, operations = updates(own)
    kept = getattr(keras.optimizers, name)(learning_rate=0.05, **constants)
    fused = name in ("Adam", "AdamW")
    np.testing.assert_allclose(result, updates(kept)[0], rtol=5e-5 if fused else 0)
    assert sum(item.type == "ResourceApplyAdam" for item in operations) == 4 * fused
    assert [item.name for item in own.variables] == [item.name for item in kept.variables]
    assert own.iterations.numpy() == 3


FALLS = {
    "constant": lambda share: 1,
    "linear": lambda share: 1 - share,
    "cosine": lambda share: (1 + math.cos(math.pi * share)) / 2,
}
SCALED = {"learning_rate_scaling": "linear", "base_batch_size": 8, "batch_size": 32}
FROM_ZERO = [0.1 * step / 6 for step in range(1, 6)]  # begins a step above 0


@pytest.mark.parametrize(
    ("schedule", "given", "rise", "top"),
    [
        ("linear", {}, [], 0.1),
        ("linear", {"warmup_epochs": 1, **SCALED}, [0.1, 0.16, 0.22, 0.28, 0.34], 0.4),
        ("cosine", {"warmup_epochs": 1}, FROM_ZERO, 0.1),
        ("constant", {"warmup_epochs": 1}, FROM_ZERO, 0.1),
    ],
)
def test_rates_rise_with_the_warm_up_and_fall_to_zero_at_the_horizon(schedule, given, rise, top):
    """Four epochs of five updates, the first of which may be a warm-up."""
    factors = names.parse_run(
        run_name(**{"learning_rate": 0.1, "epochs": 4, "schedule": schedule, **given})
    )
    five = 5 * factors["batch_size"]  # examples of five updates
    rates = optimizers.make_schedule(factors, Course(factors, five))
    result = [float(rates(update)) for update in range(21)]
    left = 20 - len(rise)
    expected = rise + [top * FALLS[schedule](update / left) for update in range(left + 1)]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)
    in_graph = optimizers.make_optimizer(factors, rates)
    variable = keras.Variable(0.0)
    for update in range(8):  # as its own count of updates has it
        before = float(variable.numpy())
        in_graph.apply([keras.ops.ones(())], [variable])
        assert before - float(variable.numpy()) == pytest.approx(expected[update], rel=1e-4)
    constant = names.parse_run(run_name())
    assert optimizers.make_schedule(constant, Course(constant, five)) is None
