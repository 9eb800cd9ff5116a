"""The step loop: how an update uses its batch, its norms, rising batch sizes, half precision."""

import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from batchscope.datasets import Examples, TaskInfo, prepared
from batchscope.study import names, tasks
from batchscope.study.batch_phases import Course
from batchscope.training import inputs, losses, models, optimizers, step_loop
from batchscope.training.step_loop import Method
from costs import first
from digit_runs import run_name

CURVATURES = np.array([2.0, 0.5], np.float32)
START = np.array([3.0, -1.0], np.float32)
RATE = 0.1


def quadratic(method, updates=1):
    """Returns the weights after updates of f(w) = (2 w_1^2 + 0.5 w_2^2) / 2 from (3, -1)."""
    weight = keras.Variable(START)
    model = SimpleNamespace(trainable_variables=[weight], non_trainable_variables=[])
    optimizer = keras.optimizers.SGD(RATE)
    optimizer.build([weight])

    def evaluate():
        value = weight.value
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = 0.5 * tf.reduce_sum(CURVATURES * value**2)
        return loss, tf.constant(0), [tape.gradient(loss, value)]

    @tf.function(autograph=False)
    def update():
        return method.apply(evaluate, optimizer, model)[0]

    losses = [float(update()) for _ in range(updates)]
    assert losses[0] == pytest.approx(0.5 * float(CURVATURES @ START**2))
    return weight.numpy()


@pytest.mark.parametrize(("gamma", "inner_steps"), [(1.5, 3), (0.0, 2), (4.0, 1)])
def test_proximal_against_its_inner_steps_by_hand(gamma, inner_steps):
    expected = START.astype(float)
    for _ in range(2):  # two updates: the second one pulls to where the first one ended
        anchor = expected
        for _ in range(inner_steps):
            expected = expected - RATE * (CURVATURES * expected + gamma * (expected - anchor))
    result = quadratic(Method("proximal", gamma, inner_steps), updates=2)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_sam_against_a_step_by_hand():
    """Along the gradient at w + rho g / ||g||; g = (6, -0.5), of length 6.0208."""
    rho = 0.4
    gradient = np.array([6.0, -0.5])
    worst = START + rho * gradient / np.sqrt(36.25)
    expected = START - RATE * CURVATURES * worst
    np.testing.assert_allclose(quadratic(Method("sam", rho=rho)), expected, rtol=1e-6)


def test_sam_stays_at_a_stationary_point():
    weight = keras.Variable(np.zeros(2, np.float32))
    model = SimpleNamespace(trainable_variables=[weight], non_trainable_variables=[])
    zero = (tf.constant(1.0), tf.constant(0), [tf.zeros(2)])
    Method("sam").apply(lambda: zero, keras.optimizers.SGD(RATE), model)
    assert weight.numpy().tolist() == [0, 0]


EXAMPLES = 23  # batches of 10: two whole ones and one of 3


def trained(*layers, stop=3, epochs=1, optimizer="SGD", **settings):
    """Return a network after epochs of updates, its totals, and the norms of the updates."""
    random = np.random.default_rng(0)
    images = random.normal(size=(EXAMPLES, 4, 4, 1)).astype(np.float32)
    examples = Examples(images, random.integers(0, 5, EXAMPLES), 1.0)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(3)
    first = [keras.Input((4, 4, 1)), keras.layers.Conv2D(3, 2, activation="tanh")]
    last = keras.layers.Dense(5, kernel_regularizer=keras.regularizers.L2(0.1))
    model = keras.Sequential([*first, *layers, keras.layers.Flatten(), last])
    settings = step_loop.UpdateSettings(10, **settings)
    optimizer = getattr(keras.optimizers, optimizer)(0.05)
    loop = step_loop.StepLoop(model, optimizer, examples, settings, update_norms=True)
    totals, norms = step_loop.Totals(), []
    for epoch in range(epochs):
        order = step_loop.epoch_order(0, epoch, EXAMPLES)
        _, totals, _, epoch_norms = loop.run(order, 0, stop, totals)
        norms.append(epoch_norms)
    return model, totals, np.concatenate(norms)


def noisy(method, stop=3):
    """Return the variables of a network with dropout and batch normalisation, and the totals."""
    # The path of a variable would depend on the layers and generators made before.
    keras.utils.clear_session(free_memory=False)
    norm = keras.layers.BatchNormalization(name="norm")
    layers = norm, keras.layers.Dropout(0.5, seed=1, name="dropout")
    model, totals, _ = trained(*layers, stop=stop, method=method)
    return {variable.path: variable.numpy() for variable in model.variables}, totals, model


def test_one_inner_step_is_the_plain_update_to_the_last_bit():
    plain, totals, _ = noisy(Method())
    result, same, _ = noisy(Method("proximal", 2.0, 1))
    assert same == totals
    assert all(np.array_equal(plain[path], result[path]) for path in plain)


@pytest.mark.parametrize("method", first(["sam", "proximal"]))
def test_a_batch_is_one_function_within_an_update(method):
    """Generators and moving statistics move once per update, whatever the gradients.

    After a single update all of them are those of a plain one: the first gradient is the same.
    """
    plain, totals, model = noisy(Method(), stop=1)
    result, same, _ = noisy(Method(method, inner_steps=2), stop=1)
    assert same == totals
    moved = {path for path in plain if not np.array_equal(plain[path], result[path])}
    assert moved and moved <= {variable.path for variable in model.trainable_variables}


class UnusedWeight(keras.layers.Layer):
    def build(self, input_shape):
        self.unused = self.add_weight((2,), initializer="ones", name="unused")

    def call(self, inputs):
        return inputs


@pytest.mark.parametrize(
    "settings", [{}, {"micro_batch": 4}, {"method": Method("sam")}, {"method": Method("proximal")}]
)
def test_a_weight_that_no_output_depends_on_stays(settings):
    model, *_ = trained(UnusedWeight(name="extra"), **settings)
    other, *_ = trained(**settings)
    (unused,) = (variable for variable in model.variables if variable.name == "unused")
    assert unused.numpy().tolist() == [1, 1]
    used = [variable for variable in model.variables if variable is not unused]
    for variable, expected in zip(used, other.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), expected.numpy())


def flat(model):
    return np.concatenate([value.ravel() for value in model.get_weights()])


@pytest.mark.parametrize("optimizer", first(["SGD", "Adam"]))
def test_micro_batches_give_the_weights_of_one_piece_to_rounding(optimizer):
    model, totals, norms = trained(epochs=2, optimizer=optimizer)
    for micro_batch in (4, 1, 16):
        other, own, own_norms = trained(epochs=2, optimizer=optimizer, micro_batch=micro_batch)
        np.testing.assert_allclose(flat(other), flat(model), rtol=2e-4, atol=2e-6)
        np.testing.assert_allclose(own_norms, norms, rtol=1e-3)
        assert own.loss == pytest.approx(totals.loss, rel=1e-5)
        assert own.scores == totals.scores


@pytest.mark.slow
def test_dropout_and_augmentation_draw_anew_for_every_micro_batch():
    def masked(micro_batch):
        return flat(trained(keras.layers.Dropout(0.5, seed=1), micro_batch=micro_batch)[0])

    assert np.array_equal(masked(5), masked(5))
    assert not np.allclose(masked(5), masked(0), rtol=1e-3)
    noise = keras.layers.GaussianNoise(0.5, seed=2)
    noised, plain = (trained(micro_batch=5, augment=augment)[0] for augment in (noise, None))
    assert not np.allclose(flat(noised), flat(plain), rtol=1e-3)


RANDOM = np.random.default_rng(1)
DIGITS = Examples(
    RANDOM.integers(0, 17, (40, 8, 8, 1), np.uint8), RANDOM.integers(0, 10, 40), 1 / 16
)


def built(precision):
    return models.build("small_cnn", prepared.ModelInput((8, 8, 1), 10), 3, precision=precision)


def test_norms_are_those_of_the_weights_differences_and_change_no_bit():
    factors = names.parse_run(run_name(optimizer="adam", learning_rate=0.01))

    def path_and_norms(update_norms: bool, stops: list[int]) -> tuple:
        """Return the flat weights at each stop, and the norms of the updates."""
        model, optimizer = built("float32"), optimizers.make_optimizer(factors)
        settings = step_loop.UpdateSettings(4)
        loop = step_loop.StepLoop(model, optimizer, DIGITS, settings, update_norms)
        order, path, norms = step_loop.epoch_order(0, 0, 40), [], []
        for start, stop in itertools.pairwise([0, *stops]):
            norms += loop.run(order, start, stop, step_loop.Totals())[3].tolist()
            path.append(flat(model))
        return np.array(path), norms

    path, none = path_and_norms(False, [*range(1, 11)])
    few, norms = path_and_norms(True, [1, 7, 10])
    expected = np.linalg.norm(np.diff(path.astype(float), axis=0), axis=1)
    np.testing.assert_allclose(norms[1:], expected, rtol=1e-6)
    assert few.tobytes() == path[[0, 6, 9]].tobytes() and not none


RISING = {"batch_schedule": "steps", "batch_rises": 3, "batch_rises_from": 0.3}
RISING |= {"batch_size": 8, "largest_batch_size": 64}


def rising(factors, images, targets):
    """Weights after a training of a linear regression from 0, by our loop."""
    model = keras.Sequential([keras.Input(images.shape[1:]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((images.shape[1], 1), np.float32)])
    course = Course(factors, len(images))
    optimizer = optimizers.make_optimizer(factors, optimizers.make_schedule(factors, course))
    size, offset = (tf.Variable(item, dtype=tf.int32) for item in (factors["batch_size"], 0))
    settings = step_loop.UpdateSettings(size, offset=offset)
    task_info = TaskInfo(tasks.REGRESSION, deviations=(1.0,))
    examples = Examples(images, targets[:, None], 1.0, task_info)
    loop = step_loop.StepLoop(model, optimizer, examples, settings)
    for epoch in range(factors["epochs"]):
        order, start, totals = step_loop.epoch_order(0, epoch, len(images)), 0, step_loop.Totals()
        for segment in course.segments(epoch):
            settings.set_segment(segment)
            _, totals, _, _ = loop.run(order, start, segment.stop, totals)
            start = segment.stop
    return model.get_weights()[0][:, 0]


def rising_by_hand(factors, images, targets):
    """The same by numpy, batch after batch by the definition of the phases."""
    course, weights, update = Course(factors, len(images)), np.zeros(images.shape[1]), 0
    changes = course.rate_changes()
    for epoch in range(factors["epochs"]):
        order, used = step_loop.epoch_order(0, epoch, len(images)), course.example_positions(epoch)
        for start, stop in zip(used, used[1:], strict=False):
            rate = factors["learning_rate"] * [item for at, item in changes if at <= update][-1]
            batch = order[start:stop]
            errors = images[batch] @ weights - targets[batch]
            weights = weights - rate * 2 * images[batch].T @ errors / len(batch)
            update += 1
    return weights


@pytest.fixture(scope="module")
def regression():
    generator = np.random.default_rng(3)
    images = generator.normal(size=(203, 5)).astype(np.float32)
    noise = generator.normal(size=203)
    return images, (images @ np.arange(1, 6) + noise).astype(np.float32)


@pytest.mark.parametrize(
    "given",
    [
        RISING,
        {**RISING, "largest_batch_size": 16},  # the rate falls too
        {**RISING, "batch_schedule": "seesaw", "schedule": "cosine", "batch_rises": 1}
        | {"batch_rises_from": 0.5, "warmup_epochs": 0},
    ],
)
def test_updates_are_those_by_hand(regression, given):
    factors = names.parse_run(run_name(learning_rate=0.01, epochs=3, **given))
    result = rising(factors, *regression)
    np.testing.assert_allclose(result, rising_by_hand(factors, *regression), rtol=2e-4)


MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}


def updated(model, optimizer, steps, micro_batch=0):
    settings = step_loop.UpdateSettings(10, micro_batch=micro_batch)
    loop = step_loop.StepLoop(model, optimizer, DIGITS, settings)
    return loop.run(np.arange(40, dtype=np.int32), 0, steps, step_loop.Totals())[1]


def mixed(precision, micro_batch=0, steps=8):
    factors = names.parse_run(run_name(precision=precision, momentum=0.9))
    model, optimizer = built(precision), optimizers.make_optimizer(factors)
    return model, optimizer, updated(model, optimizer, steps, micro_batch)


@pytest.mark.parametrize("precision", MIXED)
def test_layers_and_outputs_have_half_the_width_and_weights_and_losses_keep_theirs(precision):
    model = built(precision)
    assert {layer.compute_dtype for layer in model.layers} == {MIXED[precision]}
    assert {str(weight.dtype) for weight in model.trainable_variables} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"  # of what is built next
    assert all(map(np.array_equal, built("float32").get_weights(), model.get_weights()))
    outputs = model(inputs.scaled_images(DIGITS.images, 1 / 16))
    values, _ = losses.scoring_for(TaskInfo()).score_examples(tf.zeros(40, tf.int32), outputs)
    assert values.dtype == losses.logits(outputs).dtype == tf.float32
    layer = keras.layers.Dense(2, dtype=precision, activity_regularizer="l1")
    model = keras.Sequential([keras.Input((3,)), layer])
    model(tf.ones((4, 3)))
    assert [item.dtype for item in losses.penalties(model)] == [tf.float32]


@pytest.mark.parametrize(("precision", "micro_batch"), list(zip(MIXED, (0, 4), strict=True)))
@pytest.mark.slow
def test_it_trains_nearly_as_float32_does(precision, micro_batch):
    plain, _, totals = mixed("float32")
    model, _, other_totals = mixed(precision, micro_batch)
    moved, apart = flat(plain) - flat(built("float32")), flat(model) - flat(plain)
    assert 0 < np.linalg.norm(apart) < 0.05 * np.linalg.norm(moved)
    assert other_totals.loss == pytest.approx(totals.loss, rel=0.01)


@pytest.mark.slow
def test_an_update_whose_gradient_overflows_is_left_out_and_the_scale_halved():
    model, optimizer, _ = mixed("mixed_float16", steps=1)
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**15
    before = flat(model)
    optimizer.dynamic_scale.assign(2.0**40)
    updated(model, optimizer, steps=1)
    assert float(optimizer.dynamic_scale.numpy()) == 2.0**39
    assert np.array_equal(before, flat(model))
