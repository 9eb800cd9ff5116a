"""Tables that follow from other tables of the same experiment: what the runs decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.analysis import largest_within_margin, verdict_matrix

if TYPE_CHECKING:
    import pandas

    from batchscope.study.plan import Study


def margins(
    _: Path | str, study: Study, experiment: str, runs: pandas.DataFrame
) -> pandas.DataFrame:
    """Returns one row per series, outcome with a stated margin, and batch size."""
    return largest_within_margin.table(runs, study.experiments[experiment].trainings.margins)


def budgets(
    _: Path | str,
    study: Study,
    experiment: str,
    runs: pandas.DataFrame,
    trajectories: pandas.DataFrame,
) -> pandas.DataFrame:
    """Returns one row per series, budget, outcome and batch size."""
    found = study.experiments[experiment].trainings
    return verdict_matrix.table(runs, trajectories, found.budgets, found.margins)
