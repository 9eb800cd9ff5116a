"""A table of one's own trainings, whatever made them: read, checked, made whole."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from batchscope import problems, wording
from batchscope.analysis import updates_to_target
from batchscope.analysis.critical_batch_size import LEAST_SIZES
from batchscope.analysis.updates_to_target import ACCURACIES, LOSSES, Target
from batchscope.errors import ConfigError, UserError

_MOST_SHOWN = 20  # problems of one file
_RUN = ("batch_size", "seed")
# Columns of trajectories.csv that say which training it is, no more.
_NAMES = ("run", "machine")
_STATUS = "status"  # what became of it
# Columns of what is computed, which no column that tells series apart may be called.
_TAKEN = ("target", "points", "residual", "lack_of_fit", "updates_min", "examples_min", "_loss")


@dataclass(frozen=True)
class OwnRuns:
    """Trainings of one's own.

    Attributes:
        frame: One row per evaluation, as `analysis.updates_to_target` takes it.
        factors: The columns that may tell series apart.
    """

    frame: pandas.DataFrame
    factors: list[str]


def _whole(text: str) -> float:
    value = float(text)
    if value != int(value) or value < 0:
        raise ValueError
    return int(value)


def _size(text: str) -> float:
    if _whole(text) < 1:
        raise ValueError
    return _whole(text)


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def _amount_or_never(text: str) -> float:
    return math.nan if not text or text.lower() == "inf" else _amount(text)


def _loss(text: str) -> float:
    value = float(text or "nan")
    if value < 0:
        raise ValueError
    return value


def _share(text: str) -> float:
    value = float(text or "nan")
    if value < 0 or value > 1:
        raise ValueError
    return value


_SIZE = (_size, "a whole number from 1 on")
_SEED = (_whole, "a whole number from 0 on")
_AMOUNT = (_amount, "a number from 0 on")
_NEVER = (_amount_or_never, "a number from 0 on, or nothing where the target was never reached")
_LOSS = (_loss, "a number from 0 on, or nothing where there is none")
_ACCURACY = (_share, "a share from 0 to 1, or nothing where there is none")
_KINDS: dict[str, tuple[Callable[[str], float], str]] = {
    **{"batch_size": _SIZE, "seed": _SEED, "epoch": _AMOUNT},
    **dict.fromkeys(updates_to_target.AXES, _AMOUNT),
    **dict.fromkeys(LOSSES, _LOSS),
    **dict.fromkeys(ACCURACIES, _ACCURACY),
}


def read(path: Path | str) -> OwnRuns:
    """Reads a table of one's own trainings.

    Columns: `batch_size`, `seed`, `updates` or `examples`; `seconds` where they are known; any of
    the losses and accuracies. `epoch` is read and not used, nor are `run` and `machine` of
    trajectories.csv, which is such a table; a `status` of `diverged` or `out_of_memory` is a
    training that never got anywhere. Every other column tells series apart, but a `learning_rate`
    of which several were tried at a batch size: it is chosen. A training has a row per evaluation,
    or a single one at its target.

    Raises:
        ConfigError: If the file is not such a table; with every problem, at its line and column.
        UserError: If the file is missing or cannot be read.
    """
    header, lines = _lines(path)
    _check_header(path, header)
    header = [name for name in header if name not in _NAMES]
    if not any(cells.get("seconds") for _, cells in lines):
        header = [name for name in header if name != "seconds"]  # known of no training
    lines = [(line, {name: cells[name] for name in header}) for line, cells in lines]
    runs: dict[tuple[str, ...], int] = {}
    factors = [name for name in header if name not in (*_KINDS, _STATUS)]
    for _, cells in lines:
        key = tuple(cells[name] for name in (*_RUN, *factors))
        runs[key] = runs.get(key, 0) + 1
    single = max(runs.values()) == 1
    kinds = {**_KINDS, **(dict.fromkeys(updates_to_target.AXES, _NEVER) if single else {})}
    axes = [name for name in updates_to_target.AXES if name in header]
    found: list[str] = []
    rows: list[dict[str, Any]] = []
    for line, cells in lines:
        rows.append({name: text for name, text in cells.items() if name in (*factors, _STATUS)})
        for name, text in cells.items():
            if name in kinds:
                convert, expected = kinds[name]
                try:
                    rows[-1][name] = convert(text.strip())
                except (ValueError, OverflowError):
                    shown = problems.show(text)
                    found.append(
                        f"{path}, line {line}, {name}: received {shown}; {expected} is expected."
                    )
        never = [name for name in axes if math.isnan(rows[-1].get(name, 0.0))]
        if never and len(never) < len(axes):
            found.append(
                f"{path}, line {line}, {never[0]}: received nothing, but a number of another of "
                f"{wording.listed(axes)}; either all or none of them is expected."
            )
    _end(found)
    if not single and not {*LOSSES, *ACCURACIES} & {*header}:
        raise UserError(
            f"{path}, line 1: no loss or accuracy, and several rows of one training; one of "
            f"{wording.listed((*LOSSES, *ACCURACIES), 'or')} is expected, or a single row of each "
            "training, at its target."
        )
    frame = _completed(pandas.DataFrame(rows, columns=header), factors)
    _end(_repeated(path, frame, factors, [line for line, _ in lines]))
    _check_sizes(path, frame, factors)
    return OwnRuns(frame, factors)


def target(text: str, runs: OwnRuns) -> Target:
    """Returns the target that `validation_loss=0.2` states.

    Raises:
        UserError: If the trainings have no such column, or the number cannot be reached.
    """
    column, _, number = text.partition("=")
    known = [name for name in (*LOSSES, *ACCURACIES) if name in runs.frame]
    if column not in known:
        near = problems.nearest(column, known)
        hint = f" Did you mean '{near}'?" if near else ""
        expected = wording.listed(known, "or") or "a file with a loss or an accuracy"
        raise UserError(
            f"--target: received {problems.show(text)}; one of {expected}, as in "
            f"validation_loss=0.2, is expected.{hint}"
        )
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    most = math.inf if column in LOSSES else 1.0
    if not 0 < value < most:
        expected = "a number above 0" if column in LOSSES else "a share between 0 and 1"
        raise UserError(
            f"--target {column}: received {problems.show(number)}; {expected} is expected."
        )
    return Target(column, value)


def check_default_targets(runs: OwnRuns) -> None:
    """Checks that every series has targets where none is stated.

    Raises:
        UserError: If it has none.
    """
    for factors, _, rows in updates_to_target.series(runs.frame, runs.factors):
        if not updates_to_target.default_targets(rows):
            known = [name for name in (*LOSSES, *ACCURACIES) if name in rows]
            told = ", ".join(f"{name} {value}" for name, value in factors.items())
            raise UserError(
                f"--target: received none{f', and for {told}' if told else ''} there is no "
                f"{known[0]} that lies below the first evaluation of every training and that "
                f"every training reached; one is expected, as --target {known[0]}=0.2."
            )


def step_seconds(text: str) -> tuple[float, float]:
    """Returns the fixed cost of a step and the cost per image that `0.002,0.0001` states, in s.

    Raises:
        UserError: If these are not two numbers above 0.
    """
    try:
        fixed, per_image = (float(part) for part in text.split(","))
    except ValueError:
        fixed = per_image = math.nan
    if not (0 < fixed < math.inf and 0 < per_image < math.inf):
        raise UserError(
            f"--step-seconds: received {problems.show(text)}; two numbers above 0 are expected: "
            "the fixed cost of a step and the cost per image in seconds, as 0.002,0.0001."
        )
    return fixed, per_image


def _lines(path: Path | str) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Returns the columns of a CSV file, and its rows with the lines on which they end."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if any(row)]
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); a CSV file is expected."
        ) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    if not rows:
        raise UserError(
            f"{path}: received {'a header alone' if header else 'an empty file'}; a header and "
            "at least one row are expected."
        )
    _end(
        f"{path}, line {line}: received {wording.count(len(row), 'cell')}; as many as the "
        f"header's {len(header)} are expected."
        for line, row in rows
        if len(row) != len(header)
    )
    return header, [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def _check_header(path: Path | str, header: list[str]) -> None:
    found = []
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        found.append(f"{path}, line 1: received {wording.listed(twice)} twice; once is expected.")
    for name in [each for each in header if each in _TAKEN]:
        found.append(
            f"{path}, line 1: received the column {name}, which is one of the result; another "
            "name is expected."
        )
    for names in (("batch_size",), ("seed",), ("updates", "examples")):
        if not {*names} & {*header}:
            near = problems.nearest(names[0], [name for name in header if name not in _KINDS])
            hint = f" Is '{near}' it?" if near else ""
            found.append(
                f"{path}, line 1: no column {wording.listed(names, 'or')}; it is expected.{hint} "
                f"Received: {', '.join(header)}."
            )
    _end(found)


def _completed(frame: pandas.DataFrame, factors: list[str]) -> pandas.DataFrame:
    """Returns the table with updates and examples, and with numbers in factors as numbers."""
    frame = frame.copy()
    if "examples" not in frame:
        frame["examples"] = frame["updates"] * frame["batch_size"]
    if "updates" not in frame:
        frame["updates"] = frame["examples"] / frame["batch_size"]
    for name in factors:
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        frame[name] = frame[name] if numbers.isna().any() else numbers
    return frame


def _repeated(
    path: Path | str, frame: pandas.DataFrame, factors: list[str], lines: list[int]
) -> Iterator[str]:
    """Yields the rows that say something of a training a second time."""
    first: dict[Any, int] = {}
    keys = frame[[*_RUN, *factors, "updates"]].itertuples(index=False, name=None)
    for line, key in zip(lines, keys, strict=True):
        if key in first:
            yield (
                f"{path}, line {line}: received batch size {key[0]}, seed {key[1]} at "
                f"{wording.shortest(key[-1])} updates again, as in line {first[key]}; one row for "
                "each evaluation is expected."
            )
        first.setdefault(key, line)


def _check_sizes(path: Path | str, frame: pandas.DataFrame, factors: list[str]) -> None:
    """Refuses a table of which no series holds enough batch sizes."""
    split = updates_to_target.series(frame, factors)
    if any(rows["batch_size"].nunique() >= LEAST_SIZES for _, _, rows in split):
        return
    sizes = sorted(frame["batch_size"].unique().tolist())
    if len(sizes) < LEAST_SIZES:
        raise UserError(
            f"{path}, batch_size: received {wording.listed(map(str, sizes))}; at least "
            f"{LEAST_SIZES} different batch sizes are expected."
        )
    names = list(split[0][0])
    near = {name: problems.nearest(name, [k for k in _KINDS if k not in frame]) for name in names}
    hints = "".join(f" Is '{name}' {known}?" for name, known in near.items() if known)
    raise UserError(
        f"{path}: received {len(split)} series, told apart by {wording.listed(names)}, none with "
        f"{LEAST_SIZES} batch sizes; series of at least {LEAST_SIZES} are expected. Leave out "
        f"columns that are measured or differ between seeds.{hints}"
    )


def _end(found: Any) -> None:
    found = list(found)
    if found:
        more = len(found) - _MOST_SHOWN
        rest = [f"And {wording.count(more, 'problem')} more."] if more > 0 else []
        raise ConfigError(found[:_MOST_SHOWN] + rest)
