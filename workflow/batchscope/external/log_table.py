"""Join the texts of all logs into one table under our names, by known names and the user's keys."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas

from batchscope.core import disk, display, problems
from batchscope.core.errors import UserError, raise_problems
from batchscope.external import log_files, log_reading
from batchscope.external.log_files import Log
from batchscope.study import external_columns, log_names, run_factors
from batchscope.study.log_keys import LogFormat, Logs
from batchscope.study.log_names import MULTIPLIERS, PROGRESS
from batchscope.study.tasks import Metrics

_COLUMNS = (*PROGRESS, "seconds", "batch_size", "seed", "status", *MULTIPLIERS)
_MAX_SHOWN = 12  # largest number of columns in a message
_PRECISIONS = run_factors.FACTORS["precision"].choices


@dataclass(frozen=True, eq=False)
class LogTable:
    """The rows of all logs.

    Attributes:
        texts: Columns under our names, and factors; an empty text if a cell has no value.
        places: For each row, `log`, the index of its log, and `line`.
        names: Map of our name to the name in the logs if it differs.
        factors: Map of a column that may be a factor to whether the user names it.
        ignored: Columns that are not read.
        has_one_run_per_log: Whether every log has one run, with a batch size from its path.
        metrics: User-defined metrics.
        notes: Sentences about ignored columns and assumptions.
    """

    texts: pandas.DataFrame
    places: pandas.DataFrame
    logs: list[Log]
    names: dict[str, str]
    factors: dict[str, bool]
    ignored: list[str]
    has_one_run_per_log: bool
    metrics: Metrics
    notes: list[str] = field(default_factory=list)

    def place(self, row: int) -> str:
        log = self.logs[self.places.at[row, "log"]]
        return f"{log.path}, {log.unit} {self.places.at[row, 'line']}"

    def name(self, ours: str) -> str:
        return problems.clip(self.names.get(ours, ours))

    @property
    def outcomes(self) -> tuple[str, ...]:
        return external_columns.outcomes(self.metrics)

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
        renamed = [f"{problems.clip(theirs)} is {ours}" for ours, theirs in self.names.items()]
        return "; ".join(filter(None, [formats, ", ".join(renamed)]))

    def no_outcome(self, key: str) -> UserError:
        columns = listed_columns(self.logs[0].rows)
        text = f"no loss or metric: not in the columns {columns}; name one by `{key}`, as in "
        return UserError(f"{self.place(0)}: {text}{{validation_loss: ...}}.")


def read(keys: LogFormat, paths: Mapping[str, Mapping[str, str]], metrics: Metrics) -> LogTable:
    """Read logs into one table.

    Args:
        paths: Map of a log's path to the factors that all its rows share.

    Raises:
        UserError: If a log cannot be read, or its columns are ambiguous.
    """
    user_names, is_external = [metric.name for metric in metrics], isinstance(keys, Logs)
    user_columns = {theirs: ours for ours, theirs in keys.columns.items()}
    user_columns |= {name: name for name in (keys.factors if is_external else ())}
    user_named, names, ignored = {*user_columns.values()}, {}, {}
    has_one_run_per_log = True
    logs, tables, places = [], [], []
    for path, factors in paths.items():
        log = log_reading.read(path, keys, user_names)
        values = {_our_factor(name): value for name, value in factors.items()}
        mapping = _our_names(log, user_columns, values, user_names)
        ignored |= dict.fromkeys(name for name in log.rows if name not in mapping)
        names |= {ours: theirs for theirs, ours in mapping.items() if ours != theirs}
        user_named |= {*values}
        has_one_run_per_log &= "batch_size" in values
        tables.append(log.rows[[*mapping]].rename(columns=mapping).assign(**values))
        places += [(len(logs), line) for line in log.rows.index]
        logs.append(log)
    present = dict.fromkeys(name for log in logs for name in log.rows)
    expected = f"one of {listed_columns(present)}"
    raise_problems(
        problems.received(("columns or factors",), name, expected, present).line
        for name in user_columns
        if name not in present
    )
    texts = pandas.concat(tables, ignore_index=True).fillna("")
    read_names = (*_COLUMNS, *external_columns.outcomes(metrics))
    factors = {name: name in user_named for name in texts if name not in read_names}
    frame = pandas.DataFrame(places, columns=["log", "line"])
    table = LogTable(texts, frame, logs, names, factors, [*ignored], has_one_run_per_log, metrics)
    _check_table(table)
    return table


def find_logs(patterns: Iterable[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return the paths that match patterns, each with its factors."""
    paths: dict[str, dict[str, str]] = {}
    for pattern in patterns:
        try:
            for path, factors in log_files.matching_paths(pattern, folder):
                if not path.isprintable():
                    raise UserError(
                        f"received {problems.show(path)}; a printable path is expected."
                    )
                paths.setdefault(log_files.shown_path(path), factors)
        except UserError as error:
            raise UserError(f"files: {error}") from None
    return paths


def _our_factor(name: str) -> str:
    ours = log_names.our_name(name)
    return ours if ours in (*_COLUMNS, *run_factors.FACTORS) else name


def _our_names(
    log: Log, user_columns: Mapping[str, str], present: Iterable[str], metrics: Collection[str]
) -> dict[str, str]:
    """Return a map of names in the log to our names, without the columns that are not read.

    Args:
        user_columns: The user's map of names in the log to our names.
        present: Our names that have values without a column.

    Raises:
        UserError: If several columns have one of our names.
    """
    cells = log.rows
    result = {theirs: ours for theirs, ours in user_columns.items() if theirs in cells}
    remaining = [name for name in cells if name not in result]
    for ours, several in log_names.candidates(
        remaining, metrics, {*result.values(), *present}
    ).items():
        if len(several) > 1:
            raise UserError(
                f"{log.path}: received {display.listed(several)}, each of which may be {ours}; one "
                f"is expected, named by `columns: {{{ours}: {several[0]}}}`."
            )
        texts = {*cells[several[0]]}
        is_factor = ours in run_factors.FACTORS and ours not in _COLUMNS
        unused = texts == {""} if is_factor else ours == "machine" and len(texts) == 1
        if not unused and (ours != "precision" or texts <= {*_PRECISIONS, ""}):
            result[several[0]] = ours
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
        rows = table.texts[table.places["log"] == index]
        filled = {name for name in rows if rows[name].ne("").any()}
        if "batch_size" not in filled:
            columns = listed_columns(log.rows)
            near = problems.nearest("batch_size", log.rows) or "..."
            raise UserError(
                f"{log.path}: no batch size: not in the path, not in the columns {columns}; name "
                f"it by `files: .../bs{{batch_size}}/...` or `columns: {{batch_size: {near}}}`."
            )
        if not filled & {*PROGRESS, "status"}:
            raise UserError(
                f"{log.path}: no updates, examples or epochs: not in the columns "
                f"{listed_columns(log.rows)}; name them by `columns: {{updates: ...}}`."
            )


def listed_columns(names: Iterable[str]) -> str:
    return display.short_list([problems.clip(name) for name in names], most=_MAX_SHOWN) or "none"
