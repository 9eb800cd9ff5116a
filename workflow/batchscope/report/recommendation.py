"""The recommendations of a study: a card of the page per series, and an answer in the terminal.

A card has rows of advice.csv and comparisons.csv as values for the templates; `_card` lists its
fields. Page and terminal take their sentences from `decision.txt.j2`.
"""

import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import yaml

from batchscope.analysis import advice_series, intervals, run_series, verdicts
from batchscope.analysis.advice import BASELINE, MEMORY, RATE_ON_EDGE, Headline, Item, listed_sizes
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.expectations import COUNTED, EPOCH_SECONDS, PATIENCE
from batchscope.core import display, project_files
from batchscope.core.errors import UserError
from batchscope.figures import FigureTables
from batchscope.report import batch_schedules, rendering, text, unfinished
from batchscope.store import paths
from batchscope.study import factor_maps, outcomes, run_factors, suggestions, tasks
from batchscope.study.decision_columns import ADVICE
from batchscope.study.log_format import prefixed_name
from batchscope.study.outcomes import COSTS, EXAMPLES, SECONDS, TARGET, UPDATES, Reason, Verdict
from batchscope.study.plan import PlannedExperiment, Study

Row = dict[str, Any]
_SCOPE = ("model", "dataset", "optimizer", "device")
_MEAN = [f"mean{end}" for end in intervals.SUFFIXES]
# Limit that excludes a batch size -> words, instead of those of the verdict.
_BEYOND_WORDS = {SECONDS: "slower than the margin allows", MEMORY: "does not fit into memory"}
_OPTIMIZER_CLASSES = {**run_factors.TITLES, "ftrl": "Ftrl", "lamb": "Lamb"}
_FACTORS_OF_UPDATE = run_factors.factors_affecting(run_factors.Affects.UPDATE)


def cards(
    study: Study, tables: Mapping[str, FigureTables], config: str = project_files.DEFAULT_CONFIG
) -> list[Row]:
    """Return the card of every series of a study; cards with a recommendation come first.

    Args:
        config: Path of the study's file as the user wrote it, for commands.
    """
    study_cards, command = [], unfinished.snakemake_command(study, config, options="--cores all")
    for name, experiment_tables in tables.items():
        experiment = study.experiments[name]
        for factors, distinguishing, series in experiment_tables.by_series("comparisons", "runs"):
            row = _card(factors, series)
            row |= {"experiment": name, "title": experiment.title}
            row["series"] = factor_maps.describe(distinguishing)
            row["suggestions"] = _suggestions(study, name, row["suggestions"], command)
            command_line = _recommended_command(experiment, distinguishing, row["best"])
            row["code"] = command_line or row["code"]
            study_cards.append(row)
    return sorted(study_cards, key=lambda row: row["best"] is None)


def terminal_text(study: Study, results: Path | str, config: str) -> str:
    """Return the recommendations of a study for the terminal.

    Raises:
        UserError: If a table is missing; with the command that makes it.
    """
    folder = paths.study_folder(results, study.folder_name)
    names = [name for name, experiment in study.experiments.items() if not experiment.timings]
    for name in names:
        if not (path := folder / name / "advice.csv").exists():
            command = unfinished.snakemake_command(study, config, options="--cores all")
            raise UserError(f"{path}: missing; it is expected. Make it by: {command}")
    tables = {name: FigureTables(folder / name, study.experiments[name].metrics) for name in names}
    advice = rendering.render(
        "advice.txt.j2",
        cards=cards(study, tables, config),
        schedules={name: batch_schedules.for_experiment(tables[name]) for name in names},
        guess=study.file.guess,
    )
    return re.sub(r"\n{3,}", "\n\n", advice).strip()


def _recommended_command(
    experiment: PlannedExperiment, series_factors: Mapping[str, Any], best: Row | None
) -> list[str]:
    """Return the command of the recommended run; nothing if Batchscope trains the runs itself.

    Args:
        series_factors: Columns that distinguish the series, with its values.
    """
    if best is None:
        return []
    recommended = {**series_factors, "batch_size": best["batch_size"], RATE: best[RATE]}
    for run in experiment.commands.values():
        values = {prefixed_name(name): value for name, value in run.factors.items()}
        if all(values[name] == recommended[name] for name in values.keys() & recommended.keys()):
            return [shlex.join(run.resolved("OUT")[0])]
    return []


def _suggestions(study: Study, experiment: str, rows: Sequence[Row], command: str) -> list[Row]:
    """Return the suggestions in order: lines of YAML, a command, or a key and value for words.

    Args:
        command: The command that runs the study.
    """
    by_name: dict[str, Row] = {}
    for row in rows:
        values = by_name.setdefault(row["name"], {**row, "values": {}})["values"]
        # A column of a single number is read as 80.0.
        values[row["batch_size"]] = yaml.safe_load(text.plain(row["value"])) if row["value"] else ""
    merged: dict[Any, Row] = {}
    for row in by_name.values():
        value = next(iter(row["values"].values()))
        if row["key"] == suggestions.RERUN:
            lines = [f"{command} {suggestions.RERUN} {value}"]
        else:
            changes = suggestions.changes(study, experiment, [(row["key"], row["values"])])
            lines = suggestions.lines(changes)
        words = display.listed(map(str, value if isinstance(value, list) else [value]))
        merged.setdefault((row["key"], *lines, words), {**row, "lines": lines, "listed": words})
    return list(merged.values())


def _card(factors: Row, tables: FigureTables) -> Row:
    """Return the card of one series, without the words of its experiment.

    Args:
        factors: The factors of the series.
        tables: Its rows of the tables.
    """
    typed = run_series.with_integer_columns(tables.advice, ADVICE).astype(object)
    expectations = tables.advice[tables.advice["item"] == Item.EXPECTATION]
    largest = expectations.groupby("name")["estimate"].max()
    rows_by_item: dict[str, list[Row]] = {item: [] for item in Item}
    for row in typed.where(typed.notna(), None).to_dict("records"):
        rows_by_item[row["item"]].append({**row, **_texts(row, largest)})
    (recommendation,), limits = rows_by_item[Item.RECOMMENDATION], rows_by_item[Item.LIMIT]
    best = recommendation if recommendation["batch_size"] else None
    compared, sizes = tables.comparisons, listed_sizes(recommendation["sizes"])
    names = dict.fromkeys(row["name"] for row in limits if row["batch_size"])
    checks = _merged_checks(rows_by_item[Item.CHECK])
    expected, stop, code = [], {}, []
    if best:
        size, rate = best["batch_size"], best[RATE]
        expected = [row for row in rows_by_item[Item.EXPECTATION] if row["batch_size"] == size]
        runs = run_series.finished_runs(tables.runs)
        runs = advice_series.select_factors(runs, {"batch_size": size, RATE: rate})
        stop = _training_length(expected, checks, size, runs)
        if len(runs):
            code = keras_lines(runs.iloc[0].to_dict(), stop.get("last"), stop.get("patience"))
    table = _size_table(rows_by_item[Item.SIZE], best, compared, rows_by_item[Item.EXPECTATION])
    scope = {name: factors[name] for name in _SCOPE if pandas.notna(factors.get(name))}
    return {
        "headline": recommendation["headline"],
        "best": best,
        "n": recommendation["n"],
        "few": recommendation["n"] < outcomes.MIN_SEEDS_FOR_INTERVAL,
        "min_seeds": outcomes.MIN_SEEDS,
        "about": display.listed(sizes),
        "others": [size for size in sizes if best and size != best["batch_size"]],
        "edges": [row for row in rows_by_item[Item.CHECK] if row["name"] == RATE_ON_EDGE],
        "baseline": next((row for row in checks if row["name"] == BASELINE), None),
        "task": tasks.from_columns(compared["outcome"])[0],
        "rates": rows_by_item[Item.RATE],
        "expected": [row for row in expected if row["name"] not in (*COUNTED, EPOCH_SECONDS)],
        "stop": stop,
        "code": code,
        "scope": [factor_maps.describe({name: value}) for name, value in scope.items()],
        "reached": _cost_to_target(compared, best["batch_size"], names) if best else None,
        "outcomes": [
            _sizes_by_verdict(name, compared, sizes)
            for name in sorted(names, key=COSTS.__contains__)
        ],
        "sizes": table,
        "lines": _aligned_lines(table),
        "checks": checks,
        "limits": limits,
        "suggestions": rows_by_item[Item.SUGGESTION],
    }


def _texts(row: Row, largest: Mapping[str, float]) -> Row:
    """Return the numbers of a row of advice.csv as text; `rate` is the one after scaling.

    All batch sizes have the unit of the largest mean of an expectation.
    """
    minutes, name = row["minutes_to_resolve"], str(row["name"])
    unit = text.difference_unit(name) if row["item"] == Item.LIMIT else display.PLAIN
    is_expected = row["item"] == Item.EXPECTATION
    interval = text.bracketed([row[end] for end in text.ESTIMATE], unit)
    rate, effective = row[RATE], row["effective_learning_rate"]
    rate_text = "" if rate is None else display.shortest(float(rate))
    is_scaled = rate is not None and not math.isclose(rate, effective)
    shown_rate = display.number(effective, 4) if is_scaled else rate_text
    return {
        "rate": shown_rate,
        "edge": f"{'at most' if row['low'] is None else 'at least'} {shown_rate}",
        "rate_before_scaling": rate_text if is_scaled else "",
        "shown": _expectation_text(row, largest[name]) if is_expected else interval,
        "cost": "" if minutes is None else display.duration(60 * float(minutes)),
    }


def _expectation_text(row: Row, largest: float) -> str:
    """Return the mean over seeds with its interval, or the range for counts and for few seeds."""
    name, numbers = row["name"], [row[end] for end in text.ESTIMATE]
    unit = display.PLAIN if name in COUNTED else text.unit(name, [largest])
    if name in COUNTED:
        mean, low, high = (display.cell(number, 2) for number in numbers)
    elif row["n"] >= outcomes.MIN_SEEDS_FOR_INTERVAL:
        return text.level(name, numbers, unit) + unit.suffix
    else:
        mean, low, high = (display.number(unit.times * number) for number in numbers)
    return mean + unit.suffix + display.aside(f"{low} to {high}" if low != high else "")


def _training_length(
    expected: Sequence[Row], checks: Sequence[Row], best_size: int, runs: pandas.DataFrame
) -> Row:
    """Return how long to train: the epochs or updates, and whether to stop early.

    Args:
        runs: The runs of the recommended size and rate.
    """
    by_name = {row["name"]: row for row in expected}
    used = by_name.get(outcomes.EPOCHS) or by_name.get(UPDATES)
    if not used:
        return {}
    falls = any(row["name"] == "still_falling" and best_size in row["sizes"] for row in checks)
    last = math.ceil(used["high"]) if used["name"] == outcomes.EPOCHS else None
    patience = int(by_name[PATIENCE]["high"]) if PATIENCE in by_name and not falls else None
    if patience and len(runs):
        # Runs may have stopped early. External runs lack both factors.
        stated, epochs = runs.reindex(columns=["patience", outcomes.EPOCHS]).max()
        patience = int(stated) if stated > 0 else patience
        last = int(epochs) if epochs > 0 else last
    early = used["key"] == outcomes.CONVERGENCE and not falls
    return {**used, "falls": falls, "early": early, "patience": patience, "last": last}


def _cost_to_target(compared: pandas.DataFrame, best: int, limits: Collection[str]) -> Row | None:
    """Return the cost of the best size to the target, in seconds unless examples rank the sizes."""
    compared = compared[compared["budget"] != outcomes.EPOCHS]  # where runs reach no target
    for cost in (SECONDS, EXAMPLES, UPDATES)[EXAMPLES in limits :]:
        costs = advice_series.limit_rows(compared, cost).set_index("batch_size")
        if best in costs.index and pandas.notna(costs.loc[best, "mean"]):
            row = costs.loc[best]
            unit = text.unit(cost, [row["mean"]])
            jobs = f"n = {text.integer(row['reached'])}" if cost == SECONDS else ""
            mean = text.bracketed(row[_MEAN], unit) + unit.suffix
            return {**row, "name": cost, "shown": mean + display.aside(jobs)}
    return None


def _sizes_by_verdict(name: str, compared: pandas.DataFrame, sizes: Sequence[int]) -> Row:
    """Return the batch sizes by verdict on one outcome; `equal` if all `sizes` are within."""
    compared = advice_series.limit_rows(compared, name)
    by_verdict = {kind: [] for kind in (Verdict.WITHIN, Verdict.BEYOND, "failed", "open")}
    by_size = verdicts.verdicts_of_intervals(compared)
    rows = zip(compared["batch_size"], by_size, compared["reason"], strict=True)
    for size, verdict, reason in rows:
        kind = "failed" if reason in (Reason.FAILED, Reason.NOT_REACHED) else verdict
        by_verdict[kind if kind in by_verdict else "open"].append(int(size))
    unit = display.Unit(" %", 100.0) if name in COSTS else text.difference_unit(name)
    return {
        **by_verdict,
        "label": text.label(name),
        "is_cost": name in COSTS,
        "to_target": compared["budget"].eq(TARGET).any(),
        "equal": {*sizes} <= {*by_verdict[Verdict.WITHIN]},
        "margin": text.margin(compared["margin"].iloc[0], unit),
    }


def _size_table(
    sizes: Sequence[Row], best: Row | None, compared: pandas.DataFrame, expected: Sequence[Row]
) -> Row:
    """Return the table with a row per batch size: its verdict, and the columns that have values."""
    columns = {"Learning rate": {row["batch_size"]: row["rate"] for row in sizes}}
    for cost in (SECONDS, EXAMPLES):
        costs = advice_series.limit_rows(compared, cost).set_index("batch_size")
        unit = text.unit(cost, costs["mean"])
        texts = {int(size): text.level(cost, row[_MEAN], unit) for size, row in costs.iterrows()}
        place = " to target" if costs["budget"].eq(TARGET).any() else ""
        columns[text.label(cost) + place + display.aside(unit.suffix.strip())] = texts
    for row in expected:
        if row["name"] not in (PATIENCE, SECONDS):
            columns.setdefault(text.label(row["name"]), {})[row["batch_size"]] = row["shown"]
    columns = {title: texts for title, texts in columns.items() if any(texts.values())}
    # No size is highlighted if none is distinguished or within every margin.
    highlighted = best is not None and (
        best["headline"] == Headline.RECOMMENDED or best["verdict"] == Verdict.WITHIN
    )
    by_size, rows = verdicts.verdicts_of_intervals(pandas.DataFrame(sizes)), []
    for row, verdict in zip(sizes, by_size, strict=True):
        words = _verdict_words(row, verdict, best, compared)
        cells = [texts.get(row["batch_size"], "") for texts in columns.values()]
        marks = {"verdict": verdict, "verdict_words": words, "cells": cells}
        inside = highlighted and row["batch_size"] == best["batch_size"]
        rows.append({**row, **marks, "inside": inside})
    return {"heads": list(columns), "rows": rows}


def _verdict_words(row: Row, verdict: str, best: Row | None, compared: pandas.DataFrame) -> str:
    """Return the verdict on a batch size in words, with the outcome that decides about it."""
    if best and row["batch_size"] == best["batch_size"]:
        several = best["headline"] == Headline.NOT_DISTINGUISHED
        return "best measured" if several and best["verdict"] != Verdict.WITHIN else "recommended"
    if row["reason"] == Reason.NOT_REACHED:
        size = compared[compared["batch_size"] == row["batch_size"]]
        costs = size[(size["budget"] == TARGET) & (size["outcome"] != SECONDS)]
        epochs, reached = text.integer(size["epochs_run"].max()), costs["reached"].max()
        seeds = f"{text.integer(reached)} of {text.integer(costs['seeds'].max())} seeds"
        phrase = f"{seeds} reached the target" if reached > 0 else "target not reached"
        return f"{phrase} in {epochs} epochs" if epochs else phrase
    if verdict == Verdict.BEYOND and row["name"] in _BEYOND_WORDS:
        return _BEYOND_WORDS[row["name"]]
    phrase = "runs failed" if row["reason"] == Reason.FAILED else text.VERDICTS[verdict]
    decides = row["name"] and verdict != Verdict.WITHIN
    return f"{phrase}: {display.lower(text.label(row['name']))}" if decides else phrase


def _merged_checks(check_rows: Sequence[Row]) -> list[Row]:
    """Merge the rows of each check, with its batch sizes, and sort those that passed last.

    The sizes are those that failed, or those that were checked; a check of all sizes has none.
    """
    checks: dict[str, Row] = {}
    for row in check_rows:
        state = {1: "passed", 0: "failed"}.get(row["passed"], "open")
        check = checks.setdefault(
            row["name"], {**row, "state": state, "sizes": listed_sizes(row["sizes"])}
        )
        if check["batch_size"]:
            check["sizes"].append(row["batch_size"])
    return sorted(checks.values(), key=lambda row: row["state"] == "passed")


def _aligned_lines(table: Row) -> list[str]:
    """Return the table of batch sizes as aligned lines for the terminal."""
    lines = [["Batch size", *table["heads"], "Verdict"]]
    for row in table["rows"]:
        cells = [cell or display.ABSENT for cell in row["cells"]]
        lines.append([row["batch_size"], *cells, row["verdict_words"]])
    frame = pandas.DataFrame(lines).map(" {}".format)
    return frame.to_string(index=False, header=False).splitlines()


def keras_lines(factors: Mapping[str, Any], epochs: int | None, patience: int | None) -> list[str]:
    """Return the recommended training as lines of Keras; none if the optimizer is unknown.

    It is unknown for most external runs.

    Args:
        factors: Factors of the recommended runs.
        epochs: Epochs to train at most; None if unknown.
        patience: Epochs without improvement after which to stop; None to train all epochs.
    """
    factors = {name: value for name, value in factors.items() if pandas.notna(value)}
    optimizer = factors.get("optimizer")
    if optimizer not in _OPTIMIZER_CLASSES:
        return []
    changed = [
        f"{name} {factors[name]}"
        for name in _FACTORS_OF_UPDATE
        if name in factors and factors[name] != run_factors.FACTORS[name].default
    ]
    code = [f"# also: {', '.join(changed)}"] if changed else []
    optimizer_class, arguments = _OPTIMIZER_CLASSES[optimizer], _optimizer_arguments(factors)
    code.append(f"optimizer = keras.optimizers.{optimizer_class}({arguments})")
    code.append("model.compile(optimizer=optimizer, loss=loss)")
    fit = ["x", "y", f"batch_size={int(factors['batch_size'])}"]
    fit += [f"epochs={epochs}"] if epochs else []
    if patience is not None:
        stop = f"patience={patience}, restore_best_weights=True"
        code.append(f"stop = keras.callbacks.EarlyStopping({stop})")
        fit += ["validation_data=validation", "callbacks=[stop]"]
    return [*code, f"model.fit({', '.join(fit)})"]


def _optimizer_arguments(factors: Mapping[str, Any]) -> str:
    """Return the arguments of an optimizer that differ from its defaults."""
    rate = factors.get("effective_learning_rate", factors.get("learning_rate"))
    arguments = {} if rate is None else {"learning_rate": float(rate)}
    # Runs of a command and external runs lack factors.
    factors = {name: factor.default for name, factor in run_factors.FACTORS.items()} | {**factors}
    arguments |= {name: factors[name] for name in ("momentum", "nesterov") if factors[name]}
    constants = run_factors.scaled_constants(factors)
    defaults = {"weight_decay": 0.0, **run_factors.DEFAULT_CONSTANTS[factors["optimizer"]]}
    arguments |= {name: value for name, value in constants.items() if value != defaults[name]}
    return ", ".join(
        f"{name}={display.shortest(value) if isinstance(value, float) else value}"
        for name, value in arguments.items()
    )
