"""The factors of a training run, and what a timing experiment may vary besides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from batchscope.catalogue import batch_phases, optimizer_constants, tasks
from batchscope.catalogue.fields import Section
from batchscope.catalogue.optimizer_constants import DEFAULT
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import expected

# Far above what anyone runs: more is a slip of the hand.
MOST_EXAMPLES, MOST_EPOCHS, MOST_STEPS = 10**8, 10**6, 10**6
_MOST_THREADS, _MOST_DEVICES = 4096, 1024
# With a constant rate the weights after epoch 2 of 5 are those of a training of 2 epochs, and one
# training serves every budget up to its own. With a schedule that falls towards the horizon they
# are not: what is read before the end understates a training that was meant to end there (Shallue
# et al. 2019, arXiv 1811.03600; Hoffmann et al. 2022, arXiv 2203.15556).
CONSTANT = "constant"
FALLING = ("cosine", "linear")
HORIZONTAL = ("schedule", "batch_schedule")
OF_RISES = ("batch_rise_factor", "largest_batch_size", "batch_rises", "batch_rises_from")
HORIZON_REASON = "which goes by the horizon: before its end a training is no shorter training"
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


@dataclass(frozen=True, kw_only=True)
class Factor(Parameter):
    """A factor of a training run, or of a timing."""

    of_step: bool = False  # whether a step's time depends on it
    method: str = ""  # the only value of the factor `method` that reads it; empty where all do
    titles: dict[str, str] = field(default_factory=dict)  # value as text -> as people write it
    noun: str = ""  # what a value counts: with `epoch`, 2 is `2 epochs`
    # What a series is called by a value, `{}`, with its noun: `{} of warmup`. Where it is empty, by
    # value and noun; without a noun by name and value: `rho 0.05`.
    phrase: str = ""
    phrases: dict[Any, str] = field(default_factory=dict)  # value -> what it is called instead

    def read(self, raw: Any) -> Any:
        if isinstance(raw, list):
            raise expected(f"{self.expected}, or a list under `vary`,")
        return self.read_item(raw)


def _factor(alias: str, default: Any = None, **more: Any) -> Any:
    return Factor(alias=alias, default=default, **more)


def _choice(alias: str, choices: tuple[str, ...], **more: Any) -> Any:
    return _factor(alias, choices[0], choices=choices, **more)


def _constant(name: str, alias: str, **more: Any) -> Any:
    words, phrases = (("default", DEFAULT),), {DEFAULT: f"default {name}"}
    return _factor(alias, DEFAULT, words=words, phrases=phrases, **more)


class RunFactors(Section):
    """The factors of a run: with a frozen default a name spells one only where it differs.

    The order is that of names and tables. Append; never reorder.
    """

    dataset: str = _factor("data", of_step=True, phrase="{}")
    """Data set, by its name under `datasets`."""
    model: str = _factor("model", of_step=True, phrase="{}")
    """Model, by its name."""
    batch_size: int = _factor("bs", unit="examples", minimum=1, maximum=MOST_EXAMPLES, of_step=True)
    """Examples per update."""
    learning_rate: float = _factor("lr", above=0)
    """Rate before any scaling."""
    optimizer: str = _factor(
        "opt",
        choices=tuple(optimizer_constants.CONSTANTS),
        of_step=True,
        titles=optimizer_constants.TITLES,
        phrase="{}",
    )
    """Keras optimizer."""
    epochs: int = _factor("ep", unit="epochs", minimum=1, maximum=MOST_EPOCHS)
    """Horizon of the training."""
    seed: int = _factor("seed", minimum=0, maximum=2**32 - 1)
    """Fixes initial weights and data order."""
    momentum: float = _factor("mom", 0.0, minimum=0, maximum=1, of_step=True)
    """Momentum of sgd and rmsprop."""
    nesterov: bool = _factor("nest", False, of_step=True)
    """Nesterov momentum of sgd."""
    patience: int = _factor("pat", 0, unit="epochs", minimum=0, maximum=MOST_EPOCHS)
    """Epochs without a lower validation loss after which a training stops; 0 never stops it."""
    learning_rate_scaling: str = _choice(
        "lrs",
        ("none", "linear", "sqrt"),
        titles={"sqrt": "square-root"},
        phrase="{} scaling",
        phrases={"none": "no scaling"},
    )
    """How the rate follows batch_size / base_batch_size."""
    base_batch_size: int = _factor("bbs", 32, minimum=1, maximum=MOST_EXAMPLES)
    """Batch size that the rate is for."""
    device: str = _choice(
        "dev", ("cpu", "gpu"), of_step=True, titles={"cpu": "CPU", "gpu": "GPU"}, phrase="{}"
    )
    """Where to train."""
    threads: int = _factor(
        "th",
        1,
        unit="threads",
        minimum=1,
        maximum=_MOST_THREADS,
        of_step=True,
        titles={"0": "all"},
        noun="thread",
        phrases={0: "all threads"},
    )
    """Threads of a training."""
    warmup_epochs: int = _factor(
        "wu",
        0,
        unit="epochs",
        minimum=0,
        maximum=MOST_EPOCHS,
        noun="epoch",
        phrase="{} of warmup",
        phrases={0: "no warmup"},
    )
    """Epochs over which the rate rises to the scaled one: from the unscaled one, or from 0 without
    scaling.
    """
    target_train_loss: float = _factor("ttl", 0.0, minimum=0)
    """Training loss of an epoch, and of the weights at its end, at which a training stops; 0 never
    stops it.
    """
    update_norms: bool = _factor("un", False)
    """Whether the norm of every update is kept."""
    replicas: int = _factor(
        "rep", 1, minimum=1, maximum=_MOST_DEVICES, of_step=True, noun="replica"
    )
    """Devices among which every batch is divided (tf.distribute.MirroredStrategy)."""
    augmentation: str = _choice(
        "aug",
        ("none", "crop", "random"),
        of_step=True,
        phrases={"crop": "augmentation by crops", "random": "random augmentation"},
    )
    """What is done to the training images; crop doubles the training set."""
    method: str = _choice(
        "method",
        ("plain", "proximal", "sam"),
        titles={"sam": "SAM"},
        of_step=True,
        phrase="{} updates",
    )
    """How an update uses its batch."""
    gamma: float = _factor("gamma", 1.0, minimum=0, method="proximal")
    """Weight of the distance from the weights before an update, for proximal."""
    inner_steps: int = _factor(
        "inner",
        5,
        unit="steps",
        minimum=1,
        maximum=MOST_STEPS,
        of_step=True,
        method="proximal",
        noun="inner step",
    )
    """Steps on every batch, for proximal."""
    rho: float = _factor("rho", 0.05, above=0, method="sam")
    """Distance within which the worst case counts, for sam."""
    evaluate_every: int = _factor("ee", 0, unit="examples", minimum=0, maximum=MOST_EXAMPLES)
    """Examples from one evaluation of the trajectory to the next, on top of the one at the end; 0
    for the epochs' ends alone.
    """
    beta_1: float = _constant("beta 1", "b1", minimum=0, maximum=1)
    """Decay per update of the optimizer's mean of gradients; default: Keras's."""
    beta_2: float = _constant("beta 2", "b2", minimum=0, maximum=1)
    """Decay per update of the optimizer's mean of squared gradients; default: Keras's."""
    epsilon: float = _constant("epsilon", "eps", above=0)
    """What the optimizer adds to the root of the squared gradients; default: Keras's."""
    weight_decay: float = _constant("weight decay", "wd", minimum=0, of_step=True)
    """Every update takes rate * weight_decay * w off each weight, biases too; default: Keras's,
    0.004 of adamw and 0 of the others.
    """
    beta_scaling: str = _choice(
        "bsc",
        ("none", "half_life", "square_root"),
        titles={"half_life": "half-life", "square_root": "square-root"},
    )
    """How the betas follow k = batch_size / base_batch_size: half_life makes beta_2 into beta_2^k;
    square_root both into 1 - k (1 - beta), and epsilon into epsilon / sqrt(k).
    """
    schedule: str = _choice("sch", (CONSTANT, *FALLING))
    """What the rate does after the warm-up: it stays, or falls to 0 at the horizon along half a
    cosine or a line, update by update.
    """
    micro_batch_size: int = _factor(
        "mbs",
        0,
        unit="examples",
        minimum=0,
        maximum=MOST_EXAMPLES,
        of_step=True,
        titles={"0": "none (whole batches)"},
        phrase="pieces of {}",
        phrases={0: "whole batches"},
    )
    """Examples of a piece of a batch, whose gradients are accumulated; 0 for whole batches."""
    precision: str = _choice("prec", ("float32", "mixed_bfloat16", "mixed_float16"), of_step=True)
    """What a training computes in: Keras's policies. The mixed ones keep weights, loss and
    updates in float32, and mixed_float16 scales the loss.
    """

    loss_function: str = _choice("loss", tuple(tasks.LOSSES), phrase="{} loss")
    """What is minimised; default: the cross-entropy of classes, the mean squared error of numbers.
    Numbers may have another, on their standardised values: huber is quadratic up to one standard
    deviation.
    """
    batch_schedule: str = _choice(
        "bsch",
        (CONSTANT, batch_phases.STEPS, batch_phases.SEESAW),
        phrase="batch size in {}",
        phrases={CONSTANT: "constant batch size", batch_phases.SEESAW: "seesaw"},
    )
    """What the batch size does: it stays, or rises in place of divisions of the rate, at steps or
    wherever `schedule` has let the rate fall by another batch_rise_factor.
    """
    batch_rise_factor: float = _factor("brf", 2.0, above=1, maximum=1024)
    """What a rise multiplies the batch size by, in place of a division of the rate by as much."""
    largest_batch_size: int = _factor(
        "lbs", 0, unit="examples", minimum=0, maximum=MOST_EXAMPLES, phrase="up to {}"
    )
    """Batch size up to which it rises; beyond it the rate is divided."""
    batch_rises: int = _factor("brn", 1, minimum=1, maximum=64, noun="rise")
    """Rises of the batch schedule steps."""
    batch_rises_from: float = _factor(
        "brs", 0.5, above=0, below=1, phrase="from {} of the examples"
    )
    """Share of the horizon's examples at which the first rise of the batch schedule steps stands;
    the others at equal distances from there to the end.
    """
    compilation: str = _choice(
        "comp", ("none", "xla"), titles={"xla": "XLA"}, of_step=True, phrase="compiled by {}"
    )
    """What compiles an update: nothing, so that TensorFlow runs its operations one by one, or XLA,
    which makes one program of them: its last bits are others, and so is what dropout draws.
    """


class TimingOnlyFactors(Section):
    """What a timing experiment may vary besides. Append; never reorder.

    A training is always the loop in the graph, over arrays in memory.
    """

    loop: str = _choice("loop", tuple(_LOOPS), phrases=_LOOPS)
    """What drives the training steps."""
    input_pipeline: str = _choice("in", tuple(_PIPELINES), phrases=_PIPELINES)
    """Where a step's batch comes from; plain: the graph's own arrays for the loop in the graph,
    tf.data without any remedy for the others; jpeg: files of the resized images, written just
    before and so in the page cache.
    """
    delay_seconds: float = _factor(
        "delay", 0.0, unit="s", minimum=0, maximum=3600, phrases={0: "no delay"}
    )
    """Wait before every step; its throughput is timed in turns with and without it."""


def _declared(model: type[Section]) -> dict[str, Factor]:
    """Returns the factors that the fields of a model are, with what each field says of its own."""
    return {
        name: replace(
            field.default,
            name=name,
            kind=field.annotation.__name__,
            doc=" ".join(field.description.split()),
        )
        for name, field in model.model_fields.items()
    }


FACTORS: dict[str, Factor] = _declared(RunFactors)
TIMING_ONLY_FACTORS: dict[str, Factor] = _declared(TimingOnlyFactors)
# A timing configuration is named by what a run's time per step depends on, and always by its core.
TIMING_CORE = ("dataset", "model", "batch_size", "optimizer", "device", "threads")
TIMING_FACTORS = tuple(
    dict.fromkeys([*TIMING_CORE, *(name for name, each in FACTORS.items() if each.of_step)])
)
# All that the time of a step depends on, in the order of names and tables.
SWEEP_FACTORS: dict[str, Factor] = {
    **{name: FACTORS[name] for name in TIMING_FACTORS},
    "threads": replace(FACTORS["threads"], words=(("all", 0),)),  # every core that the job may use
    **TIMING_ONLY_FACTORS,
}
# With those of trainings, in the order of tables of both.
EVERY_FACTOR: dict[str, Factor] = {**FACTORS, **SWEEP_FACTORS}


def by_horizon(factors: dict[str, Any]) -> str:
    """Returns the factor by which a run's rate or batch size goes by its horizon; empty if none."""
    return next((name for name in HORIZONTAL if factors.get(name, CONSTANT) != CONSTANT), "")


def gpus(factors: dict[str, Any]) -> int:
    return factors["replicas"] if factors["device"] == "gpu" else 0


def training_copies(factors: dict[str, Any]) -> int:
    return 2 if factors["augmentation"] == "crop" else 1
