"""Types of settings that several measures or timings have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError, ValidationError

from batchscope.study.model import Integer, Model, Number
from batchscope.study.run_factors import FACTORS
from batchscope.study.setting import Setting, Word


class WeightsSettings(Model):
    """Setting of measures that use one state of the weights."""

    weights: Annotated[Literal["final", "best"], Setting("w")] = "final"
    """Weights to measure."""


# Duration of a block, a rest or a sample. The field of a setting adds the lower bound.
Seconds = Annotated[Number, Field(le=3600)]
# Number of examples that a measure uses.
Examples = Annotated[Integer, Field(ge=0), Word("all", 0), Setting("ex", "examples")]
# Epoch after which a measure reads the weights; 0 for the end of the training.
Epoch = Annotated[Integer, Field(ge=0), Setting("at")]

# Both runs of a pair start from the same weights, which these factors change.
_WEIGHTS_FACTORS = ("dataset", "model", "seed")
_PairFactor = Literal[tuple(name for name in FACTORS if name not in _WEIGHTS_FACTORS)]


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
    dict[_PairFactor, tuple[Any, Any]],
    Field(min_length=1, max_length=1),
    AfterValidator(_read_pair),
]
