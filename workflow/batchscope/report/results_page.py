"""Results for those who only want to read: chosen figures and claims, a page per study."""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchscope import disk, wording
from batchscope.errors import UserError
from batchscope.report import claim_rows, content, ledger_page

_REDUCED = "-reduced"
_WIDTH = 900  # pixels of a figure on the page


@dataclass(frozen=True)
class Chosen:
    """A figure that a page shows."""

    study: str  # the folder of its results, such as `keskar2017-reduced`
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

    @property
    def file(self) -> str:
        """The name of its image beside the page."""
        return f"{self.study}-{self.experiment}-{self.figure}.png"

    def folder(self, results: Path) -> Path:
        """The folder of its files."""
        return results / "studies" / self.study / self.experiment / "figures"

    def image(self, results: Path) -> Path:
        """Returns its image among the results."""
        return self.folder(results) / f"{self.figure}.png"


def write(results: Path, output: Path, figures: Sequence[Chosen]) -> None:
    """Writes a page per study into a folder beside the index, and the index of all pages there.

    Pages of studies that these results do not have stay as they are: a study may be run anew alone.

    Raises:
        UserError: If a figure is not there, or a table of claims is damaged.
    """
    folder = output.with_suffix("")
    claims = {path.parent.name: path for path in ledger_page.tables(results)}
    for chosen in figures:
        if not chosen.image(results).exists():
            raise UserError(f"--figures: {chosen.image(results)} is missing; run its study first.")
    folder.mkdir(parents=True, exist_ok=True)
    for study in dict.fromkeys([*claims, *(chosen.study for chosen in figures)]):
        of_study = [chosen for chosen in figures if chosen.study == study]
        rows = claim_rows.read(claims[study]) if study in claims else []
        for chosen in of_study:
            with disk.atomic_path(folder / chosen.file) as temporary:
                shutil.copyfile(chosen.image(results), temporary)
        made = max(path.stat().st_mtime for path in (results / "studies" / study).glob("**/*.csv"))
        text = build(results, study, datetime.date.fromtimestamp(made), of_study, rows)
        disk.write_text(folder / f"{study}.md", text)
    disk.write_text(output, _index(folder))


def build(
    results: Path,
    study: str,
    made: datetime.date,
    figures: Sequence[Chosen],
    rows: Sequence[claim_rows.Row],
) -> str:
    """Returns the page of a study as Markdown; `_index` reads its title and first paragraph."""
    counts = [wording.count(len(figures), "figure")] if figures else []
    counts += [f"{wording.count(len(rows), 'claim')} ({claim_rows.counts(rows)})"] if rows else []
    parts = [
        f"# {_plain(_title(study))}",
        f"{made}: {', '.join(counts)}",
        f"```bash\n{_command(study)}\n```",
        *_machine(results),
        *_headline(results, study),
        *(_figure(results, chosen) for chosen in figures),
        *([claim_rows.READING] if rows else []),
        *_ledger(claim_rows.build(rows, lambda experiment, figure: None)),
    ]
    return "\n\n".join(parts) + "\n"


def _index(folder: Path) -> str:
    pages = []
    for path in sorted(folder.glob("*.md")):
        title, _, summary = path.read_text(encoding="utf-8").split("\n")[:3]
        pages.append(f"- [{title.removeprefix('# ')}]({folder.name}/{path.name}), {summary}")
    parts = [
        "# Results",
        "Real runs of the shipped studies, for those who only want to read: a page per study, with "
        "the command and the machine. Written by `python workflow/run.py results --output "
        "docs/results.md --figures STUDY/EXPERIMENT/FIGURE ...`; nothing on these pages is typed "
        "by hand.",
        "\n".join(pages),
    ]
    return "\n\n".join(parts) + "\n"


def _machine(results: Path) -> Iterator[str]:
    """Yields what the machines are that the runs and timings were made on."""
    found: dict[str, None] = {}
    for pattern in ("runs/*/record.json", "timing/*/*/*/*.json"):
        for path in sorted(results.glob(pattern))[:1]:
            record = disk.read_json(path)
            machine, versions = record.get("machine"), record.get("versions")
            if machine and versions:
                cores = wording.count(machine["usable_cores"], "core")
                gpus = wording.listed(machine["gpu"]) or "no GPU"
                used = ", ".join(f"{name} {version}" for name, version in versions.items())
                memory = f"{machine['memory_gb']:.0f} GB of memory"
                found[f"{machine['cpu']}, {cores}, {memory}, {gpus}; {used}"] = None
    if found:
        yield f"Machine: {'; '.join(found)}."


def _headline(results: Path, study: str) -> Iterator[str]:
    report = ledger_page.report(results, results / "studies" / study)
    if report and (text := report.with_suffix(".txt")).exists():
        yield _plain(text.read_text(encoding="utf-8"))


def _figure(results: Path, chosen: Chosen) -> str:
    listed = content.read_figures(chosen.folder(results), results, partial=False)
    figure = next(figure for figure in listed if figure.name == chosen.figure)
    title = f"{figure.title}: {chosen.experiment}"
    image = f'<img src="{chosen.file}" width="{_WIDTH}" alt="{_quoted(title)}">'
    return "\n\n".join([f"## {_plain(title)}", image, _plain(figure.found)])


def _ledger(shown: Sequence[dict[str, Any]]) -> Iterator[str]:
    for group in claim_rows.by_document(shown):
        rows = group["rows"]
        yield f"## What {_plain(group['document'])} states"
        level = f"; {_plain(group['level'])}" if group["level"] else ""
        yield f"{wording.count(len(rows), 'claim')}: {group['counts']}{level}."
        lines = ["| place | claim | verdict | effect, n | p | open |", "|---|---|---|---|---|---|"]
        lines += [_line(row) for row in rows]
        yield "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    estimate = row["estimate"]
    effect = ""
    if estimate:
        effect = f"{estimate.bracketed} {row['effect_is']}; n {row['n']}"
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


def _title(study: str) -> str:
    name = study.removesuffix(_REDUCED)
    return name if name == study else f"{name}, reduced form"


def _command(study: str) -> str:
    name = study.removesuffix(_REDUCED)
    config = "" if name == "default" else f" --configfile studies/{name}.yaml"
    scale = " --config scale=reduced" if study.endswith(_REDUCED) else ""
    return f"snakemake --cores 2{config}{scale}"
