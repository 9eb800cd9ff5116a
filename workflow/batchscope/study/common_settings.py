"""Common settings and columns of measures and timings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError, ValidationError

from batchscope.study.model import Integer, Model, Number
from batchscope.study.run_factors import FACTORS
from batchscope.study.setting import Setting, Word
from batchscope.study.specifications import IntegerColumn, Panel, Scale, TextColumn


class OfWeights(Model):
    """Setting of measures that use one state of the weights."""

    weights: Annotated[Literal["final", "best"], Setting("w")] = "final"
    """Weights to measure."""


# Time of a block, a rest or a sample; the other bound is the field's own.
Seconds = Annotated[Number, Field(le=3600)]
# Number of examples of a measure.
Examples = Annotated[Integer, Field(ge=0), Word("all", 0), Setting("ex", "examples")]


Epoch = Annotated[Integer, Field(ge=0), Setting("at")]

# Both runs of a pair start from the same weights, which these factors change.
_WEIGHTS_FACTORS = ("dataset", "model", "seed")
_Factor = Literal[tuple(name for name in FACTORS if name not in _WEIGHTS_FACTORS)]


def _read_pair(pair: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    [(factor, values)] = pair.items()
    try:
        small, large = (FACTORS[factor].read_item(value) for value in values)
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from None
    if small == large:
        raise PydanticCustomError("same_value", "Values of a pair should differ")
    return {factor: (small, large)}


# Factor -> its value in the small and in the large run of each pair.
Between = Annotated[
    dict[_Factor, tuple[Any, Any]],
    Field(min_length=1, max_length=1),
    AfterValidator(_read_pair),
]

# Cores that other processes may use on average before a timing counts as disturbed.
DISTURBED_CORES = 0.2
QUARTILES = ("", "_q1", "_q3")
REPEAT = "repeat"  # the column that numbers the timing jobs of a configuration
WHICH = IntegerColumn("Number of the timing job, from 1.")
STATUS = TextColumn(
    "finished, diverged, out_of_memory, no_gpu or no_cores (too few cores). The last two leave the "
    "row empty."
)
DISTURBED_BLOCKS = IntegerColumn(
    "Blocks in which other processes used more than 0.2 cores.", adds_up=True
)

UTILISATION = (
    Panel("process_percent", "CPU utilisation", "of its cores (%)", Scale.ZERO),
    Panel("gpu_percent", "GPU utilisation", "time with a kernel (%)", Scale.ZERO),
)
MEMORY = (
    Panel("memory_peak_mb", "Resident memory", "peak (MB)"),
    Panel("gpu_memory_peak_mb", "Memory of the GPU", "peak (MB)"),
)
