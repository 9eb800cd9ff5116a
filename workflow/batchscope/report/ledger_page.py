"""The ledger of all studies: one page by document, from the claims.csv of every study here."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from markupsafe import Markup

from batchscope import disk, wording
from batchscope.report import claim_rows, page
from batchscope.tables import claim_table

_NONE = "No study has claims.csv yet: run one whose configuration has `claims`."


def write(results: Path | str, output: Path | str) -> None:
    """Writes the page, from which the studies' reports are linked.

    Raises:
        UserError: If a table of claims is damaged.
    """
    disk.write_text(output, build(results, Path(output).parent))


def tables(results: Path | str) -> list[Path]:
    """Returns the tables of claims of all studies, by name."""
    return sorted(Path(results, "studies").glob(f"*/{claim_table.FILE}"))


def build(results: Path | str, home: Path | str) -> str:
    """Returns the page as HTML."""
    every = []
    for path in tables(results):
        link = functools.partial(_linked, report(Path(results), path.parent), Path(home))
        shown = claim_rows.build(claim_rows.read(path), link)
        every += [{**row, "study": path.parent.name} for row in shown]
    text = f"{wording.count(len(every), 'claim')}: {claim_rows.counts(every)}." if every else _NONE
    return page.render(
        "ledger.html.j2",
        title="What documents state",
        summary=text,
        ledger=claim_rows.by_document(every),
        reading_claims=claim_rows.READING,
        claim_words=claim_rows.WORDS,
        policy=page.policy(),
        style=Markup("\n" + page.asset("report.css")),
    )


def report(results: Path, folder: Path) -> Path | None:
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
