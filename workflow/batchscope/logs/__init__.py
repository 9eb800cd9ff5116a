"""Logs of trainings, whatever made them: found, recognised by their content, and read.

A reader gives the cells of a log as text, under the log's own names; `cells` makes of all logs one
table under ours, and `numbers` its numbers. Which rows are runs and series is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

AUTO = "auto"
CLOCKS = ("wall_time", "Wall time")  # columns of a clock that also ran while nothing was trained
# Format -> what it is called.
FORMATS = {
    "csv": "CSV",
    "keras": "Keras CSVLogger",
    "lightning": "Lightning CSVLogger",
    "huggingface": "Hugging Face trainer_state.json",
    "tensorboard": "TensorBoard event files",
    "wandb": "Weights & Biases chart",
    "nanogpt": "nanoGPT output",
    "llm_c": "llm.c log",
    "json_lines": "JSON lines",
}


@dataclass(frozen=True)
class Source:
    """Which logs are read, and how."""

    files: tuple[str, ...]  # paths, and patterns with `{name}`, `*`, `**`, `?`
    format: str = AUTO
    columns: tuple[tuple[str, str], ...] = ()  # our name -> the log's own
    examples_per_epoch: float | None = None
    pattern: str = ""  # of whole parts of a path, or of the names of runs in a file of several
    metrics: tuple[str, ...] = ()  # further ones that are outcomes, by the study's names


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
