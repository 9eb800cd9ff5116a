"""The pages of results, and their index: what became of every document, the surprising first.

`pages.json` beside the pages keeps what the index shows of each.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from batchscope import disk, wording
from batchscope.catalogue.decision_columns import CLAIMS
from batchscope.catalogue.outcomes import Verdict
from batchscope.errors import UserError
from batchscope.report import claim_rows, page, results_page
from batchscope.report.results_page import Chosen, Record

PAGES = "pages.json"
_MOST_SURPRISING = 12


def write(results: Path, output: Path, studies: Sequence[str], figures: Sequence[Chosen]) -> None:
    """Writes the pages of studies into a folder beside the index, and the index of all pages there.

    Pages of other studies stay as they are: a study may be run anew alone.

    Args:
        studies: Folders of their results; empty for all that have a report.
        figures: Those to show, of the studies that they are of.

    Raises:
        UserError: If a study or a figure is not there, or a table is damaged.
    """
    there = [path.name for path in sorted(results.glob("studies/*"))]
    there = [name for name in there if claim_rows.report(results, name)]
    for name in studies:
        if name not in there:
            expected = f"one that has a report ({wording.listed(there) or 'none has'})"
            raise UserError(f"--study: received '{name}'; {expected} is expected.")
    for chosen in figures:
        if not chosen.image(results).exists():
            raise UserError(f"--figures: {chosen.image(results)} is missing; run its study first.")
    folder = output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    pages = disk.read_json(folder / PAGES) if (folder / PAGES).exists() else {}
    for study in studies or there:
        made = results_page.of_study(results, study, figures)
        _remove(folder, pages, study)
        for name, each in made.items():
            for chosen in each.figures:
                with disk.atomic_path(folder / chosen.file) as temporary:
                    shutil.copyfile(chosen.image(results), temporary)
            disk.write_text(folder / f"{name}.md", each.text)
            pages[name] = each.entry
    disk.write_json(folder / PAGES, dict(sorted(pages.items())))
    disk.write_text(output, _index(pages, folder.name))


def _remove(folder: Path, pages: dict[str, Record], study: str) -> None:
    """Deletes the pages of a study, which may have had other documents and figures."""
    for name in [name for name, entry in pages.items() if entry.get("study", name) == study]:
        (folder / f"{name}.md").unlink(missing_ok=True)
        for image in pages.pop(name).get("images", ()):
            (folder / image).unlink(missing_ok=True)


def _index(pages: dict[str, Record], folder: str) -> str:
    current = {name: entry for name, entry in pages.items() if _is_current(entry)}
    documents = {name: entry for name, entry in current.items() if entry["document"]}
    total: Counter[str] = Counter()
    for entry in documents.values():
        total.update(entry["claims"])
    contradicted = [
        (name, row) for name, entry in documents.items() for row in entry["contradicted"]
    ]
    contradicted.sort(key=lambda each: -claim_rows.surprise(each[1]))
    return page.render(
        "results_index.md.j2",
        folder=folder,
        total={standing: total[standing] for standing in claim_rows.STANDINGS},
        documents=sorted(documents.items(), key=_least_surprising_last),
        surprising=[
            (name, claim_rows.shown(row, None)) for name, row in contradicted[:_MOST_SURPRISING]
        ],
        others=[each for each in current.items() if not each[1]["document"]],
        older=[each for each in pages.items() if each[0] not in current],
    )


def _is_current(entry: Record) -> bool:
    """Whether an entry has all that the index shows: one of an earlier version may not."""
    rows = entry.get("contradicted")
    return rows is not None and all(row.keys() >= CLAIMS.keys() for row in rows)


def _least_surprising_last(page_: tuple[str, Record]) -> tuple[float, int, str]:
    """Returns what documents are ordered by: the share that is contradicted, then its number."""
    name, entry = page_
    contradicted = entry["claims"][Verdict.CONTRADICTED]
    return -contradicted / sum(entry["claims"].values()), -contradicted, name
