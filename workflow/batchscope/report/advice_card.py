"""The advice of a study: rows of advice.csv to what report and terminal show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import wording
from batchscope.analysis import advice_series, run_series
from batchscope.analysis.advice import Item
from batchscope.catalogue import factor_words
from batchscope.errors import UserError
from batchscope.report import gaps, page
from batchscope.study import advice_needs
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

TABLE = "advice.csv"
Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """The advice of an experiment, or of one of its series, in words.

    Attributes:
        found: Whether it recommends something.
        table: Cells by row, the heading first.
        missing: Failed checks and needs, each with the line to add.
        questions: What more seeds would resolve, the cheapest first; None where nobody asks.
    """

    experiment: str
    title: str
    found: bool
    headline: str
    scope: str
    table: list[list[str]]
    points: list[str]
    missing: list[str]
    questions: list[str] | None = None

    @property
    def aligned(self) -> Iterator[str]:
        """The lines of the table, for a terminal."""
        widths = [max(map(len, column)) for column in zip(*self.table, strict=True)]
        for cells in self.table:
            padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
            yield "  ".join(padded).rstrip()


def cards(study: Study, tables: dict[str, pandas.DataFrame], asked: bool = False) -> list[Shown]:
    """Returns the advice of every series of a study, those that recommend something first.

    Args:
        tables: Rows of advice.csv by experiment.
        asked: Whether somebody asks what more seeds would resolve.
    """
    shown = [
        _shown(name, title, rows, asked)
        for name, frame in tables.items()
        for title, rows in _series(study.experiments[name].title, frame)
    ]
    return sorted(shown, key=lambda each: not each.found)


def text(study: Study, results: Path | str, config: str, seeds: bool = False) -> str:
    """Returns the advice of a study for the terminal; with `seeds`, what more would resolve.

    Raises:
        UserError: If a table is missing; with the command that makes it.
    """
    folder = Path(results) / "studies" / study.folder_name
    trained = [
        name for name, each in study.experiments.items() if each.trainings.runs or each.own.path
    ]
    tables = {name: _read(folder / name / TABLE, study, config) for name in trained}
    card = page.words("advice.txt.j2").card
    parts = [str(card(each)).strip() for each in cards(study, tables, seeds)]
    if without := [name for name, frame in tables.items() if frame.empty]:
        parts.append(_words().without(without))
    return "\n\n".join(parts if trained else [_words().untrained()])


def _words() -> Any:
    """Returns the sentences, one macro each."""
    return page.words("advice_words.txt.j2")


def _read(path: Path, study: Study, config: str) -> pandas.DataFrame:
    if not path.exists():
        command = gaps.snakemake(study, config, how="--cores all")
        raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    return csv_tables.read(path)


def _series(title: str, frame: pandas.DataFrame) -> Iterator[tuple[str, list[Row]]]:
    """Yields the rows of each series, with the experiment's title and what distinguishes them."""
    factors = [name for name in run_series.factor_columns(frame) if name != advice_series.RATE]
    several = [name for name in factors if frame[name].nunique(dropna=False) > 1]
    groups = frame.groupby(several, sort=False, dropna=False) if several else [((), frame)]
    for values, rows in groups if len(frame) else ():
        words = run_series.describe(dict(zip(several, values, strict=True)))
        yield wording.titled(title, words), rows.to_dict("records")


def _shown(experiment: str, title: str, rows: list[Row], asked: bool) -> Shown:
    rows = [{**row, **_texts(row)} for row in rows]
    of: dict[str, list[Row]] = {item: [] for item in Item}
    for row in rows:
        of[row["item"]].append(row)
    best = next(iter(of[Item.RECOMMENDATION]), None)
    open_ = [row for row in of[Item.LIMIT] if pandas.notna(row["seeds_to_resolve"])]
    open_.sort(key=lambda row: row["seeds_to_resolve"])
    others = [row for row in of[Item.LIMIT] if pandas.isna(row["batch_size"])]
    return Shown(
        experiment,
        title,
        best is not None,
        _words().headline(best) if best else _words().nothing(),
        _words().scope({name: _factor(name, rows[0]) for name in _SCOPE}),
        _table(of, best),
        [*map(_words().limit, others), *map(_words().trend, of[Item.TREND])],
        [*_failed(of[Item.CHECK]), *(_added(_words().need(row), row) for row in of[Item.NEED])],
        [_words().question(row) for row in open_] if asked else None,
    )


_SCOPE = ("model", "dataset", "optimizer", "device", "machine")
_SIZES = ("batch_size", "smallest", "largest", "seeds_to_resolve")


def _factor(name: str, row: Row) -> str:
    return factor_words.value_words(name, row[name]) if pandas.notna(row.get(name)) else ""


def _texts(row: Row) -> Row:
    """Returns the numbers of a row as texts."""
    whole = {name: int(row[name]) for name in _SIZES if pandas.notna(row[name])}
    rate, minutes, bound = row["learning_rate"], row["minutes_to_resolve"], row["bound"]
    unit = wording.POINTS if str(row["name"]).endswith("accuracy") else wording.PLAIN
    return {
        **whole,
        "rate": "" if pandas.isna(rate) else wording.shortest(float(rate)),
        "shown": _interval(row, unit),
        "limit": "" if pandas.isna(bound) else wording.number(float(bound)),
        "cost": "" if pandas.isna(minutes) else wording.duration(60 * float(minutes)),
    }


def _interval(row: Row, unit: wording.Unit) -> str:
    """Returns `1.27 [1.13, 1.44]`; an open end is a dash."""
    value, low, high = (float(row[name]) for name in ("estimate", "low", "high"))
    if math.isnan(value):
        return ""
    if math.isnan(low) == math.isnan(high):
        return wording.estimate(value, low, high, unit).bracketed
    ends = (
        wording.ABSENT if math.isnan(end) else wording.number(unit.times * end)
        for end in (low, high)
    )
    return f"{wording.number(unit.times * value)} [{', '.join(ends)}]"


def _table(of: dict[str, list[Row]], best: Row | None) -> list[list[str]]:
    limits = [row for row in of[Item.LIMIT] if pandas.notna(row["batch_size"])]
    names = list(dict.fromkeys(row["name"] for row in limits))
    cells = {(row["name"], row["batch_size"]): row["shown"] for row in limits}
    heading = ("batch_size", "learning_rate", *names, "verdict")
    lines = [[str(_words().heading(name)) for name in heading]]
    for row in of[Item.SIZE]:
        size = row["batch_size"]
        inside = best is not None and best["smallest"] <= size <= best["largest"]
        verdict = _words().verdict(row["verdict"], row["reason"], inside)
        shown = [cells[name, size] or wording.ABSENT for name in names]
        lines.append([str(size), row["rate"] or wording.ABSENT, *shown, verdict])
    return lines


def _failed(checks: list[Row]) -> Iterator[str]:
    """Yields what failed, sizes that share it in one sentence."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in checks:
        if row["passed"] == 0:
            groups.setdefault((row["name"], row["key"], str(row["value"])), []).append(row)
    for rows in groups.values():
        sizes = [row["batch_size"] for row in rows if pandas.notna(row["batch_size"])]
        yield _added(_words().check(rows[0], sizes), rows[0])


def _added(sentence: str, row: Row) -> str:
    return f"{sentence}{_words().line(_line(row), row['cost'])}"


def _line(row: Row) -> str:
    """Returns the line to add; a value is read back as a number from a column of numbers alone."""
    if pandas.isna(row["key"]):
        return ""
    value = "" if pandas.isna(row["value"]) else row["value"]
    return advice_needs.line(
        row["key"], value if isinstance(value, str) else wording.shortest(float(value))
    )
