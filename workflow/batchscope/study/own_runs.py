"""A table of one's own trainings, whatever made them: a CSV file, read and checked."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from batchscope import problems, wording
from batchscope.catalogue.own_columns import ACCURACIES, AXES, LEAST_SIZES, LOSSES
from batchscope.errors import ConfigError, UserError, check_regular

_MOST_SHOWN = 20  # problems of one file
_RUN = ("batch_size", "seed")
_RATE = "learning_rate"
# Columns of trajectories.csv that say which training it is and what became of it, no more.
_NAMES = ("run", "status", "machine")
# Columns of what is computed, which no column that distinguishes series may be called.
_TAKEN = (
    "target",
    "points",
    "residual",
    "lack_of_fit",
    "stray",
    "updates_min",
    "examples_min",
    "_loss",
)
_LEAST_FULL, _MOST_FULL = 0.5, 1.02  # share of full batches that the examples may be
_NOTHING = "none"  # what an empty cell of a column that distinguishes series says

Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """Trainings of one's own.

    Attributes:
        columns: Its columns in order, with `updates` and `examples`; without the names of
            trainings, and without `seconds` where nobody knows them.
        factors: Those that may distinguish series.
        rows: One per evaluation: numbers, and text in factors that hold more than numbers.
        texts: Factor -> its cells, row by row, as the file has them.
        statuses: What became of the training, row by row; empty where the file does not say.
        single: Whether every training has one row alone, its target.
    """

    path: str
    sha256: str
    columns: tuple[str, ...]
    factors: tuple[str, ...]
    rows: tuple[Row, ...]
    texts: dict[str, list[str]]
    statuses: tuple[str, ...]
    single: bool

    @cached_property
    def trainings(self) -> dict[Key, list[int]]:
        """Training, by batch size, seed and factors -> its rows in order of updates."""
        found: dict[Key, list[int]] = {}
        for index, row in enumerate(self.rows):
            found.setdefault(tuple(row[name] for name in (*_RUN, *self.factors)), []).append(index)
        return {
            key: sorted(rows, key=lambda index: self.rows[index]["updates"])
            for key, rows in found.items()
        }

    @cached_property
    def distinguishing(self) -> tuple[str, ...]:
        """The factors that distinguish series: none that follows from batch size and others."""
        kept = [name for name in self.factors if len({row[name] for row in self.rows}) > 1]
        for name in [each for each in kept if not isinstance(self.rows[0][each], str)]:
            others = ("batch_size", *(each for each in kept if each != name))
            found = {tuple(row[each] for each in (*others, name)) for row in self.rows}
            if len(found) == len({each[:-1] for each in found}):  # it follows from these
                kept.remove(name)
        return tuple(kept)

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates that were tried, where there are several at one batch size."""
        if _RATE not in self.distinguishing or isinstance(self.rows[0][_RATE], str):
            return ()
        return tuple(sorted({row[_RATE] for row in self.rows}))

    @cached_property
    def series(self) -> dict[Key, set[int]]:
        """Series -> its batch sizes; one that tried several rates is one series."""
        names = [name for name in self.distinguishing if name != _RATE]
        found: dict[Key, set[int]] = {}
        for row in self.rows:
            found.setdefault(tuple(row[name] for name in names), set()).add(row["batch_size"])
        return found

    def filled(self, column: str) -> bool:
        """Whether a column is there and says something."""
        return any(_known(row.get(column)) for row in self.rows)


def _known(value: Any) -> bool:
    return value is not None and not math.isnan(value)


def _whole(text: str, least: int = 0) -> int:
    try:
        value = int(text)
    except ValueError:  # 3.0, which is exact below 2^53 alone
        value = float(text)
        if value != int(value) or value >= 2**53:
            raise ValueError from None
    if not least <= value < 2**63:  # which the tables do not hold
        raise ValueError
    return int(value)


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def _amount_or_never(text: str) -> float:
    return math.nan if not text or text.lower() == "inf" else _amount(text)


def _loss(text: str) -> float:
    """Returns a loss: NaN where there is none, infinity where it is no number any more."""
    value = float(text or "nan")
    if value < 0:
        raise ValueError
    return math.inf if text and math.isnan(value) else value


def _share(text: str) -> float:
    value = float(text or "nan")
    if value < 0 or value > 1:
        raise ValueError
    return value


_AMOUNT = (_amount, "a number from 0 on")
_NEVER = (_amount_or_never, "a number from 0 on, or nothing where the target was never reached")
_LOSS = (_loss, "a number from 0 on, nan where it diverged, or nothing where there is none")
_ACCURACY = (_share, "a share from 0 to 1, or nothing where there is none")
_KINDS: dict[str, tuple[Callable[[str], float], str]] = {
    "batch_size": (partial(_whole, least=1), "a whole number from 1 on, below 2^63,"),
    "seed": (_whole, "a whole number from 0 on, below 2^63,"),
    **dict.fromkeys(("epoch", *AXES), _AMOUNT),
    **dict.fromkeys(LOSSES, _LOSS),
    **dict.fromkeys(ACCURACIES, _ACCURACY),
}


def read(path: Path | str) -> Table:
    """Reads a table of one's own trainings.

    Columns: `batch_size`, `seed`, `updates` or `examples`; `seconds` where they are known; any of
    the losses and accuracies; `epoch`. `run` and `machine` of trajectories.csv, which is such a
    table, are passed over, and `status` says what became of a training. Every other column
    distinguishes series. A training has a row per evaluation, or a single one at its target.

    Raises:
        ConfigError: If the file is not such a table; with every problem, at its line and column.
        UserError: If the file is missing or cannot be read.
    """
    try:
        check_regular(path, "a CSV file")
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({why}); a CSV file is expected.") from None
    header, lines = _lines(path, content)
    _check_header(path, header)
    statuses = tuple(cells.get("status", "").strip().lower() for _, cells in lines)
    names = [name for name in header if name not in _NAMES]
    if not any(cells.get("seconds") for _, cells in lines):
        names = [name for name in names if name != "seconds"]  # known of no training
    factors = tuple(name for name in names if name not in _KINDS)
    texts = {name: [cells[name].strip() or _NOTHING for _, cells in lines] for name in factors}
    named = [tuple(cells[name] for name in _RUN) for _, cells in lines]
    single = max(Counter(zip(named, *texts.values(), strict=True)).values()) == 1
    rows = _converted(path, lines, [name for name in names if name in _KINDS], single)
    if not single and not {*LOSSES, *ACCURACIES} & {*names}:
        raise UserError(
            f"{path}, line 1: no loss or accuracy, and several rows of one training; one of "
            f"{wording.listed((*LOSSES, *ACCURACIES), 'or')} is expected, or a single row of each "
            "training, at its target."
        )
    columns = [*names, *(name for name in ("updates", "examples") if name not in names)]
    for row in rows:
        row.setdefault("examples", row.get("updates", math.nan) * row["batch_size"])
        row.setdefault("updates", row["examples"] / row["batch_size"])
    for name in factors:
        for row, value in zip(rows, _numbers(texts[name]) or texts[name], strict=True):
            row[name] = value
    digest = hashlib.sha256(content).hexdigest()
    found = Table(str(path), digest, tuple(columns), factors, tuple(rows), texts, statuses, single)
    numbers = [line for line, _ in lines]
    _end(_repeated(found, numbers))
    _end([*_backwards(found, numbers), *_disagreeing(found, numbers)])
    _check_targets(found)
    _check_sizes(found)
    return found


def _converted(
    path: Path | str, lines: list[tuple[int, dict[str, str]]], names: list[str], single: bool
) -> list[Row]:
    """Returns the numbers of every row."""
    kinds = {**_KINDS, **(dict.fromkeys(AXES, _NEVER) if single else {})}
    axes = [name for name in AXES if name in names]
    found: list[str] = []
    rows: list[Row] = []
    for line, cells in lines:
        rows.append({})
        for name in names:
            convert, expected = kinds[name]
            try:
                rows[-1][name] = convert(cells[name].strip())
            except (ValueError, OverflowError):
                text = f"received {problems.show(cells[name])}; {expected} is expected."
                found.append(f"{path}, line {line}, {name}: {text}")
        never = [name for name in axes if math.isnan(rows[-1].get(name, 0.0))]
        if never and len(never) < len(axes):
            found.append(
                f"{path}, line {line}, {never[0]}: received nothing, but a number of another of "
                f"{wording.listed(axes)}; either all or none of them is expected."
            )
    _end(found)
    return rows


def _numbers(texts: list[str]) -> list[int] | list[float] | None:
    """Returns a column's cells as numbers; None where one of them is none."""
    for convert in (int, float):
        try:
            found = [convert(text) for text in texts]
        except ValueError:
            continue
        return None if any(map(math.isnan, found)) else found
    return None


def _lines(path: Path | str, content: bytes) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Returns the columns of a CSV file, and its rows with the lines on which they end."""
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(row)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    if not rows:
        got = "a header alone" if header else "an empty file"
        raise UserError(f"{path}: received {got}; a header and at least one row are expected.")
    _end(
        f"{path}, line {line}: received {wording.count(len(row), 'cell')}; as many as the "
        f"header's {len(header)} are expected."
        for line, row in rows
        if len(row) != len(header)
    )
    return header, [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def _check_header(path: Path | str, header: list[str]) -> None:
    found = []
    if "" in header:
        found.append(
            f"{path}, line 1: received column {header.index('') + 1} without a name; a name is "
            "expected of every column. pandas writes one to the index: leave it out "
            "(`index=False`); or delete a comma at the end of the lines."
        )
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        found.append(f"{path}, line 1: received {wording.listed(twice)} twice; once is expected.")
    found += [
        f"{path}, line 1: received the column {name}, which is one of the result; another name is "
        "expected."
        for name in header
        if name in _TAKEN
    ]
    for names in (("batch_size",), ("seed",), ("updates", "examples")):
        if not {*names} & {*header}:
            near = problems.nearest(names[0], [name for name in header if name not in _KINDS])
            hint = f" Is '{near}' it?" if near else ""
            found.append(
                f"{path}, line 1: no column {wording.listed(names, 'or')}; it is expected.{hint} "
                f"Received: {', '.join(header)}."
            )
    _end(found)


def _repeated(table: Table, lines: list[int]) -> Iterator[str]:
    """Yields the rows that say something of a training a second time."""
    for key, rows in table.trainings.items():
        first: dict[float, int] = {}
        for index in sorted(rows):
            updates = table.rows[index]["updates"]
            if updates in first:
                yield (
                    f"{table.path}, line {lines[index]}: received batch size {key[0]}, seed "
                    f"{key[1]} at {wording.shortest(updates)} updates again, as in line "
                    f"{first[updates]}; one row for each evaluation is expected."
                )
            first.setdefault(updates, lines[index])


def _backwards(table: Table, lines: list[int]) -> Iterator[str]:
    """Yields the rows by which a training had used less than by an earlier one."""
    for name in (*AXES, "epoch"):
        for rows in table.trainings.values():
            known = [index for index in rows if _known(table.rows[index].get(name))]
            for before, after in pairwise(known):
                used = [table.rows[index][name] for index in (before, after)]
                if used[1] < used[0]:
                    yield (
                        f"{table.path}, line {lines[after]}, {name}: received "
                        f"{wording.shortest(used[1])}, less than the {wording.shortest(used[0])} "
                        f"of line {lines[before]}, where the training had made fewer updates; what "
                        "was used since its start is expected."
                    )


def _disagreeing(table: Table, lines: list[int]) -> Iterator[str]:
    """Yields the rows whose examples are not those of so many updates.

    An epoch's last batch may be smaller, and a run may drop it.
    """
    for line, row in zip(lines, table.rows, strict=True):
        full = row["updates"] * row["batch_size"]
        if full > 0 and not _LEAST_FULL <= row["examples"] / full <= _MOST_FULL:
            yield (
                f"{table.path}, line {line}, examples: received "
                f"{wording.shortest(row['examples'])}, but {wording.shortest(row['updates'])} "
                f"updates of batch size {row['batch_size']} use {wording.shortest(full)}; the same "
                "unit in all three is expected, or one of the columns updates and examples alone."
            )


def _check_targets(table: Table) -> None:
    """Refuses single rows that stand at a budget: trainings reach a target sooner or later."""
    for name in ("epoch", "examples") if table.single else ():
        used = {row.get(name, math.nan) for row in table.rows}
        if len(table.rows) > 1 and len(used) == 1 and _known(*used):
            raise UserError(
                f"{table.path}, {name}: received {wording.shortest(*used)} in the single row of "
                "every training, which is read as the one at its target; a row per evaluation is "
                "expected, or the row at which each training reached the target."
            )


def _check_sizes(table: Table) -> None:
    """Refuses a table of which no series holds enough batch sizes."""
    if any(len(sizes) >= LEAST_SIZES for sizes in table.series.values()):
        return
    sizes = sorted({row["batch_size"] for row in table.rows})
    if len(sizes) < LEAST_SIZES:
        raise UserError(
            f"{table.path}, batch_size: received {wording.listed(map(str, sizes))}; at least "
            f"{LEAST_SIZES} different batch sizes are expected."
        )
    names = [name for name in table.distinguishing if name != _RATE]
    missing = [name for name in _KINDS if name not in table.columns]
    near = {name: problems.nearest(name, missing) for name in names}
    hints = "".join(f" Is '{name}' {known}?" for name, known in near.items() if known)
    raise UserError(
        f"{table.path}: received {len(table.series)} series, distinguished by "
        f"{wording.listed(names)}, none with {LEAST_SIZES} batch sizes; series of at least "
        f"{LEAST_SIZES} are expected. Leave out columns that are measured or differ between "
        f"seeds.{hints}"
    )


def _end(found: Any) -> None:
    found = list(found)
    if found:
        more = len(found) - _MOST_SHOWN
        rest = [f"And {wording.count(more, 'problem')} more."] if more > 0 else []
        raise ConfigError(found[:_MOST_SHOWN] + rest)
