"""The section of an experiment: its results -> question, answer, cards, comparisons and figures.

A new part is a key of `build`, which `experiment.html.j2` shows.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas

from batchscope.analysis import comparisons, intervals, noise_scales, racing, run_series, step_cost
from batchscope.analysis.best_learning_rates import has_choice
from batchscope.analysis.chosen_rates import RATE
from batchscope.analysis.trainings import series_over_rates
from batchscope.analysis.verdicts import verdicts_of_intervals
from batchscope.core import display
from batchscope.core.display import Unit
from batchscope.host import requirements
from batchscope.report import batch_schedules, text
from batchscope.report.report_inputs import ExperimentResults
from batchscope.store import records
from batchscope.study import factor_maps, outcomes, tasks
from batchscope.study.figures import FIGURES
from batchscope.study.outcomes import CONVERGENCE, COSTS, END, EPOCHS, TARGET, Reason, Verdict
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import ENTRIES, OUTCOME_MEASURES, TRAINING_TIMINGS
from batchscope.study.table_entries import clipped_to_range

Row = dict[str, Any]
# Tab of comparisons -> kind of budget -> outcome of its rows, all outcomes if empty.
_TABS: dict[str, dict[str, str]] = {
    EPOCHS: {EPOCHS: ""},
    **{cost: {TARGET: cost, cost: ""} for cost in COSTS},
    CONVERGENCE: {CONVERGENCE: "", END: ""},
}
# Column of sweeps.csv with an interval -> multiple for its unit on the page: seconds in ms.
_TIMING_ESTIMATES = {"knee_fitted": 1, "fixed_seconds": 1000, "seconds_per_image": 1000}
_MEASURED_TIMINGS = ["blocks", "memory_mb_per_image", "max_batch_size"]
INCREASES, DECREASES, UNCLEAR = "increases", "decreases", "unclear"
FEW_SEEDS = "few_seeds"
_NOT_COMPARED = (Reason.ALONE, Reason.NO_BUDGET, Reason.NO_VALUE)
_MAX_ANSWERS = 6  # An answer has more rows only if the experiment names primary columns.


def build(results: ExperimentResults, cards: list[Row]) -> Row:
    """Return the parts of an experiment's section; `cards` come from `recommendation.cards`."""
    experiment, tables = results.experiment, results.tables
    trends = trend_rows(tables.trends)
    answer = answering_rows(experiment, trends, has_choice(tables.runs))
    command = next((run.command.words for run in experiment.commands.values()), ())
    return {
        "id": f"experiment-{experiment.name}",
        "plan": experiment,
        "finished": any(row["status"] == records.FINISHED for row in results.rows),
        "varied": _varied_factors(experiment),
        "source": experiment.external_runs.path if experiment.external_runs else " ".join(command),
        "timings": [name.replace("_", " ") for name in experiment.timings],
        "runs": len(results.rows),
        "cards": [card for card in cards if card["experiment"] == experiment.name],
        "schedules": batch_schedules.for_experiment(tables),
        "answer": answer,
        "noise": [] if answer else final_noise_scales(tables.runs),
        "changes": outcomes_by_change(answer),
        "other_trends": [row for row in trends if row not in answer],
        "equal": equal_budgets(tables.comparisons),
        "race": rates_that_left(tables.race),
        "machine": timings(tables.sweeps),
        "figures": results.figures,
    }


def _varied_factors(experiment: PlannedExperiment) -> str:
    """Return the factors with several values: `batch size 16, 64 and 256; 2 seeds`."""
    factors = {"batch_size": experiment.batch_sizes, **experiment.vary}
    if RATE in factors:  # Stages add learning rates, and give some runs fewer seeds.
        rates = {of_run[RATE] for of_run in experiment.factors_of.values()}
        factors[RATE] = tuple(sorted({*factors[RATE], *rates}))
    texts = [
        f"{name.replace('_', ' ')} {display.short_list(list(map(text.plain, values)), most=12)}"
        for name, values in factors.items()
        if len(values) > 1
    ]
    seeds, at_most = len(experiment.seeds), "up to " * bool(experiment.analyses)
    return "; ".join([*texts, *([at_most + text.counted(seeds, "seed")] if seeds > 1 else [])])


def final_noise_scales(runs: pandas.DataFrame) -> list[Row]:
    """Return the gradient noise scale at the end of training by batch size, if there is one."""
    if "gradient_variance" not in runs or len(run_series.split_series(runs)) > 1:
        return []
    rows = []
    for size, size_runs in run_series.finished_runs(runs).groupby("batch_size"):
        ratio = noise_scales.from_runs(size_runs)
        values = text.with_interval([ratio.ratio, ratio.low, ratio.high], ratio.n)
        at_least = f"at least {text.rounded(ratio.low)}"
        shown = at_least if ratio.is_lower_bound else text.bracketed(values)
        if ratio.is_resolved:
            rows.append({"batch_size": int(size), "shown": shown})
    return rows


def rates_that_left(race: pandas.DataFrame) -> Row | None:
    """Return the learning rates that left, with their ratios to a better one; None without any."""
    left_rates = race[race["status"] == racing.LEFT] if len(race) else race
    if left_rates.empty:
        return None
    varying = run_series.varying_factors(race.drop(columns="learning_rate"))
    rows = [
        {
            **row,
            "budget_value": None,
            "series": factor_maps.describe({name: row[name] for name in varying}),
            "ratio": text.bracketed([row[name] for name in text.ESTIMATE]),
        }
        for row in left_rates.to_dict("records")
    ]
    scaling = race.get("learning_rate_scaling", pandas.Series())
    return {"tried": len(race), "rows": rows, "scaled": scaling.isin(["linear", "sqrt"]).any()}


def equal_budgets(compared: pandas.DataFrame) -> list[Row]:
    """Return each series with a tab per kind of budget; a row has a comparison per batch size.

    The winner of a tab is the winner of its first row.
    """
    groups = []
    for series in series_over_rates(compared) if len(compared) else ():
        sizes = sorted(map(int, series.frame["batch_size"].unique()))
        tabs = []
        for name, budgets in _TABS.items():
            if rows := list(_comparison_rows(series.frame, budgets, sizes)):
                tabs.append({"name": name, "rows": rows, "winner": winner(rows[0]["cells"])})
        if tabs:
            groups.append({"series": series.label, "sizes": sizes, "tabs": tabs})
    return groups


def _comparison_rows(
    compared: pandas.DataFrame, budgets: Mapping[str, str], sizes: list[int]
) -> Iterator[Row]:
    """Yield a row per budget and outcome in which a batch size was compared or failed."""
    for budget, cost in budgets.items():
        frame = compared[compared["budget"] == budget]
        frame = frame[frame["outcome"] == cost] if cost else frame
        keys = ["budget_value", "budget_column", "outcome"]
        for (_, _, outcome), group in frame.groupby(keys, sort=False, dropna=False):
            best = comparisons.best_batch_size(group)
            if best is not None and not group["reason"].isin(_NOT_COMPARED).all():
                columns = {"shares": tasks.is_share(outcome), "best": best}
                columns["provisional"] = group["verdict"].eq(Verdict.PROVISIONAL).any()
                group = group.assign(verdict=verdicts_of_intervals(group))
                cells = {cell["batch_size"]: cell for cell in group.to_dict("records")}
                yield {**group.iloc[0], **columns, "cells": [cells.get(size) for size in sizes]}


def winner(cells: list[Row | None]) -> int | None:
    """Return the batch size that is better than all others; None if another may be as good."""
    compared = pandas.DataFrame(list(filter(None, cells)))
    failed = compared["reason"].isin([Reason.FAILED, Reason.NOT_REACHED])
    rivals = compared.loc[~failed & (compared["verdict"] != Verdict.BEYOND), "batch_size"]
    return int(rivals.iloc[0]) if len(rivals) == 1 < len(compared) else None


def timings(sweeps: pandas.DataFrame) -> Row | None:
    """Return the timed configurations of sweeps.csv; None without any.

    A configuration with a missing requirement is in `left_out`.
    """
    if sweeps.empty or sweeps[_MEASURED_TIMINGS].isna().all(axis=None):
        return None
    rows = [
        _configuration(row, series.label)
        for series in run_series.split_series(sweeps.assign(batch_size=0, seed=0))
        for _, row in series.frame.iterrows()
    ]
    titles = {
        level: [row["title"] for row in rows if row["level"] == level]
        for level in ("levels_off", "rises", "noisy")
    }
    return {
        "configurations": [row for row in rows if not row["left_out"]],
        "left_out": [row for row in rows if row["left_out"]],
        "levels": [(level, names) for level, names in titles.items() if names],
    }


def _configuration(row: pandas.Series, label: str) -> Row:
    """Return the values of a configuration with estimates as text; a missing value is None."""
    values = row.where(row.notna(), None).to_dict()
    for name, multiple in _TIMING_ESTIMATES.items():
        numbers = [float(row[name + end]) for end in intervals.SUFFIXES]
        values[name] = text.estimate(clipped_to_range(name, numbers), Unit(times=multiple))
    is_missing = row["status"] in requirements.LABELS
    values["left_out"] = is_missing and row[_MEASURED_TIMINGS].isna().all()
    values["noisy"] = step_cost.is_too_noisy(values["noise_floor"])
    values["rising"] = str(values["still_rising"]) == "True"
    levels_off = values["knee_fitted"] or values["knee_batch_size"]
    level = "rises" if values["rising"] else "levels_off" if levels_off else ""
    values["level"] = "noisy" if values["noisy"] else level
    return {"title": label or f"{row['model']} on {row['dataset']}", **values}


def trend_rows(table: pandas.DataFrame) -> list[Row]:
    """Return the rows with the words of their series and their numbers as text.

    Series with the same numbers share a row, for example times at several learning rates.
    """
    series = run_series.split_series(table) if len(table) else []
    labels = {position: group.label for group in series for position in group.frame.index}
    rows_by_numbers: dict[tuple[str, ...], list[Row]] = {}
    for position, row in table.to_dict("index").items():
        change = _trend_change(row)
        row |= {"series": labels[position], "change": change, **_trend_texts(row)}
        row["provisional"] = row["n"] < outcomes.MIN_SEEDS and change in (INCREASES, DECREASES)
        key = (row["outcome"], row["budget"], *row["means"], row["slope"], row["n"], change)
        rows_by_numbers.setdefault(key, []).append(row)
    merged = []
    for same in rows_by_numbers.values():
        names = [] if len(same) == len(series) > 1 else [row["series"] for row in same]
        merged.append({**same[0], "series": display.listed(names)})
    return merged


def _trend_change(row: Row) -> str:
    """Return the sign of a trend by its interval, which also decides the verdict."""
    if row["verdict"] == Verdict.NOT_TESTABLE:
        return Verdict.NOT_TESTABLE
    if row["n"] < outcomes.MIN_SEEDS_FOR_INTERVAL:
        return FEW_SEEDS
    no_change = 1.0 if row["outcome"] in COSTS else 0.0
    if row["low"] > no_change:
        return INCREASES
    return DECREASES if row["high"] < no_change else UNCLEAR


def _trend_texts(row: Row) -> Row:
    """Return a trend's means, its change per doubling and their units."""
    column, is_ratio = row["outcome"], row["outcome"] in COSTS
    means = [
        [row[f"{size}_mean{end}"] for end in intervals.SUFFIXES] for size in ("smallest", "largest")
    ]
    unit = text.unit(column, [mean[0] for mean in means])
    points = text.difference_unit(column)
    change = display.PLAIN if is_ratio else points if points != display.PLAIN else unit
    slope = text.with_interval([row[name] for name in text.ESTIMATE], row["n"])
    seeds = row["n"] or row["seeds"]  # Without paired seeds the means are over all.
    return {
        "unit": unit.suffix.strip(),
        "means": [text.level(column, text.with_interval(mean, seeds), unit) for mean in means],
        "slope": text.bracketed(slope, change),
        "slope_unit": change.suffix.strip(),
        "ratio": is_ratio,
    }


def answering_rows(
    experiment: PlannedExperiment, rows: list[Row], has_several_rates: bool
) -> list[Row]:
    """Return the rows that answer an experiment's question: the trends of its primary columns.

    Without primary columns they are the outcomes of the figures that it names, or else of its
    measures. Every training has an evaluation and a time, so these count only if a figure shows
    them, or if the experiment measures nothing else. They never count if a batch size has several
    learning rates, because batch sizes are then compared at the best rate of each.
    """
    at_end = [row for row in rows if row["budget"] == END]
    if primary := experiment.keys.primary:
        return [row for outcome in primary for row in at_end if row["outcome"] == outcome]
    available = list(dict.fromkeys(row["outcome"] for row in at_end))
    columns = {
        column
        for name in {*experiment.measures} - {*OUTCOME_MEASURES, *TRAINING_TIMINGS}
        for column in ENTRIES[name].columns_for(experiment.measures[name])
    }
    measured = [outcome for outcome in available if outcome in columns]
    allowed = measured if has_several_rates else available
    figures = [FIGURES[name] for name in experiment.keys.figures]
    shown = [outcome for figure in figures for outcome in allowed if figure.shows(outcome)]
    answering = dict.fromkeys(shown or measured or ([] if columns else allowed))
    rows = [row for outcome in answering for row in at_end if row["outcome"] == outcome]
    return rows[:_MAX_ANSWERS]


def outcomes_by_change(answers: list[Row]) -> list[tuple[str, list[str]]]:
    """Return each kind of change with the outcomes that have it, in the order of the rows."""
    names_by_change: dict[str, dict[str, None]] = {}
    for row in answers:
        notes = [row["series"], "provisional" if row["provisional"] else ""]
        name = display.lower(text.label(row["outcome"]))
        name += display.aside(", ".join(filter(None, notes)))
        names_by_change.setdefault(row["change"], {})[name] = None
    return [(change, list(names)) for change, names in names_by_change.items()]
