"""External runs: a CSV file with a row per evaluation, read and checked, in our tables' columns."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas

from batchscope import problems, wording
from batchscope.catalogue import own_columns, tasks
from batchscope.catalogue.own_columns import AXES, LEAST_SIZES, LOSSES, METRICS, OUTCOMES
from batchscope.catalogue.run_factors import FALLING
from batchscope.errors import ConfigError, UserError, check_regular

DIVERGED, FINISHED, OFF_TARGET = "diverged", "finished", "off_target"
_MOST_SHOWN = 20  # problems of one file
_RUN = ["batch_size", "seed"]
_RATE = "learning_rate"
# Columns of trajectories.csv that name a run and say what became of it.
_NAMES = ("run", "status", "machine")
# Columns of results, which no column that distinguishes series may be called.
_TAKEN = (
    *("target", "points", "residual", "lack_of_fit", "stray"),
    *("updates_min", "examples_min", "_loss"),
)
_LEAST_FULL, _MOST_FULL = 0.5, 1.02  # share of full batches that the examples may be
_NOTHING = "none"  # what an empty cell of a column that distinguishes series says


@dataclass(frozen=True)
class ExternalRuns:
    """Runs that were made elsewhere."""

    path: str
    sha256: str
    # One per evaluation, run by run in order of updates, under the names of our tables: `run`,
    # `machine`, batch size, seed, `factors`, `status`, what was used and evaluated.
    rows: pandas.DataFrame
    factors: tuple[str, ...]  # columns that may distinguish series
    single: bool  # whether every run has one row alone, its target

    @cached_property
    def distinguishing(self) -> list[str]:
        """The factors that distinguish series: no number that follows from the others."""
        kept = [name for name in self.factors if self.rows[name].nunique() > 1]
        for name in [each for each in kept if _numeric(self.rows[each])]:
            others = ["batch_size", *(each for each in kept if each != name)]
            if not self.rows[[*others, name]].drop_duplicates().duplicated(others).any():
                kept.remove(name)
        return kept

    @property
    def tasks(self) -> tuple[str, ...]:
        """What was learned, by the metrics that there are."""
        return tasks.of(self.rows)

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates that were tried, where there are several at one batch size."""
        tried = _RATE in self.distinguishing and _numeric(self.rows[_RATE])
        return tuple(sorted(self.rows[_RATE].unique().tolist())) if tried else ()

    @cached_property
    def series(self) -> list[pandas.DataFrame]:
        """The rows of each series; one that tried several rates is one series."""
        names = [name for name in self.distinguishing if name != _RATE]
        return [rows for _, rows in self.rows.groupby(names, sort=False)] if names else [self.rows]

    @property
    def schedule(self) -> str:
        """A schedule that falls towards the horizon, so that runs are read at their ends alone.

        Empty where there is none, and where the single row of each run is its target.
        """
        found = [] if self.single or "schedule" not in self.rows else self.rows["schedule"]
        return next((each for each in found if each in FALLING), "")

    def filled(self, column: str) -> bool:
        """Whether a column is there and says something."""
        return column in self.rows and bool(self.rows[column].notna().any())


def _numeric(values: pandas.Series) -> bool:
    return values.dtype.kind in "if"


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


def _evaluated(text: str, least: float = 0.0, most: float = math.inf) -> float:
    value = float(text or "nan")
    if value < least or value > most:
        raise ValueError
    return value


def _loss(text: str) -> float:
    """Returns a loss: NaN where there is none, infinity where it is no number any more."""
    value = _evaluated(text)
    return math.inf if text and math.isnan(value) else value


_AMOUNT = (_amount, "a number from 0 on")
_NEVER = (_amount_or_never, "a number from 0 on, or nothing where the target was never reached")
_LOSS = (_loss, "a number from 0 on, nan where it diverged, or nothing where there is none")
_KINDS: dict[str, tuple[Callable[[str], float], str]] = {
    "batch_size": (partial(_whole, least=1), "a whole number from 1 on, below 2^63,"),
    "seed": (_whole, "a whole number from 0 on, below 2^63,"),
    **dict.fromkeys(("epoch", *AXES), _AMOUNT),
    **dict.fromkeys(LOSSES, _LOSS),
    **{
        name: (partial(_evaluated, least=one.least, most=one.most), f"{one.expected}, or nothing")
        for name, one in METRICS.items()
    },
}


def read(path: Path | str) -> ExternalRuns:
    """Reads a table of external runs.

    Columns: `batch_size`, `seed`, `updates` or `examples`; `seconds` where they are known; any of
    the losses and metrics; `epoch`. `run` and `machine` of trajectories.csv, which is such a
    table, are passed over, and `status` says what became of a run. Every other column
    distinguishes series. A run has a row per evaluation, or a single one at its target.

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
    cells = _cells(path, content)
    _end(_of_header(path, [*cells]))
    if "seconds" in cells and not cells["seconds"].any():
        del cells["seconds"]  # known of no run
    named = [name for name in cells if name not in _KINDS and name not in _NAMES]
    single = not cells.duplicated([*_RUN, *named]).any()
    rows = _numbers(path, cells, single)
    if not single and not {*OUTCOMES} & {*rows}:
        raise UserError(
            f"{path}, line 1: no loss or metric, and several rows of one run; one of "
            f"{', '.join(LOSSES)} or the same of {wording.listed(tasks.METRICS, 'or')} is "
            "expected, or a single row of each run, at its target."
        )
    factors = dict(own_columns.factor(name, cells[name].replace("", _NOTHING)) for name in named)
    found = rows[_RUN].assign(**factors)
    digest = hashlib.sha256(content).hexdigest()
    found.insert(0, "machine", own_columns.ELSEWHERE)
    found.insert(0, "run", _run_names(Path(path), digest, found[[*_RUN, *factors]]))
    found["stated"] = cells["status"].str.lower() if "status" in cells else ""
    found = found.join(rows.drop(columns=_RUN))
    order = pandas.Series(pandas.factorize(found["run"])[0], found.index, name="order")
    found = found.assign(order=order).sort_values(["order", "updates"], kind="stable")
    found.insert(len(factors) + 4, "status", _statuses(found))
    found = found.drop(columns=["order", "stated"])
    _end(_repeated(path, found))
    _end([*_backwards(path, found), *_disagreeing(path, found)])
    runs = ExternalRuns(str(path), digest, found, tuple(factors), single)
    _end([*_at_a_budget(runs), *_few_sizes(runs)])
    return runs


def _cells(path: Path | str, content: bytes) -> pandas.DataFrame:
    """Returns the cells of a CSV file as text, by the lines on which its rows end."""
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
    lines = [line for line, _ in rows]
    stripped = [[cell.strip() for cell in row] for _, row in rows]
    return pandas.DataFrame(stripped, index=lines, columns=header, dtype=object)


def _numbers(path: Path | str, cells: pandas.DataFrame, single: bool) -> pandas.DataFrame:
    """Returns the numbers of every row, with updates and examples."""
    kinds = {**_KINDS, **(dict.fromkeys(AXES, _NEVER) if single else {})}
    rows, wrong = pandas.DataFrame(index=cells.index), []
    for name in filter(kinds.__contains__, cells):
        (convert, expected), values = kinds[name], []
        for line, text in cells[name].items():
            try:
                values.append(convert(text))
            except (ValueError, OverflowError):
                values.append(math.nan)
                shown = f"received {problems.show(text)}; {expected} is expected."
                wrong.append((line, f"{path}, line {line}, {name}: {shown}"))
        rows[name] = values
    axes = [name for name in AXES if name in rows]
    never = rows[axes].isna() if single and not wrong else rows[axes].iloc[:0]
    for line, empty in never[never.any(axis=1) & ~never.all(axis=1)].iterrows():
        text = f"{path}, line {line}, {empty.idxmax()}: received nothing, but a number of another "
        text += f"of {wording.listed(axes)}; either all or none of them is expected."
        wrong.append((line, text))
    _end(text for _, text in sorted(wrong, key=lambda each: each[0]))
    if "examples" not in rows:
        rows["examples"] = rows["updates"] * rows["batch_size"]
    if "updates" not in rows:
        rows["updates"] = rows["examples"] / rows["batch_size"]
    return rows


def _run_names(path: Path, digest: str, identity: pandas.DataFrame) -> list[str]:
    names = [name.removeprefix(own_columns.OWN) for name in identity]
    first = f"{path.stem}-{digest[:8]}"
    return [
        "+".join([first, *(f"{name}={each}" for name, each in zip(names, row, strict=True))])
        for row in identity.itertuples(index=False)
    ]


def _statuses(rows: pandas.DataFrame) -> pandas.Series:
    """Returns what became of each row's run: as its last row states, else as its losses say."""
    losses = rows.reindex(columns=LOSSES).astype(float)
    known, finite = losses.notna().any(axis=1), np.isfinite(losses).any(axis=1)
    last = finite[known].groupby(rows["run"]).last().reindex(rows["run"]).to_numpy()
    found = pandas.Series(np.where(last == False, DIVERGED, FINISHED), rows.index)  # noqa: E712
    by_run = rows.groupby("run", sort=False)
    never = by_run["updates"].transform(lambda updates: updates.iloc[-1:].isna().all())
    stated = by_run["stated"].transform("last")
    return found.mask(never, OFF_TARGET).mask(stated != "", stated)


def _of_header(path: Path | str, header: list[str]) -> Iterator[str]:
    """Yields what is wrong with the names of the columns."""
    if "" in header:
        yield (
            f"{path}, line 1: received column {header.index('') + 1} without a name; a name is "
            "expected of every column. pandas writes one to the index: leave it out "
            "(`index=False`); or delete a comma at the end of the lines."
        )
    if twice := sorted({name for name in header if name and header.count(name) > 1}):
        yield f"{path}, line 1: received {wording.listed(twice)} twice; once is expected."
    for name in filter(_TAKEN.__contains__, header):
        yield (
            f"{path}, line 1: received the column {name}, which is one of the result; another name "
            "is expected."
        )
    for names in (("batch_size",), ("seed",), ("updates", "examples")):
        if not {*names} & {*header}:
            near = problems.nearest(names[0], [name for name in header if name not in _KINDS])
            hint = f" Is '{near}' it?" if near else ""
            yield (
                f"{path}, line 1: no column {wording.listed(names, 'or')}; it is expected.{hint} "
                f"Received: {', '.join(header)}."
            )


def _repeated(path: Path | str, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the rows that say something of a run a second time."""
    first: dict[tuple[str, float], int] = {}
    for line, run, size, seed, updates in rows[["run", *_RUN, "updates"]].sort_index().itertuples():
        if (before := first.setdefault((run, updates), line)) != line:
            yield (
                f"{path}, line {line}: received batch size {size}, seed {seed} at "
                f"{wording.shortest(updates)} updates again, as in line {before}; one row for each "
                "evaluation is expected."
            )


def _backwards(path: Path | str, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the rows by which a run had used less than by an earlier one."""
    for name in (each for each in (*AXES, "epoch") if each in rows):
        known = rows.loc[rows[name].notna(), ["run", name]].rename_axis("line").reset_index()
        before = known.groupby("run")[["line", name]].shift()
        for at in known.index[known[name] < before[name]]:
            yield (
                f"{path}, line {known.at[at, 'line']}, {name}: received "
                f"{wording.shortest(known.at[at, name])}, less than the "
                f"{wording.shortest(before.at[at, name])} of line {int(before.at[at, 'line'])}, "
                "where the run had made fewer updates; what was used since its start is expected."
            )


def _disagreeing(path: Path | str, rows: pandas.DataFrame) -> Iterator[str]:
    """Yields the rows whose examples are not those of so many updates.

    An epoch's last batch may be smaller, and a run may drop it.
    """
    full = rows["updates"] * rows["batch_size"]
    share = rows["examples"] / full.where(full > 0)
    for line in rows.index[share.notna() & ~share.between(_LEAST_FULL, _MOST_FULL)].sort_values():
        examples, updates = (wording.shortest(rows.at[line, name]) for name in AXES[1::-1])
        yield (
            f"{path}, line {line}, examples: received {examples}, but {updates} updates of batch "
            f"size {rows.at[line, 'batch_size']} use {wording.shortest(full[line])}; the same unit "
            "in all three is expected, or one of the columns updates and examples alone."
        )


def _at_a_budget(runs: ExternalRuns) -> Iterator[str]:
    """Yields that single rows stand at a budget: runs reach a target sooner or later."""
    names = [name for name in ("epoch", "examples") if runs.single and name in runs.rows]
    for name in names if len(runs.rows) > 1 else ():
        if runs.rows[name].nunique(dropna=False) == 1 and runs.filled(name):
            used = wording.shortest(runs.rows[name].iloc[0])
            yield (
                f"{runs.path}, {name}: received {used} in the single row of every run, which is "
                "read as the one at its target; a row per evaluation is expected, or the row at "
                "which each run reached the target."
            )


def _few_sizes(runs: ExternalRuns) -> Iterator[str]:
    """Yields that no series holds enough batch sizes."""
    if any(rows["batch_size"].nunique() >= LEAST_SIZES for rows in runs.series):
        return
    sizes = sorted(runs.rows["batch_size"].unique().tolist())
    if len(sizes) < LEAST_SIZES:
        yield (
            f"{runs.path}, batch_size: received {wording.listed(map(str, sizes))}; at least "
            f"{LEAST_SIZES} different batch sizes are expected."
        )
        return
    shown = (name.removeprefix(own_columns.OWN) for name in runs.distinguishing if name != _RATE)
    names, missing = [*shown], [name for name in _KINDS if name not in runs.rows]
    near = {name: problems.nearest(name, missing) for name in names}
    hints = "".join(f" Is '{name}' {known}?" for name, known in near.items() if known)
    yield (
        f"{runs.path}: received {len(runs.series)} series, distinguished by "
        f"{wording.listed(names)}, none with {LEAST_SIZES} batch sizes; series of at least "
        f"{LEAST_SIZES} are expected. Leave out columns that are measured or differ between "
        f"seeds.{hints}"
    )


def _end(found: Iterable[str]) -> None:
    """Raises a ConfigError where there are problems, the first of them one a line."""
    if listed := [*found]:
        more = len(listed) - _MOST_SHOWN
        rest = [f"And {wording.count(more, 'problem')} more."] if more > 0 else []
        raise ConfigError(listed[:_MOST_SHOWN] + rest)
