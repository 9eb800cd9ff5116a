"""Results for those who only want to read: chosen figures and claims, a page per study.

`pages.json` beside the pages has what their index shows of each.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchscope import disk
from batchscope.analysis.advice import Item
from batchscope.errors import UserError
from batchscope.report import claim_rows, content, page

PAGES = "pages.json"
_REDUCED = "-reduced"


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


def write(results: Path, output: Path, figures: Sequence[Chosen]) -> None:
    """Writes a page per study into a folder beside the index, and the index of all pages there.

    Pages of studies that these results do not have stay as they are: a study may be run anew alone.

    Raises:
        UserError: If a figure is not there, or a table of claims is damaged.
    """
    folder = output.with_suffix("")
    claims = {path.parent.name: claim_rows.read(path) for path in claim_rows.tables(results)}
    for chosen in figures:
        if not chosen.image(results).exists():
            raise UserError(f"--figures: {chosen.image(results)} is missing; run its study first.")
    folder.mkdir(parents=True, exist_ok=True)
    pages = disk.read_json(folder / PAGES) if (folder / PAGES).exists() else {}
    for study in dict.fromkeys([*claims, *(chosen.study for chosen in figures)]):
        of_study = [chosen for chosen in figures if chosen.study == study]
        for chosen in of_study:
            with disk.atomic_path(folder / chosen.file) as temporary:
                shutil.copyfile(chosen.image(results), temporary)
        place, rows = results / "studies" / study, claims.get(study, [])
        made = max(path.stat().st_mtime for path in place.glob("**/*.csv"))
        pages[study] = {
            "name": study.removesuffix(_REDUCED),
            "reduced": study.endswith(_REDUCED),
            "made": datetime.date.fromtimestamp(made).isoformat(),
            "figures": len(of_study),
            "claims": len(rows),
            "verdicts": claim_rows.verdicts(rows),
        }
        advice = [
            {"experiment": path.parent.name, **row}
            for path in sorted(place.glob("*/advice.csv"))
            for row in disk.read_rows(path, "item")
        ]
        text = page.render(
            "results.md.j2",
            study=pages[study],
            machines=_machines(results),
            advice=[row for row in advice if row["item"] == Item.RECOMMENDATION],
            figures=[
                {**entry, "chosen": chosen}
                for chosen in of_study
                for entry in content.listed(chosen.image(results).parent)
                if entry["name"] == chosen.figure
            ],
            documents=claim_rows.ledger(claim_rows.shown(row, None) for row in rows)["documents"],
        )
        disk.write_text(folder / f"{study}.md", text)
    disk.write_json(folder / PAGES, dict(sorted(pages.items())))
    disk.write_text(output, page.render("results_index.md.j2", pages=pages, folder=folder.name))


def _machines(results: Path) -> list[dict[str, Any]]:
    """Returns what is shown of the machines of the first run and the first timing, each once."""
    found: list[dict[str, Any]] = []
    for pattern in ("runs/*/record.json", "timing/*/*/*/*.json"):
        for path in sorted(results.glob(pattern))[:1]:
            record = disk.read_json(path)
            if (machine := record.get("machine")) and (versions := record.get("versions")):
                shown = {name: machine[name] for name in ("cpu", "usable_cores", "gpu")}
                shown |= {"memory_gb": round(machine["memory_gb"]), "versions": versions}
                found += [] if shown in found else [shown]
    return found
