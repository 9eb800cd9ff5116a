"""The page of results: reports of studies -> one Markdown page, for readers who run nothing.

A folder with the name of the page holds a record and a picture per document. The page is
rendered from all these records, so that one study can replace its own and keep the others.
"""

import datetime
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from batchscope.analysis.advice import Item
from batchscope.core import disk, display
from batchscope.core.errors import unexpected
from batchscope.core.problems import show
from batchscope.figures import LISTING, FigureTables
from batchscope.report import page_figures, rendering, runs_table
from batchscope.report.documents import described_claim
from batchscope.report.runs_table import Row
from batchscope.report.text import is_number, parsed
from batchscope.store import paths
from batchscope.study import factor_maps
from batchscope.study.decision_columns import CLAIMS
from batchscope.study.figures import PRIMARY
from batchscope.study.outcomes import Verdict
from batchscope.study.table_entries import TIMING_TABLES
from batchscope.tables import csv_tables

Record = dict[str, Any]
OPEN = "open"  # counts all verdicts that more seeds may decide
COUNTED_VERDICTS = (Verdict.SUPPORTED, Verdict.CONTRADICTED, OPEN, Verdict.NOT_TESTABLE)


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
            expected = f"a study with a report ({display.listed(reported, 'or') or 'none'})"
            raise unexpected("--study", show(study), expected)
        _write_records(results, study, folder)
    records = {path.stem: disk.read_json(path) for path in sorted(folder.glob("*.json"))}
    disk.write_text(output, _page(records, folder.name))


def _write_records(results: Path, study: str, folder: Path) -> None:
    """Replace the records and pictures of a study, one per document."""
    for path in folder.glob("*.json"):
        if disk.read_json(path)["study"] == study:
            path.unlink()
            path.with_suffix(".png").unlink(missing_ok=True)
    study_folder = paths.study_folder(results, study)
    table = study_folder / csv_tables.CLAIMS_FILE
    rows = disk.read_rows(table, *CLAIMS) if table.exists() else []
    documents = list(dict.fromkeys(row["document"] for row in rows)) or [""]
    tables = sorted(study_folder.glob(f"*/{csv_tables.RUNS_FILE}"))
    run_rows = [row for path in tables for row in disk.read_rows(path, "run")]
    runs = list(runs_table.rows_by_run(run_rows).values())  # Experiments may share runs.
    run_files = (paths.run_record(paths.run_folder(results, row["run"])) for row in runs)
    run_records = [disk.read_json(path) for path in run_files if path.exists()]
    timings = [] if runs else _timing_records(results, study_folder)
    latest = max(path.stat().st_mtime for path in study_folder.glob("**/*.csv"))
    for number, document in enumerate(documents, start=1):
        claims = [row for row in rows if row["document"] == document]
        picture = _picture(study_folder, claims)
        record = {
            "document": document,
            "study": study,
            "date": datetime.date.fromtimestamp(latest).isoformat(),
            "machines": _machines(run_records or timings),
            "runs": len(runs),
            "time": _job_time(runs, timings),
            "picture": picture,
            "recommended": [] if document else _recommendations(study_folder),
            "claims": [_claim(row) for row in claims],
        }
        name = study if len(documents) == 1 else f"{study}-{number}"
        disk.write_json(folder / f"{name}.json", record)
        if picture:
            image = study_folder / picture["experiment"] / "figures" / f"{picture['figure']}.png"
            shutil.copyfile(image, folder / f"{name}.png")


def _picture(study_folder: Path, claims: list[Row]) -> Record | None:
    """Return the figure that most claims name; without claims, a primary figure or the first."""
    counts = Counter((row["experiment"], row["figure"]) for row in claims)
    if not claims:
        for folder in sorted(path.parent for path in study_folder.glob(f"*/figures/{LISTING}")):
            figures = page_figures.entries(folder)
            counts.update({(folder.parent.name, name): name == PRIMARY for name in figures})
    for (experiment, figure), _ in counts.most_common():
        folder = study_folder / experiment / "figures"
        if (folder / f"{figure}.png").exists():
            entry = page_figures.entries(folder)[figure]
            texts = {name: entry[name] for name in ("title", "caption")}
            return {"experiment": experiment, "figure": figure, **texts}
    return None


def _claim(row: Row) -> Record:
    """Return the fields of a claim that the page shows, in the words of the report."""
    claim = described_claim(row)
    return {
        **{name: row[name] for name in ("place", "sentence", "verdict")},
        "verdict_words": rendering.phrase("verdict", claim),
        **{name: rendering.phrase(name, claim) for name in ("numbers", "bounds", "run")},
    }


def _recommendations(study_folder: Path) -> list[Record]:
    """Return the recommendations of a study's experiments, each with its series if of several."""
    recommendations = []
    names = ("sizes", "batch_size", "effective_learning_rate", "grade")
    for path in sorted(study_folder.glob("*/advice.csv")):
        series = FigureTables(path.parent).by_series()
        labels = [factor_maps.describe(distinguishing) for _, distinguishing, _ in series]
        rows = [row for row in disk.read_rows(path) if row["item"] == Item.RECOMMENDATION]
        for label, row in zip(labels, rows, strict=True):
            experiment = display.titled(path.parent.name, label)
            recommendations.append(
                {"experiment": experiment, **{name: row[name] for name in names}}
            )
    return [row for row in recommendations if row["batch_size"]]


def _timing_records(results: Path, study_folder: Path) -> list[Record]:
    """Return the records of a study's sweeps."""
    tables = (path for name in TIMING_TABLES for path in study_folder.glob(f"*/{name}.csv"))
    rows = (row for path in tables for row in disk.read_rows(path))
    sweeps = sorted({row["sweep"] for row in rows if "sweep" in row})
    files = (path for sweep in sweeps for path in results.glob(f"timing/*/{sweep}/*/*.json"))
    return [disk.read_json(path, "job_seconds") for path in files]


def _job_time(runs: list[Row], timings: list[Record]) -> str:
    """Return the training time of all runs; without runs, the time of all timing jobs."""
    trained = sum(filter(is_number, (parsed(row.get("contended_seconds", "")) for row in runs)))
    timed = sum(record["job_seconds"] for record in timings)
    seconds, kind = (trained, "training") if runs else (timed, "timing")
    return f"{display.duration(seconds)} of {kind}" if seconds else ""


def _machines(records: list[Record]) -> list[Record]:
    """Return the machines, with versions, of records of runs or timings."""
    machines: list[Record] = []
    for record in records:
        if "machine" in record and "versions" in record:
            machine = {name: record["machine"][name] for name in ("cpu", "usable_cores", "gpu")}
            machine["memory_gb"] = round(record["machine"]["memory_gb"])
            machine["versions"] = record["versions"]
            machines += [machine] if machine not in machines else []
    # The record of a command has no versions; the other runs of its machine have them.
    named = [{**machine, "versions": {}} for machine in machines if machine["versions"]]
    return [machine for machine in machines if machine not in named]


def _page(records: dict[str, Record], folder: str) -> str:
    sections = [
        {**record, "name": name, "counts": _counts(record["claims"])}
        for name, record in records.items()
    ]
    documents = [section for section in sections if section["document"]]
    documents.sort(key=_contradicted_share, reverse=True)
    claims = [claim for section in documents for claim in section["claims"]]
    return rendering.render(
        "results.md.j2",
        folder=folder,
        total=_counts(claims),
        documents=documents,
        others=[section for section in sections if not section["document"]],
    )


def _counts(claims: list[Record]) -> dict[str, int]:
    counts = Counter(
        claim["verdict"] if claim["verdict"] in COUNTED_VERDICTS else OPEN for claim in claims
    )
    return {str(verdict): counts[verdict] for verdict in COUNTED_VERDICTS}


def _contradicted_share(section: Record) -> tuple[float, int]:
    contradicted = section["counts"][Verdict.CONTRADICTED]
    return contradicted / len(section["claims"]), contradicted
