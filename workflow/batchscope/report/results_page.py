"""Results of studies as one Markdown page, for readers who run nothing.

The folder of the page's name holds a record and a picture per document, and the page is rendered
from all records there. A study that runs alone therefore replaces only its own records.
"""

from __future__ import annotations

import datetime
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.analysis.advice import Item
from batchscope.errors import unexpected
from batchscope.figures import LISTING
from batchscope.problems import show
from batchscope.report import claim_rows, content, page
from batchscope.report.claim_rows import Row
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.figures import PRIMARY
from batchscope.study.outcomes import Verdict
from batchscope.tables import csv_tables

Record = dict[str, Any]
OPEN = "open"  # neither decided nor out of reach
COUNTED = (Verdict.SUPPORTED, Verdict.CONTRADICTED, OPEN, Verdict.NOT_TESTABLE)
_MOST_SURPRISING = 12


def write(results: Path, output: Path, studies: Sequence[str] = ()) -> None:
    """Write the records of studies, by default of all with a report, and the page of all records.

    Raises:
        UserError: If a study has no report, or a table is damaged.
    """
    reported = [path.parent.name for path in sorted(results.glob("studies/*/report.html"))]
    if (results / "report.html").exists():
        reported.append("default")
    folder = output.with_suffix("")
    for study in studies or reported:
        if study not in reported:
            expected = f"a study with a report ({wording.listed(reported, 'or')})"
            raise unexpected("--study", show(study), expected)
        _write_records(results, study, folder)
    records = {path.stem: disk.read_json(path) for path in sorted(folder.glob("*.json"))}
    disk.write_text(output, _page(records, folder.name))


def _write_records(results: Path, study: str, folder: Path) -> None:
    """Replace the records of a study, one per document. A picture in use stays, if it exists."""
    study_folder = results / "studies" / study
    table = study_folder / csv_tables.CLAIMS
    rows = disk.read_rows(table, *CLAIMS) if table.exists() else []
    documents = list(dict.fromkeys(row["document"] for row in rows)) or [""]
    previous = _remove_records(study, folder)
    tables = study_folder.glob("**/*.csv")
    date = datetime.date.fromtimestamp(max(path.stat().st_mtime for path in tables))
    for number, document in enumerate(documents, start=1):
        claims = [row for row in rows if row["document"] == document]
        picture = _picture(study_folder, claims, previous.get(document))
        record = {
            "document": document,
            "study": study,
            "date": date.isoformat(),
            "machines": _machines(results),
            "picture": picture,
            "recommended": [] if document else _recommended(study_folder),
            "claims": [_claim(row) for row in claims],
        }
        name = study if len(documents) == 1 else f"{study}-{number}"
        disk.write_json(folder / f"{name}.json", record)
        if picture:
            image = study_folder / picture["experiment"] / "figures" / f"{picture['figure']}.png"
            with disk.atomic_path(folder / f"{name}.png") as temporary:
                shutil.copyfile(image, temporary)


def _remove_records(study: str, folder: Path) -> dict[str, Record]:
    """Remove a study's records and images. Return document -> its picture."""
    pictures = {}
    for path in folder.glob("*.json"):
        record = disk.read_json(path)
        if record["study"] == study:
            pictures[record["document"]] = record["picture"]
            path.unlink()
            path.with_suffix(".png").unlink(missing_ok=True)
    return pictures


def _picture(study_folder: Path, claims: list[Row], previous: Record | None) -> Record | None:
    """Return the previous picture, or else the figure of most claims, or of the decision."""
    named = Counter((row["experiment"], row["figure"]) for row in claims)
    names = [name for name, _ in named.most_common()]
    if not claims:
        listings = sorted(study_folder.glob(f"*/figures/{LISTING}"))
        names = [(path.parent.parent.name, PRIMARY) for path in listings]
    if previous:
        names.insert(0, (previous["experiment"], previous["figure"]))
    for experiment, figure in names:
        folder = study_folder / experiment / "figures"
        if (folder / f"{figure}.png").exists():
            entry = next(entry for entry in content.listed(folder) if entry["name"] == figure)
            words = {name: entry[name] for name in ("title", "caption")}
            return {"experiment": experiment, "figure": figure, **words}
    return None


def _claim(row: Row) -> Record:
    """Return the fields of a claim that the page shows, in the words of the report."""
    shown = claim_rows.shown(row, None)
    contradicted = row["verdict"] == Verdict.CONTRADICTED
    return {
        **{name: row[name] for name in ("place", "sentence", "verdict")},
        "verdict_words": page.words("verdict", shown),
        "numbers": page.words("numbers", shown),
        "bounds": page.words("bounds", shown),
        "run": page.words("run", shown),
        "surprise": claim_rows.surprise(row) if contradicted else None,
    }


def _recommended(study_folder: Path) -> list[Record]:
    """Return the recommendations of a study's experiments."""
    names = ("batch_size", "learning_rate", "grade")
    return [
        {"experiment": path.parent.name, **{name: row[name] for name in names}}
        for path in sorted(study_folder.glob("*/advice.csv"))
        for row in disk.read_rows(path, "item")
        if row["item"] == Item.RECOMMENDATION and row["batch_size"]
    ]


def _machines(results: Path) -> list[Record]:
    """Return the distinct machines, with versions, of the first run and the first timing."""
    machines: list[Record] = []
    for pattern in ("runs/*/record.json", "timing/*/*/*/*.json"):
        for path in sorted(results.glob(pattern))[:1]:
            record = disk.read_json(path)
            if "machine" in record and "versions" in record:
                names = ("cpu", "usable_cores", "memory_gb", "gpu")
                machine = {name: record["machine"][name] for name in names}
                machine["versions"] = record["versions"]
                if machine not in machines:
                    machines.append(machine)
    return machines


def _page(records: dict[str, Record], folder: str) -> str:
    sections = [
        {**record, "name": name, "counts": _counts(record["claims"])}
        for name, record in records.items()
    ]
    documents = [section for section in sections if section["document"]]
    documents.sort(key=_contradicted, reverse=True)
    contradicted = [
        (section, claim)
        for section in documents
        for claim in section["claims"]
        if claim["surprise"] is not None
    ]
    contradicted.sort(key=lambda pair: pair[1]["surprise"], reverse=True)
    return page.render(
        "results.md.j2",
        folder=folder,
        total=_counts([claim for section in documents for claim in section["claims"]]),
        documents=documents,
        others=[section for section in sections if not section["document"]],
        surprising=contradicted[:_MOST_SURPRISING],
    )


def _counts(claims: list[Record]) -> dict[str, int]:
    counts = dict.fromkeys(map(str, COUNTED), 0)
    for claim in claims:
        counts[claim["verdict"] if claim["verdict"] in counts else OPEN] += 1
    return counts


def _contradicted(section: Record) -> tuple[float, int]:
    contradicted = section["counts"][Verdict.CONTRADICTED]
    return contradicted / len(section["claims"]), contradicted
