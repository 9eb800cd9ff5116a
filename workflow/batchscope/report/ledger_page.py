"""The ledger of all studies: one page by document, from the claims.csv of every study here."""

from __future__ import annotations

import os
from pathlib import Path

from batchscope import disk
from batchscope.report import claim_rows, page
from batchscope.tables import csv_tables


def write(results: Path | str, output: Path | str) -> None:
    """Writes the page, from which the studies' reports are linked.

    Raises:
        UserError: If a table of claims is damaged.
    """
    disk.write_text(output, build(results, Path(output).parent))


def tables(results: Path | str) -> list[Path]:
    """Returns the tables of claims of all studies, by name."""
    return sorted(Path(results, "studies").glob(f"*/{csv_tables.CLAIMS}"))


def build(results: Path | str, home: Path | str) -> str:
    """Returns the page as HTML, with links from the folder where it will lie."""
    every = []
    for path in tables(results):
        study, reports = path.parent.name, [path.parent / "report.html"]
        reports += [Path(results, "report.html")] if study == "default" else []
        there = next((report for report in reports if report.exists()), None)
        address = Path(os.path.relpath(there, home)).as_posix() if there else ""
        for row in claim_rows.read(path):
            figure, experiment = row["figure"], row["experiment"]
            link = (figure.replace("_", " "), f"{address}#{experiment}-{figure}")
            every.append(claim_rows.shown({**row, "study": study}, link if there else None))
    return page.render(
        "ledger.html.j2",
        ledger=claim_rows.ledger(every),
        policy=page.policy(),
        style=page.style(),
    )
