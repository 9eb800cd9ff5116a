"""The factors of a training run, and what a timing experiment may vary besides."""

from __future__ import annotations

from typing import Any

from batchscope.catalogue import horizons, optimizer_constants
from batchscope.catalogue.parameters import Parameter, by_name, choice, seconds

# Far above what anyone runs: more is a slip of the hand.
MOST_EXAMPLES, MOST_EPOCHS, MOST_STEPS = 10**8, 10**6, 10**6
MOST_THREADS, MOST_DEVICES = 4096, 1024
OPTIMIZERS = tuple(optimizer_constants.CONSTANTS)


def _constant(name: str, alias: str, doc: str, which: str = "", **limits: float) -> Parameter:
    """Returns a constant of an optimizer, by default Keras's; `which` says what that is."""
    own = (optimizer_constants.DEFAULT, f"{doc}; default: Keras's{which}.")
    return Parameter(name, alias, "float", *own, words=optimizer_constants.WORDS, **limits)


FACTORS: dict[str, Parameter] = by_name(
    # Core: always spelled, in this order; data set and model without their alias.
    Parameter("dataset", "data", "str", None, "Data set, by its name under `datasets`."),
    Parameter("model", "model", "str", None, "Model, by its name."),
    Parameter(
        "batch_size",
        "bs",
        "int",
        None,
        "Examples per update.",
        "examples",
        minimum=1,
        maximum=MOST_EXAMPLES,
    ),
    Parameter("learning_rate", "lr", "float", None, "Rate before any scaling.", above=0),
    Parameter("optimizer", "opt", "str", None, "Keras optimizer.", choices=OPTIMIZERS),
    Parameter(
        "epochs",
        "ep",
        "int",
        None,
        "Horizon of the training.",
        "epochs",
        minimum=1,
        maximum=MOST_EPOCHS,
    ),
    Parameter(
        "seed",
        "seed",
        "int",
        None,
        "Fixes initial weights and data order.",
        minimum=0,
        maximum=2**32 - 1,
    ),
    # Later: spelled only where they differ from their birth value. Append; never reorder.
    Parameter(
        "momentum", "mom", "float", 0.0, "Momentum of sgd and rmsprop.", minimum=0, maximum=1
    ),
    Parameter("nesterov", "nest", "bool", False, "Nesterov momentum of sgd."),
    choice(
        "monitor",
        "mon",
        "What picks the best weights and stops a training.",
        *("validation_loss", "validation_accuracy", "train_loss", "train_accuracy"),
    ),
    Parameter(
        "patience",
        "pat",
        "int",
        0,
        "Epochs without improvement after which a training stops; 0 never stops it.",
        "epochs",
        minimum=0,
        maximum=MOST_EPOCHS,
    ),
    choice(
        "learning_rate_scaling",
        "lrs",
        "How the rate follows batch_size / base_batch_size.",
        *("none", "linear", "sqrt"),
    ),
    Parameter(
        "base_batch_size",
        "bbs",
        "int",
        32,
        "Batch size that the rate is for.",
        minimum=1,
        maximum=MOST_EXAMPLES,
    ),
    choice("device", "dev", "Where to train.", "cpu", "gpu"),
    Parameter(
        "threads",
        "th",
        "int",
        1,
        "Threads of a training.",
        "threads",
        minimum=1,
        maximum=MOST_THREADS,
    ),
    Parameter(
        "warmup_epochs",
        "wu",
        "int",
        0,
        "Epochs over which the rate rises to the scaled one: from the unscaled one, or from 0 "
        "without scaling.",
        "epochs",
        minimum=0,
        maximum=MOST_EPOCHS,
    ),
    Parameter(
        "target_train_loss",
        "ttl",
        "float",
        0.0,
        "Training loss of an epoch, and of the weights at its end, at which a training stops; "
        "0 never stops it.",
        minimum=0,
    ),
    Parameter("update_norms", "un", "bool", False, "Whether the norm of every update is kept."),
    Parameter(
        "replicas",
        "rep",
        "int",
        1,
        "Devices among which every batch is divided (tf.distribute.MirroredStrategy).",
        minimum=1,
        maximum=MOST_DEVICES,
    ),
    choice(
        "augmentation",
        "aug",
        "What is done to the training images; crop doubles the training set.",
        *("none", "crop", "random"),
    ),
    choice(
        "method", "method", "How an update uses its batch.", *("plain", "conservative", "robust")
    ),
    Parameter(
        "gamma",
        "gamma",
        "float",
        1.0,
        "Weight of the distance from the weights before an update, for conservative.",
        minimum=0,
    ),
    Parameter(
        "inner_steps",
        "inner",
        "int",
        5,
        "Steps on every batch, for conservative.",
        "steps",
        minimum=1,
        maximum=MOST_STEPS,
    ),
    Parameter(
        "rho",
        "rho",
        "float",
        0.05,
        "Distance within which the worst case counts, for robust.",
        above=0,
    ),
    Parameter(
        "evaluate_every",
        "ee",
        "int",
        0,
        "Examples from one evaluation of the trajectory to the next, on top of the one at the "
        "end; 0 for the epochs' ends alone.",
        "examples",
        minimum=0,
        maximum=MOST_EXAMPLES,
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
    ),
    choice(
        "beta_scaling",
        "bsc",
        "How the betas follow k = batch_size / base_batch_size: half_life makes beta_2 into "
        "beta_2^k; square_root both into 1 - k (1 - beta), and epsilon into epsilon / sqrt(k).",
        *("none", "half_life", "square_root"),
    ),
    choice(
        "weight_decay_scaling",
        "wds",
        "How the weight decay follows batch_size / base_batch_size.",
        *("none", "linear"),
    ),
    choice(
        "schedule",
        "sch",
        "What the rate does after the warm-up: it stays, or falls to 0 at the horizon along "
        "half a cosine or a line, update by update.",
        *(horizons.CONSTANT, *horizons.FALLING),
    ),
    Parameter(
        "micro_batch_size",
        "mbs",
        "int",
        0,
        "Examples of a piece of a batch, whose gradients are accumulated; 0 for whole batches.",
        "examples",
        minimum=0,
        maximum=MOST_EXAMPLES,
    ),
    choice(
        "precision",
        "prec",
        "What a training computes in: Keras's policies, of which the mixed ones keep weights, "
        "loss and updates in float32, and mixed_float16 scales the loss.",
        *("float32", "mixed_bfloat16", "mixed_float16"),
    ),
)

# Factors that one method of using a batch alone reads.
METHOD_PARAMETERS = {"conservative": ("gamma", "inner_steps"), "robust": ("rho",)}

# What a run's time per step depends on: its timing configuration is named by these alone.
TIMING_FACTORS = (
    *("dataset", "model", "batch_size", "optimizer", "device", "threads", "momentum", "nesterov"),
    *("replicas", "augmentation", "method", "inner_steps", "weight_decay", "micro_batch_size"),
    "precision",
)

# What a timing experiment may vary besides: a training is always the loop in the graph, over
# arrays in memory. Spelled only where they differ from their birth value. Append; never reorder.
TIMING_ONLY_FACTORS: dict[str, Parameter] = by_name(
    choice(
        "loop",
        "loop",
        "What drives the training steps.",
        *("graph", "eager", "function", "fit", "fit_steps"),
    ),
    choice(
        "input_pipeline",
        "in",
        "Where a step's batch comes from; plain: the graph's own arrays for the loop in the "
        "graph, tf.data without any remedy for the others; jpeg: files of the resized images, "
        "written just before and so in the page cache.",
        *("plain", "map", "prefetch", "cache", "jpeg"),
    ),
    seconds(
        "delay_seconds",
        "delay",
        0.0,
        "Wait before every step; its throughput is timed in turns with and without it.",
        minimum=0,
    ),
    choice(
        "framework",
        "fw",
        "What computes the training steps; any but tensorflow has an environment of its own.",
        *("tensorflow", "pytorch", "mxnet", "jax"),
    ),
)


def gradients_per_update(factors: dict[str, Any]) -> int:
    """Returns how many gradients of its batch an update computes, by the factors of its method."""
    return {"plain": 1, "conservative": factors["inner_steps"], "robust": 2}[factors["method"]]


def training_copies(factors: dict[str, Any]) -> int:
    """Returns how often an epoch has every training image, by the factors of a run."""
    return 2 if factors["augmentation"] == "crop" else 1
