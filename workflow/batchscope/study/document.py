"""The study file as pydantic models: its keys, types, ranges and defaults, and what each is.

Messages, the schema for editors and the plan are made from these models. Factors and settings
stand in the catalogue, where each is a `Parameter`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from batchscope.catalogue import budget_kinds, columns, sweep_names
from batchscope.catalogue.dataset_definitions import Dataset
from batchscope.catalogue.fields import (
    Count,
    FilePath,
    ListOf,
    Name,
    Positive,
    Refused,
    Section,
    Text,
    Words,
    keyed,
    one_value,
    whole,
    words,
)
from batchscope.catalogue.figures import FIGURES
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.parameters import MOST, Parameter, expected
from batchscope.catalogue.run_factors import FACTORS, MOST_EPOCHS
from batchscope.catalogue.timings import OF_SWEEPS, OF_TRAININGS
from batchscope.study.asked import AskedOf
from batchscope.study.claim_models import Claim
from batchscope.study.published_numbers import PublishedSeries
from batchscope.study.seeds import SeedsField

# Outcomes that may have a margin, all of which `evaluate` measures.
MARGIN_OUTCOMES = tuple(
    f"{split}_{what}" for split in ("test", "validation", "train") for what in ("accuracy", "loss")
)
_OUTCOMES = tuple(name for name, column in columns.COLUMNS.items() if column.label)
_EVERY_FACTOR = {name: one for name, one in sweep_names.EVERY_FACTOR.items() if name != "seed"}
_NO_SEED = {"seed": Annotated[Any, Refused("a seed given by the experiment's own key 'seeds'")]}


def _some(wanted: str) -> AfterValidator:
    """Returns the check that a map is not empty."""

    def check(found: dict[str, Any]) -> dict[str, Any]:
        if not found:
            raise expected(wanted)
        return found

    return AfterValidator(check)


def _just_one(found: dict[str, Any]) -> dict[str, Any]:
    if len(found) != 1:
        raise expected("a map of one loss or accuracy to its value, such as {validation_loss: 0.2}")
    return found


def _margin(outcome: str) -> Any:
    below = 1 if outcome.endswith("accuracy") else None
    return Annotated[float, Parameter.unnamed("float", above=0, below=below)]
