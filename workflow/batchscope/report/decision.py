"""Which batch size to use, as the page and the terminal show it: rows of tables to dicts.

Words are the templates' own: `decision.txt.j2` has the sentences, which both use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import wording
from batchscope.analysis import intervals, run_series
from batchscope.analysis.advice import Item
from batchscope.catalogue import factor_words, own_columns
from batchscope.catalogue.budget_kinds import CONVERGENCE, END, TAKEN, TARGET
from batchscope.catalogue.outcomes import Verdict
from batchscope.errors import UserError
from batchscope.figures import Tables
from batchscope.report import gaps, page
from batchscope.report.text import VERDICTS, bracketed, label, level, of_difference, shown, unit
from batchscope.study import advice_needs

if TYPE_CHECKING:
    from batchscope.study.plan import Study

RATE = "learning_rate"
SCOPE = ("model", "dataset", "optimizer", "device", "machine")
_HERE = ("local", own_columns.ELSEWHERE)  # machines that are not named
_ENDS = intervals.ENDS
_MEAN = [f"mean{end}" for end in _ENDS]
_ESTIMATE = ["estimate", "low", "high"]
_MEMORY = "memory_peak_mb"
Row = dict[str, Any]


def cards(study: Study, tables: Mapping[str, Tables]) -> list[Row]:
    """Returns the decision of every series of a study, those that recommend something first."""
    found = [
        _card(study.experiments[name].title, name, words, rows, each)
        for name, each in tables.items()
        for words, rows in _series(each.advice)
    ]
    return sorted(found, key=lambda card: card["best"] is None)


def text(study: Study, results: Path | str, config: str, seeds: bool = False) -> str:
    """Returns the decisions of a study for the terminal; with `seeds`, what more would resolve.

    Raises:
        UserError: If a table is missing; with the command that makes it.
    """
    folder = Path(results) / "studies" / study.folder_name
    trained = [
        name for name, each in study.experiments.items() if each.trainings.runs or each.own.path
    ]
    for name in trained:
        if not (path := folder / name / "advice.csv").exists():
            command = gaps.snakemake(study, config, how="--cores all")
            raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    tables = {name: Tables(folder / name) for name in trained}
    without = [name for name, each in tables.items() if each.advice.empty]
    found = cards(study, tables)
    for card in found:
        card["lines"] = [*_aligned(card["sizes"])]
    given = {"cards": found, "without": without, "seeds": seeds, "trained": trained}
    return page.render("advice.txt.j2", **given).strip()


def series_of(frame: pandas.DataFrame, single: Row) -> pandas.DataFrame:
    """Returns the rows with these factors; one that a row says nothing of differs in none."""
    for name in single.keys() & {*frame}:
        if pandas.notna(value := single[name]):
            frame = frame[frame[name].eq(value) | frame[name].isna()]
    return frame


def _series(advice: pandas.DataFrame) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yields words for what distinguishes each series, and its rows."""
    factors = [name for name in run_series.factor_columns(advice) if name != RATE]
    several = [name for name in factors if advice[name].nunique(dropna=False) > 1]
    groups = advice.groupby(several, sort=False, dropna=False) if several else [((), advice)]
    for values, rows in groups if len(advice) else ():
        yield factor_words.describe(dict(zip(several, values, strict=True))), rows


def _card(title: str, experiment: str, words: str, advice: pandas.DataFrame, of: Tables) -> Row:
    factors = [name for name in run_series.factor_columns(advice) if name != RATE]
    single = advice[factors].iloc[0].to_dict()
    rows: dict[str, list[Row]] = {item: [] for item in Item}
    for row in advice.to_dict("records"):
        rows[row["item"]].append({**row, **_texts(row)})
    best = next(iter(rows[Item.RECOMMENDATION]), None)
    compared = series_of(of.comparisons, single)
    limits = rows[Item.LIMIT]
    names = list(dict.fromkeys(each["name"] for each in limits if pandas.notna(each["batch_size"])))
    outcomes = [name for name in names if name not in TAKEN]
    ends = {name: _at(compared, name, CONVERGENCE, END) for name in outcomes}
    return {
        "experiment": experiment,
        "title": title,
        "series": words,
        "best": best,
        "scope": [
            factor_words.value_words(name, single[name])
            for name in SCOPE
            if pandas.notna(single.get(name)) and single[name] not in _HERE
        ],
        "reached": _reached(compared, best["batch_size"]) if best else None,
        "outcomes": [_outcome(name, each, best) for name, each in ends.items()],
        "sizes": _sizes(rows, best, compared, ends, series_of(of.runs, single), of),
        "checks": _checks([*rows[Item.CHECK], *rows[Item.NEED]], best),
        "limits": [each for each in limits if pandas.isna(each["batch_size"])],
        "open": sorted(
            (each for each in limits if pandas.notna(each["seeds_to_resolve"])),
            key=lambda each: each["seeds_to_resolve"],
        ),
    }


def _texts(row: Row) -> Row:
    """Returns the numbers of a row of the advice as texts."""
    sizes = ("batch_size", "smallest", "largest", "seeds_to_resolve")
    whole = {name: int(row[name]) for name in sizes if pandas.notna(row[name])}
    minutes, name = row["minutes_to_resolve"], str(row["name"])
    difference = of_difference(name) if row["item"] == Item.LIMIT else wording.PLAIN
    return {
        **whole,
        "label": label(name),
        "rate": "" if pandas.isna(row[RATE]) else wording.shortest(float(row[RATE])),
        "shown": bracketed([row[each] for each in _ESTIMATE], difference),
        "bound": shown(row["bound"]),
        "cost": "" if pandas.isna(minutes) else wording.duration(60 * float(minutes)),
        "line": _line(row),
    }


def _line(row: Row) -> str:
    """Returns the line to add; a value is read back as a number from a column of numbers alone."""
    value = row["value"]
    if pandas.isna(row["key"]) or pandas.isna(value) or value == "":
        return ""
    text = value if isinstance(value, str) else wording.shortest(float(value))
    return advice_needs.line(row["key"], text)


def _at(compared: pandas.DataFrame, outcome: str, *budgets: str) -> pandas.DataFrame:
    """Returns the rows of an outcome at the first of these budgets that has a value."""
    rows = compared[compared["outcome"] == outcome].set_index("batch_size", drop=False)
    every = [rows[rows["budget"] == budget] for budget in budgets]
    return next((found for found in every if found["mean"].notna().any()), every[-1])


def _reached(compared: pandas.DataFrame, best: int) -> Row | None:
    """Returns what the best size takes to the target, and how the next ones compare with it."""
    for taken in ("seconds", "examples", "updates"):
        rows = _at(compared, taken, TARGET)
        if best not in rows.index or pandas.isna(rows.loc[best, "mean"]):
            continue
        at, own = [*rows.index].index(best), rows.loc[best]
        beside = [rows.iloc[each] for each in (at - 1, at + 1) if 0 <= each < len(rows)]
        column, how = own["budget_column"], unit(taken, [own["mean"]])
        return {
            "name": taken,
            "target": "" if pandas.isna(column) else wording.lower(label(column)),
            "value": shown(own["budget_value"]),
            "taken": bracketed(own[_MEAN], how) + how.suffix,
            "others": [
                {
                    "batch_size": int(row["batch_size"]),
                    "ratio": bracketed(row[_ESTIMATE]),
                    "against": int(row["against"]) if row["against"] != best else None,
                }
                for row in beside
                if pandas.notna(row["estimate"])
            ],
        }
    return None


def _outcome(name: str, rows: pandas.DataFrame, best: Row | None) -> Row:
    """Returns the batch sizes by verdict, and the mean of the best size."""
    by_verdict: dict[str, list[int]] = {"within": [], "beyond": [], "open": []}
    for size, verdict in rows["verdict"].items():
        key = verdict if verdict in (Verdict.WITHIN, Verdict.BEYOND) else "open"
        by_verdict[key].append(int(size))
    unit_of, suffix = of_difference(name), of_difference(name).suffix
    margin = shown(unit_of.times * float(rows["margin"].iloc[0]))
    here = rows.loc[best["batch_size"]] if best and best["batch_size"] in rows.index else None
    return {
        **by_verdict,
        "label": label(name),
        "margin": margin + (suffix.rstrip("s") if margin == "1" else suffix),
        "mean": level(name, here[_MEAN]) if here is not None else "",
    }


def _sizes(
    rows: dict[str, list[Row]],
    best: Row | None,
    compared: pandas.DataFrame,
    ends: dict[str, pandas.DataFrame],
    runs: pandas.DataFrame,
    of: Tables,
) -> Row:
    """Returns the table with a row per batch size: heads, and cells with the value to sort by."""
    sizes = {row["batch_size"]: row for row in rows[Item.SIZE]}
    columns: list[tuple[str, dict[int, tuple[str, Any]]]] = []
    rates = {size: (row["rate"], row[RATE]) for size, row in sizes.items()}
    columns.append(("Best rate", rates))
    for taken, title in (("seconds", "Time to target"), ("examples", "Examples to target")):
        columns.append(_column(title, taken, _at(compared, taken, TARGET), _MEAN))
    columns += [_column(label(name), name, each, _MEAN) for name, each in ends.items()]
    columns.append(_column("Time per epoch", "seconds_per_epoch", _per_epoch(runs, sizes), _MEAN))
    columns.append(_column("Memory", _MEMORY, _memory(of, runs), [_MEMORY, *_MEAN[1:]]))
    filled = [each for each in columns if any(text for text, _ in each[1].values())]
    lines = []
    for size, row in sizes.items():
        inside = best is not None and best["smallest"] <= size <= best["largest"]
        cells = [cells.get(size, ("", None)) for _, cells in filled]
        verdict = VERDICTS[row["verdict"]]
        line = {"batch_size": size, "inside": inside, "cells": cells, "verdict": verdict}
        lines.append(
            {
                **line,
                "css": row["verdict"],
                "of": label(row["name"]) if isinstance(row["name"], str) else "",
            }
        )
    return {"heads": [title for title, _ in filled], "rows": lines}


def _column(
    title: str, name: str, rows: pandas.DataFrame, ends: list[str]
) -> tuple[str, dict[int, tuple[str, Any]]]:
    """Returns a head with its unit, and batch size -> text and value."""
    how = unit(name, rows[ends[0]] if len(rows) else ())
    cells = {
        int(size): (level(name, row.reindex(ends), how), row[ends[0]])
        for size, row in rows.iterrows()
    }
    return title + wording.aside(how.suffix.strip()), cells


def _per_epoch(runs: pandas.DataFrame, sizes: dict[int, Row]) -> pandas.DataFrame:
    """Returns the mean seconds per epoch of each size at its best rate."""
    found = {}
    for size, row in sizes.items() if "seconds_per_epoch" in runs else ():
        own = runs[runs["batch_size"] == size]
        if RATE in own and pandas.notna(row[RATE]):
            own = own[own[RATE] == row[RATE]]
        found[size] = intervals.t_interval(own["seconds_per_epoch"].dropna())[:3]
    return pandas.DataFrame.from_dict(found, orient="index", columns=_MEAN)


def _memory(of: Tables, runs: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the peak memory of each size, where one was measured of what these runs train."""
    measured = of.utilisation
    if measured.empty or runs.empty:
        return pandas.DataFrame()
    names = [*({*run_series.factor_columns(measured)} & {*runs})]
    single = {name: runs[name].iloc[0] for name in names if runs[name].nunique() == 1}
    own = series_of(measured, single).dropna(subset=[_MEMORY]).set_index("batch_size")
    return own if own.index.is_unique else pandas.DataFrame()


def _checks(rows: list[Row], best: Row | None) -> list[Row]:
    """Returns checks and needs in order, what fails alike at several sizes as one."""
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        state = {1: "passed", 0: "failed"}.get(row["passed"], "open")
        first = found.setdefault((row["name"], row["line"]), {**row, "state": state, "sizes": []})
        if "batch_size" in row and pandas.notna(row["batch_size"]):
            first["sizes"].append(row["batch_size"])
    checks = [*found.values()]
    if best and not any(row["name"] == "seeds" for row in checks):
        checks.append({**best, "name": "seeds", "state": "passed", "sizes": []})
    return sorted(checks, key=lambda row: row["state"] == "passed")


def _aligned(table: Row) -> Iterator[str]:
    """Yields the lines of the table of batch sizes, for a terminal."""
    lines = [["Batch size", *table["heads"], "Verdict"]]
    for row in table["rows"]:
        verdict = f"{row['verdict']}{', recommended' if row['inside'] else ''}"
        cells = (text or wording.ABSENT for text, _ in row["cells"])
        lines.append([str(row["batch_size"]), *cells, verdict])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(padded).rstrip()
