"""The factors of a training run and the codec between factors and path names.

Whatever changes a number stands in its path. A run is named by its factors::

    digits-1f0a93c2+small_cnn+bs=256+lr=0.1+opt=sgd+ep=40+seed=0

Core factors are always spelled. Every other one is spelled only where it differs from its
*birth value*, which is frozen on the day the factor is added, so that no old name ever
changes. What is trained with is the value parsed back from the name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any

MAX_NAME_LENGTH = 200
NAME_PATTERN = r"[a-z][a-z0-9_]*"
OPTIMIZERS = (
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "ftrl",
    "lamb",
    "lion",
    "nadam",
    "rmsprop",
    "sgd",
)

Value = int | float | bool | str


@dataclass(frozen=True)
class Parameter:
    """One named value of a run or of a measure.

    Attributes:
        name: Full name, as in the configuration and as a column of the tables.
        alias: Short name, as in paths.
        kind: ``int``, ``float``, ``bool`` or ``str``.
        birth: Value at which the parameter is not spelled; None if it is always spelled.
        doc: One sentence for people.
        unit: Unit, or an empty string.
        choices: Allowed values of a ``str``; empty for a free name.
        minimum: Smallest allowed number.
        above: Number that must be exceeded.
        many: Whether the value is a list (of ``kind``), joined by ``_`` in paths.
        maximum: Largest allowed number, with `minimum`.
        words: Words of the configuration, each with the value that it stands for.
    """

    name: str
    alias: str
    kind: str
    birth: Any
    doc: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    many: bool = False
    maximum: float | None = None
    words: tuple[tuple[str, Any], ...] = ()

    @property
    def core(self) -> bool:
        """Whether the parameter is always spelled."""
        return self.birth is None

    @property
    def expected(self) -> str:
        """What a valid value looks like, for error messages."""
        if self.many:
            return f"a list (each {self.expected_item})"
        return self.expected_item

    @property
    def expected_item(self) -> str:
        """What a valid value looks like, or one item of a list."""
        return " or ".join([*(word for word, _ in self.words), self._expected_scalar])

    @property
    def _expected_scalar(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        if self.kind == "str":
            return "a lower-case name"
        noun = "whole number" if self.kind == "int" else "number"
        if self.above is not None:
            return f"a positive {noun}" if self.above == 0 else f"a {noun} above {self.above:g}"
        if self.minimum is not None and self.maximum is not None:
            return f"a {noun} from {self.minimum:.0f} to {self.maximum:.0f}"
        if self.kind == "int" and self.minimum == 1:
            return f"a positive {noun}"
        if self.minimum is not None:
            return f"a {noun} of at least {self.minimum:g}"
        return f"a {noun}"


FACTORS: dict[str, Parameter] = {
    factor.name: factor
    for factor in (
        # Core: always spelled, in this order; data set and model without their alias.
        Parameter("dataset", "data", "str", None, "Data set, by its name under `datasets`."),
        Parameter("model", "model", "str", None, "Model, by its name."),
        Parameter("batch_size", "bs", "int", None, "Examples per update.", "examples", minimum=1),
        Parameter("learning_rate", "lr", "float", None, "Rate before any scaling.", above=0),
        Parameter("optimizer", "opt", "str", None, "Keras optimizer.", choices=OPTIMIZERS),
        Parameter("epochs", "ep", "int", None, "Horizon of the training.", "epochs", minimum=1),
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
            "momentum",
            "mom",
            "float",
            0.0,
            "Momentum of sgd and rmsprop.",
            minimum=0,
            maximum=1,
        ),
        Parameter("nesterov", "nest", "bool", False, "Nesterov momentum of sgd."),
        Parameter(
            "monitor",
            "mon",
            "str",
            "validation_loss",
            "What picks the best weights and stops a training.",
            choices=("validation_loss", "validation_accuracy", "train_loss", "train_accuracy"),
        ),
        Parameter(
            "patience",
            "pat",
            "int",
            0,
            "Epochs without improvement after which a training stops; 0 never stops it.",
            "epochs",
            minimum=0,
        ),
        Parameter(
            "learning_rate_scaling",
            "lrs",
            "str",
            "none",
            "How the rate follows batch_size / base_batch_size.",
            choices=("none", "linear", "sqrt"),
        ),
        Parameter(
            "base_batch_size", "bbs", "int", 32, "Batch size that the rate is for.", minimum=1
        ),
        Parameter("device", "dev", "str", "cpu", "Where to train.", choices=("cpu", "gpu")),
        Parameter("threads", "th", "int", 1, "Threads of a training.", "threads", minimum=1),
        Parameter(
            "warmup_epochs",
            "wu",
            "int",
            0,
            "Epochs over which the rate rises from the unscaled to the scaled one.",
            "epochs",
            minimum=0,
        ),
        Parameter(
            "target_train_loss",
            "ttl",
            "float",
            0.0,
            "Training loss of an epoch at which a training stops; 0 never stops it.",
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
        ),
        Parameter(
            "augmentation",
            "aug",
            "str",
            "none",
            "What is done to the training images; crop doubles the training set.",
            choices=("none", "crop", "random"),
        ),
        Parameter(
            "method",
            "method",
            "str",
            "plain",
            "How an update uses its batch.",
            choices=("plain", "conservative", "robust"),
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
        ),
        Parameter(
            "rho",
            "rho",
            "float",
            0.05,
            "Distance within which the worst case counts, for robust.",
            above=0,
        ),
    )
}

# Factors that one method of using a batch alone reads.
METHOD_PARAMETERS = {"conservative": ("gamma", "inner_steps"), "robust": ("rho",)}

# What a run's time per step depends on: its timing configuration is named by these alone.
TIMING_FACTORS = (
    "dataset",
    "model",
    "batch_size",
    "optimizer",
    "device",
    "threads",
    "momentum",
    "nesterov",
    "replicas",
    "augmentation",
    "method",
    "inner_steps",
)
_TIMING_CORE = ("dataset", "model", "batch_size", "optimizer", "device", "threads")


def _setting(*args: Any, **kwargs: Any) -> Parameter:
    return Parameter(*args, **kwargs)


_WEIGHTS = _setting(
    "weights", "w", "str", "final", "Which weights to measure.", choices=("final", "best")
)


def _examples(birth: int) -> Parameter:
    return _setting(
        "examples",
        "ex",
        "int",
        birth,
        "Training examples behind the loss; 0 or `all` for all of them.",
        "examples",
        minimum=0,
        words=(("all", 0),),
    )


_BATCH_NORM = _setting(
    "batch_norm",
    "bn",
    "str",
    "moving",
    "Statistics that batch normalisation uses.",
    choices=("moving", "batch"),
)

# Measures and their settings; every setting has a birth value. Append; never reorder.
MEASURES: dict[str, dict[str, Parameter]] = {
    measure: {setting.name: setting for setting in settings}
    for measure, settings in {
        "evaluate": (
            _WEIGHTS,
            _setting(
                "epoch",
                "at",
                "int",
                0,
                "Epoch after which to measure, given by `at_epochs`; 0 for `weights`.",
                minimum=0,
            ),
        ),
        "sharpness": (
            _WEIGHTS,
            _setting("epsilons", "eps", "float", (1e-3, 5e-4), "Box sizes.", above=0, many=True),
            _setting(
                "spaces",
                "sp",
                "str",
                ("full", "subspace"),
                "Spaces to search.",
                choices=("full", "subspace"),
                many=True,
            ),
            _examples(2000),
            _setting("iterations", "it", "int", 10, "L-BFGS-B iterations per start.", minimum=1),
            _setting("starts", "st", "int", 4, "Starting points of the maximiser.", minimum=1),
            _setting("dimensions", "dim", "int", 100, "Columns of the subspace.", minimum=1),
            _BATCH_NORM,
            _setting("memory_mb", "mem", "int", 2048, "Limit on the subspace.", "MB", minimum=1),
        ),
        "weight_distance": (_WEIGHTS,),
        "time_epoch": (
            _setting("blocks", "bl", "int", 7, "Timed blocks.", minimum=3),
            _setting(
                "block_seconds", "bsec", "float", 0.25, "Least seconds in a block.", "s", above=0
            ),
        ),
        "displacement": (),
        "gradient_alignment": (
            _setting("examples", "ex", "int", 256, "Training examples.", "examples", minimum=2),
            _setting("draws", "dr", "int", 20, "Random divisions into batches.", minimum=1),
            _setting("memory_mb", "mem", "int", 2048, "Limit on the gradients.", "MB", minimum=1),
        ),
        "hessian": (
            _WEIGHTS,
            _examples(2000),
            _setting("probes", "pr", "int", 20, "Random vectors behind the trace.", minimum=2),
            _setting(
                "iterations", "it", "int", 100, "Most products of the Lanczos search.", minimum=5
            ),
        ),
        "sam_sharpness": (
            _WEIGHTS,
            _setting("rhos", "rho", "float", (0.05,), "Lengths of the step.", above=0, many=True),
            _examples(2000),
        ),
        "landscape": (
            _WEIGHTS,
            _examples(2000),
            _setting("points", "pt", "int", 51, "Points along each axis; odd.", minimum=3),
            _setting("span", "sp", "float", 1.0, "Largest distance along a direction.", above=0),
            _setting(
                "pairs",
                "pa",
                "int",
                1,
                "Surfaces, each over its own pair of directions.",
                minimum=0,
            ),
            _setting("lines", "ln", "int", 5, "One-dimensional profiles.", minimum=0),
        ),
        "line": (
            _WEIGHTS,
            _setting(
                "examples",
                "ex",
                "int",
                0,
                "Examples of each split; 0 or `all` for all.",
                "examples",
                minimum=0,
                words=(("all", 0),),
            ),
            _setting("points", "pt", "int", 25, "Points on the line.", minimum=2),
            _setting("start", "from", "float", -1.0, "First position; the small run is at 0."),
            _setting("stop", "to", "float", 2.0, "Last position; the large run is at 1."),
        ),
    }.items()
}

# What an experiment of times may vary besides: a training is always the loop in the graph, over
# arrays in memory. Spelled only where they differ from their birth value. Append; never reorder.
TIMING_ONLY_FACTORS: dict[str, Parameter] = {
    factor.name: factor
    for factor in (
        Parameter(
            "loop",
            "loop",
            "str",
            "graph",
            "What drives the training steps.",
            choices=("graph", "eager", "function", "fit", "fit_steps"),
        ),
        Parameter(
            "input_pipeline",
            "in",
            "str",
            "plain",
            "Where a step's batch comes from; plain: the graph's own arrays for the loop in the "
            "graph, tf.data without any remedy for the others.",
            choices=("plain", "map", "prefetch", "cache", "jpeg"),
        ),
        Parameter(
            "delay_seconds", "delay", "float", 0.0, "Wait before every step.", "s", minimum=0
        ),
        Parameter(
            "framework",
            "fw",
            "str",
            "tensorflow",
            "What computes the training steps; any but tensorflow has an environment of its own.",
            choices=("tensorflow", "pytorch", "mxnet", "jax"),
        ),
    )
}

# Measures of the machine, by experiments that train nothing; one job over all batch sizes.
TIMINGS: dict[str, dict[str, Parameter]] = {
    measure: {setting.name: setting for setting in settings}
    for measure, settings in {
        "throughput": (
            _setting("blocks", "bl", "int", 7, "Timed blocks of every batch size.", minimum=4),
            _setting(
                "block_seconds", "bsec", "float", 0.25, "Least seconds in a block.", "s", above=0
            ),
            _setting(
                "iterations",
                "it",
                "int",
                0,
                "Steps of every batch size in all its blocks together; 0 for what block_seconds "
                "asks for.",
                "steps",
                minimum=0,
            ),
        ),
        "utilisation": (
            _setting("seconds", "sec", "float", 5.0, "Training at every batch size.", "s", above=0),
            _setting("pause_seconds", "pau", "float", 1.0, "Rest before each.", "s", minimum=0),
            _setting("interval", "int", "float", 0.1, "Between two samples.", "s", above=0),
        ),
        "max_batch_size": (
            _setting(
                "limit_mb",
                "lim",
                "int",
                0,
                "Memory that may be taken; 0 for 90 % of what is free when the search starts.",
                "MB",
                minimum=0,
            ),
            _setting("most", "most", "int", 65536, "Largest batch size to try.", minimum=1),
            _setting(
                "resolution",
                "res",
                "float",
                1 / 32,
                "Share of the answer within which the search may end.",
                minimum=0,
            ),
        ),
        "profile": (_setting("steps", "st", "int", 20, "Profiled steps.", "steps", minimum=1),),
    }.items()
}

# Measures of two runs; `between` in the configuration says which.
PAIR_MEASURES = ("line",)
# Measures that read weights alone: without TensorFlow.
LIGHT_MEASURES = ("weight_distance", "displacement")


def format_number(value: int | float) -> str:
    """Returns the canonical text of a number: ints as ints, floats in their shortest form.

    Raises:
        ValueError: If the number is not finite or does not survive the round trip.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"Expected a number. Received: {value!r}")
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"Expected a finite number. Received: {value!r}")
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    mantissa = mantissa.removesuffix(".0")
    text = f"{mantissa}e{int(exponent)}" if exponent else mantissa
    if float(text) != value:
        raise ValueError(f"Expected a number that survives its own text. Received: {value!r}")
    return text


def format_value(parameter: Parameter, value: Any) -> str:
    """Returns the text of a value in a path.

    Raises:
        ValueError: If the value does not survive the round trip.
    """
    if parameter.many:
        return "_".join(_format_scalar(parameter, item) for item in value)
    return _format_scalar(parameter, value)


def _format_scalar(parameter: Parameter, value: Any) -> str:
    if parameter.kind == "bool":
        return "true" if value else "false"
    if parameter.kind in ("int", "float"):
        number = int(value) if parameter.kind == "int" else float(value)
        return format_number(number)
    return str(value)


def parse_value(parameter: Parameter, text: str) -> Any:
    """Returns the value behind a text in a path.

    Raises:
        ValueError: If the text is not what `format_value` would have written.
    """
    if parameter.many:
        value: Any = tuple(_parse_scalar(parameter, item) for item in text.split("_"))
    else:
        value = _parse_scalar(parameter, text)
    if format_value(parameter, value) != text:
        raise ValueError(f"Expected the canonical form of {parameter.name}. Received: {text!r}")
    return value


def _parse_scalar(parameter: Parameter, text: str) -> Value:
    if parameter.kind == "bool":
        if text not in ("true", "false"):
            raise ValueError(f"Expected true or false. Received: {text!r}")
        return text == "true"
    if parameter.kind == "int":
        return int(text)
    if parameter.kind == "float":
        return float(text)
    if parameter.choices and text not in parameter.choices:
        raise ValueError(f"Expected {parameter.expected}. Received: {text!r}")
    return text


def digest(definition: Any) -> str:
    """Returns 8 hexadecimal digits that stand for a JSON-like definition."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def token(name: str, definition_digest: str | None) -> str:
    """Returns the name of a data set or model in a path: `name` or `name-1f0a93c2`."""
    return f"{name}-{definition_digest}" if definition_digest else name


def split_token(text: str) -> tuple[str, str | None]:
    """Returns name and digest (or None) of a data set's or model's token."""
    match = re.fullmatch(rf"({NAME_PATTERN})(?:-([0-9a-f]{{8}}))?", text)
    if match is None:
        raise ValueError(f"Expected name or name-1f0a93c2. Received: {text!r}")
    return match[1], match[2]


def encode(parameters: dict[str, Parameter], values: dict[str, Any], always: Any) -> list[str]:
    """Returns `alias=value` of the parameters in `always`, and of those that differ from birth."""
    parts = []
    for name, parameter in parameters.items():
        value = values.get(name, parameter.birth)
        if name in always or value != parameter.birth:
            parts.append(f"{parameter.alias}={format_value(parameter, value)}")
    return parts


def decode(parameters: dict[str, Parameter], parts: list[str], what: str) -> dict[str, Any]:
    """Returns the values behind parts of a name, by full name.

    Args:
        parameters: Those that the name may hold.
        parts: Each `alias=value`.
        what: The whole name, for error messages.

    Raises:
        ValueError: If a part is unknown, given twice or not in its canonical form.
    """
    by_alias = {parameter.alias: parameter for parameter in parameters.values()}
    values = {}
    for part in parts:
        alias, equals, text = part.partition("=")
        if not equals or alias not in by_alias or by_alias[alias].name in values:
            raise ValueError(f"Expected alias=value in {what!r}. Received: {part!r}")
        values[by_alias[alias].name] = parse_value(by_alias[alias], text)
    return values


def run_name(factors: dict[str, Value]) -> str:
    """Returns the name of a run.

    Args:
        factors: Full name -> value; `dataset` and `model` are tokens. Factors left out have
            their birth value.

    Raises:
        ValueError: If the name is longer than 200 characters or a value does not survive.
    """
    rest = {name: p for name, p in FACTORS.items() if name not in ("dataset", "model")}
    core = {name for name, parameter in rest.items() if parameter.core}
    name = "+".join([str(factors["dataset"]), str(factors["model"]), *encode(rest, factors, core)])
    return checked(name)


def parse_run(name: str) -> dict[str, Value]:
    """Returns every factor of a run, by full name, in the registry's order.

    Raises:
        ValueError: If the name is not one that `run_name` would have written.
    """
    return dict(_parse(name, tuple(FACTORS), run_name))


def gradients_per_update(factors: dict[str, Any]) -> int:
    """Returns how many gradients of its batch an update computes, by the factors of its method."""
    return {"plain": 1, "conservative": factors["inner_steps"], "robust": 2}[factors["method"]]


def timing_name(factors: dict[str, Value]) -> str:
    """Returns the name of a run's timing configuration: what its time per step depends on."""
    rest = {name: FACTORS[name] for name in TIMING_FACTORS if name not in ("dataset", "model")}
    name = "+".join(
        [str(factors["dataset"]), str(factors["model"]), *encode(rest, factors, _TIMING_CORE)]
    )
    return checked(name)


def parse_timing(name: str) -> dict[str, Value]:
    """Returns every factor of a timing configuration, by full name."""
    return dict(_parse(name, TIMING_FACTORS, timing_name))


def _parse(name: str, order: tuple[str, ...], spell: Any) -> list[tuple[str, Value]]:
    parts = name.split("+")
    if len(parts) < 3:
        raise ValueError(f"Expected dataset+model+factors. Received: {name!r}")
    rest = {key: FACTORS[key] for key in order if key not in ("dataset", "model")}
    values: dict[str, Any] = {"dataset": parts[0], "model": parts[1]}
    for part in parts[:2]:
        split_token(part)
    values.update(decode(rest, parts[2:], name))
    try:
        written = spell(values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"Expected every core factor in {name!r}. Missing: {error}") from None
    if written != name:
        raise ValueError(f"Expected the canonical name {written!r}. Received: {name!r}")
    return [(key, values.get(key, FACTORS[key].birth)) for key in order]


def _settings_of(measure: str) -> dict[str, Parameter]:
    return MEASURES[measure] if measure in MEASURES else TIMINGS[measure]


def settings_name(measure: str, settings: dict[str, Any]) -> str:
    """Returns the name of a measure's settings: those that differ from birth, or `default`."""
    parts = encode(_settings_of(measure), settings, ())
    return checked("+".join(parts) or "default")


def parse_settings(measure: str, name: str) -> dict[str, Any]:
    """Returns every setting of a measure, by full name.

    Raises:
        ValueError: If the name is not one that `settings_name` would have written.
    """
    parameters = _settings_of(measure)
    values = {} if name == "default" else decode(parameters, name.split("+"), name)
    if settings_name(measure, values) != name:
        raise ValueError(f"Expected the canonical form of settings. Received: {name!r}")
    return {key: values.get(key, parameter.birth) for key, parameter in parameters.items()}


def checked(name: str) -> str:
    """Returns a name that paths and clusters bear.

    Raises:
        ValueError: If it is too long or has a character that does not pass everywhere.
    """
    if len(name) > MAX_NAME_LENGTH:
        raise ValueError(f"Expected at most {MAX_NAME_LENGTH} characters. Received: {name!r}")
    if re.fullmatch(r"[a-z0-9_.=+-]+", name) is None:
        raise ValueError(f"Expected lower-case letters, digits and _.=+-. Received: {name!r}")
    return name
