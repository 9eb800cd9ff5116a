"""The section of an experiment: its results -> question, answer, cards, comparisons and figures."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pandas

from batchscope.analysis import noise_scales, racing, run_series
from batchscope.core import display
from batchscope.report import batch_schedules, equal_budgets, text, timing_section, trend_rows
from batchscope.report.claim_rows import Links
from batchscope.report.report_inputs import ExperimentResults
from batchscope.store import records
from batchscope.study import factor_words
from batchscope.study.figures import LEADING_FIGURES
from batchscope.study.plan import PlannedExperiment

Row = dict[str, Any]


def build(results: ExperimentResults, cards: list[Row]) -> Row:
    """Return the parts of an experiment's section; `cards` come from `recommendation.cards`."""
    experiment, tables = results.experiment, results.tables
    trends = trend_rows.build(tables.trends)
    answer = trend_rows.answering_rows(experiment, trends)
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
        "changes": trend_rows.outcomes_by_change(answer),
        "other_trends": [row for row in trends if row not in answer],
        "equal": equal_budgets.build(tables.comparisons),
        "race": rates_that_left(tables.race),
        "machine": timing_section.build(tables.sweeps),
        "figures": results.figures,
    }


def final_noise_scales(runs: pandas.DataFrame) -> list[Row]:
    """Return the gradient noise scale at the end of training by batch size, if there is one."""
    if "gradient_variance" not in runs or len(run_series.split_series(runs)) > 1:
        return []
    rows = []
    for size, size_runs in run_series.finished_runs(runs).groupby("batch_size"):
        ratio = noise_scales.from_runs(size_runs)
        values = text.with_interval([ratio.ratio, ratio.low, ratio.high], ratio.n)
        shown = text.bracketed(values)
        if ratio.is_lower_bound:
            shown = f"at least {text.rounded(ratio.low)}"
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
            "series": factor_words.describe({name: row[name] for name in varying}),
            "ratio": text.bracketed([row[name] for name in text.ESTIMATE]),
        }
        for row in left_rates.to_dict("records")
    ]
    return {"tried": len(race), "rows": rows}


def number_figures(sections: list[Row]) -> Links:
    """Sort the figures of all sections into parts, number them, and return links to them."""
    links: dict[tuple[str, str], tuple[str, str]] = {}
    for section in sections:
        outcomes = [row["outcome"] for row in section["answer"]]
        section |= _blocks_by_part(section["figures"], outcomes, bool(section["cards"]))
        # The figures of the first recommendation are at the top of the page.
        at_top = section is sections[0] and section["cards"]
        order = ("lead", "shown") if at_top else ("shown", "lead")
        blocks = chain.from_iterable(section[part] for part in (*order, "more"))
        for figure in chain.from_iterable(blocks):
            figure["number"] = len(links) + 1
            figure["published"] = section["plan"].keys.published.get(figure["name"])
            link = f"Figure {figure['number']}", f"#figure-{figure['number']}"
            links[section["plan"].name, figure["name"]] = link
    return links


def _blocks_by_part(
    figures: list[Row], outcomes: list[str], has_cards: bool
) -> dict[str, list[list[Row]]]:
    """Return figures as blocks by their part of the page, the variants of a figure in one block.

    Parts are `lead` (the recommendation), `shown` (the outcomes of the answer in their order, or
    else the first figure), and `more`.
    """
    blocks: dict[str, list[Row]] = {}
    for figure in figures:
        blocks.setdefault(figure["of"] or figure["name"], []).append({**figure})
    parts: dict[str, list[list[Row]]] = {"lead": [], "shown": [], "more": []}
    for name, block in blocks.items():
        answers = not {*outcomes}.isdisjoint(block[0]["columns"])
        parts["lead" if name in LEADING_FIGURES else "shown" if answers else "more"].append(block)
    parts["lead"].sort(key=lambda block: LEADING_FIGURES.index(block[0]["name"]))
    parts["shown"].sort(
        key=lambda block: min(map(outcomes.index, {*outcomes} & {*block[0]["columns"]}))
    )
    if not (has_cards or parts["lead"] or parts["shown"]):
        parts["shown"] = [parts["more"].pop(0)] if parts["more"] else []
    return parts


def _varied_factors(experiment: PlannedExperiment) -> str:
    """Return the factors with several values: `batch size 16, 64 and 256; 2 seeds`."""
    sizes = {"batch_size": experiment.batch_sizes}
    texts = [
        f"{name.replace('_', ' ')} {display.short_list(list(map(text.plain, values)), most=12)}"
        for name, values in {**sizes, **experiment.vary}.items()
        if len(values) > 1
    ]
    seeds = len(experiment.seeds)
    return "; ".join([*texts, *([text.counted(seeds, "seed")] if seeds > 1 else [])])
