"""Tables of a whole study, as CSV files: its claims, and its interim analyses."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope.analysis import claims, open_statements, racing, run_series
from batchscope.analysis.advice_series import AdviceRequest, AdviceTables
from batchscope.store import interims, paths
from batchscope.study.decision_columns import INTERIMS
from batchscope.study.stages import Stage
from batchscope.tables import csv_tables
from batchscope.tables.experiment_tables import RACE

if TYPE_CHECKING:
    from batchscope.study.plan import Study

# Tables of an interim analysis, in the order of `AdviceTables`.
_INTERIM_TABLES = ("comparisons", "runs", "limits", "critical_batch_size")


def write_claims(study: Study, folder: Path | str, output: Path | str) -> None:
    """Write one row per claim of a study, from the folder of its experiments' tables.

    Raises:
        UserError: If a table is missing or damaged.
    """
    read_table = functools.cache(lambda experiment, table: _read(Path(folder) / experiment, table))
    analyses = {name: planned.deciding_analyses for name, planned in study.experiments.items()}
    csv_tables.write(claims.table(study.claims, read_table, study.machine, analyses), Path(output))


def write_interim(results: Path | str, study: Study, output: Path) -> None:
    """Write an interim analysis: the open statements, and the seeds that their runs get next."""
    folder = paths.study_folder(results, study.folder_name)
    rows = _interim_rows(study, folder, interims.stages(results, study.folder_name))
    csv_tables.write(run_series.table([*rows], INTERIMS), output)


def _interim_rows(
    study: Study, folder: Path, stages: Mapping[str, Stage]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the experiments with planned analyses, with their open statements."""
    for name, experiment in study.experiments.items():
        planned = experiment.deciding_analyses
        if not planned:
            continue
        read_table = functools.partial(_read, folder / name)
        tables, race = AdviceTables(*map(read_table, _INTERIM_TABLES)), read_table(RACE)
        racing_runs = racing.without_rates_that_left(tables.runs, race)
        request = AdviceRequest(
            experiment.keys.margins, analyses=planned, metrics=experiment.metrics
        )
        first = {"experiment": name, "planned": planned[-1], "first": experiment.seeds[0]}
        rates = stages.get(name, Stage()).added_rates
        rows = [*open_statements.race_rows(race, experiment.race)]
        rows += open_statements.edge_rows(tables, request, rates, experiment.race)
        rows += open_statements.comparison_rows(tables._replace(runs=racing_runs), request)
        experiment_claims = [claim for claim in study.claims if claim.test.experiment == name]
        if experiment_claims:
            claim_rows = csv_tables.read(folder / csv_tables.CLAIMS_FILE)
            rows += open_statements.claim_rows(experiment_claims, claim_rows, racing_runs, planned)
        # An experiment without statements has an empty row, which says that it was analysed.
        yield from ({**first, **row} for row in rows or [dict.fromkeys(INTERIMS) | first])


def _read(folder: Path, table: str) -> pandas.DataFrame:
    return csv_tables.read(folder / f"{table}.csv")
