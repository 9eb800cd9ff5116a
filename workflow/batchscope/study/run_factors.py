"""The factors of a training run, those that only a timing may vary, and constants that follow.

A new factor is appended to `RunFactors` or `TimingOnlyFactors`. Factors that exclude each other are
checked in `study.incompatible_factors`.
"""

import enum
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from batchscope.study.batch_phases import SEESAW, STEPS
from batchscope.study.model import (
    Flag,
    Integer,
    Model,
    Number,
    Parameter,
    Positive,
    Seed,
    Setting,
    Share,
    Text,
    Word,
    parameters,
)

# Larger numbers are mistakes.
MAX_EXAMPLES, MAX_EPOCHS, MAX_STEPS = 10**8, 10**6, 10**6
# At a constant rate, a training holds every shorter training. With a rate that falls towards the
# horizon, results before the end are worse than after a shorter training (Shallue et al. 2019,
# arXiv 1811.03600; Hoffmann et al. 2022, arXiv 2203.15556).
CONSTANT = "constant"
FALLING = ("cosine", "linear")
HORIZON_REASON = "which goes by the horizon: before its end a training is no shorter training"
# This value of a constant stands for the default of the optimizer.
DEFAULT = -1.0

_ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
# Optimizer, as papers write it -> Keras's defaults. A missing weight decay is 0.
_OPTIMIZERS: dict[str, dict[str, float]] = {
    "Adadelta": {"epsilon": 1e-7},
    "Adafactor": {},
    "Adagrad": {"epsilon": 1e-7},
    "Adam": _ADAM,
    "Adamax": _ADAM,
    "AdamW": {**_ADAM, "weight_decay": 0.004},
    "FTRL": {},
    "LAMB": _ADAM,
    "Lion": {"beta_1": 0.9, "beta_2": 0.99},
    "Nadam": _ADAM,
    "RMSprop": {"epsilon": 1e-7},
    "SGD": {},
}
# Optimizer, as study files write it -> Keras's defaults.
DEFAULT_CONSTANTS = {title.lower(): constants for title, constants in _OPTIMIZERS.items()}
TITLES = {title.lower(): title for title in _OPTIMIZERS}
CONSTANT_NAMES = ("beta_1", "beta_2", "epsilon", "weight_decay")
# Rule -> constants that an optimizer needs for it.
SCALED_CONSTANTS = {"half_life": ("beta_2",), "square_root": ("beta_1", "beta_2", "epsilon")}
_LOOPS = {
    "graph": "loop in the graph",
    "eager": "eager",
    "function": "tf.function",
    "fit": "Keras fit",
    "fit_steps": "Keras fit, 32 steps per execution",
}
_PIPELINES = {
    "plain": "arrays in memory",
    "map": "parallel maps",
    "prefetch": "prefetching",
    "cache": "caching",
    "jpeg": "JPEG files (resized beforehand, in the page cache)",
}


class Affects(enum.Flag):
    """Properties of a training that a factor may change."""

    NOTHING = 0
    STEP = enum.auto()  # the time of a step
    EVALUATIONS = enum.auto()  # the time of an epoch besides its steps
    GRAPH = enum.auto()  # the graph of a step, in a way that only a loop in one graph supports
    UPDATE = enum.auto()  # the result of an update, in a way that no argument of the optimizer has
    HORIZON = enum.auto()  # the dependence of the rate or batch size on the length of the training
    WEIGHTS = enum.auto()  # the initial weights
    END = enum.auto()  # the end of a training, which a value above 0 may stop before its horizon


@dataclass(frozen=True)
class Factor(Setting):
    """Metadata of a field that is a factor of a training run or of a timing.

    Attributes:
        affects: Properties of a training that depend on it.
        used_with: Other factor -> values that give this one an effect; one match is enough.
        phrase: Words for a value: `{}` is the value, `{s}` the end of a plural. Default: name and
            value.
        phrases: Value -> words, instead of `phrase`.
    """

    affects: Affects = Affects.NOTHING
    used_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    phrase: str = ""
    phrases: Mapping[Any, str] = field(default_factory=dict)


Examples = Annotated[Integer, Field(ge=1, le=MAX_EXAMPLES)]
ExamplesOrNone = Annotated[Integer, Field(ge=0, le=MAX_EXAMPLES)]  # 0 for none
Epochs = Annotated[Integer, Field(ge=1, le=MAX_EPOCHS)]
EpochsOrNone = Annotated[Integer, Field(ge=0, le=MAX_EPOCHS)]
Steps = Annotated[Integer, Field(ge=1, le=MAX_STEPS)]
NotNegative = Annotated[Number, Field(ge=0)]
UpToOne = Annotated[Number, Field(ge=0, le=1)]
Threads = Annotated[Integer, Field(ge=1, le=4096)]
# Other factor -> values that give a factor an effect.
_PROXIMAL = {"method": ("proximal",)}
_SCALED = {
    "learning_rate_scaling": ("linear", "sqrt"),
    "beta_scaling": ("half_life", "square_root"),
}
_RISING = {"batch_schedule": (STEPS, SEESAW)}
_AT_STEPS = {"batch_schedule": (STEPS,)}
# The word `default` may replace a number: it stands for the optimizer's own default.
KerasDefault = Word("default", DEFAULT)


def _constant(alias: str, name: str, affects: Affects = Affects.NOTHING) -> Factor:
    return Factor(alias, affects=affects, phrases={DEFAULT: f"default {name}"})


class RunFactors(Model):
    """The factors of a run.

    A name spells a factor only if it differs from the default, so a default never changes. Names
    and tables have the same order: append, and never reorder.
    """

    dataset: Annotated[Text, Factor("data", affects=Affects.STEP | Affects.WEIGHTS, phrase="{}")]
    """Data set, by its name under `datasets`."""
    model: Annotated[Text, Factor("model", affects=Affects.STEP | Affects.WEIGHTS, phrase="{}")]
    """Model, by its name."""
    batch_size: Annotated[Examples, Factor("bs", "examples", Affects.STEP)]
    """Examples per update."""
    learning_rate: Annotated[Positive, Factor("lr")]
    """Learning rate before scaling."""
    optimizer: Annotated[
        Literal[tuple(DEFAULT_CONSTANTS)], Factor("opt", affects=Affects.STEP, phrases=TITLES)
    ]
    """Keras optimizer."""
    epochs: Annotated[Epochs, Factor("ep", "epochs")]
    """Horizon of the training."""
    seed: Annotated[Seed, Factor("seed", affects=Affects.WEIGHTS)]
    """Seed of initial weights and data order."""
    momentum: Annotated[UpToOne, Factor("mom", affects=Affects.STEP)] = 0.0
    """Momentum of sgd and rmsprop."""
    nesterov: Annotated[Flag, Factor("nest", affects=Affects.STEP)] = False
    """Nesterov momentum of sgd."""
    patience: Annotated[EpochsOrNone, Factor("pat", "epochs", Affects.END)] = 0
    """Epochs without a lower validation loss before a training stops; 0: it never stops early."""
    learning_rate_scaling: Annotated[
        Literal["none", "linear", "sqrt"],
        Factor(
            "lrs",
            phrase="{} scaling",
            phrases={"none": "no scaling", "sqrt": "square-root scaling"},
        ),
    ] = "none"
    """Scaling of the learning rate with batch_size / base_batch_size."""
    base_batch_size: Annotated[Examples, Factor("bbs", used_with=_SCALED)] = 32
    """Batch size of the unscaled learning rate."""
    device: Annotated[
        Literal["cpu", "gpu"],
        Factor("dev", affects=Affects.STEP, phrases={"cpu": "CPU", "gpu": "GPU"}),
    ] = "cpu"
    """Device of the training."""
    threads: Annotated[
        Threads,
        Factor("th", "threads", Affects.STEP, phrase="{} thread{s}", phrases={0: "all threads"}),
    ] = 1
    """Threads of a training."""
    warmup_epochs: Annotated[
        EpochsOrNone,
        Factor(
            "wu", "epochs", Affects.UPDATE, phrase="{} epoch{s} of warmup", phrases={0: "no warmup"}
        ),
    ] = 0
    """Epochs in which the rate rises linearly to the scaled one, from the unscaled one or 0."""
    target_train_loss: Annotated[NotNegative, Factor("ttl", affects=Affects.END)] = 0.0
    """Training loss, of an epoch and of its last weights, that stops a training; 0 for none."""
    update_norms: Annotated[Flag, Factor("un")] = False
    """Whether to store the norm of every update."""
    replicas: Annotated[
        Integer, Field(ge=1, le=1024), Factor("rep", affects=Affects.STEP, phrase="{} replica{s}")
    ] = 1
    """Devices that share every batch (tf.distribute.MirroredStrategy)."""
    augmentation: Annotated[
        Literal["none", "crop", "random"],
        Factor(
            "aug",
            affects=Affects.STEP | Affects.GRAPH | Affects.UPDATE,
            phrases={"crop": "augmentation by crops", "random": "random augmentation"},
        ),
    ] = "none"
    """Augmentation of the training images; crop doubles the training set."""
    method: Annotated[
        Literal["plain", "proximal", "sam"],
        Factor(
            "method",
            affects=Affects.STEP | Affects.GRAPH | Affects.UPDATE,
            phrase="{} updates",
            phrases={"sam": "SAM updates"},
        ),
    ] = "plain"
    """Update of the weights; proximal takes inner steps near the previous weights."""
    gamma: Annotated[NotNegative, Factor("gamma", used_with=_PROXIMAL)] = 1.0
    """Weight of the distance from the previous weights, for proximal."""
    inner_steps: Annotated[
        Steps,
        Factor("inner", "steps", Affects.STEP, used_with=_PROXIMAL, phrase="{} inner step{s}"),
    ] = 5
    """Steps per batch, for proximal."""
    rho: Annotated[Positive, Factor("rho", used_with={"method": ("sam",)})] = 0.05
    """Radius of the neighbourhood, for sam."""
    evaluate_every: Annotated[
        ExamplesOrNone,
        Factor(
            "ee",
            "examples",
            Affects.EVALUATIONS,
            phrase="evaluation every {} examples",
            phrases={0: "evaluation after each epoch"},
        ),
    ] = 0
    """Examples between evaluations; 0 evaluates after each epoch only."""
    beta_1: Annotated[UpToOne, KerasDefault, _constant("b1", "beta 1")] = DEFAULT
    """Decay rate of the mean gradient; default: Keras's."""
    beta_2: Annotated[UpToOne, KerasDefault, _constant("b2", "beta 2")] = DEFAULT
    """Decay rate of the mean squared gradient; default: Keras's."""
    epsilon: Annotated[Positive, KerasDefault, _constant("eps", "epsilon")] = DEFAULT
    """Small constant in the denominator of an update; default: Keras's."""
    weight_decay: Annotated[
        NotNegative, KerasDefault, _constant("wd", "weight decay", Affects.STEP)
    ] = DEFAULT
    """Each update subtracts rate * weight_decay * w from a weight w; default: Keras's."""
    beta_scaling: Annotated[
        Literal["none", "half_life", "square_root"],
        Factor(
            "bsc",
            phrases={
                "half_life": "beta scaling half-life",
                "square_root": "beta scaling square-root",
            },
        ),
    ] = "none"
    """Scaling with k = batch_size / base_batch_size: half_life gives beta_2^k; square_root gives
    1 - k (1 - beta) for both betas, and epsilon / sqrt(k).
    """
    schedule: Annotated[
        Literal[(CONSTANT, *FALLING)], Factor("sch", affects=Affects.UPDATE | Affects.HORIZON)
    ] = CONSTANT
    """Learning rate after the warm-up: constant, or falling to 0 at the horizon."""
    micro_batch_size: Annotated[
        ExamplesOrNone,
        Factor(
            "mbs",
            "examples",
            Affects.STEP | Affects.GRAPH,
            phrase="pieces of {}",
            phrases={0: "whole batches"},
        ),
    ] = 0
    """Examples per micro-batch, for gradient accumulation; 0 for whole batches."""
    precision: Annotated[
        Literal["float32", "mixed_bfloat16", "mixed_float16"],
        Factor("prec", affects=Affects.STEP | Affects.GRAPH | Affects.UPDATE),
    ] = "float32"
    """Keras's precision policy. Mixed ones keep weights and loss in float32."""
    batch_schedule: Annotated[
        Literal[CONSTANT, STEPS, SEESAW],
        Factor(
            "bsch",
            affects=Affects.UPDATE | Affects.HORIZON,
            phrase="batch size in {}",
            phrases={CONSTANT: "constant batch size", SEESAW: "seesaw"},
        ),
    ] = CONSTANT
    """Batch size during training: constant, rising at steps, or rising each time `schedule` divides
    the rate by another batch_rise_factor (seesaw).
    """
    batch_rise_factor: Annotated[Number, Field(gt=1, le=1024), Factor("brf", used_with=_RISING)] = (
        2.0
    )
    """Factor on the batch size at a rise, which replaces dividing the rate by it."""
    largest_batch_size: Annotated[
        ExamplesOrNone, Factor("lbs", "examples", used_with=_RISING, phrase="up to {}")
    ] = 0
    """Largest batch size of a schedule; then the rate is divided."""
    batch_rises: Annotated[
        Integer, Field(ge=1, le=64), Factor("brn", used_with=_AT_STEPS, phrase="{} rise{s}")
    ] = 1
    """Number of rises, for steps."""
    batch_rises_from: Annotated[
        Share, Factor("brs", used_with=_AT_STEPS, phrase="from {} of the examples")
    ] = 0.5
    """Share of the examples before the first rise, for steps; the others are evenly spaced."""


class TimingOnlyFactors(Model):
    """Factors that only a timing experiment may vary. Append, and never reorder.

    A training always has the loop in the graph, over arrays in memory.
    """

    loop: Annotated[Literal[tuple(_LOOPS)], Factor("loop", phrases=_LOOPS)] = "graph"
    """Loop around the training steps."""
    input_pipeline: Annotated[Literal[tuple(_PIPELINES)], Factor("in", phrases=_PIPELINES)] = (
        "plain"
    )
    """Source of the batches; plain: arrays in the graph, or unoptimised tf.data."""
    delay_seconds: Annotated[
        Number, Field(ge=0, le=3600), Factor("delay", "s", phrases={0: "no delay"})
    ] = 0.0
    """Delay before every step."""


@functools.cache
def factors_affecting(properties: Affects) -> tuple[str, ...]:
    return tuple(name for name, factor in FACTORS.items() if factor.metadata.affects & properties)


def factors_used_with(other: str) -> tuple[str, ...]:
    return tuple(name for name, factor in FACTORS.items() if other in factor.metadata.used_with)


def is_used(name: str, values: Mapping[str, Collection[Any]]) -> bool:
    """Return whether a factor has an effect in some run.

    Args:
        name: Name of a factor, or of another column, which always has an effect.
        values: Factor -> its values in the runs; a missing factor may have any value.
    """
    conditions = FACTORS[name].metadata.used_with if name in FACTORS else {}
    switches = [other for other in conditions if other in values]
    return not switches or any({*conditions[other]} & {*values[other]} for other in switches)


FACTORS: dict[str, Parameter] = parameters(RunFactors)
TIMING_ONLY_FACTORS: dict[str, Parameter] = parameters(TimingOnlyFactors)
# A name of a timing configuration has the factors that a step's time depends on. These come first
# and are always spelled.
TIMING_CORE = ("dataset", "model", "batch_size", "optimizer", "device", "threads")
TIMING_FACTORS = tuple(dict.fromkeys([*TIMING_CORE, *factors_affecting(Affects.STEP)]))
# Factors of timing experiments, in the order of names and tables.
SWEEP_FACTORS: dict[str, Parameter] = {
    **{name: FACTORS[name] for name in TIMING_FACTORS},
    # A timing may use every core of its job.
    "threads": replace(FACTORS["threads"], annotation=Annotated[Threads, Word("all", 0)]),
    **TIMING_ONLY_FACTORS,
}
# Factors of runs and of timing experiments, in the order of tables that have both.
EVERY_FACTOR: dict[str, Parameter] = {**FACTORS, **SWEEP_FACTORS}


def horizon_factor(factors: Mapping[str, Any]) -> str:
    """Return the factor that makes rate or batch size depend on the horizon; empty if none does.

    Args:
        factors: Factor -> value; a missing one has its default.
    """
    names = factors_affecting(Affects.HORIZON)
    return next((name for name in names if factors.get(name, CONSTANT) != CONSTANT), "")


def gpu_count(factors: Mapping[str, Any]) -> int:
    return factors["replicas"] if factors["device"] == "gpu" else 0


def training_copies(factors: Mapping[str, Any]) -> int:
    return 2 if factors["augmentation"] == "crop" else 1


def optimizers_with(*names: str) -> tuple[str, ...]:
    """Return the optimizers that have all of some constants.

    All optimizers except ftrl have a weight decay: ftrl computes weights from sums of gradients.
    """
    required = set(names) - {"weight_decay"}
    optimizers = [name for name, values in DEFAULT_CONSTANTS.items() if required <= set(values)]
    return tuple(name for name in optimizers if name != "ftrl" or "weight_decay" not in names)


def scaled_constants(factors: dict[str, Any]) -> dict[str, float]:
    """Return every constant of a run's optimizer, with k = batch_size / base_batch_size.

    `beta_scaling: half_life` makes beta_2 into beta_2^k, so that the second moment forgets after
    the same number of examples (M. Marek et al. 2025, "Small Batch Size Training for Language
    Models", arXiv 2507.07101). `square_root` makes both betas into 1 - k (1 - beta) and epsilon
    into epsilon / sqrt(k). With `learning_rate_scaling: sqrt` that is the square-root scaling rule
    of Adam (S. Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient
    Algorithms", arXiv 2205.10287).
    """
    constants = {"weight_decay": 0.0, **DEFAULT_CONSTANTS[factors["optimizer"]]}
    constants |= {name: factors[name] for name in constants if factors[name] != DEFAULT}
    k = factors["batch_size"] / factors["base_batch_size"]
    if factors["beta_scaling"] == "half_life":
        constants["beta_2"] **= k
    elif factors["beta_scaling"] == "square_root":
        for name in ("beta_1", "beta_2"):
            constants[name] = 1 - k * (1 - constants[name])
        constants["epsilon"] /= k**0.5
    return constants
