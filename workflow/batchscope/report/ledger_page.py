"""The ledger of all studies: one page by document, from the claims.csv of every study here."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from markupsafe import Markup

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
    """Returns the page as HTML."""
    every = []
    for path in tables(results):
        link = functools.partial(_linked, _report(Path(results), path.parent), Path(home))
        rows = [{**row, "study": path.parent.name} for row in claim_rows.read(path)]
        every += claim_rows.build(rows, link)
    return page.render(
        "ledger.html.j2",
        ledger=claim_rows.ledger(every),
        policy=page.policy(),
        style=Markup("\n" + page.asset("report.css")),
    )


def _report(results: Path, folder: Path) -> Path | None:
    """Returns the report of a study, where it is there."""
    found = [folder / "report.html"]
    if folder.name == "default":
        found.append(results / "report.html")
    return next((path for path in found if path.exists()), None)


def _linked(
    report: Path | None, home: Path, experiment: str, figure: str
) -> tuple[str, str] | None:
    """Returns what a figure is called, and its address in the report of its study."""
    if report is None:
        return None
    path = Path(os.path.relpath(report, home)).as_posix()
    return figure.replace("_", " "), f"{path}#{experiment}-{figure}"
