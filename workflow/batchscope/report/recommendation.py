"""The recommendations of a study: a card of the page per series, and an answer in the terminal.

Both take their sentences from `decision.txt.j2`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from batchscope.analysis import run_series
from batchscope.core import display, project_files
from batchscope.core.errors import UserError
from batchscope.figures import FigureTables
from batchscope.report import batch_schedules, card, page, unfinished
from batchscope.report.card import RATE, Row
from batchscope.store import paths
from batchscope.study import advice_needs, factor_words, suggestions

if TYPE_CHECKING:
    from batchscope.study.plan import PlannedExperiment, Study


def cards(
    study: Study, tables: Mapping[str, FigureTables], config: str = project_files.DEFAULT_CONFIG
) -> list[Row]:
    """Return the card of every series of a study; cards with a recommendation come first.

    Args:
        config: Path of the study's file as the user wrote it, for commands.
    """
    study_cards, command = [], unfinished.snakemake_command(study, config, options="--cores all")
    for name, experiment_tables in tables.items():
        advice, experiment = experiment_tables.advice, study.experiments[name]
        factor_names = [factor for factor in run_series.factor_columns(advice) if factor != RATE]
        varying = run_series.varying_factors(advice, factor_names)
        groups = advice.groupby(varying, sort=False, dropna=False) if varying else [((), advice)]
        for values, frame in groups if len(advice) else ():
            factors = frame[factor_names].iloc[0].to_dict()
            row = card.build(frame, factors, experiment_tables)
            row |= {"experiment": name, "title": experiment.title}
            row["series"] = factor_words.describe(dict(zip(varying, values, strict=True)))
            row["suggestions"] = _suggestions(study, name, row["suggestions"], command)
            row["code"] = _recommended_command(experiment, row["best"]) or row["code"]
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
    advice = page.render(
        "advice.txt.j2",
        cards=cards(study, tables, config),
        schedules={name: batch_schedules.for_experiment(tables[name]) for name in names},
        guess=study.file.guess,
    )
    return re.sub(r"\n{3,}", "\n\n", advice).strip()


def _recommended_command(experiment: PlannedExperiment, best: Row | None) -> list[str]:
    """Return the command of the recommended run; nothing if Batchscope trains the runs itself."""
    for run in experiment.commands.values() if best else ():
        same_rate = RATE not in run.factors or run.factors[RATE] == best[RATE]
        if run.factors["batch_size"] == best["batch_size"] and same_rate:
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
        values[row["batch_size"]] = yaml.safe_load(str(row["value"])) if row["value"] else ""
    merged: dict[Any, Row] = {}
    for row in by_name.values():
        value = next(iter(row["values"].values()))
        if row["key"] == advice_needs.RERUN:
            lines = [f"{command} {advice_needs.RERUN} {value}"]
        else:
            changes = suggestions.changes(study, experiment, [(row["key"], row["values"])])
            lines = suggestions.lines(changes)
        words = display.listed(map(str, value if isinstance(value, list) else [value]))
        merged.setdefault((row["key"], *lines, words), {**row, "lines": lines, "listed": words})
    return list(merged.values())
