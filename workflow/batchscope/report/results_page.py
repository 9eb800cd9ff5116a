"""What became of a document, for those who only want to read: its figures and claims beside ours.

A study without documents has a page of its figures.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchscope import disk
from batchscope.analysis.advice import Item
from batchscope.catalogue.figures import PRIMARY
from batchscope.errors import UserError
from batchscope.figures import LISTING, Tables
from batchscope.report import claim_rows, content, page, study_page
from batchscope.report.claim_rows import OPEN, Row
from batchscope.tables import csv_tables, published

REDUCED = "-reduced"
Record = dict[str, Any]


class Chosen(NamedTuple):
    """A figure that a page shows."""

    study: str  # the folder of its results, such as `keskar2017-reduced`
    experiment: str
    figure: str

    @classmethod
    def of(cls, text: str) -> Chosen:
        """Reads `study/experiment/figure`; raises `UserError` if it has other than three parts."""
        parts = text.split("/")
        if len(parts) != 3 or not all(parts):
            raise UserError(f"--figures: received '{text}'; study/experiment/figure is expected.")
        return cls(*parts)

    @property
    def file(self) -> str:
        """The name of its image beside the page."""
        return f"{self.study}-{self.experiment}-{self.figure}.png"

    def image(self, results: Path) -> Path:
        """Returns its image among the results."""
        folder = results / "studies" / self.study / self.experiment / "figures"
        return folder / f"{self.figure}.png"


class Page(NamedTuple):
    """One page: what the index keeps of it, its figures in order, and its text."""

    entry: Record
    figures: list[Chosen]
    text: str


def of_study(results: Path, study: str, chosen: Sequence[Chosen]) -> dict[str, Page]:
    """Returns the pages of a study by name, one per document; these figures, where some are chosen.

    Raises:
        UserError: If a table or a list of figures is damaged.
    """
    folder = results / "studies" / study
    claims = folder / csv_tables.CLAIMS
    rows = claim_rows.read(claims) if claims.exists() else []
    documents = list(dict.fromkeys(row["document"] for row in rows)) or [""]
    figures, pages = [*_figures(folder)], {}
    for number, document in enumerate(documents, start=1):
        own = [row for row in rows if row["document"] == document]
        others = {row["experiment"] for row in rows if row["document"] != document}
        wanted = [each for each in figures if each["chosen"] in chosen]
        shown = wanted or _of_document(figures, own, others)
        name = study if len(documents) == 1 else f"{study}-{number}"
        pages[name] = _page(results, study, document, own, shown)
    return pages


def _figures(folder: Path) -> Iterator[Record]:
    """Yields the figures of all experiments, as they are listed."""
    for path in sorted(folder.glob(f"*/figures/{LISTING}")):
        for entry in content.listed(path.parent):
            chosen = Chosen(folder.name, path.parent.parent.name, entry["name"])
            yield {"published": None, **entry, "chosen": chosen}  # an older list lacks it


def _of_document(figures: list[Record], rows: list[Row], others: set[str]) -> list[Record]:
    """Returns the figures that a document has too, or else those that its claims name.

    What it has is known by experiment: one that only other documents make a claim about is not its
    own. Without a document they are what decides.
    """
    if not rows:
        return [each for each in figures if each["name"] == PRIMARY]
    order = list(dict.fromkeys(row["experiment"] for row in rows))
    named = {(row["experiment"], row["figure"]) for row in rows}
    left = [each for each in figures if each["chosen"].experiment not in others - {*order}]
    left.sort(key=lambda each: [each["chosen"].experiment != name for name in order])
    there = [each for each in left if each["published"]]
    return there or [each for each in left if each["chosen"][1:] in named]


def _page(results: Path, study: str, document: str, rows: list[Row], figures: list[Record]) -> Page:
    folder = results / "studies" / study
    shown = [claim_rows.shown(row, None) for row in rows]
    standing = claim_rows.by_standing(shown)
    contradicted = claim_rows.by_standing(rows)["contradicted"]
    contradicted.sort(key=claim_rows.surprise, reverse=True)
    made = max(path.stat().st_mtime for path in folder.glob("**/*.csv"))
    chosen = [each["chosen"] for each in figures]
    entry = {
        "study": study,
        "name": study.removesuffix(REDUCED),
        "reduced": study.endswith(REDUCED),
        "document": document,
        "made": datetime.date.fromtimestamp(made).isoformat(),
        "images": [each.file for each in chosen],
        "claims": {name: len(found) for name, found in standing.items()},
        "contradicted": contradicted,
        "recommended": [*_recommended(folder)],
    }
    text = page.render(
        "results.md.j2",
        page=entry,
        rows=shown,
        standing=standing,
        surprising=[claim_rows.shown(row, None) for row in contradicted[:1]],
        nearest=sorted(standing[OPEN], key=claim_rows.seeds_wanted)[:1],
        figures=[
            {**each, "beside": _beside(folder, each["chosen"]) if each["published"] else None}
            for each in figures
        ],
        machines=_machines(results),
    )
    return Page(entry, chosen, text)


def _beside(folder: Path, chosen: Chosen) -> Record:
    """Returns a document's numbers of a figure with ours, by batch size and by column.

    Ours are of all batch sizes here, those that the document has no number of too.
    """
    tables = Tables(folder / chosen.experiment)
    rows = [row for row in tables.published.to_dict("records") if row["figure"] == chosen.figure]
    found = [study_page.published(row, tables.tasks) for row in rows]
    cells = {(row["batch_size"], row["column"], row["series"]): row for row in found}
    heads = {(column, series): row for (_, column, series), row in cells.items()}
    ours = {name: getattr(tables, name) for name in published.READ} if found else {}
    here = {size for frame in ours.values() if len(frame) for size in frame["batch_size"]}
    for (column, series), row in heads.items():
        for size in here - {size for size, *head in cells if head == [column, series]}:
            there = {"value": math.nan, "here_low": math.nan, "here_high": math.nan}
            there |= published.beside(column, size, published.factors_of(row), ours)
            if "here" in there:
                cells[size, column, series] = study_page.published({**row, **there}, tables.tasks)
    sizes = sorted({size for size, _, _ in cells})
    return {
        "heads": [*heads.values()],
        "rows": [(size, [cells.get((size, *head)) for head in heads]) for size in sizes],
    }


def _recommended(folder: Path) -> Iterator[Record]:
    """Yields what every experiment of a study recommends."""
    for path in sorted(folder.glob("*/advice.csv")):
        for row in disk.read_rows(path, "item"):
            if row["item"] == Item.RECOMMENDATION and row["batch_size"]:
                kept = {name: row[name] for name in ("batch_size", "learning_rate", "grade")}
                yield {"experiment": path.parent.name, **kept}


def _machines(results: Path) -> list[Record]:
    """Returns what is shown of the machines of the first run and the first timing, each once."""
    found: list[Record] = []
    for pattern in ("runs/*/record.json", "timing/*/*/*/*.json"):
        for path in sorted(results.glob(pattern))[:1]:
            record = disk.read_json(path)
            if (machine := record.get("machine")) and (versions := record.get("versions")):
                shown = {name: machine[name] for name in ("cpu", "usable_cores", "gpu")}
                shown |= {"memory_gb": round(machine["memory_gb"]), "versions": versions}
                found += [] if shown in found else [shown]
    return found
