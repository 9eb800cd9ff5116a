"""Updates that XLA compiles: those of TensorFlow up to rounding, and the same bits each time."""

from collections.abc import Callable

import keras
import numpy as np
import pytest

from batchscope.core.errors import UserError
from batchscope.datasets import Examples
from batchscope.host import memory_limits
from batchscope.study import names
from batchscope.training import optimizers
from batchscope.training.step_loop import Batches, StepLoop, Totals
from digit_runs import run_name

COUNT, SIZE = 50, 16
DEFAULTS = names.parse_run(run_name(batch_size=SIZE, learning_rate=0.1, epochs=2))


def examples() -> Examples:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (COUNT, 8, 8, 1), np.uint8)
    return Examples(images, generator.integers(0, 3, COUNT).astype(np.int32), 1 / 255)


def network(layer: Callable[[], keras.layers.Layer]) -> keras.Model:
    keras.utils.set_random_seed(0)  # layers draw their seeds when they are created
    layers = layer(), keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax")
    return keras.Sequential([keras.Input((8, 8, 1)), *layers])


def trained(cuts=(0, 4), given: Examples | None = None, **changes) -> tuple[Totals, list]:
    """Totals, norms and weights after two epochs, whose calls are cut at some steps."""
    factors = {**DEFAULTS, **changes}
    model = network(lambda: keras.layers.Conv2D(4, 3, activation="relu"))
    batches = Batches.from_factors(factors, SIZE, None)
    loop = StepLoop(model, optimizers.make_optimizer(factors), given or examples(), batches, True)
    norms = []
    for epoch in range(2):
        totals, order = Totals(), np.random.default_rng(epoch).permutation(COUNT).astype(np.int32)
        for start, stop in zip(cuts, cuts[1:], strict=False):
            _, totals, _, own = loop.run(order, start, stop, totals)
            norms += [*own]
    return totals, [*norms, *(part for item in model.weights for part in item.numpy().ravel())]


@pytest.mark.parametrize("changes", [{"momentum": 0.9}, {"optimizer": "adam"}])
def test_it_is_the_same_up_to_rounding(changes):
    totals, weights = trained(**changes)
    compiled, others = trained(**changes, compilation="xla")
    assert compiled.loss == pytest.approx(totals.loss, rel=1e-5)
    assert compiled.scores == totals.scores
    np.testing.assert_allclose(others, weights, rtol=2e-3, atol=2e-5)


def test_wherever_calls_are_cut_the_bits_are_the_same():
    """The last batch of an epoch is smaller: another program."""
    assert trained((0, 1, 3, 4), compilation="xla") == trained(compilation="xla")


def test_it_takes_no_examples_from_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limits, "_ARRAY_SHARE", 0.0)
    result = examples()
    np.save(tmp_path / "images.npy", result.images)
    images = np.lib.format.open_memmap(tmp_path / "images.npy", mode="r")
    with pytest.raises(UserError, match=r"compilation: .*received xla"):
        trained(given=Examples(images, result.labels, result.scale), compilation="xla")


def test_dropout_draws_as_often_and_the_same_each_time():
    """A generator is a variable, which the program changes too; what it draws is XLA's."""

    def drawn(compilation: str) -> list:
        factors = {**DEFAULTS, "compilation": compilation}
        model = network(lambda: keras.layers.Dropout(0.5, seed=1))
        batches = Batches.from_factors(factors, SIZE, None)
        loop = StepLoop(model, optimizers.make_optimizer(factors), examples(), batches)
        loop.run(np.arange(COUNT, dtype=np.int32), 0, 4, Totals())
        return [item.numpy() for item in model.variables]

    plain, compiled, again = drawn("none"), drawn("xla"), drawn("xla")
    generators = [index for index, item in enumerate(plain) if item.dtype.kind in "iu"]
    assert generators
    for index, value in enumerate(compiled):
        np.testing.assert_array_equal(value, again[index])
        assert index not in generators or (value == plain[index]).all()
