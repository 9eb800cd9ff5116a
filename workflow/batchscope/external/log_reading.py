"""Recognise the format of a log by its content, and read it. A new format is a branch of `read`."""

from __future__ import annotations

import io
import re
from collections.abc import Collection
from pathlib import Path

from batchscope.core.errors import UserError
from batchscope.external import (
    hugging_face,
    json_log,
    log_files,
    printed_lines,
    tensorboard,
)
from batchscope.external.log_files import Log
from batchscope.study import log_names
from batchscope.study.log_keys import LogFormat

CSV = "CSV"
_DELIMITERS = (",", ";", "\t")
_KNOWN_FORMATS = (
    "a CSV table with a known column or one that `columns: {validation_loss: ...}` names, JSON "
    "lines, event files of TensorBoard, or a trainer_state.json of Hugging Face"
)


def read(path: str, keys: LogFormat, metrics: Collection[str] = ()) -> Log:
    """Return the log in a file, or in a folder of TensorBoard.

    Raises:
        UserError: If the format is unknown, or the file is missing or damaged.
    """
    place = Path(path)
    if place.is_dir() or (place.is_file() and tensorboard.EVENTS in place.name):
        return tensorboard.read(path, keys.columns, metrics)
    text = log_files.read_text(path)
    if keys.lines:
        return printed_lines.read(path, text, keys.lines)
    content = json_log.parse_json(text)
    if hugging_face.is_state(content):
        return hugging_face.read(path, content)
    if any(line.lstrip()[:1] == "{" and json_log.parse_json(line) for line in text.splitlines()):
        columns = keys.columns.items()
        user_named = {theirs for ours, theirs in columns if log_names.is_evaluated(ours, metrics)}
        return json_log.read(path, text, user_named, metrics)
    header = [cell.strip(' "') for cell in re.split(r"[,;\t]", text.partition("\n")[0])]
    named = {cell for cell in header if log_names.our_name(cell, metrics)}
    if not named and not {*header} & {*keys.columns.values()}:
        raise UserError(f"{path}: received none of {_KNOWN_FORMATS}. {printed_lines.ADVICE}")
    return _read_csv(path, text)


def _read_csv(path: str, text: str) -> Log:
    """Return the rows that are not empty, in the columns with names. The index has their lines.

    Raises:
        UserError: If the text is damaged.
    """
    import pandas

    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    try:
        cells = pandas.read_csv(
            io.StringIO(text),
            sep=delimiter,
            engine="python",
            index_col=False,
            skip_blank_lines=False,
            dtype=str,
            keep_default_na=False,
        )
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    cells = cells.fillna("").apply(lambda column: column.str.strip())
    cells.columns = cells.columns.str.strip()
    cells.index += 2  # The first row is line 2, below the header.
    rows = cells.loc[cells.ne("").any(axis=1), ~cells.columns.str.startswith("Unnamed: ")]
    if rows.empty:
        raise UserError(f"{path}: received a header alone; at least one row is expected.")
    return Log(path, CSV, rows)
