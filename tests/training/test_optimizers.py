"""The optimizers that trainings are made with: their constants, against Keras and by hand."""

import inspect
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.catalogue import optimizer_constants, run_names
from batchscope.training import optimizers
from digit_runs import run_name


def made(**factors):
    return optimizers.make_optimizer(run_names.parse_run(run_name(**factors)))


@pytest.mark.parametrize("name", optimizer_constants.CONSTANTS)
def test_the_constants_are_those_of_keras(name):
    of_keras = inspect.signature(type(made(optimizer=name)).__init__).parameters
    assert "weight_decay" in of_keras
    has = {each for each in optimizer_constants.NAMES if each in of_keras} - {"weight_decay"}
    own = dict(optimizer_constants.CONSTANTS[name])
    assert (of_keras["weight_decay"].default or 0) == own.pop("weight_decay", 0)
    assert own == {each: of_keras[each].default for each in has}


@pytest.mark.parametrize("name", optimizer_constants.CONSTANTS)
def test_what_is_left_out_is_made_as_keras_makes_it(name):
    plain = {"sgd": "SGD", "rmsprop": "RMSprop"}.get(name)
    by_name = {each.lower(): each for each in dir(keras.optimizers)}
    own = getattr(keras.optimizers, plain or by_name[name])(learning_rate=0.05)
    for factors in ({}, {"weight_decay": 0} if name != "adamw" else {"weight_decay": 0.004}):
        config = made(optimizer=name, **factors).get_config()
        assert config == {**own.get_config(), "name": config["name"]}


def test_given_constants_reach_the_optimizer_after_their_rules():
    found = made(
        batch_size=64,
        optimizer="adamw",
        beta_1=0.8,
        beta_2=0.9,
        epsilon=1e-3,
        weight_decay=0.1,
        beta_scaling="half_life",
        weight_decay_scaling="linear",
    )
    assert (found.beta_1, found.epsilon, found.weight_decay) == (0.8, 1e-3, 0.2)
    assert found.beta_2 == pytest.approx(0.81)


def updates(optimizer, weights):
    """Returns the values after three updates in a graph, and the graph's operations."""
    optimizer.build(weights)

    @tf.function(autograph=False)
    def update():
        optimizer.apply([0.1 * weight.value + 0.3 for weight in weights], weights)

    for _ in range(3):
        update()
    operations = update.get_concrete_function().graph.get_operations()
    return [weight.numpy() for weight in weights], operations


def weights_of(count):
    values = [np.linspace(-1, 2, 7 + i, dtype="float32") for i in range(count)]
    return [keras.Variable(value, name=f"weight_{i}") for i, value in enumerate(values)]


def reads_of_whole_numbers(operations):
    reads = [each for each in operations if each.type == "ReadVariableOp"]
    return sum(each.outputs[0].dtype.is_integer for each in reads)


def adam_by_hand(start, rates, beta_1=0.9, beta_2=0.999, epsilon=1e-7, weight_decay=0.0):
    """Returns the weights after as many updates as rates: Kingma and Ba 2015, end of section 2."""
    weight = start.astype(float)
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    for count, rate in enumerate(rates, 1):
        gradient = 0.1 * weight + 0.3
        weight = weight * (1 - rate * weight_decay)
        mean = beta_1 * mean + (1 - beta_1) * gradient
        square = beta_2 * square + (1 - beta_2) * gradient**2
        step = rate * math.sqrt(1 - beta_2**count) / (1 - beta_1**count)
        weight = weight - step * mean / (np.sqrt(square) + epsilon)
    return weight


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_an_update_is_that_of_keras_in_fewer_operations(name):
    """The same bits; of Adam to the rounding of 1 - beta_2, which Keras has in double precision."""
    own = made(optimizer=name.lower())
    found, operations = updates(own, weights_of(4))
    kept = getattr(keras.optimizers, name)(learning_rate=0.05)
    expected, _ = updates(kept, weights_of(4))
    fused = name in ("Adam", "AdamW")
    for start, *pair in zip([each.numpy() for each in weights_of(4)], found, expected, strict=True):
        np.testing.assert_allclose(*(each - start for each in pair), rtol=5e-5 if fused else 0)
    assert sum(each.type == "ResourceApplyAdam" for each in operations) == 4 * fused
    assert [each.name for each in own.variables] == [each.name for each in kept.variables]
    assert own.iterations.numpy() == 3
    _, of_one = updates(made(optimizer=name.lower()), weights_of(1))
    assert reads_of_whole_numbers(operations) == reads_of_whole_numbers(of_one)


@pytest.mark.parametrize(
    "constants", [{}, {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3, "weight_decay": 0.1}]
)
def test_adam_is_that_of_its_paper_with_any_constants_and_rates(constants):
    rates = keras.optimizers.schedules.PolynomialDecay(0.1, 5, 0.0)
    factors = {"weight_decay": 0, **constants}
    parsed = run_names.parse_run(run_name(optimizer="adamw", **factors))
    found, _ = updates(optimizers.make_optimizer(parsed, rates), weights_of(2))
    for start, weight in zip(weights_of(2), found, strict=True):
        expected = adam_by_hand(start.numpy(), [0.1, 0.08, 0.06], **constants)
        np.testing.assert_allclose(weight, expected, rtol=1e-6, atol=1e-7)


FALLS = {
    "constant": lambda share: 1,
    "linear": lambda share: 1 - share,
    "cosine": lambda share: (1 + math.cos(math.pi * share)) / 2,
}
SCALED = {"learning_rate_scaling": "linear", "base_batch_size": 8, "batch_size": 32}


@pytest.mark.parametrize(
    ("schedule", "given", "rise", "top"),
    [
        ("linear", {}, [], 0.1),
        ("cosine", {}, [], 0.1),
        ("linear", {"warmup_epochs": 1, **SCALED}, [0.1, 0.16, 0.22, 0.28, 0.34], 0.4),
        ("cosine", {"warmup_epochs": 1, **SCALED}, [0.1, 0.16, 0.22, 0.28, 0.34], 0.4),
        # By itself it begins a step above 0.
        ("constant", {"warmup_epochs": 1}, [0.1 * step / 6 for step in range(1, 6)], 0.1),
        ("cosine", {"warmup_epochs": 1}, [0.1 * step / 6 for step in range(1, 6)], 0.1),
    ],
)
def test_rates_rise_with_the_warm_up_and_fall_to_zero_at_the_horizon(schedule, given, rise, top):
    """Four epochs of five updates, of which the first may be a warm-up."""
    factors = run_names.parse_run(
        run_name(**{"learning_rate": 0.1, "epochs": 4, "schedule": schedule, **given})
    )
    rates = optimizers.schedule(factors, 5)
    found = [float(rates(update)) for update in range(21)]
    left = 20 - len(rise)
    expected = rise + [top * FALLS[schedule](update / left) for update in range(left + 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    in_graph = optimizers.make_optimizer(factors, rates)
    variable = keras.Variable(0.0)
    for update in range(8):  # as its own count of updates has it
        before = float(variable.numpy())
        in_graph.apply([keras.ops.ones(())], [variable])
        assert before - float(variable.numpy()) == pytest.approx(expected[update], rel=1e-4)


def test_a_constant_rate_is_no_schedule():
    assert optimizers.schedule(run_names.parse_run(run_name()), 5) is None


@pytest.mark.parametrize("name", optimizer_constants.having("weight_decay"))
def test_weight_decay_takes_its_share_off_the_weights_before_the_update(name):
    """With a gradient of zero, w becomes w - rate * decay * w, whatever else an optimizer does."""
    kernel = np.array([2.0, -3.0, 1.0], np.float32)
    for decay in (0.0, 0.1):
        variable = keras.Variable(kernel)
        found = made(optimizer=name, learning_rate=0.5, weight_decay=decay)
        found.apply([keras.ops.zeros(3)], [variable])
        np.testing.assert_allclose(variable.numpy(), kernel * (1 - 0.5 * decay), rtol=1e-6)
