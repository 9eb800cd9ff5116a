"""One table of the texts of all logs under our names. Columns that nobody names are not read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas

from batchscope import disk, problems, wording
from batchscope.errors import UserError, raise_problems
from batchscope.external import log_files, log_reading
from batchscope.external.log_files import Log
from batchscope.study import log_names, own_columns, run_factors
from batchscope.study.log_keys import LogFormat, Logs
from batchscope.study.log_names import IDENTITY, MULTIPLIERS, PROGRESS

_READ = (*PROGRESS, "seconds", "seconds_per_epoch", "batch_size", "seed", "status", *MULTIPLIERS)
_SHORT = {"batch_size": "bs", "seed": "seed"}
_MOST_SHOWN = 12  # names of columns
_PRECISIONS = run_factors.FACTORS["precision"].choices


@dataclass(frozen=True, eq=False)
class LogTable:
    """The rows of all logs.

    Attributes:
        texts: Columns under our names, and factors; empty where there is nothing.
        places: `log`, the number of a row's log, and `line`.
        names: Our name -> the name in the logs, if it differs.
        percent: Our names of columns in per cent.
        factors: Columns that may be factors. `named` are those that the user names.
        ignored: Columns that are not read.
        of_runs: Whether every log is of one run, with a batch size from its path.
    """

    texts: pandas.DataFrame
    places: pandas.DataFrame
    logs: list[Log]
    names: dict[str, str] = field(default_factory=dict)
    percent: frozenset[str] = frozenset()
    factors: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()
    of_runs: bool = False

    def place(self, row: int) -> str:
        log = self.logs[self.places.at[row, "log"]]
        return f"{log.path}, {log.unit} {self.places.at[row, 'line']}"

    def name(self, ours: str) -> str:
        return problems.clip(self.names.get(ours, ours))

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
        """Formats of the logs, and columns that were renamed."""
        formats = wording.listed(dict.fromkeys(log.format for log in self.logs))
        notes = dict.fromkeys(note for log in self.logs for note in log.notes)
        renamed = [f"{problems.clip(theirs)} is {ours}" for ours, theirs in self.names.items()]
        more = ", ".join([*notes, *renamed])
        return f"{formats}; {more}" if more else formats


def read(
    keys: LogFormat, paths: Mapping[str, Mapping[str, str]], metrics: Iterable[str]
) -> LogTable:
    """Return the rows of logs.

    Args:
        paths: Path -> factors of all of its rows.

    Raises:
        UserError: If a log cannot be read, or its columns leave a question open.
    """
    metrics = tuple(metrics)
    pattern = keys.pattern if isinstance(keys, Logs) else {}
    logs, tables, places = [], [], []
    names: dict[str, str] = {}
    percent, ignored, named, of_runs = set(), {}, set(), True
    for path, of_path in paths.items():
        for log in log_reading.read(path, keys, metrics):
            stated = _renamed(of_path) | _renamed(_of_parts(log.path, pattern.get("")))
            if isinstance(keys, Logs):
                _check_path(log, stated)
            cells = _with_patterns(log, pattern)
            mapping, others = _mapping(log, cells, keys, metrics, stated)
            ignored |= dict.fromkeys(name for name in others if name not in pattern)
            of_runs &= "batch_size" in stated
            table = cells[[*mapping]].rename(columns=mapping)
            names |= {ours: theirs for theirs, ours in mapping.items() if ours != theirs}
            percent |= {
                ours
                for theirs, ours in mapping.items()
                if {theirs, ours} & {*keys.percent} or theirs.rstrip(")] ").endswith("%")
            }
            named |= {*of_path, *stated} | {*cells} - {*log.rows}
            tables.append(table.assign(**stated))
            places += [(len(logs), line) for line in log.rows.index]
            logs.append(log)
    _check_columns(keys, logs)
    texts = pandas.concat(tables, ignore_index=True).fillna("")
    named |= {*keys.columns} | {*getattr(keys, "factors", ())}
    known = (*_READ, *own_columns.outcomes(metrics))
    factors = tuple(name for name in texts if name not in known)
    table = LogTable(
        texts,
        pandas.DataFrame(places, columns=["log", "line"]),
        logs,
        names,
        frozenset(percent),
        factors,
        frozenset(named & {*factors}),
        tuple(ignored),
        of_runs,
    )
    _check_identity(table)
    return table


def found_paths(patterns: Iterable[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return the paths that match patterns, each with its factors."""
    paths: dict[str, dict[str, str]] = {}
    for pattern in patterns:
        try:
            for path, factors in log_files.Pattern(pattern).paths(folder):
                if not path.isprintable():
                    raise UserError(
                        f"received {problems.show(path)}; a printable path is expected."
                    )
                paths.setdefault(log_files.relative(path), factors)
        except UserError as error:
            raise UserError(f"files: {error}") from None
    return paths


def _renamed(factors: Mapping[str, str]) -> dict[str, str]:
    """Return factors of a path under our names."""
    ours = {name: log_names.ours(name) for name in factors}
    return {ours[name] if ours[name] in _READ else name: text for name, text in factors.items()}


def _of_parts(path: str, pattern: str | None) -> dict[str, str]:
    """Return the factors in whole parts of a path."""
    if not pattern:
        return {}
    factors = log_files.Pattern(pattern).within(Path(path).as_posix())
    if factors is None:
        raise UserError(
            f"pattern: received {problems.show(pattern)}, which is no part of "
            f"{problems.show(path)}; whole parts are expected."
        )
    return factors


def _with_patterns(log: Log, patterns: Mapping[str, str]) -> pandas.DataFrame:
    """Return the rows of a log with the factors that a pattern reads from a column."""
    cells = log.rows
    for column, text in patterns.items():
        if not column:
            continue
        if column not in cells:
            raise UserError(f"pattern: received {problems.show(column)}; {_one_of(cells)}.")
        pattern = log_files.Pattern(text)
        found = {cell: pattern.within(cell) for cell in cells[column].unique()}
        if wrong := [cell for cell, factors in found.items() if factors is None]:
            raise UserError(
                f"pattern: received {problems.show(text)}, which is not like "
                f"{problems.show(wrong[0])}, {column} of {log.path}; the whole text is expected."
            )
        for name in pattern.names:
            cells = cells.assign(**{name: [found[cell][name] for cell in cells[column]]})
    return cells


def _mapping(
    log: Log,
    cells: pandas.DataFrame,
    keys: LogFormat,
    metrics: tuple[str, ...],
    stated: Mapping[str, str],
) -> tuple[dict[str, str], list[str]]:
    """Return name in the log -> our name, and the columns that are not read.

    Args:
        stated: Names that the path states.

    Raises:
        UserError: If several columns have one of our names.
    """
    by_format = PROGRESS if log.progress else ()
    result = {
        theirs: ours
        for ours, theirs in keys.columns.items()
        if theirs in cells and ours not in by_format
    }
    result |= {name: name for name in getattr(keys, "factors", ()) if name in cells}
    others = [name for name in cells if name not in result]
    candidates = log_names.candidates(others, metrics, {*result.values(), *stated})
    for ours, several in candidates.items():
        if len(several) > 1:
            raise UserError(
                f"{log.path}: received {wording.listed(several)}, each of which may be {ours}; one "
                f"is expected, named by `columns: {{{ours}: {several[0]}}}`."
            )
        texts = cells[several[0]]
        is_precision = ours != "precision" or {*texts} <= {*_PRECISIONS, ""}
        single = ours in run_factors.FACTORS and texts.eq("").all()
        single |= ours == "machine" and texts.nunique() == 1
        if is_precision and not single:
            result[several[0]] = ours
    return result, [name for name in others if name not in result]


def _check_columns(keys: LogFormat, logs: Iterable[Log]) -> None:
    """Raise for columns that the user names and no log has."""
    present = dict.fromkeys(name for log in logs for name in log.rows)
    stated = [(("columns", ours), theirs) for ours, theirs in keys.columns.items()]
    stated += [(("factors", at), name) for at, name in enumerate(getattr(keys, "factors", ()))]
    raise_problems(
        problems.received(place, name, _one_of(present), present).line
        for place, name in stated
        if name not in present
    )


def _check_path(log: Log, stated: Mapping[str, str]) -> None:
    """Raise if a path states another batch size or seed than a column."""
    columns = log_names.candidates(log.rows)
    for name in {"batch_size", "seed"} & {*columns} & {*stated}:
        texts = pandas.Series([stated[name], *log.rows[columns[name][0]].unique()])
        if pandas.to_numeric(texts, errors="coerce").dropna().nunique() > 1:
            raise UserError(
                f"{log.path}: received the {name.replace('_', ' ')} {stated[name]} by the path, "
                f"and {wording.listed(texts[1:])} in a column; the same is expected."
            )


def _check_identity(table: LogTable) -> None:
    """Raise if a log states no batch size or no progress; and for unprintable texts."""
    unprintable = [name for name in table.texts if not name.isprintable()]
    raise_problems(
        f"{table.logs[0].path}: received the column {problems.show(name)}; a printable name is "
        "expected."
        for name in unprintable
    )
    for name in table.factors:
        for row in table.texts.index[~table.texts[name].map(str.isprintable)][:1]:
            shown = problems.show(table.texts.at[row, name])
            raise UserError(
                f"{table.place(row)}, {table.name(name)}: received {shown}; a printable text is "
                "expected."
            )
    for at, log in enumerate(table.logs):
        rows = table.texts[table.places["log"] == at]
        if "batch_size" not in rows or rows["batch_size"].eq("").all():
            raise UserError(f"{log.path}: {question(log, 'batch_size')}")
        if all(name not in rows or rows[name].eq("").all() for name in PROGRESS):
            failed = "status" in rows and rows["status"].ne("").any()
            if not failed:
                raise UserError(
                    f"{log.path}: no updates, examples or epochs: not in the columns "
                    f"{listed(log.rows)}; name them by `columns: {{updates: ...}}`."
                )


def question(log: Log, name: str) -> str:
    """Return the question for a batch size that a log does not state."""
    part = f"{_SHORT[name]}{{{name}}}"
    proposals = [*_proposals(log, name)]
    if not proposals:
        near = problems.nearest(name, log.rows) or "..."
        proposals = [f"`files: .../{part}/...`", f"`columns: {{{name}: {near}}}`"]
    text = f"no {name.replace('_', ' ')}: not in the path, not in the columns {listed(log.rows)}"
    return f"{text}; name it by {wording.listed(proposals, 'or')}."


def _proposals(log: Log, name: str) -> Iterator[str]:
    """Yield keys for a path or a column with texts such as `batch_size_32` or `bs=32`."""
    if f"{{{name}}}" in (pattern := log_names.pattern([Path(log.path).as_posix()], IDENTITY)):
        yield f'`files: "{pattern}"`'
    for column in log.rows:
        texts = log.rows[column].unique()[:100]
        pattern = log_names.pattern(texts, IDENTITY)
        if f"{{{name}}}" in pattern:
            yield f'`pattern: {{{column}: "{pattern}"}}`'


def _one_of(names: Iterable[str]) -> str:
    return f"one of {listed(names)} is expected"


def listed(names: Iterable[str]) -> str:
    return wording.some([problems.clip(name) for name in names], most=_MOST_SHOWN) or "none"
