"""Which batch size to use, as the page and the terminal show it: rows of tables to dicts.

Words are the templates' own: `decision.txt.j2` has the sentences, which both use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import wording
from batchscope.analysis import intervals, run_series
from batchscope.analysis.advice import Item
from batchscope.catalogue import factor_words, own_columns, tasks
from batchscope.catalogue.budget_kinds import ENDS, EXAMPLES, TAKEN, TARGET
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.errors import UserError
from batchscope.figures import Tables
from batchscope.report import first_guess, gaps, page, rising
from batchscope.report.text import (
    ESTIMATE,
    VERDICTS,
    bracketed,
    label,
    level,
    of_difference,
    rounded,
    unit,
    whole,
)
from batchscope.study import advice_needs

if TYPE_CHECKING:
    from batchscope.study.plan import Study

RATE = "learning_rate"
_SCOPE = ("model", "dataset", "optimizer", "device", "machine")
_HERE = ("local", own_columns.ELSEWHERE)  # machines that are not named
_MEAN = [f"mean{end}" for end in intervals.ENDS]
_MEMORY = "memory_peak_mb"
Row = dict[str, Any]


def cards(study: Study, tables: Mapping[str, Tables]) -> list[Row]:
    """Returns the decision of every series of a study, those that recommend something first."""
    found = []
    for name, each in tables.items():
        advice = each.advice
        factors = [factor for factor in run_series.factor_columns(advice) if factor != RATE]
        several = run_series.varying(advice, factors)
        groups = advice.groupby(several, sort=False, dropna=False) if several else [((), advice)]
        for values, rows in groups if len(advice) else ():
            series = factor_words.describe(dict(zip(several, values, strict=True)))
            known = {"experiment": name, "title": study.experiments[name].title, "series": series}
            found.append({**known, **_card(rows, rows[factors].iloc[0].to_dict(), each)})
    return sorted(found, key=lambda card: card["best"] is None)


def text(study: Study, results: Path | str, config: str, seeds: bool = False) -> str:
    """Returns the decisions of a study for the terminal; with `seeds`, what more would resolve.

    Raises:
        UserError: If a table is missing; with the command that makes it.
    """
    folder = Path(results) / "studies" / study.folder_name
    trained = [
        name for name, each in study.experiments.items() if each.trainings.runs or each.own.columns
    ]
    for name in trained:
        if not (path := folder / name / "advice.csv").exists():
            command = gaps.snakemake(study, config, how="--cores all")
            raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    tables = {name: Tables(folder / name) for name in trained}
    of_rises = {name: rising.of_experiment(each) for name, each in tables.items()}
    shown = cards(study, tables)
    text = page.render(
        "advice.txt.j2",
        cards=[{**card, "lines": [*_aligned(card["sizes"])]} for card in shown],
        rising=[*of_rises.values()],
        without=[
            name
            for name, each in tables.items()
            if each.advice.empty and not any(of_rises[name].values())
        ],
        seeds=seeds,
        trained=trained,
    )
    return f"{text.strip()}\n{first_guess.line(study, shown)}".strip()


def _card(advice: pandas.DataFrame, factors: Row, tables: Tables) -> Row:
    """Returns what is said of one series, which these factors distinguish."""
    rows: dict[str, list[Row]] = {item: [] for item in Item}
    for row in advice.to_dict("records"):
        rows[row["item"]].append({**row, **_texts(row)})
    best = next(iter(rows[Item.RECOMMENDATION]), None)
    compared, limits = _of_series(tables.comparisons, factors), rows[Item.LIMIT]
    names = dict.fromkeys(each["name"] for each in limits if pandas.notna(each["batch_size"]))
    ends = {name: _at(compared, name, *ENDS) for name in names if name not in TAKEN}
    runs = _of_series(tables.runs, factors)
    columns = _columns(rows[Item.SIZE], compared, ends, runs, tables.utilisation)
    to_resolve = [each for each in limits if pandas.notna(each["seeds_to_resolve"])]
    learned, *_ = tasks.of(compared["outcome"])
    checks = [{**each, "task": learned} for each in (*rows[Item.CHECK], *rows[Item.NEED])]
    return {
        "best": best,
        "scope": [
            factor_words.value_words(name, factors[name])
            for name in _SCOPE
            if pandas.notna(factors.get(name)) and factors[name] not in _HERE
        ],
        "reached": _reached(compared, best["batch_size"]) if best else None,
        "outcomes": [_outcome(name, each, best) for name, each in ends.items()],
        "sizes": _sizes(rows[Item.SIZE], best, columns),
        "checks": _checks(checks, best),
        "limits": [each for each in limits if pandas.isna(each["batch_size"])],
        "open": sorted(to_resolve, key=lambda each: each["seeds_to_resolve"]),
    }


def _texts(row: Row) -> Row:
    """Returns the numbers of a row of the advice as texts, and the line of a study to add.

    The value of such a line is read back as a number from a column of numbers alone.
    """
    sizes = ("batch_size", "smallest", "largest", "seeds_to_resolve")
    minutes, name, value = row["minutes_to_resolve"], str(row["name"]), row["value"]
    how = of_difference(name) if row["item"] == Item.LIMIT else wording.PLAIN
    there = pandas.notna(row["key"]) and pandas.notna(value) and value != ""
    if there and not isinstance(value, str):
        value = wording.shortest(float(value))
    return {
        **{each: int(row[each]) for each in sizes if pandas.notna(row[each])},
        "rate": "" if pandas.isna(row[RATE]) else wording.shortest(float(row[RATE])),
        "shown": bracketed([row[each] for each in ESTIMATE], how),
        "of": " times the best" if name in TAKEN else how.suffix,
        "cost": "" if pandas.isna(minutes) else wording.duration(60 * float(minutes)),
        "line": advice_needs.line(row["key"], value) if there else "",
    }


def _of_series(frame: pandas.DataFrame, factors: Row) -> pandas.DataFrame:
    """Returns the rows with these factors; one that a row says nothing of differs in none."""
    for name in factors.keys() & {*frame}:
        if pandas.notna(value := factors[name]):
            frame = frame[frame[name].eq(value) | frame[name].isna()]
    return frame


def _at(compared: pandas.DataFrame, outcome: str, *budgets: str) -> pandas.DataFrame:
    """Returns the rows of an outcome at the first of these budgets that has a value."""
    rows = compared[compared["outcome"] == outcome].set_index("batch_size", drop=False)
    every = [rows[rows["budget"] == budget] for budget in budgets]
    return next((found for found in every if found["mean"].notna().any()), every[-1])


def _reached(compared: pandas.DataFrame, best: int) -> Row | None:
    """Returns what the best size takes to the target, and how the next ones compare with it."""
    for taken in ("seconds", "examples", "updates"):
        rows = _at(compared, taken, TARGET, EXAMPLES)
        if best not in rows.index or pandas.isna(rows.loc[best, "mean"]):
            continue
        at, own = rows.index.get_loc(best), rows.loc[best]
        beside, how = rows.iloc[max(at - 1, 0) : at + 2].drop(best), unit(taken, [own["mean"]])
        others = [
            {
                "batch_size": size,
                "ratio": bracketed(row[[*ESTIMATE]]),
                "against": int(row["against"]) if row["against"] != best else None,
            }
            for size, row in beside[beside["estimate"].notna()].iterrows()
        ]
        shown = bracketed(own[_MEAN], how) + how.suffix
        return {**own, "name": taken, "taken": shown, "others": others}
    return None


def _outcome(name: str, rows: pandas.DataFrame, best: Row | None) -> Row:
    """Returns the batch sizes by verdict, and the mean of the best size."""
    kinds = (Verdict.WITHIN, Verdict.BEYOND, "failed", "open")
    by_verdict: dict[str, list[int]] = {kind: [] for kind in kinds}
    for size, verdict, reason in zip(rows.index, rows["verdict"], rows["reason"], strict=True):
        kind = "failed" if reason == Reason.FAILED else verdict
        by_verdict[kind if kind in by_verdict else "open"].append(int(size))
    how = of_difference(name)
    margin = rounded(how.times * float(rows["margin"].iloc[0]))
    here = rows.loc[best["batch_size"]] if best and best["batch_size"] in rows.index else None
    return {
        **by_verdict,
        "label": label(name),
        "margin": margin + (how.suffix.rstrip("s") if margin == "1" else how.suffix),
        "mean": level(name, here[_MEAN]) if here is not None else "",
    }


Cells = dict[int, tuple[str, Any]]  # batch size -> text and the value to sort by


def _columns(
    sizes: Sequence[Row],
    compared: pandas.DataFrame,
    ends: Mapping[str, pandas.DataFrame],
    runs: pandas.DataFrame,
    measured: pandas.DataFrame,
) -> Iterator[tuple[str, Cells]]:
    """Yields the columns of the table of batch sizes; the time of an epoch is at the best rate."""
    yield "Best rate", {row["batch_size"]: (row["rate"], row[RATE]) for row in sizes}
    for taken, title in (("seconds", "Time to target"), ("examples", "Examples to target")):
        yield _column(title, taken, _at(compared, taken, TARGET))
    yield _column("Time", "seconds", _at(compared, "seconds", EXAMPLES))
    for name, rows in ends.items():
        yield _column(label(name), name, rows)
    times = {}
    for row in sizes if "seconds_per_epoch" in runs else ():
        own = runs[runs["batch_size"] == row["batch_size"]]
        if RATE in own and pandas.notna(row[RATE]):
            own = own[own[RATE] == row[RATE]]
        times[row["batch_size"]] = intervals.t_interval(own["seconds_per_epoch"].dropna())[:3]
    per_epoch = pandas.DataFrame.from_dict(times, orient="index", columns=_MEAN)
    yield _column("Time per epoch", "seconds_per_epoch", per_epoch)
    if len(measured) and len(runs):
        names = {*run_series.factor_columns(measured)} & {*runs}
        single = {name: runs[name].iloc[0] for name in names if runs[name].nunique() == 1}
        own = _of_series(measured, single).dropna(subset=[_MEMORY]).set_index("batch_size")
        if own.index.is_unique:
            yield _column("Memory", _MEMORY, own[[_MEMORY]].set_axis(_MEAN[:1], axis="columns"))
    elif _MEMORY in runs and runs[_MEMORY].notna().any():  # of the commands that made them
        held = {
            size: intervals.t_interval(own[_MEMORY].dropna())[:3]
            for size, own in runs.groupby("batch_size")
        }
        frame = pandas.DataFrame.from_dict(held, orient="index", columns=_MEAN)
        yield _column("Memory", _MEMORY, frame)


def _column(title: str, name: str, rows: pandas.DataFrame) -> tuple[str, Cells]:
    """Returns a head with its unit, and its cells."""
    how = unit(name, rows["mean"])
    cells = {
        int(size): (level(name, row.reindex(_MEAN), how), row["mean"])
        for size, row in rows.iterrows()
    }
    return title + wording.aside(how.suffix.strip()), cells


def _sizes(sizes: Sequence[Row], best: Row | None, columns: Iterator[tuple[str, Cells]]) -> Row:
    """Returns the table with a row per batch size, of the columns that have a text."""
    filled = {title: cells for title, cells in columns if any(text for text, _ in cells.values())}
    low, high = (best["smallest"], best["largest"]) if best else (1, 0)
    lines = [
        {
            **row,
            "inside": low <= row["batch_size"] <= high,
            "cells": [cells.get(row["batch_size"], ("", None)) for cells in filled.values()],
        }
        for row in sizes
    ]
    return {"heads": [*filled], "rows": lines}


def _checks(rows: list[Row], best: Row | None) -> list[Row]:
    """Returns checks and needs in order, what fails alike at several sizes as one."""
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        state = {1: "passed", 0: "failed"}.get(row["passed"], "open")
        first = found.setdefault((row["name"], row["line"]), {**row, "state": state, "sizes": []})
        first["sizes"] += [whole(row["batch_size"])] if pandas.notna(row["batch_size"]) else []
    checks = [*found.values()]
    if best and not any(row["name"] == "seeds" for row in checks):
        checks.append({**best, "name": "seeds", "state": "passed", "sizes": []})
    return sorted(checks, key=lambda row: row["state"] == "passed")


def _aligned(table: Row) -> Iterator[str]:
    """Yields the lines of the table of batch sizes, for a terminal."""
    lines = [["Batch size", *table["heads"], "Verdict"]]
    for row in table["rows"]:
        shown = f"{VERDICTS[row['verdict']]}{', recommended' if row['inside'] else ''}"
        cells = (text or wording.ABSENT for text, _ in row["cells"])
        lines.append([whole(row["batch_size"]), *cells, shown])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(padded).rstrip()
