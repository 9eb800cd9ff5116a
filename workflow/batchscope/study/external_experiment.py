"""An experiment of external runs: what it may say, and what its file gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.catalogue import budget_kinds, figure_names, own_columns, tasks
from batchscope.errors import ConfigError, UserError
from batchscope.problems import Findings, Place, Problem, received
from batchscope.study import figure_checks, horizons, plan
from batchscope.study.document import ExperimentKeys

if TYPE_CHECKING:
    from batchscope.study.external_runs import ExternalRuns

_IN_COLUMNS = "in whose columns the factors of each training stand; one of the two is expected."
_MADE = "whose trainings were made elsewhere; one of the two is expected."
# Column of our tables -> the columns of the file that it is made of.
_MADE_OF = {
    "best_train_loss": {"train_loss"},
    "best_validation_loss": {"validation_loss"},
    "generalisation_gap": {"train_loss", "test_loss"},
    **{gap: {f"train_{metric.name}", f"test_{metric.name}"} for gap, metric in tasks.GAPS.items()},
}
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


def read(
    findings: Findings, place: Place, keys: ExperimentKeys, folder: Path
) -> ExternalRuns | None:
    """Returns the table of an experiment; None where it, or the experiment, is at fault."""
    for key, why in REFUSED.items():
        if key in keys.model_fields_set:
            findings.report(Problem((*place, key), f"received beside `runs`, {why}"))
    at = (*place, "runs")
    if keys.runs is None or findings.broken(at):
        return None
    from batchscope.study import external_runs  # pandas, which no other study needs

    try:
        found = external_runs.read(keys.runs.source, folder)
    except ConfigError as error:
        findings.report(Problem(at, "\n  ".join(error.problems)))
        return None
    except UserError as error:
        findings.report(Problem(at, str(error)))
        return None
    for note in found.notes:
        findings.warn(Problem(at, f"{note}."))
    return found


def problems(
    place: Place,
    keys: ExperimentKeys,
    runs: ExternalRuns,
) -> Iterator[Problem]:
    """Yields what an experiment asks for and its table does not give."""
    filled = columns(runs)
    yield from horizons.of_budgets(place, keys.budgets, runs.schedule)
    for outcome in keys.margins:
        if outcome not in filled:
            known = [name for name in filled if name in own_columns.OUTCOMES]
            expected = f"an outcome that is a column of {runs.path} ({', '.join(known) or 'none'})"
            yield received((*place, "margins", outcome), outcome, expected, known)
    for key, value in keys.budgets.items():
        names = [*value] if key == budget_kinds.TARGET else [budget_kinds.AXES[key]]
        if runs.single:
            where = "at its target" if runs.at_targets else "at its end"
            text = f"received for {runs.path}, where each training has a single row, {where}"
            yield Problem((*place, "budgets", key), f"{text}; a row per evaluation is expected.")
        for column in names if not runs.single else ():
            if not runs.filled(column):
                text = f"received without any {column}; a column {column} of {runs.path}"
                yield Problem((*place, "budgets", key), f"{text} is expected.")
    for at, figure in figure_checks.named(place, keys):
        lacking = figure_names.of_own_runs(figure, {*filled, *vary(runs)})
        if lacking:
            yield received(at, figure.name, f"a figure for which {runs.path} suffices ({lacking})")


def columns(runs: ExternalRuns) -> tuple[str, ...]:
    """Returns the columns of our tables that external runs fill, beside their factors."""
    found = [name for name in (*own_columns.AXES, *own_columns.OUTCOMES) if runs.filled(name)]
    return (*found, *(name for name, needed in _MADE_OF.items() if needed <= {*found}))


def planned(runs: ExternalRuns) -> plan.OwnRuns:
    """Returns what the plan holds of external runs."""
    by_size = [rows.groupby("batch_size")["seed"].agg(set) for rows in runs.series]
    return plan.OwnRuns(
        path=runs.path,
        files=runs.cells.files,
        sha256=runs.sha256,
        read_as=runs.cells.read_as,
        rows=len(runs.rows),
        trainings=runs.rows["run"].nunique(),
        seeds=min(len(set.intersection(*seeds)) for seeds in by_size),
        series=len(runs.series),
        columns=columns(runs),
        evaluated=not runs.single,
        falling=bool(runs.schedule),
        table=runs,
    )


def vary(runs: ExternalRuns) -> dict[str, tuple[Any, ...]]:
    """Returns the batch sizes, and the rates where several were tried at one of them."""
    sizes = tuple(sorted(runs.rows["batch_size"].unique().tolist()))
    return {"batch_size": sizes, **({"learning_rate": runs.rates} if runs.rates else {})}
