"""The recommendation as the page and the terminal show it: rows of tables to dicts.

Both take their sentences from `decision.txt.j2`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import yaml

from batchscope import project_files, wording
from batchscope.analysis import advice_series, intervals, run_series, verdicts
from batchscope.analysis.advice import BASELINE, RATE_ON_EDGE, Headline, Item
from batchscope.analysis.expectations import COUNTED, EPOCH_SECONDS, MEMORY_PEAK, PATIENCE
from batchscope.errors import UserError
from batchscope.figures import FigureTables
from batchscope.report import batch_schedules, page, training_code, unfinished
from batchscope.report.text import (
    ESTIMATE,
    VERDICTS,
    bracketed,
    label,
    level,
    margin,
    of_difference,
    unit,
    whole,
)
from batchscope.store import records
from batchscope.study import advice_needs, factor_words, suggestions, tasks
from batchscope.study.budget_kinds import (
    CONVERGENCE,
    EPOCHS,
    EXAMPLES,
    PAID,
    SECONDS,
    TAKEN,
    TARGET,
    UPDATES,
    of_ends,
)
from batchscope.study.names import split_token
from batchscope.study.outcomes import LEAST_WITH_INTERVAL, Reason, Verdict
from batchscope.tables import advice as advice_tables

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study

RATE = "learning_rate"
NEAR_CHANCE = 0.9  # a target near chance leaves more of the error of a constant prediction
_SCOPE = ("model", "dataset", "optimizer", "device")
_MEAN = [f"mean{end}" for end in intervals.ENDS]
_TITLES = {EPOCH_SECONDS: "Time per epoch", MEMORY_PEAK: "Memory"}
Row = dict[str, Any]
ChanceLevels = dict[str, dict[str, float]]


def chance_levels(study: Study, results: Path | str) -> ChanceLevels:
    """Return data set -> outcome -> value of the best constant prediction."""
    levels: ChanceLevels = {}
    for experiment in study.experiments.values():
        levels |= advice_tables.baselines(results, experiment)
    for token in study.datasets:
        record = records.data_record(results, token) or {}
        if record.get("task", tasks.CLASSIFICATION) != tasks.CLASSIFICATION:
            continue
        for split, counts in (record.get("class_counts") or {}).items():
            shares = [count / sum(counts) for count in counts if count]
            entropy = -sum(share * math.log(share) for share in shares)
            levels.setdefault(split_token(token)[0], {})[f"{split}_loss"] = entropy
    return levels


def cards(
    study: Study,
    tables: Mapping[str, FigureTables],
    config: str = project_files.DEFAULT_CONFIG,
    levels: ChanceLevels | None = None,
) -> list[Row]:
    """Return the decision of every series of a study, those that recommend something first.

    Args:
        config: Path of the study's file, as commands state it.
        levels: Values of constant predictions, of `chance_levels`.
    """
    decisions, command = [], unfinished.snakemake(study, config, how="--cores all")
    for name, of_experiment in tables.items():
        advice = of_experiment.advice
        names = [factor for factor in run_series.factor_columns(advice) if factor != RATE]
        several = run_series.varying(advice, names)
        groups = advice.groupby(several, sort=False, dropna=False) if several else [((), advice)]
        for at, (values, rows) in enumerate(groups if len(advice) else (), start=1):
            factors = rows[names].iloc[0].to_dict()
            by_item: dict[str, list[Row]] = {item: [] for item in Item}
            for row in rows.to_dict("records"):
                by_item[row["item"]].append({**row, **_texts(row)})
            targets = (levels or {}).get(factors.get("dataset"), {})
            card = _card(by_item, factors, of_experiment, targets)
            changes = _suggestions(study, name, by_item[Item.SUGGESTION], command)
            code = {**_command(study.experiments[name], card["best"]), **card["code"]}
            series = factor_words.describe(dict(zip(several, values, strict=True)))
            card |= {"experiment": name, "title": study.experiments[name].title, "series": series}
            decisions.append(
                card | {"id": f"card-{name}-{at}", "suggestions": changes, "code": code}
            )
    return sorted(decisions, key=lambda card: card["best"] is None)


def text(study: Study, results: Path | str, config: str, seeds: bool = False) -> str:
    """Return the decisions of a study for the terminal.

    Args:
        seeds: Whether to list the limits that more seeds would resolve.

    Raises:
        UserError: If a table is missing; with the command that makes it.
    """
    folder = Path(results) / "studies" / study.folder_name
    trained = [name for name, each in study.experiments.items() if not each.timings]
    for name in trained:
        if not (path := folder / name / "advice.csv").exists():
            command = unfinished.snakemake(study, config, how="--cores all")
            raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    tables = {
        name: FigureTables(folder / name, study.experiments[name].metrics) for name in trained
    }
    growing = {name: batch_schedules.of_experiment(each) for name, each in tables.items()}
    shown = cards(study, tables, config, chance_levels(study, results))
    without = [
        name for name in trained if tables[name].advice.empty and not any(growing[name].values())
    ]
    text = page.render(
        "advice.txt.j2",
        cards=[{**card, "lines": _aligned(card["sizes"])} for card in shown],
        rising=[*growing.values()],
        without=without,
        seeds=seeds,
        trained=trained,
    )
    return f"{text.strip()}\n{first_guess(study, shown)}".strip()


def first_guess(study: Study, cards: Iterable[Row]) -> str:
    """Return the guess that `init` made, and how far it was off; nothing without a guess.

    Batch size and rate of the first recommendation are given as multiples of the guess.
    """
    if study.file.guess is None:
        return ""
    best = next((card["best"] for card in cards if card["best"]), {})
    names = [name for name in ("batch_size", RATE) if pandas.notna(best.get(name))]
    ratios = {name: float(best[name]) / getattr(study.file.guess, name) for name in names}
    return page.render("guess.txt.j2", guess=study.file.guess, ratios=ratios).strip()


def _card(
    rows: Mapping[str, list[Row]],
    factors: Row,
    tables: FigureTables,
    levels: Mapping[str, float],
) -> Row:
    """Return the decision of one series.

    Args:
        rows: Rows of its advice by item, with the texts of their numbers.
        factors: The factors that distinguish the series.
        levels: Outcome -> value of a constant prediction.
    """
    head, sizes, limits = rows[Item.RECOMMENDATION][0], rows[Item.SIZE], rows[Item.LIMIT]
    best = head if pandas.notna(head["batch_size"]) else None
    compared = advice_series.of_factors(tables.comparisons, factors)
    runs = advice_series.of_factors(tables.runs, factors)
    about = [int(size) for size in head["sizes"].split()] if isinstance(head["sizes"], str) else []
    names = dict.fromkeys(row["name"] for row in limits if pandas.notna(row["batch_size"]))
    ends = of_ends(compared["budget"].unique())
    checks = _checks(rows[Item.CHECK])
    expected = [row for row in rows[Item.EXPECTATION] if _is(row, best)]
    stop = _stop(expected, checks, best)
    at_end = compared[compared["budget"].isin(ends) & compared["mean"].notna()]
    metrics = (name for name in at_end["outcome"] if tasks.metric(name, tables.metrics))
    rates = pandas.to_numeric(runs[RATE], errors="coerce").dropna() if RATE in runs else []
    open_limits = [row for row in limits if pandas.notna(row["seeds_to_resolve"])]
    return {
        "headline": head["headline"],
        "best": best,
        "n": int(head["n"]),
        "few": head["n"] < LEAST_WITH_INTERVAL,
        "about": _extent(about, [row["batch_size"] for row in sizes]),
        "edges": [row for row in rows[Item.CHECK] if row["name"] == RATE_ON_EDGE],
        "baseline": next((row for row in checks if row["name"] == BASELINE), None),
        "task": tasks.of_columns(compared["outcome"])[0],
        "metric": label(next(metrics, "")),
        "tried": wording.listed(map(wording.shortest, sorted({*rates}))),
        "rates": _rates(rows[Item.RATE]),
        "expected": [row for row in expected if row["name"] not in (*COUNTED, EPOCH_SECONDS)],
        "stop": stop,
        "code": _code(best, runs, stop),
        "scope": [
            factor_words.value_words(name, factors[name])
            for name in _SCOPE
            if pandas.notna(factors.get(name))
        ],
        "near_chance": _near_chance(compared[compared["budget"] == TARGET], levels, tables.metrics),
        "reached": _reached(compared, best["batch_size"], names) if best else None,
        "outcomes": [
            _outcome(name, _at(compared, name, *(PAID if name in TAKEN else ends)), about)
            for name in sorted(names, key=TAKEN.__contains__)
        ],
        "sizes": _sizes(sizes, best, compared, rows[Item.EXPECTATION]),
        "checks": checks,
        "limits": [row for row in limits if pandas.isna(row["batch_size"])],
        "open": sorted(open_limits, key=lambda row: row["seeds_to_resolve"]),
    }


def _near_chance(
    targets: pandas.DataFrame, levels: Mapping[str, float], metrics: tasks.Metrics
) -> Row | None:
    """Return the column of a target near the value of a constant prediction, and that value."""
    for column, chance in levels.items():
        best = 1.0 if tasks.higher_is_better(column, metrics) else 0.0
        values = targets.loc[targets["budget_column"] == column, "budget_value"]
        if ((best - values).abs() >= NEAR_CHANCE * abs(best - chance)).any():
            return {"name": column, "level": chance}
    return None


def _texts(row: Row) -> Row:
    """Return the numbers of a row of the advice as texts."""
    sizes = ("batch_size", "smallest", "largest", "seeds_to_resolve")
    minutes, name = row["minutes_to_resolve"], str(row["name"])
    how = of_difference(name) if row["item"] == Item.LIMIT else wording.PLAIN
    expected = row["item"] == Item.EXPECTATION
    return {
        **{each: int(row[each]) for each in sizes if pandas.notna(row[each])},
        "rate": "" if pandas.isna(row[RATE]) else wording.shortest(float(row[RATE])),
        "shown": _value(row) if expected else bracketed([row[each] for each in ESTIMATE], how),
        "of": " times the best" if name in TAKEN else how.suffix,
        "cost": "" if pandas.isna(minutes) else wording.duration(60 * float(minutes)),
    }


def _value(row: Row) -> str:
    """Return the mean over seeds with its interval; of counts and below three seeds the range."""
    name, numbers = row["name"], [row[each] for each in ESTIMATE]
    how = wording.PLAIN if name in COUNTED else unit(name, numbers[:1])
    if name not in COUNTED and row["n"] >= LEAST_WITH_INTERVAL:
        return level(name, numbers, how) + how.suffix
    digits = 2 if name in COUNTED else 3
    mean, low, high = (wording.number(how.times * number, digits) for number in numbers)
    return mean + how.suffix + wording.aside(f"{low} to {high}" if low != high else "")


def _extent(values: Sequence[Any], every: Sequence[Any], spelt: Callable[[Any], str] = str) -> str:
    """Return values in words: `16 to 128` if they are neighbours among all values."""
    between = [value for value in every if values and values[0] <= value <= values[-1]]
    if len(values) > 2 and len(between) == len(values):
        return f"{spelt(values[0])} to {spelt(values[-1])}"
    return wording.listed(map(spelt, values)) if values else ""


def _rates(rows: Sequence[Row]) -> Row:
    """Return the tried rates by verdict, those that do as well as the recommended one first."""
    every = [row[RATE] for row in rows]
    found: Row = {"count": len(every)}
    for verdict in (Verdict.WITHIN, Verdict.NOT_TESTABLE, Verdict.BEYOND, Verdict.PROVISIONAL):
        rates = [row[RATE] for row in rows if row["verdict"] == verdict]
        words = _extent(rates, every, wording.shortest)
        found[verdict] = {"words": words, "several": len(rates) > 1}
    return found


def _stop(expected: Sequence[Row], checks: Sequence[Row], best: Row | None) -> Row:
    """Return how long to train: the epochs, and whether to stop at the lowest loss."""
    by_name = {row["name"]: row for row in expected}
    used = by_name.get(EPOCHS) or by_name.get(UPDATES)
    if not used:
        return {}
    falling = (row["sizes"] for row in checks if row["name"] == "still_falling")
    falls = any(whole(best["batch_size"]) in sizes for sizes in falling)
    patience = by_name.get(PATIENCE)
    return {
        **used,
        "falls": falls,
        "early": used["key"] == CONVERGENCE and not falls,
        "patience": int(patience["high"]) if patience and not falls else None,
        "last": math.ceil(used["high"]) if used["name"] == EPOCHS else None,
    }


def _code(best: Row | None, runs: pandas.DataFrame, stop: Row) -> dict[str, list[str]]:
    """Return the recommended training in Keras and in PyTorch."""
    if not best:
        return {}
    runs = run_series.finished(runs)
    runs = advice_series.of_factors(runs, {name: best[name] for name in ("batch_size", RATE)})
    if runs.empty:
        return {}
    factors, patience, epochs = runs.iloc[0].to_dict(), stop.get("patience"), stop.get("last")
    if patience is not None:
        patience = int(factors.get("patience") or patience)  # runs may have stopped early
        epochs = int(runs[EPOCHS].max()) if EPOCHS in runs else epochs
    return training_code.lines(factors, epochs, patience)


def _command(experiment: PlannedExperiment, best: Row | None) -> dict[str, list[str]]:
    """Return the command of a recommended run; nothing if no command makes the runs."""
    for run in experiment.commands.values() if best else ():
        same_rate = RATE not in run.factors or run.factors[RATE] == best[RATE]
        if run.factors["batch_size"] == best["batch_size"] and same_rate:
            return {"Command": [shlex.join(run.resolved("OUT")[0])]}
    return {}


def _suggestions(study: Study, experiment: str, rows: Sequence[Row], command: str) -> list[Row]:
    """Return the suggestions in order: lines of YAML, a command, or a key and value for words.

    Args:
        command: The command that runs the study.
    """
    by_name: dict[str, Row] = {}
    for row in rows:
        size = int(row["batch_size"]) if pandas.notna(row["batch_size"]) else None
        values = by_name.setdefault(row["name"], {**row, "values": {}})["values"]
        values[size] = yaml.safe_load(str(row["value"])) if pandas.notna(row["value"]) else ""
    distinct: dict[Any, Row] = {}
    for row in by_name.values():
        value = next(iter(row["values"].values()))
        lines = suggestions.lines(
            suggestions.changes(study, experiment, [(row["key"], row["values"])])
        )
        if row["key"] == advice_needs.RERUN:
            lines = [f"{command} {advice_needs.RERUN} {value}"]
        listed = wording.listed(map(str, value if isinstance(value, list) else [value]))
        distinct.setdefault((row["key"], *lines, listed), {**row, "lines": lines, "listed": listed})
    return [*distinct.values()]


def _at(compared: pandas.DataFrame, outcome: str, *budgets: str) -> pandas.DataFrame:
    rows = compared[compared["outcome"] == outcome].set_index("batch_size", drop=False)
    every = [rows[rows["budget"] == budget] for budget in budgets]
    return max(every, key=lambda found: (found["mean"].notna().any(), len(found) > 0))


def _reached(compared: pandas.DataFrame, best: int, limits: Collection[str]) -> Row | None:
    """Return the cost of the best size to the target, and its ratio for the neighbouring sizes.

    Seconds are left out if the examples rank the sizes in their place.
    """
    for cost in (SECONDS, EXAMPLES, UPDATES)[EXAMPLES in limits :]:
        rows = _at(compared, cost, TARGET, EXAMPLES)
        if best not in rows.index or pandas.isna(rows.loc[best, "mean"]):
            continue
        at, row = rows.index.get_loc(best), rows.loc[best]
        neighbours, how = rows.iloc[max(at - 1, 0) : at + 2].drop(best), unit(cost, [row["mean"]])
        others = [
            {"batch_size": size, "ratio": bracketed(other[[*ESTIMATE]])}
            | {"against": int(other["against"]) if other["against"] != best else None}
            for size, other in neighbours[neighbours["estimate"].notna()].iterrows()
        ]
        jobs = whole(row["reached"]) if cost == SECONDS else ""
        shown = bracketed(row[_MEAN], how) + how.suffix + wording.aside(jobs and f"n = {jobs}")
        return {**row, "name": cost, "taken": shown, "others": others}
    return None


def _outcome(name: str, rows: pandas.DataFrame, about: Sequence[int]) -> Row:
    """Return the batch sizes by verdict of one limit, and whether the given ones are within."""
    kinds = (Verdict.WITHIN, Verdict.BEYOND, "failed", "open")
    by_verdict: dict[str, list[int]] = {kind: [] for kind in kinds}
    read = verdicts.read_off(rows)
    for size, verdict, reason in zip(rows.index, read, rows["reason"], strict=True):
        kind = "failed" if reason in (Reason.FAILED, Reason.NOT_REACHED) else verdict
        by_verdict[kind if kind in by_verdict else "open"].append(int(size))
    how = wording.Unit(" %", 100.0) if name in TAKEN else of_difference(name)
    return {
        **by_verdict,
        "label": label(name),
        "taken": name in TAKEN,
        "shown": {*about} <= {*by_verdict[Verdict.WITHIN]},
        "margin": margin(rows["margin"].iloc[0], how),
    }


Cells = dict[int, tuple[str, Any]]  # batch size -> text and the value to sort by


def _sizes(
    sizes: Sequence[Row], best: Row | None, compared: pandas.DataFrame, expected: Sequence[Row]
) -> Row:
    """Return the table with a row per batch size, of the columns that have a text."""
    columns: dict[str, Cells] = {
        "Learning rate": {row["batch_size"]: (row["rate"], row[RATE]) for row in sizes},
        **_column("Time to target", SECONDS, _at(compared, SECONDS, TARGET)),
        **_column("Examples to target", EXAMPLES, _at(compared, EXAMPLES, TARGET)),
        **_column("Time", SECONDS, _at(compared, SECONDS, EXAMPLES)),
    }
    for name in dict.fromkeys(row["name"] for row in expected):
        rows = {row["batch_size"]: row for row in expected if row["name"] == name}
        if name in _TITLES:
            means = pandas.DataFrame.from_dict(rows, orient="index")[["estimate", "n"]]
            means = means.set_axis([_MEAN[0], "reached"], axis="columns")
            columns |= _column(_TITLES[name], name, means)
        elif name not in (PATIENCE, SECONDS):
            texts = {size: (row["shown"], row["estimate"]) for size, row in rows.items()}
            columns[label(name)] = texts
    filled = {
        title: cells for title, cells in columns.items() if any(text for text, _ in cells.values())
    }
    read = verdicts.read_off(pandas.DataFrame(sizes))
    alone = best is not None and best["headline"] == Headline.RECOMMENDED
    lines = [
        {
            **row,
            "verdict": verdict,
            "words": _verdict(row, verdict, best, compared),
            # No size is highlighted if none is distinguished or within every margin.
            "inside": _is(row, best) and (alone or best["verdict"] == Verdict.WITHIN),
            "cells": [cells.get(row["batch_size"], ("", None)) for cells in filled.values()],
        }
        for row, verdict in zip(sizes, read, strict=True)
    ]
    return {"heads": [*filled], "rows": lines}


def _column(title: str, name: str, rows: pandas.DataFrame) -> dict[str, Cells]:
    """Return a head with its unit, and its cells.

    Means of times have the number of their jobs: in the head if it is the same for all sizes.
    """
    how = unit(name, rows["mean"])
    texts = {size: level(name, row.reindex(_MEAN), how) for size, row in rows.iterrows()}
    jobs = rows["reached"].dropna() if name in (SECONDS, EPOCH_SECONDS) else pandas.Series()
    jobs = {size: f"n = {whole(number)}" for size, number in jobs.items() if texts[size]}
    same = {*jobs.values()} if len({*jobs.values()}) == 1 else ()
    if not same:
        texts |= {size: f"{texts[size]}, {number}" for size, number in jobs.items()}
    head = title + wording.aside(", ".join(filter(None, [how.suffix.strip(), *same])))
    return {head: {int(size): (text, rows.loc[size, "mean"]) for size, text in texts.items()}}


def _is(row: Row, best: Row | None) -> bool:
    return best is not None and row["batch_size"] == best["batch_size"]


def _verdict(row: Row, verdict: str, best: Row | None, compared: pandas.DataFrame) -> str:
    """Return the verdict on a batch size, with the limit that decides about it."""
    if _is(row, best):
        several = best["headline"] == Headline.NOT_DISTINGUISHED
        return "best measured" if several and best["verdict"] != Verdict.WITHIN else "recommended"
    if row["reason"] == Reason.NOT_REACHED:
        rows = compared[compared["batch_size"] == row["batch_size"]]
        epochs = whole(rows["epochs_run"].max())
        rows = rows[(rows["budget"] == TARGET) & (rows["outcome"] != SECONDS)]
        reached, seeds = rows["reached"].max(), whole(rows["seeds"].max())
        words = f"{whole(reached)} of {seeds} seeds reached the target"
        words = words if reached > 0 else "target not reached"
        return f"{words} in {epochs} epochs" if epochs else words
    words = "runs failed" if row["reason"] == Reason.FAILED else VERDICTS[verdict]
    decides = isinstance(row["name"], str) and verdict != Verdict.WITHIN
    return f"{words}: {wording.lower(label(row['name']))}" if decides else words


def _checks(rows: list[Row]) -> list[Row]:
    """Return checks in order, those that did not pass first, a check of several sizes as one.

    A check that fails for all sizes names none.
    """
    found: dict[str, Row] = {}
    for row in rows:
        state = {1: "passed", 0: "failed"}.get(row["passed"], "open")
        first = found.setdefault(row["name"], {**row, "state": state, "sizes": []})
        if pandas.notna(first["batch_size"]):
            first["sizes"].append(whole(row["batch_size"]))
    return sorted(found.values(), key=lambda row: row["state"] == "passed")


def _aligned(table: Row) -> list[str]:
    """Return the table of batch sizes as aligned lines."""
    lines = [["Batch size", *table["heads"], "Verdict"]]
    for row in table["rows"]:
        cells = [text or wording.ABSENT for text, _ in row["cells"]]
        lines.append([whole(row["batch_size"]), *cells, row["words"]])
    frame = pandas.DataFrame(lines).map(" {}".format)
    return frame.to_string(index=False, header=False).splitlines()
