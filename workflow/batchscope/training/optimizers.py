"""Make the Keras optimizer of a run from its factors, with a learning rate for every update."""

from typing import Any

import keras
import tensorflow as tf
from keras.optimizers import schedules

from batchscope.core import private_interfaces
from batchscope.study import run_factors
from batchscope.study.batch_phases import Course
from batchscope.study.run_factors import DEFAULT

# The factor's values are Keras's class names in lower case.
_OPTIMIZERS = {name.lower(): value for name, value in vars(keras.optimizers).items()}
Schedule = schedules.LearningRateSchedule


def effective_learning_rate(factors: dict[str, Any]) -> float:
    """Return the learning rate of a run after its scaling rule.

    With k = batch_size / base_batch_size: `linear` multiplies by k (Goyal et al. 2017, arXiv
    1706.02677, section 2.1), `sqrt` by the square root of k (Krizhevsky 2014, arXiv 1404.5997,
    section 5; for Adam Malladi et al. 2022, arXiv 2205.10287), `none` by 1.
    """
    k = factors["batch_size"] / factors["base_batch_size"]
    power = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}[factors["learning_rate_scaling"]]
    return factors["learning_rate"] * k**power


def make_schedule(factors: dict[str, Any], course: Course) -> Schedule | None:
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
    rate = effective_learning_rate(factors)
    warm_up_updates = course.updates(factors["warmup_epochs"])
    is_scaled = factors["learning_rate_scaling"] != "none"
    first_rate = factors["learning_rate"] if is_scaled else rate / (warm_up_updates + 1)
    # Keras's decay also rises: it goes from the initial to the end rate and stays there.
    warm_up = schedules.PolynomialDecay(first_rate, max(warm_up_updates, 1), rate, power=1.0)
    decay_updates = course.updates(factors["epochs"]) - warm_up_updates
    if course.varies:
        updates, factors_of_rate = zip(*course.rate_changes(), strict=True)
        # Keras uses a rate up to its boundary, including the boundary itself.
        ends = [update - warm_up_updates - 1 for update in updates[1:]]
        rates = [rate * factor for factor in factors_of_rate]
        decay = schedules.PiecewiseConstantDecay(ends, rates)
    elif factors["schedule"] == "cosine":
        decay = schedules.CosineDecay(rate, decay_updates)
    elif factors["schedule"] == "linear":
        decay = schedules.PolynomialDecay(rate, decay_updates, 0.0, power=1.0)
    else:
        return warm_up if warm_up_updates else None
    return _ConsecutiveSchedules(warm_up, warm_up_updates, decay) if warm_up_updates else decay


class _ConsecutiveSchedules(Schedule):
    """The first schedule before an update, and from then on the second, which counts from it."""

    def __init__(self, first: Schedule, update: int, second: Schedule) -> None:
        super().__init__()
        self.first, self.update, self.second = first, update, second

    def __call__(self, step: Any) -> Any:
        after = keras.ops.maximum(step - self.update, 0)
        return keras.ops.where(step < self.update, self.first(step), self.second(after))


def make_optimizer(
    factors: dict[str, Any], schedule: Schedule | None = None
) -> keras.optimizers.Optimizer:
    """Return the Keras optimizer of a run. Without a schedule, its rate is constant."""
    options = {name: factors[name] for name in ("momentum", "nesterov") if factors[name]}
    options["learning_rate"] = schedule or effective_learning_rate(factors)
    kind = _fused_class(_OPTIMIZERS[factors["optimizer"]])
    optimizer = kind(**options, **_changed_constants(factors))
    scaled = factors["precision"] == "mixed_float16"
    return keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer


def _changed_constants(factors: dict[str, Any]) -> dict[str, float]:
    """Return the optimizer's constants that differ from Keras's defaults."""
    scaled = run_factors.SCALED_CONSTANTS.get(factors["beta_scaling"], ())
    effective = run_factors.scaled_constants(factors)
    constants = {
        name: effective[name]
        for name in run_factors.CONSTANT_NAMES
        if name in scaled or factors[name] != DEFAULT
    }
    if constants.get("weight_decay") == 0 and factors["optimizer"] != "adamw":
        del constants["weight_decay"]  # Keras would compute a decay of zero at every step.
    return constants


def _fused_class(kind: type[keras.optimizers.Optimizer]) -> type[keras.optimizers.Optimizer]:
    """Return a class of optimizers. Adam and AdamW get an update with one operation per weight.

    Keras uses twelve operations, which take a fifth longer for small networks. TensorFlow's single
    operation rounds 1 - beta_2 in another way: a step differs by up to 3e-5 of its length.
    """
    if not issubclass(kind, keras.optimizers.Adam):
        return kind

    class Fused(kind):
        def update_step(self, gradient: tf.Tensor, variable: tf.Variable, rate: Any) -> None:
            if tf.distribute.has_strategy():
                super().update_step(gradient, variable, rate)
                return
            mean, square = private_interfaces.adam_moments(self, variable)
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

    Fused.__name__ = kind.__name__  # Keras names an optimizer after its class.
    return Fused


def scaled_loss(optimizer: keras.optimizers.Optimizer, loss: Any) -> Any:
    """Return the loss that the optimizer differentiates. With float16, it is a scaled loss.

    Gradients of float16 below 6e-8 are zero, so the loss is multiplied by a power of two. If a
    gradient overflows, the update is skipped and the power halved. It is doubled after 2,000
    updates without overflow (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2).
    """
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return optimizer.scale_loss(loss) if scales else loss
