"""The factors of a training run, and what a timing experiment may vary besides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from batchscope.catalogue import framework_names, horizons, optimizer_constants
from batchscope.catalogue.parameters import Parameter, by_name

# Far above what anyone runs: more is a slip of the hand.
MOST_EXAMPLES, MOST_EPOCHS, MOST_STEPS = 10**8, 10**6, 10**6
MOST_THREADS, MOST_DEVICES = 4096, 1024
OPTIMIZERS = tuple(optimizer_constants.CONSTANTS)
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
    """A factor of a training run, or of a timing.

    Attributes:
        of_step: Whether a step's time depends on it.
        method: The only value of the factor `method` that reads it; empty where all do.
        titles: Value as text -> how people write it: `sqrt` is `square-root`.
        noun: What a value counts: with `epoch`, 2 is `2 epochs`.
        phrase: What a series is called by a value, `{}`, with its noun: `{} of warmup`. Where it is
            empty, by value and noun; without a noun by name and value: `rho 0.05`.
        phrases: Value -> what a series is called instead: 0 is `no warmup`.
    """

    of_step: bool = False
    method: str = ""
    titles: dict[str, str] = field(default_factory=dict)
    noun: str = ""
    phrase: str = ""
    phrases: dict[Any, str] = field(default_factory=dict)


def _constant(name: str, alias: str, doc: str, which: str = "", **more: Any) -> Factor:
    """Returns a constant of an optimizer, by default Keras's; `which` says what that is."""
    own = (optimizer_constants.DEFAULT, f"{doc}; default: Keras's{which}.")
    phrases = {optimizer_constants.DEFAULT: f"default {name.replace('_', ' ')}"}
    words = optimizer_constants.WORDS
    return Factor(name, alias, "float", *own, words=words, phrases=phrases, **more)


def _whole(
    name: str, alias: str, birth: int | None, doc: str, within: tuple[int, int], **more: Any
) -> Factor:
    """Returns a factor that is a whole number within two limits."""
    least, most = within
    return Factor(name, alias, "int", birth, doc, minimum=least, maximum=most, **more)


FACTORS: dict[str, Factor] = by_name(
    # Core: always spelled, in this order; data set and model without their alias.
    Factor(
        "dataset",
        "data",
        "str",
        None,
        "Data set, by its name under `datasets`.",
        of_step=True,
        phrase="{}",
    ),
    Factor("model", "model", "str", None, "Model, by its name.", of_step=True, phrase="{}"),
    _whole(
        "batch_size",
        "bs",
        None,
        "Examples per update.",
        (1, MOST_EXAMPLES),
        unit="examples",
        of_step=True,
    ),
    Factor("learning_rate", "lr", "float", None, "Rate before any scaling.", above=0),
    Factor(
        "optimizer",
        "opt",
        "str",
        None,
        "Keras optimizer.",
        choices=OPTIMIZERS,
        of_step=True,
        titles=optimizer_constants.TITLES,
        phrase="{}",
    ),
    _whole("epochs", "ep", None, "Horizon of the training.", (1, MOST_EPOCHS), unit="epochs"),
    _whole("seed", "seed", None, "Fixes initial weights and data order.", (0, 2**32 - 1)),
    # Later: spelled only where they differ from their birth value. Append; never reorder.
    Factor(
        "momentum",
        "mom",
        "float",
        0.0,
        "Momentum of sgd and rmsprop.",
        minimum=0,
        maximum=1,
        of_step=True,
    ),
    Factor("nesterov", "nest", "bool", False, "Nesterov momentum of sgd.", of_step=True),
    Factor.choice(
        "monitor",
        "mon",
        "What picks the best weights and stops a training.",
        *("validation_loss", "validation_accuracy", "train_loss", "train_accuracy"),
    ),
    _whole(
        "patience",
        "pat",
        0,
        "Epochs without improvement after which a training stops; 0 never stops it.",
        (0, MOST_EPOCHS),
        unit="epochs",
    ),
    Factor.choice(
        "learning_rate_scaling",
        "lrs",
        "How the rate follows batch_size / base_batch_size.",
        *("none", "linear", "sqrt"),
        titles={"sqrt": "square-root"},
        phrase="{} scaling",
        phrases={"none": "no scaling"},
    ),
    _whole("base_batch_size", "bbs", 32, "Batch size that the rate is for.", (1, MOST_EXAMPLES)),
    Factor.choice(
        "device",
        "dev",
        "Where to train.",
        *("cpu", "gpu"),
        of_step=True,
        titles={"cpu": "CPU", "gpu": "GPU"},
        phrase="{}",
    ),
    _whole(
        "threads",
        "th",
        1,
        "Threads of a training.",
        (1, MOST_THREADS),
        unit="threads",
        of_step=True,
        titles={"0": "all"},
        noun="thread",
        phrases={0: "all threads"},
    ),
    _whole(
        "warmup_epochs",
        "wu",
        0,
        "Epochs over which the rate rises to the scaled one: from the unscaled one, or from 0 "
        "without scaling.",
        (0, MOST_EPOCHS),
        unit="epochs",
        noun="epoch",
        phrase="{} of warmup",
        phrases={0: "no warmup"},
    ),
    Factor(
        "target_train_loss",
        "ttl",
        "float",
        0.0,
        "Training loss of an epoch, and of the weights at its end, at which a training stops; "
        "0 never stops it.",
        minimum=0,
    ),
    Factor("update_norms", "un", "bool", False, "Whether the norm of every update is kept."),
    _whole(
        "replicas",
        "rep",
        1,
        "Devices among which every batch is divided (tf.distribute.MirroredStrategy).",
        (1, MOST_DEVICES),
        of_step=True,
        noun="replica",
    ),
    Factor.choice(
        "augmentation",
        "aug",
        "What is done to the training images; crop doubles the training set.",
        *("none", "crop", "random"),
        of_step=True,
        phrases={"crop": "augmentation by crops", "random": "random augmentation"},
    ),
    Factor.choice(
        "method",
        "method",
        "How an update uses its batch.",
        *("plain", "proximal", "sam"),
        renamed=(("conservative", "proximal"), ("robust", "sam")),
        titles={"sam": "SAM"},
        of_step=True,
        phrase="{} updates",
    ),
    Factor(
        "gamma",
        "gamma",
        "float",
        1.0,
        "Weight of the distance from the weights before an update, for proximal.",
        minimum=0,
        method="proximal",
    ),
    _whole(
        "inner_steps",
        "inner",
        5,
        "Steps on every batch, for proximal.",
        (1, MOST_STEPS),
        unit="steps",
        of_step=True,
        method="proximal",
        noun="inner step",
    ),
    Factor(
        "rho",
        "rho",
        "float",
        0.05,
        "Distance within which the worst case counts, for sam.",
        above=0,
        method="sam",
    ),
    _whole(
        "evaluate_every",
        "ee",
        0,
        "Examples from one evaluation of the trajectory to the next, on top of the one at the "
        "end; 0 for the epochs' ends alone.",
        (0, MOST_EXAMPLES),
        unit="examples",
    ),
    _constant(
        "beta_1",
        "b1",
        "Decay per update of the optimizer's mean of gradients",
        minimum=0,
        maximum=1,
    ),
    _constant(
        "beta_2",
        "b2",
        "Decay per update of the optimizer's mean of squared gradients",
        minimum=0,
        maximum=1,
    ),
    _constant(
        "epsilon", "eps", "What the optimizer adds to the root of the squared gradients", above=0
    ),
    _constant(
        "weight_decay",
        "wd",
        "Every update takes rate * weight_decay * w off each weight, biases too",
        ", 0.004 of adamw and 0 of the others",
        minimum=0,
        of_step=True,
    ),
    Factor.choice(
        "beta_scaling",
        "bsc",
        "How the betas follow k = batch_size / base_batch_size: half_life makes beta_2 into "
        "beta_2^k; square_root both into 1 - k (1 - beta), and epsilon into epsilon / sqrt(k).",
        *("none", "half_life", "square_root"),
        titles={"half_life": "half-life", "square_root": "square-root"},
    ),
    Factor.choice(
        "weight_decay_scaling",
        "wds",
        "How the weight decay follows batch_size / base_batch_size.",
        *("none", "linear"),
    ),
    Factor.choice(
        "schedule",
        "sch",
        "What the rate does after the warm-up: it stays, or falls to 0 at the horizon along "
        "half a cosine or a line, update by update.",
        *(horizons.CONSTANT, *horizons.FALLING),
    ),
    _whole(
        "micro_batch_size",
        "mbs",
        0,
        "Examples of a piece of a batch, whose gradients are accumulated; 0 for whole batches.",
        (0, MOST_EXAMPLES),
        unit="examples",
        of_step=True,
        titles={"0": "none (whole batches)"},
        phrase="pieces of {}",
        phrases={0: "whole batches"},
    ),
    Factor.choice(
        "precision",
        "prec",
        "What a training computes in: Keras's policies, of which the mixed ones keep weights, "
        "loss and updates in float32, and mixed_float16 scales the loss.",
        *("float32", "mixed_bfloat16", "mixed_float16"),
        of_step=True,
    ),
)

# What a run's time per step depends on: its timing configuration is named by these alone, and
# always by those of its core.
TIMING_CORE = ("dataset", "model", "batch_size", "optimizer", "device", "threads")
TIMING_FACTORS = tuple(
    dict.fromkeys([*TIMING_CORE, *(name for name, each in FACTORS.items() if each.of_step)])
)

# What a timing experiment may vary besides: a training is always the loop in the graph, over
# arrays in memory. Spelled only where they differ from their birth value. Append; never reorder.
TIMING_ONLY_FACTORS: dict[str, Factor] = by_name(
    Factor.choice("loop", "loop", "What drives the training steps.", *_LOOPS, phrases=_LOOPS),
    Factor.choice(
        "input_pipeline",
        "in",
        "Where a step's batch comes from; plain: the graph's own arrays for the loop in the "
        "graph, tf.data without any remedy for the others; jpeg: files of the resized images, "
        "written just before and so in the page cache.",
        *_PIPELINES,
        phrases=_PIPELINES,
    ),
    Factor.seconds(
        "delay_seconds",
        "delay",
        0.0,
        "Wait before every step; its throughput is timed in turns with and without it.",
        minimum=0,
        phrases={0: "no delay"},
    ),
    Factor.choice(
        "framework",
        "fw",
        "What computes the training steps; any but tensorflow has an environment of its own.",
        *framework_names.TITLES,
        titles=framework_names.TITLES,
        phrase="{}",
    ),
)


def gradients_per_update(factors: dict[str, Any]) -> int:
    """Returns how many gradients of its batch an update computes, by the factors of its method."""
    return {"plain": 1, "proximal": factors["inner_steps"], "sam": 2}[factors["method"]]


def gpus(factors: dict[str, Any]) -> int:
    """Returns the GPUs that a training or a timing needs: one per replica."""
    return factors["replicas"] if factors["device"] == "gpu" else 0


def training_copies(factors: dict[str, Any]) -> int:
    """Returns how often an epoch has every training image, by the factors of a run."""
    return 2 if factors["augmentation"] == "crop" else 1
