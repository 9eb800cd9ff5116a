"""Models of the keys of a study that say how logs are read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from batchscope.study.model import Model, Positive, Text, Texts

KERAS = "keras"  # value of `lines` for the progress lines of Keras
AT_TARGET = "at_target"  # value of `rows`


def _text_as_map(raw: object) -> object:
    return {"": raw} if isinstance(raw, str) else raw


class LogFormat(Model):
    """How logs are read. Only columns with a known name, or with a name here, are read."""

    columns: dict[str, Text] = {}
    """Our name of a column -> its name in the logs: {validation_loss: val/loss, batch_size: bs}."""
    lines: Texts = ()
    """Pattern of printed lines, such as "step {updates}: train loss {train_loss}", or several of
    them; `*` matches anything. `keras` stands for the progress lines of Keras.
    """
    percent: Texts = ()
    """Columns in per cent. A column with a name that ends in % is in per cent, too."""
    first_epoch: Literal[0, 1] = None
    """Number of the first epoch. Default: 0 if a log begins with epoch 0."""
    examples_per_epoch: Positive = None
    """Training examples of an epoch, if the logs count epochs."""
    updates_per_epoch: Positive = None
    """Updates of an epoch at every batch size, if an epoch is no pass over the training data."""


class CommandLog(LogFormat):
    """Log of a run of a command."""

    file: Annotated[str, Field(pattern=r"^\{run_dir\}(/.+)?$")] = ""
    """File that the command writes, in {run_dir}. Default: its printed output."""


class Logs(LogFormat):
    """Logs of external runs."""

    files: Texts
    """Paths and patterns, relative to the folder of the study file. `{name}` stands for a factor,
    as in logs/bs{batch_size}_seed{seed}.csv; `*`, `**` and `?` match anything; `{{` is a brace.
    """
    pattern: Annotated[
        dict[str, Text],
        BeforeValidator(_text_as_map, json_schema_input_type=Text | dict[str, Text]),
    ] = {}
    """Factors in a column of names of runs: {run: "bs{batch_size}_seed{seed}"}. A text alone is the
    pattern of whole parts of the paths.
    """
    factors: Texts = ()
    """Columns that are factors, besides those with a known name."""
    rows: Literal["evaluations", AT_TARGET] = "evaluations"
    """at_target: the single row of every run is the one at which it reached its target. Otherwise
    it is the end of the run.
    """


def escaped(path: str) -> str:
    return path.replace("{", "{{").replace("}", "}}")
