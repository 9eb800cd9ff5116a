"""Logs in, one table out: the texts of all logs, with our column names in place of theirs.

The user's keys name columns; `study.log_format` has the names that are recognised without keys.
"""

import glob
import hashlib
import os
import re
import string
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas

from batchscope.core import disk, display, problems
from batchscope.core.errors import UserError, raise_problems
from batchscope.external import tensorboard, text_logs
from batchscope.external.text_logs import Log
from batchscope.study import log_format, run_factors
from batchscope.study.log_format import MULTIPLIERS, PROGRESS, LogFormat
from batchscope.study.tasks import Metrics

_COLUMNS = (*PROGRESS, "seconds", "batch_size", "seed", "status", *MULTIPLIERS)
_MAX_SHOWN = 12  # largest number of columns in a message
_WILDCARDS = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}  # map to regular expressions
_PRECISIONS = run_factors.FACTORS["precision"].choices


@dataclass(frozen=True, eq=False)
class LogTable:
    """The rows of all logs.

    Attributes:
        texts: Columns under our names, and factors; an empty text if a cell has no value.
        positions: For each row, `log`, the index of its log, and `line`.
        names: Our name -> the name in the logs, if it differs.
        factors: Column that may be a factor -> whether the user names it.
        ignored: Columns that are not read.
        has_one_run_per_log: Whether every log has one run, with a batch size from its path.
        metrics: User-defined metrics.
        notes: Sentences about ignored columns and assumptions.
    """

    texts: pandas.DataFrame
    positions: pandas.DataFrame
    logs: list[Log]
    names: dict[str, str]
    factors: dict[str, bool]
    ignored: list[str]
    has_one_run_per_log: bool
    metrics: Metrics
    notes: list[str] = field(default_factory=list)

    def place(self, row: int) -> str:
        log = self.logs[self.positions.at[row, "log"]]
        return f"{log.path}, {log.unit} {self.positions.at[row, 'line']}"

    def name(self, our_name: str) -> str:
        return problems.clip(self.names.get(our_name, our_name))

    @property
    def outcomes(self) -> tuple[str, ...]:
        return log_format.outcomes_with(self.metrics)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(sorted({path for log in self.logs for path in log.files or (log.path,)}))

    @property
    def sha256(self) -> str:
        """Digest of a single file, or of the digests of all files."""
        digests = [disk.file_sha256(path) for path in self.files]
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    @property
    def read_as(self) -> str:
        """The formats of the logs and the renamed columns, in words."""
        formats = display.listed(dict.fromkeys(log.format for log in self.logs))
        renamed = [f"{problems.clip(name)} is {our_name}" for our_name, name in self.names.items()]
        return "; ".join(filter(None, [formats, ", ".join(renamed)]))

    def missing_outcome_error(self, key: str) -> UserError:
        columns = listed_columns(self.logs[0].rows)
        text = f"no loss or metric: not in the columns {columns}; name one by `{key}`, as in "
        return UserError(f"{self.place(0)}: {text}{{validation_loss: ...}}.")


def read(keys: LogFormat, paths: Mapping[str, Mapping[str, str]], metrics: Metrics) -> LogTable:
    """Read logs into one table.

    Args:
        paths: Path of a log -> the factors that all its rows share.

    Raises:
        UserError: If a log cannot be read, or its columns are ambiguous.
    """
    user_names = [metric.name for metric in metrics]
    user_columns = {name: our_name for our_name, name in keys.columns.items()}
    user_columns |= {name: name for name in getattr(keys, "factors", ())}
    names_by_user, names, ignored = {*user_columns.values()}, {}, {}
    has_one_run_per_log = True
    logs, tables = [], []
    for path, factors in paths.items():
        is_events = os.path.isfile(path) and tensorboard.EVENTS in os.path.basename(path)
        if is_events or os.path.isdir(path):
            log = tensorboard.read(path, keys.columns, user_names)
        else:
            log = text_logs.read(path, keys, user_names)
        values = {_factor_name(name): value for name, value in factors.items()}
        mapping = _our_names_in_log(log, user_columns, values, user_names)
        ignored |= dict.fromkeys(name for name in log.rows if name not in mapping)
        names |= {our_name: name for name, our_name in mapping.items() if our_name != name}
        names_by_user |= {*values}
        has_one_run_per_log &= "batch_size" in values
        tables.append(log.rows[[*mapping]].rename(columns=mapping).assign(**values))
        logs.append(log)
    present = dict.fromkeys(name for log in logs for name in log.rows)
    expected = f"one of {listed_columns(present)}"
    raise_problems(
        problems.received(("columns or factors",), name, expected, present).line
        for name in user_columns
        if name not in present
    )
    texts = pandas.concat(tables, keys=range(len(logs)), names=["log", "line"]).fillna("")
    positions, texts = texts.index.to_frame(index=False), texts.reset_index(drop=True)
    read_names = (*_COLUMNS, *log_format.outcomes_with(metrics))
    factors = {name: name in names_by_user for name in texts if name not in read_names}
    table = LogTable(
        texts, positions, logs, names, factors, [*ignored], has_one_run_per_log, metrics
    )
    _check_table(table)
    return table


def find_logs(patterns: Iterable[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return the paths that match patterns, each with its factors.

    Raises:
        UserError: If a pattern is invalid, or no path matches it.
    """
    paths: dict[str, dict[str, str]] = {}
    for pattern in patterns:
        for path, factors in _matching_paths(pattern, folder):
            if not path.isprintable():
                text = f"received {problems.show(path)}; a printable path is expected."
                raise UserError(f"files: {text}")
            paths.setdefault(shown_path(path), factors)
    return paths


def _matching_paths(pattern: str, folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the paths relative to a folder that match a pattern, with the factors of each.

    Args:
        pattern: A path with `{name}` for factors and with wildcards. `{{` is a brace.

    Raises:
        UserError: If the pattern is invalid, or no path matches.
    """
    try:
        parts = list(string.Formatter().parse(os.path.expanduser(pattern)))
    except ValueError:
        parts = [("", "", "", None)]
    glob_pattern, regex, names = "", "", set()
    for literal, name, spec, conversion in parts:
        glob_pattern += literal.replace("[", "[[]") + ("*" if name is not None else "")
        pieces = re.split(r"(\*\*/|[*?])", literal)
        regex += "".join(_WILDCARDS.get(piece) or re.escape(piece) for piece in pieces)
        if name is None:
            continue
        if spec or conversion or not name.isidentifier():
            expected = "names in braces are expected, as in logs/bs{batch_size}_seed{seed}.csv."
            raise UserError(f"files: received {problems.show(pattern)}; {expected}")
        regex += f"(?P={name})" if name in names else f"(?P<{name}>[^/]+?)"
        names.add(name)
    if not glob.has_magic(glob_pattern):
        return [(os.path.normpath(folder / os.path.expanduser(pattern.format())), {})]
    matches = [
        (os.path.normpath(folder / path), match.groupdict())
        for path in sorted(glob.glob(glob_pattern, root_dir=folder, recursive=True))
        if (match := re.fullmatch(regex, path))
    ]
    if not matches:
        text = f"which no file in {folder} matches"
        raise UserError(f"files: received {problems.show(pattern)}, {text}.")
    return matches


def shown_path(path: str) -> str:
    """Return a path without `..`. A path below the working directory becomes relative to it."""
    folder, absolute = os.getcwd(), os.path.abspath(path)
    return os.path.relpath(absolute, folder) if Path(absolute).is_relative_to(folder) else absolute


def _factor_name(name: str) -> str:
    our_name = log_format.our_name(name)
    return our_name if our_name in (*_COLUMNS, *run_factors.FACTORS) else name


def _our_names_in_log(
    log: Log, user_columns: Mapping[str, str], present: Iterable[str], metrics: Collection[str]
) -> dict[str, str]:
    """Return name in the log -> our name, for the columns that are read.

    Args:
        user_columns: Name in the log -> our name, as stated by the user.
        present: Our names that have values without a column.

    Raises:
        UserError: If several columns have one of our names.
    """
    cells = log.rows
    result = {name: our_name for name, our_name in user_columns.items() if name in cells}
    remaining = [name for name in cells if name not in result]
    for our_name, candidates in log_format.candidates(
        remaining, metrics, {*result.values(), *present}
    ).items():
        if len(candidates) > 1:
            raise UserError(
                f"{log.path}: received {display.listed(candidates)}, each of which may be "
                f"{our_name}; one is expected, named by `columns: {{{our_name}: {candidates[0]}}}`."
            )
        texts = {*cells[candidates[0]]}
        is_factor = our_name in run_factors.FACTORS and our_name not in _COLUMNS
        unused = texts == {""} if is_factor else our_name == "machine" and len(texts) == 1
        if not unused and (our_name != "precision" or texts <= {*_PRECISIONS, ""}):
            result[candidates[0]] = our_name
    return result


def _check_table(table: LogTable) -> None:
    """Raise a `UserError` for unprintable texts and for a log without batch size or progress."""
    for name in table.factors:
        for text in (name, *table.texts[name].unique()):
            if not text.isprintable():
                raise UserError(
                    f"{table.logs[0].path}, {problems.clip(name)}: received {problems.show(text)}; "
                    "a printable text is expected."
                )
    for index, log in enumerate(table.logs):
        rows = table.texts[table.positions["log"] == index]
        filled = {name for name in rows if rows[name].ne("").any()}
        names = [name for name in log.rows if log.rows[name].ne("").any()]
        columns = listed_columns(names)
        if "batch_size" not in filled:
            near = problems.nearest("batch_size", names) or "..."
            raise UserError(
                f"{log.path}: no batch size: not in the path, not in the columns {columns}; name "
                f"it by `files: .../bs{{batch_size}}/...` or `columns: {{batch_size: {near}}}`."
            )
        if not filled & {*PROGRESS, "status"}:
            raise UserError(
                f"{log.path}: no updates, examples or epochs: not in the columns {columns}; name "
                "them by `columns: {updates: ...}`."
            )


def listed_columns(names: Iterable[str]) -> str:
    return display.short_list([problems.clip(name) for name in names], most=_MAX_SHOWN) or "none"
