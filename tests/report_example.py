"""A fabricated results folder for the tests of the report: no training behind it."""

from __future__ import annotations

import csv
import json
import math
import random
from pathlib import Path
from typing import Any

from batchscope import figures
from batchscope.catalogue import run_names
from batchscope.store import job_files, paths, records
from batchscope.study import config, plan
from batchscope.tables import csv_tables, experiment_tables

QUESTION = 'Does <script>alert("question")</script> a larger batch "generalise" worse, & why?'
TITLE = 'Batch size & <b>bold</b> "claims" on digits'
VERSIONS = {"python": "3.11.9", "tensorflow": "2.21.0", "keras": "3.15.1"}
MACHINE = {
    "cpu": "Example CPU <4> @ 2.4 GHz",
    "cores": 8,
    "memory_gb": 31.2,
    "gpu": None,
    "platform": "Linux-6.1-x86_64",
}
_EXPERIMENT = """
  {name}:
    title: {title}
    question: {question}
    vary:
      batch_size: [16, 32, 64, 128, 256]
    seeds: {seeds}
    measure: [evaluate, sharpness, weight_distance, time_epoch]
    published:
      generalisation_gap:
        figure: Figure <i>3</i>
        found: The gap & the <b>sharpness</b> rise.
"""


_CLAIMS = """
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
"""


def write_config(folder: Path, seeds: int = 6, experiments: tuple[str, ...] = ("gap",)) -> Path:
    """Writes a configuration full of markup; returns its path."""
    text = (
        "# <script>document.title = 'stolen'</script> & 'quotes' \"here\"\n"
        f"study: example\ntitle: {json.dumps(TITLE)}\nmax_runs: 5000\n"
        "defaults: {dataset: digits, model: small_cnn, optimizer: sgd, learning_rate: 0.05, "
        "epochs: 40}\nexperiments:"
    )
    for name in experiments:
        title, question = json.dumps(f"The {name} <u>found</u>"), json.dumps(QUESTION)
        text += _EXPERIMENT.format(name=name, title=title, question=question, seeds=seeds)
    text += _CLAIMS.replace("EXPERIMENT", experiments[0])
    path = folder / "studies" / "example.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write(
    folder: Path,
    seeds: int = 6,
    experiments: tuple[str, ...] = ("gap",),
    troubles: bool = True,
) -> tuple[plan.Study, Path, Path]:
    """Writes a study's configuration and results; returns plan, results and configuration.

    With `troubles`, the first seed at batch size 16 diverged, the last at 256 ran out of
    memory, the one before was never run, and one run lacks its sharpness.
    """
    path = write_config(folder, seeds, experiments)
    study, results = config.study(path), folder / "results"
    fates = _fates(study) if troubles else {}
    write_dataset(results, study)
    measures = next(iter(study.experiments.values())).trainings.measures
    for run in study.runs:
        fate = fates.get(run, records.FINISHED)
        if fate != records.MISSING:
            _write_run(results, run, fate, measures)
    if troubles:
        lacking = list(study.runs)[8]
        paths.measure_path(results, lacking, "sharpness", _settings(measures, "sharpness")).unlink()
    here = next(job_files.places(study, results))
    for experiment in study.experiments.values():
        for run in experiment.trainings.runs:
            factors = study.runs[run]
            record = job_files.time_path(here, experiment, factors, "time_epoch")
            _write_json(record, _timing(run_names.timing_name(factors), measures["time_epoch"]))
    for name, experiment in study.experiments.items():
        place = results / "studies" / study.folder_name / name
        experiment_tables.write(results, study, name, place)
        write_figures(place / "figures", figures.drawn(experiment))
    tables = results / "studies" / study.folder_name
    experiment_tables.write_claims(study, tables, tables / csv_tables.CLAIMS)
    return study, results, path


def write_dataset(results: Path, study: plan.Study) -> None:
    """Writes the record of a study's only data set."""
    (dataset,) = study.datasets
    _write_json(paths.dataset_folder(results, dataset) / "record.json", _dataset(dataset))


def _write_json(path: Path, record: dict[str, Any]) -> None:
    """Writes a record without waiting for the disk, which 5,000 files would have to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")


def _settings(measures: dict[str, dict[str, Any]], measure: str) -> str:
    return run_names.settings_name(measure, measures[measure])


def _fates(study: plan.Study) -> dict[str, str]:
    runs = list(study.runs)
    fates = (records.DIVERGED, records.MISSING, records.OUT_OF_MEMORY)
    return dict(zip((runs[0], runs[-2], runs[-1]), fates, strict=True))


def _write_run(results: Path, run: str, status: str, measures: dict[str, dict[str, Any]]) -> None:
    noise, factors = random.Random(run), run_names.parse_run(run)
    doublings = math.log2(factors["batch_size"] / 16)
    record = {
        "run": run,
        "version": "train-v1",
        "factors": factors,
        "status": status,
        "message": _MESSAGES[status],
        "dataset": factors["dataset"],
        "model": factors["model"],
        "parameters": 9930,
        "epochs_run": 3 if status == records.DIVERGED else 40,
        "steps_run": 40 * 1000 // factors["batch_size"],
        "best_epoch": 31,
        "best_validation_loss": 0.081 + 0.013 * doublings + noise.gauss(0, 0.006),
        "stop_reason": "epochs" if status == records.FINISHED else status,
        "effective_learning_rate": 0.05,
        "contended_seconds": 4.1 + noise.random(),
        "threads": 1,
        "device": "cpu",
        "versions": VERSIONS,
        "machine": MACHINE,
        "finished_at": "2026-11-21T02:53:00+00:00",
    }
    folder = paths.run_folder(results, run)
    _write_json(folder / "record.json", record)
    rows = [_epoch(epoch, doublings, noise) for epoch in range(1, record["epochs_run"] + 1)]
    with open(folder / "history.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, records.HISTORY_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for measure, values in _measured(doublings, noise).items():
        if status != records.FINISHED:
            values = dict.fromkeys(values)
        content = records.measure_record(measure, run, measures[measure], status, values)
        place = paths.measure_path(results, run, measure, _settings(measures, measure))
        _write_json(place, content)


def _epoch(epoch: int, doublings: float, noise: random.Random) -> dict[str, Any]:
    loss = 2.2 * math.exp(-epoch / (3 + 2 * doublings)) + 0.03 + 0.01 * noise.random()
    return {
        "epoch": epoch,
        "step": epoch * round(63 / 2**doublings),
        "learning_rate": 0.05,
        "train_loss": loss,
        "train_accuracy": 1 - loss / 3,
        "validation_loss": loss + 0.06 + 0.01 * noise.random(),
        "validation_accuracy": 0.97 - loss / 3,
        "seconds": 0.1,
    }


_MESSAGES = {
    records.FINISHED: "",
    records.DIVERGED: "the training loss became NaN at step 190 & <stopped>",
    records.OUT_OF_MEMORY: "OOM when allocating tensor with shape [256, 8, 8, 64]",
}


def _measured(doublings: float, noise: random.Random) -> dict[str, dict[str, float]]:
    train, test = 0.02 + 0.01 * doublings, 0.12 + 0.02 * doublings + noise.gauss(0, 0.008)
    return {
        "evaluate": {
            "train_loss": train,
            "train_accuracy": 1 - 0.002 * doublings,
            "validation_loss": test - 0.01,
            "validation_accuracy": 0.97 - 0.004 * doublings,
            "test_loss": test,
            "test_accuracy": 0.966 - 0.006 * doublings + noise.gauss(0, 0.003),
            "generalisation_gap": test - train,
            "generalisation_ratio": test / train,
        },
        "sharpness": {
            "sharpness_full_0.001": 1.2 * 1.3**doublings + noise.gauss(0, 0.4),
            "sharpness_full_0.0005": 0.31 * 1.3**doublings + noise.gauss(0, 0.1),
            "sharpness_subspace_0.001": 0.004 + noise.gauss(0, 2e-4),
            "sharpness_subspace_0.0005": 0.0018 + noise.gauss(0, 1e-4),
        },
        "weight_distance": {
            "weight_distance": 5.1 - 0.71 * doublings + noise.gauss(0, 0.06),
            "weight_distance_relative": 0.6 - 0.08 * doublings + noise.gauss(0, 0.006),
        },
    }


def _timing(timing: str, settings: dict[str, Any]) -> dict[str, Any]:
    seconds = 0.4 / run_names.parse_timing(timing)["batch_size"] ** 0.5
    return records.measure_record(
        "time_epoch",
        timing,
        settings,
        records.FINISHED,
        {
            "seconds_per_epoch": seconds,
            "seconds_per_epoch_q1": seconds * 0.97,
            "seconds_per_epoch_q3": seconds * 1.05,
            "images_per_second": 1000 / seconds,
        },
        threads=1,
        device="cpu",
        load=0.1,
        versions=VERSIONS,
        machine={**MACHINE, "name": "local"},
    )


def _dataset(token: str) -> dict[str, Any]:
    sizes = {"train": 1000, "validation": 397, "test": 400}
    return {
        "dataset": token,
        "definition": {"source": "digits", "test": 400},
        "scale": 1 / 16,
        "classes": 10,
        "class_names": [str(digit) for digit in range(10)],
        "input_shape": [8, 8, 1],
        "counts": sizes,
        "class_counts": {split: [size // 10] * 10 for split, size in sizes.items()},
        "source": "scikit-learn <digits>",
        "sha256": {"train_images.npy": "ab" * 32, "train_labels.npy": "cd" * 32},
        "split_seed": 0,
        "skipped": [{"file": "cat <666>.jpg", "reason": "cannot be decoded"}],
        "skipped_count": 1,
        "bytes": 115_000,
    }


def write_figures(folder: Path, drawn: list[str]) -> None:
    """Writes SVG figures that share their ids and carry a script, and their CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    listing = []
    for number, name in enumerate(drawn):
        dots = "".join(
            f'<use href="#dot" x="{60 + 90 * i}" y="{230 - 20 * i - 9 * number}"/>'
            for i in range(5)
        )
        (folder / f"{name}.svg").write_text(
            '<svg xmlns="http://www.w3.org/2000/svg" width="504pt" height="288pt" '
            'viewBox="0 0 504 288"><style>*{stroke-width:2}</style>'
            f"<script>document.title = 'stolen by {name}'</script>"
            '<image href="https://example.invalid/spy.png" width="1" height="1"/>'
            '<defs><circle id="dot" r="4" fill="#0072b2"/></defs>'
            '<path d="M40 250H480M40 250V20" stroke="#333" fill="none"/>'
            f'{dots}<text x="250" y="280" font-size="14">batch size</text></svg>',
            encoding="utf-8",
        )
        (folder / f"{name}.csv").write_text("batch_size,value\n16,1\n", encoding="utf-8")
        spec = figures.FIGURES[name].entry
        caption = f"Every point of {name} & <i>seeds</i> is one run."
        panels = [panel.column for panel in spec.panels]
        of = {
            "category": spec.category,
            "columns": panels,
            "of": spec.of or name,
            "axis": spec.along,
        }
        listing.append({"name": name, "title": spec.title, "caption": caption, **of})
    (folder / figures.LISTING).write_text(json.dumps(listing), encoding="utf-8")
