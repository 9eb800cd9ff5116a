"""The log of one training, as the readers of all formats give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Log:
    """One training's log; of a CSV table whose columns name the run of each row, several."""

    path: str
    format: str
    rows: pandas.DataFrame  # texts, empty where there is nothing; the index is a row's place
    parameters: Mapping[str, str] = field(default_factory=dict)  # what the log says of the whole
    name: str = ""  # of the run, in a file of several
    files: tuple[str, ...] = ()  # all that was read; the path where empty
    counted: str = "line"  # what the index counts
    notes: tuple[str, ...] = ()  # what was understood otherwise than it is written
