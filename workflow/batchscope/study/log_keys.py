"""Models of the keys of a study that say how logs are read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from batchscope.study.model import Model, Positive, Text, Texts


class LogFormat(Model):
    """How logs are read. Only columns with a known name, or with a name here, are read."""

    columns: dict[str, Text] = {}
    """Our name of a column -> its name in the logs: {validation_loss: val/loss, batch_size: bs}."""
    lines: Texts = ()
    """Pattern of printed lines, such as "step {updates}: train loss {train_loss}", or several of
    them; `*` matches anything.
    """
    examples_per_epoch: Positive = None
    """Training examples of an epoch, if the logs count epochs."""


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
    factors: Texts = ()
    """Columns that are factors, besides those with a known name."""
