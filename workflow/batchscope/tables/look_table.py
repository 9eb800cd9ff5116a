"""The table of a look at a study: what is open, and what its runs get next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchscope.analysis import open_statements, run_series
from batchscope.analysis.advice_series import Asked, Tables
from batchscope.catalogue.decision_columns import LOOKS
from batchscope.store import paths
from batchscope.tables import csv_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

_READ = ("comparisons", "runs", "limits", "critical_batch_size")  # as `Tables` has them


def write(results: Path | str, study: Study, output: Path) -> None:
    folder = paths.study_folder(results, study.folder_name)
    csv_tables.write(run_series.table([*_rows(study, folder)], LOOKS), output)


def _rows(study: Study, folder: Path) -> Iterator[dict[str, Any]]:
    for name, experiment in study.experiments.items():
        planned = experiment.looks
        if not planned:
            continue
        tables = {each: csv_tables.read(folder / name / f"{each}.csv") for each in _READ}
        asked = Asked(margins=experiment.keys.margins, looks=planned)
        first = experiment.seeds[0]
        own = {"experiment": name, "planned": planned[-1], "first": first}
        found = [*open_statements.of_advice(Tables(*tables.values()), asked)]
        stated = [claim for claim in study.claims if claim.test.experiment == name]
        if stated:
            claims = csv_tables.read(folder / csv_tables.CLAIMS)
            found += open_statements.of_claims(stated, claims, tables["runs"], planned)
        # An experiment that states nothing was looked at too.
        yield from ({**own, **row} for row in found or [dict.fromkeys(LOOKS, None) | own])
