"""The advice of a study as cards: at the top of the report, and in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import wording
from batchscope.analysis import advice_tables, advice_words, run_series
from batchscope.analysis.advice import TOO_FEW
from batchscope.analysis.advice_words import Card
from batchscope.errors import UserError
from batchscope.report import gaps
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

TABLE, SIZES = "advice.csv", "advice_sizes.csv"


@dataclass(frozen=True)
class Shown:
    """A card and what it is of: an experiment, or one of its series; `found` if it recommends."""

    experiment: str
    title: str
    found: bool
    card: Card


def cards(study: Study, tables: dict[str, pandas.DataFrame]) -> list[Shown]:
    """Returns the cards of a study, those that recommend something first."""
    shown = [
        Shown(name, title, pandas.notna(row["smallest"]), advice_tables.card(row))
        for name, frame in tables.items()
        for title, row in _titled(study, name, frame)
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
    parts = [f"{shown.title}\n{advice_words.text(shown.card)}" for shown in cards(study, tables)]
    if seeds:
        for name in trained:
            sizes = _read(folder / name / SIZES, study, config)
            parts += _questions(study, name, sizes, tables[name])
    without = [name for name, frame in tables.items() if frame.empty]
    if without:
        parts.append(
            f"No advice for {wording.listed(without)}: it takes finished trainings at three batch "
            "sizes or more that differ in nothing else, at a rate that does not fall towards the "
            "horizon."
        )
    if not trained:
        parts.append("No advice: this study trains nothing.")
    return "\n\n".join(parts)


def _read(path: Path, study: Study, config: str) -> pandas.DataFrame:
    if not path.exists():
        command = gaps.snakemake(study, config, how="--cores all")
        raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    return csv_tables.read(path)


def _titled(
    study: Study, name: str, frame: pandas.DataFrame
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each row of a table, with the experiment's title and what distinguishes the series."""
    title = study.experiments[name].title
    factors = run_series.varying(frame) if len(frame) else []
    for row in frame.to_dict("records"):
        words = run_series.describe({factor: row[factor] for factor in factors})
        # After a question the series stands as a sentence of its own.
        asked = title.endswith("?")
        heading = f"{title} {wording.capital(words)}" if asked else f"{title}: {words}"
        yield heading if words else title, row


def _questions(
    study: Study, name: str, sizes: pandas.DataFrame, summary: pandas.DataFrame
) -> Iterator[str]:
    factors = run_series.varying(summary) if len(summary) else []
    for title, row in _titled(study, name, summary):
        own = sizes
        for factor in factors:
            own = own[own[factor] == row[factor]]
        lines = [f"{title}: what more seeds would tell (power .8, {row['seeds']} seeds so far)"]
        if isinstance(note := row.get("beside_the_plan"), str):
            lines.append(f"  {note}")
        elif pandas.notna(row.get("seeds_planned")):
            lines.append("  as many seeds as were planned")
        before = len(lines)
        questions = own.dropna(subset="question").sort_values("seeds_needed_low")
        lines += [f"  {_question(each)}" for each in questions.to_dict("records")]
        if TOO_FEW in str(row["reason"]).split():
            price = advice_words.cost(60 * row["minutes_needed_low"])
            more = advice_words.seeds(*[int(row["seeds_needed_low"])] * 2)
            lines.append(f"  any verdict at all: {more}{price}")
        if len(lines) == before:
            lines.append("  nothing: no batch size is left unresolved")
        yield "\n".join(lines)


def _question(row: dict[str, Any]) -> str:
    low, high = (int(row[f"seeds_needed_{end}"]) for end in ("low", "high"))
    price = advice_words.cost(*(60 * row[f"minutes_needed_{end}"] for end in ("low", "high")))
    condition = "if they are equal" if row["equal"] else "if they differ as measured"
    return f"{row['question']}: {advice_words.seeds(low, high)}{price}, {condition}"
