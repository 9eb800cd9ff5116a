"""An experiment of trainings that were made elsewhere: what it may say, what its table gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope.catalogue import budget_kinds, figure_names, own_columns
from batchscope.errors import ConfigError, UserError
from batchscope.problems import Findings, Place, Problem, received
from batchscope.study import figure_checks, horizons, own_runs, plan
from batchscope.study.document import ExperimentKeys
from batchscope.study.own_runs import Table

_IN_COLUMNS = "in whose columns the factors of each training stand; one of the two is expected."
_MADE = "whose trainings were made elsewhere; one of the two is expected."
# Key that does not go with `runs` -> why.
REFUSED = {
    "set": _IN_COLUMNS,
    "vary": _IN_COLUMNS,
    "cases": _IN_COLUMNS,
    "seeds": "in whose column seed they stand; one of the two is expected.",
    "at_epochs": "whose rows are its evaluations; one of the two is expected.",
    "measure": _MADE,
    "timing": _MADE,
    "beside": "whose trainings another machine may have made; one of the two is expected.",
}


def read(findings: Findings, place: Place, keys: ExperimentKeys, folder: Path) -> Table | None:
    """Returns the table of an experiment; None where it, or the experiment, is at fault."""
    for key, why in REFUSED.items():
        if key in keys.model_fields_set:
            findings.report(Problem((*place, key), f"received beside `runs`, {why}"))
    at = (*place, "runs")
    if not keys.runs:
        return None
    try:
        return own_runs.read(located(folder, keys.runs))
    except ConfigError as error:
        findings.report(Problem(at, "\n  ".join(error.problems)))
    except UserError as error:
        findings.report(Problem(at, str(error)))
    return None


def located(folder: Path, path: str) -> str:
    """Returns where a table lies that a configuration in a folder names, from here if below it."""
    found, here = os.path.normpath(folder / os.path.expanduser(path)), os.getcwd()
    return os.path.relpath(found, here) if Path(found).is_relative_to(here) else found


def problems(place: Place, keys: ExperimentKeys, table: Table) -> Iterator[Problem]:
    """Yields what an experiment asks for and its table does not give."""
    filled = columns(table)
    yield from horizons.of_budgets(place, keys.budgets, horizons.of_own_runs(table))
    for outcome in keys.margins:
        if outcome not in filled:
            known = [name for name in filled if name in own_columns.OUTCOMES]
            expected = f"an outcome that is a column of {table.path} ({', '.join(known) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, known)
    for key, value in keys.budgets.items():
        names = [*value] if key == budget_kinds.TARGET else [budget_kinds.AXES[key]]
        if table.single:
            text = f"received for {table.path}, where the single row of each training is its target"
            yield Problem((*place, "budgets", key), f"{text}; a row per evaluation is expected.")
        for column in names if not table.single else ():
            if not table.filled(column):
                text = f"received without any {column}; a column {column} of {table.path}"
                yield Problem((*place, "budgets", key), f"{text} is expected.")
    for at, figure in figure_checks.named(place, keys):
        lacking = figure_names.of_own_runs(figure, {*filled, *vary(table)})
        if lacking:
            yield received(at, figure.name, f"a figure for which {table.path} suffices ({lacking})")


def columns(table: Table) -> tuple[str, ...]:
    """Returns the columns of our tables that a table of one's own fills, beside its factors."""
    found = [name for name in (*own_columns.AXES, *own_columns.OUTCOMES) if table.filled(name)]
    made_of = {
        "best_train_loss": {"train_loss"},
        "best_validation_loss": {"validation_loss"},
        "generalisation_gap": {"train_loss", "test_loss"},
        "generalisation_gap_accuracy": {"train_accuracy", "test_accuracy"},
    }
    return (*found, *(name for name, needed in made_of.items() if needed <= {*found}))


def runs(table: Table) -> plan.OwnRuns:
    """Returns what the plan holds of a table."""
    return plan.OwnRuns(
        path=table.path,
        sha256=table.sha256,
        rows=len(table.rows),
        trainings=len(table.trainings),
        seeds=_paired_seeds(table),
        series=len(table.series),
        columns=columns(table),
        evaluated=not table.single,
        falling=bool(horizons.of_own_runs(table)),
    )


def _paired_seeds(table: Table) -> int:
    """Returns the seeds that every batch size of a series has, of the series with the fewest."""
    names = [table.factors.index(name) for name in table.distinguishing if name != "learning_rate"]
    seeds: dict[tuple[Any, ...], dict[int, set[int]]] = {}
    for size, seed, *factors in table.trainings:
        series = seeds.setdefault(tuple(factors[name] for name in names), {})
        series.setdefault(size, set()).add(seed)
    return min(len(set.intersection(*of_sizes.values())) for of_sizes in seeds.values())


def vary(table: Table) -> dict[str, tuple[Any, ...]]:
    """Returns the batch sizes, and the rates where several were tried at one of them."""
    sizes = tuple(sorted({row["batch_size"] for row in table.rows}))
    return {"batch_size": sizes, **({"learning_rate": table.rates} if table.rates else {})}
