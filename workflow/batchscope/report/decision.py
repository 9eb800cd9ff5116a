"""Which batch size to use, as the page and the terminal show it: rows of tables to dicts.

Words are the templates' own: `decision.txt.j2` has the sentences, which both use.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
import yaml

from batchscope import project_files, wording
from batchscope.analysis import advice_series, intervals, run_series
from batchscope.analysis.advice import BASELINE, RATE_ON_EDGE, Headline, Item
from batchscope.analysis.expectations import COUNTED, EPOCH_SECONDS, MEMORY_PEAK, PATIENCE
from batchscope.errors import UserError
from batchscope.figures import FigureTables
from batchscope.report import gaps, page, rising, training_code
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
from batchscope.study import advice_needs, factor_words, own_columns, suggestions, tasks
from batchscope.study.budget_kinds import (
    CONVERGENCE,
    EPOCHS,
    EXAMPLES,
    PAID,
    TAKEN,
    TARGET,
    UPDATES,
    of_ends,
)
from batchscope.study.outcomes import LEAST_WITH_INTERVAL, Reason, Verdict

if TYPE_CHECKING:
    from batchscope.study.plan import Study

RATE = "learning_rate"
_SCOPE = ("model", "dataset", "optimizer", "device", "machine")
_HERE = ("local", own_columns.ELSEWHERE)  # machines that are not named
_MEAN = [f"mean{end}" for end in intervals.ENDS]
_TIMES = ("seconds", EPOCH_SECONDS)
_TITLES = {EPOCH_SECONDS: "Time per epoch", MEMORY_PEAK: "Memory"}
Row = dict[str, Any]


def cards(
    study: Study, tables: Mapping[str, FigureTables], config: str = project_files.DEFAULT_CONFIG
) -> list[Row]:
    """Returns the decision of every series of a study, those that recommend something first.

    Args:
        config: Path of the study's file, for the commands to run again.
    """
    found, command = [], gaps.snakemake(study, config, how="--cores all")
    for name, each in tables.items():
        advice = each.advice
        factors = [factor for factor in run_series.factor_columns(advice) if factor != RATE]
        several = run_series.varying(advice, factors)
        groups = advice.groupby(several, sort=False, dropna=False) if several else [((), advice)]
        for at, (values, rows) in enumerate(groups) if len(advice) else ():
            series = factor_words.describe(dict(zip(several, values, strict=True)))
            known = {"experiment": name, "title": study.experiments[name].title, "series": series}
            known["id"] = f"card-{name}-{at + 1}"
            card = _card(rows, rows[factors].iloc[0].to_dict(), each)
            changes = _suggestions(study, name, card.pop("rows")[Item.SUGGESTION], command)
            code = {**_command(study, name, card["best"]), **card["code"]}
            found.append({**known, **card, "suggestions": changes, "code": code})
    return sorted(found, key=lambda card: card["best"] is None)


def text(study: Study, results: Path | str, config: str, seeds: bool = False) -> str:
    """Returns the decisions of a study for the terminal; with `seeds`, what more would resolve.

    Raises:
        UserError: If a table is missing; with the command that makes it.
    """
    folder = Path(results) / "studies" / study.folder_name
    trained = [name for name, each in study.experiments.items() if each.batch_sizes]
    for name in trained:
        if not (path := folder / name / "advice.csv").exists():
            command = gaps.snakemake(study, config, how="--cores all")
            raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    tables = {
        name: FigureTables(folder / name, study.experiments[name].metrics) for name in trained
    }
    of_rises = {name: rising.of_experiment(each) for name, each in tables.items()}
    shown = cards(study, tables, config)
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
    return f"{text.strip()}\n{first_guess(study, shown)}".strip()


def first_guess(study: Study, cards: Iterable[Row]) -> str:
    """Return the guess that `init` made, and how far it was off; nothing without a guess.

    Batch size and rate of the first recommendation are given as multiples of the guess.
    """
    if study.guess is None:
        return ""
    best = next((card["best"] for card in cards if card["best"]), {})
    names = [name for name in ("batch_size", RATE) if pandas.notna(best.get(name))]
    ratios = {name: float(best[name]) / getattr(study.guess, name) for name in names}
    return page.render("guess.txt.j2", guess=study.guess, ratios=ratios).strip()


def _card(advice: pandas.DataFrame, factors: Row, tables: FigureTables) -> Row:
    """Returns what is said of one series, which these factors distinguish."""
    rows: dict[str, list[Row]] = {item: [] for item in Item}
    for row in advice.to_dict("records"):
        rows[row["item"]].append({**row, **_texts(row)})
    head, sizes, limits = rows[Item.RECOMMENDATION][0], rows[Item.SIZE], rows[Item.LIMIT]
    best = head if pandas.notna(head["batch_size"]) else None
    compared, runs = (
        advice_series.of_factors(tables.comparisons, factors),
        advice_series.of_factors(tables.runs, factors),
    )
    about = [int(size) for size in head["sizes"].split()] if isinstance(head["sizes"], str) else []
    names = dict.fromkeys(row["name"] for row in limits if pandas.notna(row["batch_size"]))
    ends = of_ends(compared["budget"].unique())
    budgets = {name: PAID if name in TAKEN else ends for name in names}
    checks = _checks(rows[Item.CHECK])
    expected = [row for row in rows[Item.EXPECTATION] if _is(row, best)]
    stop = _stop(expected, checks, best)
    at_end = compared[compared["budget"].isin(ends) & compared["mean"].notna()]
    metrics = (name for name in at_end["outcome"] if tasks.metric(name, tables.metrics))
    epochs_run = compared.groupby("batch_size")["epochs_run"].max()
    rates = pandas.to_numeric(runs[RATE], errors="coerce").dropna() if RATE in runs else []
    return {
        "rows": rows,
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
            if pandas.notna(factors.get(name)) and factors[name] not in _HERE
        ],
        "reached": _reached(compared, best["batch_size"], names) if best else None,
        "outcomes": [
            _outcome(name, _at(compared, name, *budgets[name]), about)
            for name in sorted(names, key=TAKEN.__contains__)
        ],
        "sizes": _sizes(
            [{**row, "epochs_run": epochs_run.get(row["batch_size"])} for row in sizes],
            best,
            _columns(sizes, compared, rows, runs, tables.utilisation),
        ),
        "checks": checks,
        "limits": [row for row in limits if pandas.isna(row["batch_size"])],
        "open": sorted(
            (row for row in limits if pandas.notna(row["seeds_to_resolve"])),
            key=lambda row: row["seeds_to_resolve"],
        ),
    }


def _texts(row: Row) -> Row:
    """Returns the numbers of a row of the advice as texts."""
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
    own = advice_series.of_factors(
        run_series.finished(runs), {name: best[name] for name in ("batch_size", RATE)}
    )
    if own.empty:
        return {}
    factors, patience, epochs = own.iloc[0].to_dict(), stop.get("patience"), stop.get("last")
    if patience is not None:
        patience = int(factors.get("patience") or patience)  # some runs stopped by their own
        epochs = int(own[EPOCHS].max()) if EPOCHS in own else epochs
    return training_code.lines(factors, epochs, patience)


def _command(study: Study, experiment: str, best: Row | None) -> dict[str, list[str]]:
    """Return the command of a recommended run; nothing if no command makes the runs."""
    for run in study.experiments[experiment].commands.values() if best else ():
        rates = {best[RATE], run.factors.get(RATE, best[RATE])}
        if run.factors["batch_size"] == best["batch_size"] and len(rates) == 1:
            return {"Command": [shlex.join(run.resolved("OUT")[0])]}
    return {}


def _suggestions(study: Study, experiment: str, rows: Sequence[Row], command: str) -> list[Row]:
    """Return the suggestions in order: lines of YAML, a command, or a key and value for words.

    Args:
        command: The command that runs the study.
    """
    found: dict[str, Row] = {}
    for row in rows:
        size = int(row["batch_size"]) if pandas.notna(row["batch_size"]) else None
        values = found.setdefault(row["name"], {**row, "values": {}})["values"]
        values[size] = yaml.safe_load(str(row["value"])) if pandas.notna(row["value"]) else ""
    distinct: dict[Any, Row] = {}
    for row in found.values():
        changed = suggestions.changes(study, experiment, [(row["key"], row["values"])])
        lines, value = suggestions.lines(changed), next(iter(row["values"].values()))
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
    """Returns what the best size takes to the target, and how the next ones compare with it.

    Seconds are left out if the examples rank the sizes in their place.
    """
    ranked_by_examples = EXAMPLES in limits
    for taken in ("seconds", "examples", "updates")[ranked_by_examples:]:
        rows = _at(compared, taken, *PAID)
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
        if taken == "seconds" and (jobs := whole(own["reached"])):
            shown += wording.aside(f"n = {jobs}")
        return {**own, "name": taken, "taken": shown, "others": others}
    return None


def _outcome(name: str, rows: pandas.DataFrame, about: Sequence[int]) -> Row:
    """Return the batch sizes by verdict of one limit, and whether the given ones are within."""
    kinds = (Verdict.WITHIN, Verdict.BEYOND, "failed", "open")
    by_verdict: dict[str, list[int]] = {kind: [] for kind in kinds}
    verdicts = advice_series.verdicts(rows)
    for size, verdict, reason in zip(rows.index, verdicts, rows["reason"], strict=True):
        kind = "failed" if reason in (Reason.FAILED, Reason.NOT_REACHED) else verdict
        by_verdict[kind if kind in by_verdict else "open"].append(int(size))
    how = wording.Unit(" %", 100.0) if name in TAKEN else of_difference(name)
    margin = rounded(how.times * float(rows["margin"].iloc[0]))
    return {
        **by_verdict,
        "label": label(name),
        "taken": name in TAKEN,
        "shown": {*about} <= {*by_verdict[Verdict.WITHIN]},
        "margin": margin + (how.suffix.rstrip("s") if margin == "1" else how.suffix),
    }


Cells = dict[int, tuple[str, Any]]  # batch size -> text and the value to sort by


def _columns(
    sizes: Sequence[Row],
    compared: pandas.DataFrame,
    rows: Mapping[str, Sequence[Row]],
    runs: pandas.DataFrame,
    measured: pandas.DataFrame,
) -> Iterator[tuple[str, Cells]]:
    """Yields the columns of the table of batch sizes, whose numbers are at the rate of the row."""
    yield "Learning rate", {row["batch_size"]: (row["rate"], row[RATE]) for row in sizes}
    for taken, title in (("seconds", "Time to target"), ("examples", "Examples to target")):
        yield _column(title, taken, _at(compared, taken, TARGET))
    yield _column("Time", "seconds", _at(compared, "seconds", *PAID[1:]))
    by_name: dict[str, dict[int, Row]] = {}
    for row in rows[Item.EXPECTATION]:
        by_name.setdefault(row["name"], {})[row["batch_size"]] = row
    for name, of_sizes in by_name.items():
        if name in _TITLES:
            values = {size: [row["estimate"], row["n"]] for size, row in of_sizes.items()}
            columns = [_MEAN[0], "reached"]
            means = pandas.DataFrame.from_dict(values, orient="index", columns=columns)
            yield _column(_TITLES[name], name, means)
        elif name not in (PATIENCE, "seconds"):
            yield (
                label(name),
                {size: (row["shown"], row["estimate"]) for size, row in of_sizes.items()},
            )
    if len(measured) and len(runs):
        names = {*run_series.factor_columns(measured)} & {*runs}
        single = {name: runs[name].iloc[0] for name in names if runs[name].nunique() == 1}
        own = (
            advice_series.of_factors(measured, single)
            .dropna(subset=[MEMORY_PEAK])
            .set_index("batch_size")
        )
        if own.index.is_unique:
            frame = own[[MEMORY_PEAK]].set_axis(_MEAN[:1], axis="columns")
            yield _column(_TITLES[MEMORY_PEAK], MEMORY_PEAK, frame)


def _column(title: str, name: str, rows: pandas.DataFrame) -> tuple[str, Cells]:
    """Returns a head with its unit, and its cells.

    Means of times have the number of their jobs: in the head if it is the same for all sizes.
    """
    how = unit(name, rows["mean"])
    texts = {size: level(name, row.reindex(_MEAN), how) for size, row in rows.iterrows()}
    jobs = rows["reached"].dropna() if name in _TIMES else rows["mean"].iloc[:0]
    jobs = jobs[[size for size in jobs.index if texts[size]]]
    notes = [how.suffix.strip()]
    if jobs.nunique() == 1:
        notes.append(f"n = {whole(jobs.iloc[0])}")
    elif len(jobs):
        texts |= {size: f"{texts[size]}, n = {whole(number)}" for size, number in jobs.items()}
    cells = {int(size): (text, rows.loc[size, "mean"]) for size, text in texts.items()}
    return title + wording.aside(", ".join(filter(None, notes))), cells


def _sizes(sizes: Sequence[Row], best: Row | None, columns: Iterator[tuple[str, Cells]]) -> Row:
    """Returns the table with a row per batch size, of the columns that have a text."""
    filled = {title: cells for title, cells in columns if any(text for text, _ in cells.values())}
    verdicts = advice_series.verdicts(
        pandas.DataFrame(sizes).assign(outcome=[str(row["name"]) for row in sizes])
    )
    alone = best is not None and best["headline"] == Headline.RECOMMENDED
    lines = [
        {
            **row,
            "verdict": verdict,
            "words": _verdict(row, verdict, best),
            # No size is highlighted if none is distinguished or within every margin.
            "inside": _is(row, best) and (alone or best["verdict"] == Verdict.WITHIN),
            "cells": [cells.get(row["batch_size"], ("", None)) for cells in filled.values()],
        }
        for row, verdict in zip(sizes, verdicts, strict=True)
    ]
    return {"heads": [*filled], "rows": lines}


def _is(row: Row, best: Row | None) -> bool:
    return best is not None and row["batch_size"] == best["batch_size"]


def _verdict(row: Row, verdict: str, best: Row | None) -> str:
    """Return the verdict on a batch size, with the limit that decides about it."""
    if _is(row, best):
        several = best["headline"] == Headline.NOT_DISTINGUISHED
        return "best measured" if several and best["verdict"] != Verdict.WITHIN else "recommended"
    decides = isinstance(row["name"], str) and verdict != Verdict.WITHIN
    if row["reason"] == Reason.NOT_REACHED:
        return f"target not reached in {whole(row['epochs_run'])} epochs"
    words = "runs failed" if row["reason"] == Reason.FAILED else VERDICTS[verdict]
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


def _aligned(table: Row) -> Iterator[str]:
    """Yields the lines of the table of batch sizes, for a terminal."""
    lines = [["Batch size", *table["heads"], "Verdict"]]
    for row in table["rows"]:
        cells = (text or wording.ABSENT for text, _ in row["cells"])
        lines.append([whole(row["batch_size"]), *cells, row["words"]])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join(padded).rstrip()
