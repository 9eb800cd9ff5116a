"""Read logs that are texts: printed lines, JSON, or a CSV table. `Log` holds the rows of a log.

A new format is a branch of `read`, with its name in the message at the end.
"""

import io
import json
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from batchscope.core import display, problems
from batchscope.core.errors import UserError, check_regular, unexpected
from batchscope.study import log_format
from batchscope.study.log_format import LogFormat

CSV = "CSV"
NULL = "null"  # text of a null that stands for a loss or a metric
_DELIMITERS = (",", ";", "\t")
_HISTORY_KEY = "log_history"  # in Hugging Face's trainer_state.json
_SUMMARY_KEY = "train_runtime"  # key of Hugging Face's row about the whole training
_WORD_REGEX = r"[-+]?(?i:nan|inf(?:inity)?)\b|[A-Za-z][\w.-]*"
# A per cent sign belongs to the number before it.
_PATTERN_PART = re.compile(r"\{(\w+)\}(?: ?%)?(,?)|(\*)|(\s+)|([^{*\s]+|\{)")
_ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08+")  # from progress bars
_EXAMPLE_PATTERN = "step {updates}: train loss {train_loss}, val loss {validation_loss}"
_ADVICE = f'Printed lines are read by `lines: "{_EXAMPLE_PATTERN}"`.'


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of a file, or of one run of a folder.

    Attributes:
        rows: Texts; an empty text if a cell has no value. The index is the place of a row.
        files: All files that were read; if empty, the file is the path.
        unit: Unit of the index, such as `line`.
    """

    path: str
    format: str
    rows: pandas.DataFrame
    files: tuple[str, ...] = ()
    unit: str = "line"


def read(path: str, keys: LogFormat, metrics: Collection[str]) -> Log:
    """Return the log in a text file.

    Args:
        metrics: User-defined metrics.

    Raises:
        UserError: If the format is unknown, or the file is missing or damaged.
    """
    text = _file_text(path)
    if keys.lines:
        return read_printed_lines(path, text, keys.lines)
    content = _parse_json(text)
    if isinstance(content, dict) and isinstance(content.get(_HISTORY_KEY), list):
        return _read_trainer_state(path, content)
    # JSON comes before CSV, because programs print other lines before their first object.
    if any(line.lstrip()[:1] == "{" and _parse_json(line) for line in text.splitlines()):
        return _read_json_lines(path, text, keys, metrics)
    header = [cell.strip(' "') for cell in re.split(r"[,;\t]", text.partition("\n")[0])]
    if {*header} & {*keys.columns.values()} or any(
        log_format.our_name(cell, metrics) for cell in header
    ):
        return _read_csv(path, text)
    raise UserError(
        f"{path}: received none of a CSV table with a known column or one that `columns: "
        "{validation_loss: ...}` names, JSON lines, event files of TensorBoard, or a "
        f"trainer_state.json of Hugging Face. {_ADVICE}"
    )


def make_table(path: str, rows: Mapping[int, Mapping[str, str]]) -> pandas.DataFrame:
    """Return a table of texts from rows by their places; an empty text if a row has no value."""
    if not any(rows.values()):
        raise UserError(f"{path}: received no row of an evaluation; some are expected.")
    return pandas.DataFrame([*rows.values()], index=[*rows], dtype=object).fillna("")


def read_printed_lines(path: str, text: str, patterns: Collection[str]) -> Log:
    """Return the log of the lines that match a pattern, as in "step {updates}: loss {train_loss}".

    Raises:
        UserError: If a pattern is invalid, or no line matches.
    """
    expressions = [_compile_pattern(pattern) for pattern in patterns]
    lines = re.split(r"\r\n|\r|\n", _ESCAPE_SEQUENCES.sub("", text))
    rows = {}
    for number, line in enumerate(lines, start=1):
        for match in filter(None, (expression.search(line) for expression in expressions)):
            rows[number] = match.groupdict()
    if not rows:
        listed = display.listed(map(problems.show, patterns), "or")
        raise UserError(f"{path}: received no line like {listed}. {_ADVICE}")
    return Log(path, "printed lines", make_table(path, rows))


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    expression, names = "", []
    for name, comma, wild, blank, literal in _PATTERN_PART.findall(pattern):
        names += [name] if name else []
        # A decimal comma makes an invalid number, which a message shows, and not a wrong one.
        commas = "" if comma else r"(?:,\d[\d.]*)*"
        number = rf"[-+]?(?:\d[\d_]*\.?\d*|\.\d+){commas}(?:[eE][-+]?\d+)?(?: ?%)?"
        expression += f"(?P<{name}>{number}|{_WORD_REGEX}){comma}" if name else ""
        expression += ".*?" if wild else r"\s+" if blank else re.escape(literal)
    try:
        if names:
            return re.compile(expression)
    except re.error:  # a name occurs twice, or is no identifier
        pass
    text = f'different names in braces are expected, as in "{_EXAMPLE_PATTERN}"'
    raise UserError(f"lines: received {problems.show(pattern)}; {text}.")


def _read_trainer_state(path: str, state: dict[str, Any]) -> Log:
    """Return the evaluations of Hugging Face's trainer_state.json.

    They have the parameters of the trial, and the batch size of one device.
    """
    constants = state.get("trial_params") or {}
    constants = {**constants, "train_batch_size": state.get("train_batch_size")}
    history = (row for row in state[_HISTORY_KEY] if _SUMMARY_KEY not in row)
    rows = [_flat_texts({**constants, **row}) for row in history]
    table = make_table(path, dict(enumerate(rows, start=1)))
    return Log(path, "Hugging Face trainer state", table, unit="entry")


def _read_json_lines(path: str, text: str, keys: LogFormat, metrics: Collection[str]) -> Log:
    """Return the log of a text with one object per line. Other lines are ignored.

    An object without progress and outcomes states parameters of the following lines. The text of a
    loss or metric that is null is `NULL`, since programs write NaN so.
    """
    columns = keys.columns.items()
    user_named = {theirs for ours, theirs in columns if log_format.is_evaluated(ours, metrics)}
    rows, parameters = {}, {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip()[:1] != "{":
            continue
        if not isinstance(content := _parse_json(line), dict):
            raise UserError(f"{path}, line {number}: received no JSON object; one is expected.")
        row = _flat_texts(content)
        if any(name in user_named or log_format.is_evaluated(name, metrics) for name in row):
            empty = (name for name, text in row.items() if not text)
            outcomes = (n for n in empty if n in user_named or log_format.is_outcome(n, metrics))
            rows[number] = parameters | row | dict.fromkeys(outcomes, NULL)
        else:
            parameters |= row
    return Log(path, "JSON lines", make_table(path, rows))


def _parse_json(text: str) -> Any:
    """Return the value of a text that is JSON; None otherwise."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _flat_texts(values: Mapping[Any, Any], prefix: str = "") -> dict[str, str]:
    """Return nested values as texts under dotted names, without lists."""
    texts: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            texts |= _flat_texts(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            texts[f"{prefix}{key}"] = "" if value is None else str(value).strip()
    return texts


def _read_csv(path: str, text: str) -> Log:
    """Return the rows that are not empty, in the columns with names. The index has their lines.

    Raises:
        UserError: If the text is damaged.
    """
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    lost_cells = pandas.errors.ParserWarning
    try:
        with warnings.catch_warnings(action="error", category=lost_cells):
            cells = pandas.read_csv(
                io.StringIO(text),
                sep=delimiter,
                engine="python",
                index_col=False,
                skip_blank_lines=False,
                dtype=str,
                keep_default_na=False,
            )
    except lost_cells:
        text = "more cells than the header has names"
        raise unexpected(f"{path}, line 2", text, "a name for each") from None
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    cells = cells.fillna("").apply(lambda column: column.str.strip())
    cells.columns = cells.columns.str.strip()
    cells.index += 2  # The first row is line 2, below the header.
    rows = cells.loc[cells.ne("").any(axis=1), ~cells.columns.str.startswith("Unnamed: ")]
    if rows.empty:
        raise UserError(f"{path}: received a header alone; at least one row is expected.")
    return Log(path, CSV, rows)


def _file_text(path: str) -> str:
    try:
        check_regular(path, "a log")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: received no text ({error}); a log is expected.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}); a log is expected.") from None
