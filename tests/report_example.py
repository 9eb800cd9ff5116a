"""A study full of markup with a fabricated results folder, for the tests of the report."""

import json
from pathlib import Path

import synthetic
from batchscope import figures
from batchscope.report import study_page
from batchscope.store import paths, records
from batchscope.study import config, names, plan
from batchscope.tables import csv_tables, study_tables

QUESTION = 'Does <script>alert("question")</script> a larger batch "generalise" worse, & why?'
TITLE = 'Batch size & <b>bold</b> "claims" on digits'
_STUDY = """\
# <script>document.title = 'stolen'</script> & 'quotes' "here"
study: example
title: TITLE
max_runs: 5000
defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.05, epochs: 40}
claims:
  - id: gap_rises
    document: A <b>document</b>
    place: Figure <i>3</i>
    sentence: The gap & the <b>loss</b> rise.
    test: {type: trend, experiment: EXPERIMENT, column: generalisation_gap, direction: rises}
    figure: generalisation_gap
  - id: sharpness_rises
    document: A <b>document</b>
    place: Figure 4
    sentence: Larger batches end at sharper minimizers.
    test: {type: trend, experiment: EXPERIMENT, column: sharpness_full_0.001, direction: rises}
    figure: sharpness
  - id: epochs_are_faster
    document: Another document
    place: Figure 5
    sentence: Larger batches take less time per epoch.
    test: {type: trend, experiment: EXPERIMENT, column: seconds_per_epoch, direction: falls}
    figure: time
experiments:"""
_EXPERIMENT = """
  EXPERIMENT:
    title: The EXPERIMENT <u>found</u>
    question: QUESTION
    vary:
      batch_size: [16, 32, 64, 128, 256]
    seeds: SEEDS
    measure: [evaluate, sharpness, weight_distance, time_epoch]
    published:
      generalisation_gap:
        figure: Figure <i>3</i>
        found: The gap & the <b>sharpness</b> rise.
"""


def write_config(folder: Path, seeds: int = 6, experiments: tuple[str, ...] = ("gap",)) -> Path:
    """Writes a configuration full of markup; returns its path."""
    text = _STUDY.replace("EXPERIMENT", experiments[0])
    text += "".join(_EXPERIMENT.replace("EXPERIMENT", name) for name in experiments)
    for name, value in (("TITLE", TITLE), ("QUESTION", QUESTION), ("SEEDS", seeds)):
        text = text.replace(name, json.dumps(value))
    path = folder / "studies" / "example.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write(folder: Path, seeds: int = 6, troubles: bool = True) -> tuple[plan.Study, Path, Path]:
    """Writes a study's configuration and results; returns plan, results and configuration.

    With `troubles`, the first seed at batch size 16 diverged, the last at 256 ran out of
    memory, the one before was never run, and one run lacks its sharpness.
    """
    path = write_config(folder, seeds)
    study, results = config.study(path), folder / "results"
    runs = list(study.runs)
    statuses = (records.DIVERGED, records.MISSING, records.OUT_OF_MEMORY)
    failed = dict(zip((runs[0], runs[-2], runs[-1]), statuses, strict=True)) if troubles else {}
    synthetic.write(results, study, failed)
    if troubles:
        name = names.settings_name("sharpness", study.experiments["gap"].measures["sharpness"])
        paths.measure_path(results, runs[8], "sharpness", name).unlink()
    tables = results / "studies" / study.folder_name
    study_tables.write(results, study, "gap", tables / "gap")
    write_figures(tables / "gap" / "figures", figures.figure_names(study.experiments["gap"]))
    study_tables.write_claims(study, tables, tables / csv_tables.CLAIMS_FILE)
    return study, results, path


def written(study, results: Path, path: Path, partial: bool = False) -> Path:
    """Writes a report beside its results; returns its file."""
    output = results / "report.html"
    study_page.write(study, results, path, output, partial)
    return output


def write_figures(folder: Path, drawn: list[str]) -> None:
    """Write SVG figures that share their ids, and their CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    listing = []
    for name in drawn:
        (folder / f"{name}.svg").write_text(
            '<svg xmlns="http://www.w3.org/2000/svg" width="504pt" height="288pt" '
            'viewBox="0 0 504 288"><style>*{stroke-width:2}</style>'
            '<defs><circle id="dot" r="4" fill="#0072b2"/></defs><use href="#dot" x="60" y="230"/>'
            '<path d="M40 250H480M40 250V20" stroke="#333" fill="none"/>'
            '<text x="250" y="280" font-size="14">batch size</text></svg>',
            encoding="utf-8",
        )
        (folder / f"{name}.csv").write_text("batch_size,value\n16,1\n", encoding="utf-8")
        spec = figures.FIGURES[name]
        entry = {
            "name": name,
            "title": spec.title,
            "category": spec.category,
            "axis": spec.variant_axis,
        }
        entry |= {"caption": f"Every point of {name} & <i>seeds</i> is one run."}
        entry |= {"columns": [panel.column for panel in spec.panels], "of": spec.variant_of or name}
        listing.append(entry)
    (folder / figures.LISTING).write_text(json.dumps(listing), encoding="utf-8")
