"""The optimizer of a run: its learning rate, update by update, and its other constants."""

from typing import Any

import keras
import tensorflow as tf

from batchscope.core import private_interfaces
from batchscope.study import optimizer_constants
from batchscope.study.batch_phases import Course
from batchscope.study.optimizer_constants import DEFAULT

# The factor's values are Keras's class names in lower case.
_OPTIMIZERS = {name.lower(): value for name, value in vars(keras.optimizers).items()}
Schedule = keras.optimizers.schedules.LearningRateSchedule


def effective_learning_rate(factors: dict[str, Any]) -> float:
    """Return the learning rate of a run after its scaling rule.

    With k = batch_size / base_batch_size: `linear` multiplies by k (Goyal et al. 2017, arXiv
    1706.02677, section 2.1), `sqrt` by the square root of k (Krizhevsky 2014, arXiv 1404.5997,
    section 5; for Adam Malladi et al. 2022, arXiv 2205.10287), `none` by 1.
    """
    k = factors["batch_size"] / factors["base_batch_size"]
    power = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}[factors["learning_rate_scaling"]]
    return factors["learning_rate"] * k**power


def schedule(factors: dict[str, Any], course: Course) -> Schedule | None:
    """Return the rate of every update of a run; None if it is constant.

    Gradual warm-up (Goyal et al. 2017, arXiv 1706.02677, section 2.2): over the W updates of the
    first `warmup_epochs` epochs, the rate goes in equal steps from the unscaled `learning_rate` of
    update 0 to the effective rate r; without a scaling rule from r / (W + 1). Of the T updates from
    then to the horizon, number t from 0 has the rate

    - `constant`: r;
    - `linear`: r (1 - t / T);
    - `cosine`: r (1 + cos(pi t / T)) / 2 (Loshchilov and Hutter 2017, arXiv 1608.03983,
      equation 5, without restarts).

    If the batch size rises, the rate is r times the factor of its phase (`batch_phases`).
    """
    rate, rise = effective_learning_rate(factors), course.updates(factors["warmup_epochs"])
    scaled = factors["learning_rate_scaling"] != "none"
    # Keras calls it a decay; it goes from any rate to any other, and stays at the second.
    warm_up = keras.optimizers.schedules.PolynomialDecay(
        initial_learning_rate=factors["learning_rate"] if scaled else rate / (rise + 1),
        decay_steps=max(rise, 1),
        end_learning_rate=rate,
        power=1.0,
    )
    fall = course.updates(factors["epochs"]) - rise
    if course.varies:
        updates, factors_of_rate = zip(*course.rates(), strict=True)
        # Each value holds up to a boundary and with it.
        ends = [update - rise - 1 for update in updates[1:]]
        rates = [rate * factor for factor in factors_of_rate]
        decay = keras.optimizers.schedules.PiecewiseConstantDecay(ends, rates)
    elif factors["schedule"] == "cosine":
        decay = keras.optimizers.schedules.CosineDecay(rate, fall)
    elif factors["schedule"] == "linear":
        decay = keras.optimizers.schedules.PolynomialDecay(rate, fall, 0.0, power=1.0)
    else:
        return warm_up if rise else None
    return _Then(warm_up, rise, decay) if rise else decay


class _Then(Schedule):
    """One schedule up to an update, then another, which counts from it."""

    def __init__(self, first: Schedule, update: int, second: Schedule) -> None:
        super().__init__()
        self.first, self.update, self.second = first, update, second

    def __call__(self, step: Any) -> Any:
        after = keras.ops.maximum(step - self.update, 0)
        return keras.ops.where(step < self.update, self.first(step), self.second(after))


def make_optimizer(
    factors: dict[str, Any], schedule: Schedule | None = None
) -> keras.optimizers.Optimizer:
    """Return the Keras optimizer of a run; without a schedule, its rate is the effective one."""
    options = {name: factors[name] for name in ("momentum", "nesterov") if factors[name]}
    options["learning_rate"] = schedule or effective_learning_rate(factors)
    optimizer = _fused(_OPTIMIZERS[factors["optimizer"]])(**options, **_constants(factors))
    scaled = factors["precision"] == "mixed_float16"
    return keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer


def _constants(factors: dict[str, Any]) -> dict[str, float]:
    """Return the constants that differ from Keras's defaults."""
    names = {*optimizer_constants.SCALED.get(factors["beta_scaling"], ())}
    names |= {name for name in optimizer_constants.NAMES if factors[name] != DEFAULT}
    effective = optimizer_constants.effective(factors)
    constants = {name: effective[name] for name in optimizer_constants.NAMES if name in names}
    if constants.get("weight_decay") == 0 and factors["optimizer"] != "adamw":
        del constants["weight_decay"]  # a decay of nothing would be computed at every step
    return constants


def _fused(kind: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """Return the class of an optimizer; Adam and AdamW with one operation per weight.

    Keras has twelve, which take a fifth longer for small networks. TensorFlow's operation rounds
    1 - beta_2 in another way: a step differs from Keras's by up to 3e-5 of itself.
    """
    if not issubclass(kind, keras.optimizers.Adam):
        return kind

    class Fused(kind):
        def update_step(self, gradient: tf.Tensor, variable: tf.Variable, rate: Any) -> None:
            if tf.distribute.has_strategy():
                super().update_step(gradient, variable, rate)
                return
            mean, square = private_interfaces.moments(self, variable)
            count = tf.cast(self.iterations + 1, variable.dtype)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=mean.handle,
                v=square.handle,
                beta1_power=self.beta_1**count,
                beta2_power=self.beta_2**count,
                lr=tf.cast(rate, variable.dtype),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon,
                grad=gradient,
            )

    Fused.__name__ = kind.__name__  # Keras names an optimizer after its class
    return Fused


def scaled_loss(optimizer: keras.optimizers.Optimizer, loss: Any) -> Any:
    """Return the loss whose gradient the optimizer expects: the scaled one for float16.

    Gradients of float16 below 6e-8 are zero. The loss is multiplied by a power of two, which is
    halved if a gradient overflows, without an update, and doubled after 2,000 updates without
    overflow (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2).
    """
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return optimizer.scale_loss(loss) if scales else loss
