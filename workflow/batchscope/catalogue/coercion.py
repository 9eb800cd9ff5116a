"""From what YAML holds to the values of factors and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.readers import number, plain
from batchscope.problems import Place

__all__ = ["as_map", "coerce", "coerce_item", "items", "number", "plain"]


def as_map(raw: Any) -> dict[str, Any]:
    """Returns a map, or an empty one for what is none: the schema reports that."""
    return raw if isinstance(raw, dict) else {}


def items(place: Place, raw: Any) -> Iterator[tuple[Place, Any]]:
    """Yields place and item of a list; a plain word stands for a list of it.

    What is neither yields nothing: the schema reports that.
    """
    if isinstance(raw, str):
        yield place, raw
    elif isinstance(raw, list):
        yield from (((*place, index), item) for index, item in enumerate(raw))


def coerce(parameter: Parameter, raw: Any) -> Any:
    """Returns the value of a factor or setting as its own name will hold it, a list as a tuple."""
    return parameter.read(raw)


coerce_item = coerce
