"""One table of the cells of all logs, under our names, with the factors of paths and logs."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas

from batchscope import disk, problems, wording
from batchscope.errors import ConfigError, UserError, raise_problems
from batchscope.external import files, reading
from batchscope.external.log import Log
from batchscope.study import log_columns
from batchscope.study.log_source import CLOCKS, FORMATS, Source
from batchscope.study.own_columns import AXES

# Columns that number trainings where none is called seed.
NUMBERS = ("run", "trial", "replicate", "repeat", "rep", "fold")
_SHORT = {"batch_size": "bs", "seed": "seed"}
_COUNTERS = ("updates", "examples", "epoch")  # by the first of which rows are of one evaluation
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NONE: Mapping[str, str] = {}
_MOST_SHOWN = 12  # names of columns


@dataclass(frozen=True, eq=False)
class LogCells:
    """The rows of all logs."""

    # Texts under our names, or those of the logs; `log` is which of them, in `places`.
    table: pandas.DataFrame
    places: pandas.DataFrame  # `log`, its number, `run`, that of its training, and `line` of a row
    logs: list[Log]
    called: list[dict[str, str]]  # of each log: our name -> its own
    stated: frozenset[str]  # names that paths or the user's columns give
    parameters: pandas.DataFrame  # of each log what has no name of ours
    metrics: tuple[str, ...]  # those that the study names
    of_runs: bool  # whether each log is of one training, whose batch size no column says

    def place(self, row: int) -> str:
        log = self.logs[self.places.at[row, "log"]]
        return f"{log.path}, {log.counted} {self.places.at[row, 'line']}"

    def name(self, row: int, ours: str) -> str:
        return problems.clip(self.called[self.places.at[row, "log"]].get(ours, ours))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(sorted({path for log in self.logs for path in log.files or (log.path,)}))

    @property
    def sha256(self) -> str:
        """The digest of a single file, or of those of all files."""
        digests = [*map(disk.file_sha256, self.files)]
        if len(digests) == 1:
            return digests[0]
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    @property
    def read_as(self) -> str:
        """What the logs were recognised as, and what of them is called otherwise."""
        kinds = dict.fromkeys(FORMATS[log.format] for log in self.logs)
        notes = dict.fromkeys(note for log in self.logs for note in log.notes)
        renamed = {f"{theirs} is {ours}": None for of in self.called for ours, theirs in of.items()}
        shown = [problems.clip(each) for each in (*notes, *renamed)]
        return "; ".join([wording.listed(kinds), *([", ".join(shown)] if shown else [])])


def gather(source: Source, folder: Path, known: Mapping[str, str] = _NONE) -> LogCells:
    """Returns the cells of all logs of a source, whose paths are seen from a folder.

    Args:
        known: Factors of every log.

    Raises:
        UserError: If a log cannot be found or read, or leaves a question open.
    """
    logs, factors = [], []
    pattern = files.Pattern(source.pattern) if source.pattern else None
    for path, of_path in _found(source, folder):
        for log in reading.read(path, source.format):
            within = pattern.within(log.name or Path(log.path).as_posix()) if pattern else {}
            if within is None:
                raise UserError(
                    f"pattern: received {problems.show(source.pattern)}, which is no part of "
                    f"{problems.show(log.name or log.path)}; whole parts are expected."
                )
            logs.append(log)
            of_path = {
                _of_log(name) or name: value for name, value in {**of_path, **within}.items()
            }
            factors.append({**known, **of_path})
    stated = dict(source.columns)
    _check_stated(stated, logs)
    tables, called, rest = [], [], []
    for log, given in zip(logs, factors, strict=True):
        table, own, parameters = _named(log, given, stated, source.metrics)
        _check_alike(log, table, {name: given[name] for name in given.keys() - known.keys()})
        table = table.assign(**given)
        tables.append(table)
        called.append(own)
        rest.append(parameters)
    _check_named(tables, logs)
    kept = [*_kept(logs, factors, tables)]
    table = pandas.concat([tables[at] for at, _ in kept], ignore_index=True).fillna("")
    lines = [(at, run, line) for at, run in kept for line in logs[at].rows.index]
    places = pandas.DataFrame(lines, columns=["log", "run", "line"])
    found = LogCells(
        table,
        places,
        logs,
        called,
        frozenset({*stated, *(name for given in factors for name in given)} - {*known}),
        pandas.DataFrame(rest),
        source.metrics,
        not any("batch_size" in log_columns.mapping(log.rows, stated)[0].values() for log in logs),
    )
    _check_characters(found)
    return _whole(found)


def _found(source: Source, folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Returns the paths of a source, from here if they are below it, each with its factors."""
    found: dict[str, dict[str, str]] = {}
    for each in source.files:
        try:
            for path, factors in files.Pattern(each).found(folder):
                if _CONTROL.search(path):
                    shown = f"received {problems.show(path)}; a path without control characters"
                    raise UserError(f"{shown} is expected.")
                found.setdefault(files.located(path), factors)
        except UserError as error:
            raise UserError(f"files: {error}") from None
    return [*found.items()]


def _of_log(name: str) -> str:
    """Returns our name of a factor or a parameter, of which the last part counts; or nothing."""
    *above, last = name.split(".")
    known = log_columns.ours(last)
    if known and known[0] == "batch_size" and any(map(log_columns.of_evaluations, above)):
        return ""
    return known[0] if known and known[0] in log_columns.FACTORS else ""


def _check_stated(stated: Mapping[str, str], logs: Iterable[Log]) -> None:
    """Raises where the user's columns name something that no log has."""
    known = dict.fromkeys(name for log in logs for name in (*log.rows, *log.parameters))
    wrong = [
        problems.received(("columns", ours), theirs, f"one of {listed(known)}", known).line
        for ours, theirs in stated.items()
        if theirs not in known
    ]
    if wrong:
        raise ConfigError(wrong)


def _named(
    log: Log, factors: Mapping[str, str], stated: Mapping[str, str], metrics: tuple[str, ...]
) -> tuple[pandas.DataFrame, dict[str, str], dict[str, str]]:
    """Returns a log's cells under our names, what is called otherwise, and further parameters."""
    mapping, several = log_columns.mapping(log.rows, stated, metrics)
    for ours, candidates in several.items():
        if ours not in factors:
            raise UserError(f"{log.path}: {log_columns.question(ours, candidates)}")
    table = log.rows.rename(columns=mapping)
    rest, constant = {}, {}
    for name, value in log.parameters.items():
        own = (ours for ours, theirs in stated.items() if theirs == name)
        automatic = _of_log(name)
        ours = next(own, "" if automatic in stated else automatic)
        if not ours or ours in table or ours in factors:
            rest[name] = value
        elif constant.setdefault(ours, value) != value:
            raise UserError(f"{log.path}: {log_columns.question(ours, [*log.parameters])}")
    table = table.assign(**constant)
    called = {ours: theirs for theirs, ours in mapping.items() if ours != theirs}
    known = {*table, *factors}
    return table, called, {name: value for name, value in rest.items() if name not in known}


def _check_alike(log: Log, table: pandas.DataFrame, of_path: Mapping[str, str]) -> None:
    """Raises where a path says another batch size or seed than a column of the log."""
    for name in {"batch_size", "seed"} & {*table} & {*of_path}:
        said = {text: pandas.to_numeric(text, errors="coerce") for text in table[name].unique()}
        own = float(pandas.to_numeric(of_path[name], errors="coerce"))
        others = [text for text, number in said.items() if number == number and number != own]
        if own == own and others:
            raise UserError(
                f"{log.path}: received the {name.replace('_', ' ')} {of_path[name]} by the path, "
                f"and {wording.listed(others)} in a column; the same is expected."
            )


def question(log: Log, name: str) -> str:
    """Returns the question for a batch size or a seed, which a log does not say."""
    places = [f"the run's name {problems.show(log.name)}" if log.name else "the path"]
    places += [f"the columns {listed(log.rows)}"]
    places += [f"the parameters {listed(log.parameters)}"] if log.parameters else []
    known = [*log.rows, *log.parameters]
    numbered = (each for each in NUMBERS if name == "seed" and each in known)
    near = next(numbered, problems.nearest(name, known) or "...")
    part = f"{_SHORT[name]}{{{name}}}"
    within = f"pattern: {part}" if log.name else f"files: .../{part}/..."
    return (
        f"no {name.replace('_', ' ')}: {', '.join(f'not in {each}' for each in places)}; name it "
        f"by `{within}` or `columns: {{{name}: {near}}}`."
    )


def _check_named(tables: Iterable[pandas.DataFrame], logs: Iterable[Log]) -> None:
    """Raises the question for a batch size, or for what was used, that a log does not say."""
    for table, log in zip(tables, logs, strict=True):
        if "batch_size" not in table:
            raise UserError(f"{log.path}: {question(log, 'batch_size')}")
        if not {*table} & {*_COUNTERS}:
            raise UserError(
                f"{log.path}: no updates, examples or epochs: not in the columns "
                f"{listed(log.rows)}; name them by `columns: {{updates: ...}}`."
            )


def _kept(
    logs: list[Log], factors: list[dict[str, str]], tables: list[pandas.DataFrame]
) -> Iterator[tuple[int, int]]:
    """Yields the number of each log that counts, and that of the training that it is of.

    Logs of the same factors, none of which has a column of another beside what they count, are
    parts of one training: curves of one loss each. A state of Hugging Face that is the beginning of
    another one is a checkpoint of that training, and does not count.
    """
    parts: dict[tuple[str, ...], list[int]] = {}
    for at, (log, given) in enumerate(zip(logs, factors, strict=True)):
        named = sorted(f"{name}={value}" for name, value in given.items())
        parts.setdefault((*named, log.name) if given or log.name else (log.path,), []).append(at)
    shared = {*_COUNTERS, *AXES, *CLOCKS, "batch_size", "seed"}
    number = itertools.count()
    for numbers in parts.values():
        if all(logs[at].format == "huggingface" for at in numbers):
            longest = sorted(numbers, key=lambda at: len(tables[at]), reverse=True)
            kept = []
            for at in longest:
                if not any(_begins(tables[other], tables[at]) for other in kept):
                    kept.append(at)
            numbers = sorted(kept)
        own = [{*tables[at]} - shared - {*factors[at]} for at in numbers]
        apart = sum(map(len, own)) > len(set().union(*own))
        run = next(number)
        for at in numbers:
            yield at, run
            run = next(number) if apart else run


def _begins(whole: pandas.DataFrame, part: pandas.DataFrame) -> bool:
    head = whole.reindex(columns=part.columns, fill_value="").head(len(part))
    return head.reset_index(drop=True).equals(part.reset_index(drop=True))


def _whole(cells: LogCells) -> LogCells:
    """Returns cells in which rows of one evaluation that complete each other are one row."""
    table, run = cells.table, cells.places["run"]
    counter = next(name for name in _COUNTERS if name in table)
    keys = [run, *(table[name] for name in ("batch_size", "seed", counter) if name in table)]
    keys = pandas.concat(keys, axis=1)
    several = keys.duplicated(keep=False) & (table[counter] != "")
    if not several.any():
        return cells
    groups = keys[several].groupby([*keys], sort=False).ngroup()
    part = table[several].mask(lambda rows: rows == "")
    by_row = part.drop(columns=[*CLOCKS], errors="ignore").groupby(groups)
    agreed = (by_row.nunique() <= 1).all(axis=1)
    counts = by_row.count()  # rows that say the same are no parts of one
    agreed &= (counts.lt(by_row.size(), axis=0) & counts.gt(0)).any(axis=1)
    merged = groups.isin(agreed.index[agreed])
    part, groups = part[merged], groups[merged]
    first = ~groups.duplicated()
    whole = part.groupby(groups, sort=False).first().set_axis(part.index[first], axis=0).fillna("")
    table = table.drop(index=part.index[~first])
    table.loc[whole.index] = whole
    places = cells.places.loc[table.index].reset_index(drop=True)
    return replace(cells, table=table.reset_index(drop=True), places=places)


def _check_characters(cells: LogCells) -> None:
    """Raises where a cell has characters that no text has: neither page nor terminal shows them."""
    wrong = [
        f"{cells.logs[0].path}: received the column {problems.show(name)}; a name without control "
        "characters is expected."
        for name in cells.table
        if _CONTROL.search(name)
    ]
    for name in cells.table:
        texts = cells.table[name]
        bad = [text for text in texts.unique() if _CONTROL.search(text)]
        wrong += [
            f"{cells.place(row)}, {cells.name(row, name)}: received {problems.show(texts[row])}; a "
            "text without control characters is expected."
            for row in texts.index[texts.isin(bad)]
        ]
    raise_problems(wrong)


def listed(columns: Iterable[str]) -> str:
    return wording.some([*map(problems.clip, columns)], most=_MOST_SHOWN) or "none"
