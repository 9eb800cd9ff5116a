"""Results for those who only want to read: what held, and chosen figures, as one Markdown page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.errors import UserError
from batchscope.report import claim_rows, content, ledger_page
from batchscope.report.content import Figure

_REDUCED = "-reduced"
_WIDTH = 900  # pixels of a figure on the page


@dataclass(frozen=True)
class Chosen:
    """A figure that the page shows.

    Attributes:
        study: Folder of the study's results, such as `keskar2017-reduced`.
    """

    study: str
    experiment: str
    figure: str

    @classmethod
    def of(cls, text: str) -> Chosen:
        """Reads `study/experiment/figure`.

        Raises:
            UserError: If it has other than three parts.
        """
        parts = text.split("/")
        if len(parts) != 3 or not all(parts):
            raise UserError(f"--figures: received '{text}'; study/experiment/figure is expected.")
        return cls(*parts)

    def folder(self, results: Path) -> Path:
        """Returns the folder of its files."""
        return results / "studies" / self.study / self.experiment / "figures"


def write(results: Path, output: Path, figures: Sequence[Chosen]) -> None:
    """Writes the page, and copies its figures into a folder of its name beside it.

    Raises:
        UserError: If a figure is not there, or a table of claims is damaged.
    """
    images = output.with_suffix("")
    images.mkdir(parents=True, exist_ok=True)
    entries = []
    for chosen in figures:
        place = chosen.folder(results) / f"{chosen.figure}.png"
        if not place.exists():
            raise UserError(f"--figures: {place} is missing; run its study first.")
        name = f"{chosen.study}-{chosen.experiment}-{chosen.figure}.png"
        with disk.atomic_path(images / name) as temporary:
            shutil.copyfile(place, temporary)
        entries.append((chosen, _entry(results, chosen), f"{images.name}/{name}"))
    disk.write_text(output, build(results, entries))


def build(results: Path, figures: Sequence[tuple[Chosen, Figure, str]]) -> str:
    """Returns the page as Markdown."""
    claims = {path.parent.name: claim_rows.read(path) for path in ledger_page.tables(results)}
    studies = [*claims, *(chosen.study for chosen, _, _ in figures if chosen.study not in claims)]
    shown = {
        study: claim_rows.build(rows, lambda experiment, figure: None)
        for study, rows in claims.items()
    }
    parts = [
        "# What came out",
        "Real runs of the shipped studies, for those who only want to read. Written by "
        "`python workflow/run.py results`; nothing on this page is typed by hand.",
        *_machine(results),
        "## Figures",
        *(_figure(*each) for each in figures),
        "## What the documents state, and what held",
        claim_rows.READING,
        *_ledger(shown),
        "## Commands",
        "\n".join(["```bash", *map(_command, dict.fromkeys(studies)), "```"]),
    ]
    return "\n\n".join(parts) + "\n"


def _entry(results: Path, chosen: Chosen) -> Figure:
    listed = content.read_figures(chosen.folder(results), results, partial=False)
    return next(figure for figure in listed if figure.name == chosen.figure)


def _machine(results: Path) -> Iterator[str]:
    """Yields what the machines are that the runs and timings were made on."""
    found: dict[str, None] = {}
    for pattern in ("runs/*/record.json", "timing/*/*/*/*.json"):
        for path in sorted(results.glob(pattern))[:1]:
            record = disk.read_json(path)
            machine, versions = record.get("machine"), record.get("versions")
            if machine and versions:
                text = f"{machine['cpu']}, {wording.count(machine['usable_cores'], 'core')}, "
                text += f"{machine['memory_gb']:.0f} GB of memory, "
                text += f"{wording.listed(machine['gpu']) if machine['gpu'] else 'no GPU'}; "
                text += ", ".join(f"{name} {version}" for name, version in versions.items())
                found[text] = None
    if found:
        yield f"Machine: {'; '.join(found)}."


def _figure(chosen: Chosen, figure: Figure, address: str) -> str:
    title = f"{figure.title}: {chosen.study.removesuffix(_REDUCED)}, {chosen.experiment}"
    return "\n\n".join(
        [
            f"### {_plain(title)}",
            f'<img src="{address}" width="{_WIDTH}" alt="{_quoted(title)}">',
            _plain(figure.found),
        ]
    )


def _ledger(studies: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yields a heading and a table for every document."""
    documents: dict[str, list[dict[str, Any]]] = {}
    for rows in studies.values():
        for row in rows:
            documents.setdefault(row["document"], []).append(row)
    for document, rows in documents.items():
        yield f"### {_plain(document)}"
        yield f"{wording.count(len(rows), 'claim')}: {claim_rows.counts(rows)}."
        lines = ["| place | claim | verdict | effect, n | p | open |", "|---|---|---|---|---|---|"]
        lines += [_line(row) for row in rows]
        yield "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    estimate = row["estimate"]
    effect = ""
    if estimate:
        interval = f" [{estimate.low}, {estimate.high}]" if estimate.low else ""
        effect = f"{estimate.value}{interval} {row['effect_is']}; n {row['n']}"
        effect += f" ({row['decides']})" if row["decides"] else ""
        effect += f"; {row['survivors']}" if row["survivors"] else ""
    p = " ".join(filter(None, [row["p_shown"], row["p_of"]]))
    cells = (row["place"], row["sentence"], row["word"], effect, p, row["missing"])
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Returns text that stands for itself in Markdown: no mark-up, no tag, no end of a cell."""
    text = re.sub(r"([\\`*_\[\]|])", r"\\\1", text).replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _command(study: str) -> str:
    name = study.removesuffix(_REDUCED)
    config = "" if name == "default" else f" --configfile studies/{name}.yaml"
    scale = " --config scale=reduced" if study.endswith(_REDUCED) else ""
    return f"snakemake --cores 2{config}{scale}"
