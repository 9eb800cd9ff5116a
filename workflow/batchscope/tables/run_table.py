"""Records on disk -> tidy tables: one row per run; `long_tables` has those with more.

Figures, statistics and report read these tables and never the records behind them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from batchscope import measures
from batchscope.analysis import largest_within_margin, run_series
from batchscope.catalogue import measure_settings, run_factors, run_names, sweep_names
from batchscope.store import job_files, records
from batchscope.tables import long_tables, timing_tables

if TYPE_CHECKING:
    from batchscope.study.plan import Study

RUNS = "runs.csv"
PUBLISHED = "published.csv"
NAN = float("nan")


@dataclass(frozen=True)
class Column:
    """A column of runs.csv: what it holds, and its unit (or an empty string)."""

    doc: str
    unit: str = ""
    kind: str = "float"  # or int, str, bool


def _factor_columns() -> dict[str, Column]:
    factors = {}
    for name, factor in run_factors.FACTORS.items():
        doc = f"Factor: {factor.doc[0].lower()}{factor.doc[1:]}"
        factors[name] = Column(doc, factor.unit, factor.kind)
        if name in ("dataset", "model"):
            what = "data set's definition" if name == "dataset" else "user's model file"
            digest = f"Digest of the {what} (8 hexadecimal digits); empty where there is none."
            factors[f"{name}_digest"] = Column(digest, kind="str")
    return factors


def _split_columns() -> dict[str, Column]:
    found = {}
    for split in records.SPLITS:
        found[f"{split}_loss"] = Column(f"Mean loss over the {split} split, dropout off.")
        found[f"{split}_accuracy"] = Column(
            f"Share of the {split} split that is classified rightly, dropout off.", "share"
        )
    return found


# Every column of runs.csv, in the table's order; `{...}` stands for a setting of the measure.
COLUMNS: dict[str, Column] = {
    "run": Column("Name of the run: its folder under results/runs.", kind="str"),
    "study": Column("Name of the study.", kind="str"),
    "experiment": Column("Name of the experiment.", kind="str"),
    "machine": Column("Name of the machine, as in the configuration.", kind="str"),
    **_factor_columns(),
    "status": Column(
        "finished, diverged, out_of_memory, off_target where the training loss missed "
        "target_train_loss, missing; or no_gpu where no GPU is within reach, or no_cores where it "
        "asks for more threads than there are cores.",
        kind="str",
    ),
    "message": Column("What the run says about its status.", kind="str"),
    **_split_columns(),
    "generalisation_gap": Column("test_loss - train_loss."),
    "generalisation_gap_accuracy": Column("train_accuracy - test_accuracy.", "share"),
    "generalisation_gap_ratio": Column(
        "test_loss / train_loss; empty where the training loss is no more than rounding."
    ),
    "best_validation_loss": Column("Lowest validation loss at the end of an epoch."),
    "best_train_loss": Column(
        "Lowest training loss of an epoch: the mean over its updates, dropout on."
    ),
    "best_epoch": Column("Epoch whose weights are kept as the best.", kind="int"),
    "epochs_run": Column("Epochs until the training stopped.", "epochs", "int"),
    "steps_run": Column("Updates until the training stopped.", "updates", "int"),
    "stop_reason": Column("epochs, patience, train_loss, diverged or out_of_memory.", kind="str"),
    "reached_target": Column(
        "1 where the training loss reached target_train_loss, over the last epoch and with the "
        "weights at its end, 0 where not; empty without one.",
        kind="int",
    ),
    "effective_learning_rate": Column("Learning rate after scaling."),
    "parameters": Column("Trainable weights of the model.", kind="int"),
    "seconds_per_epoch": Column(
        "Time of one epoch, validation apart: median of a timing job that had the machine to "
        "itself.",
        "s",
    ),
    "seconds_per_epoch_q1": Column("Lower quartile of the timing job's blocks.", "s"),
    "seconds_per_epoch_q3": Column("Upper quartile of the timing job's blocks.", "s"),
    "images_per_second": Column("Training images per second in the timing job.", "images/s"),
    "train_seconds": Column("epochs_run * seconds_per_epoch: validation apart.", "s"),
    "contended_seconds": Column(
        "What the training measured of itself while others ran; in no figure.", "s"
    ),
    "weight_distance": Column("Euclidean distance of the weights from the initial ones."),
    "weight_distance_relative": Column(
        "weight_distance over the Euclidean norm of the initial weights."
    ),
    "updates": Column("Updates whose norms were kept.", "updates", "int"),
    "update_norm_mean": Column("Mean Euclidean norm of an update, ||w after - w before||."),
    "update_norm_median": Column("Median Euclidean norm of an update."),
    "path_length": Column("Sum of the norms of all updates."),
    "straightness": Column(
        "Distance from first to last weights over path_length: 1 for a straight way."
    ),
    **{
        f"gradient_cosine_{place}": Column(
            f"Mean cosine between the gradients of two different training examples, at the {place} "
            "of the training."
        )
        for place in ("start", "middle", "end")
    },
    "sharpness_{space}_{epsilon}": Column(
        "100 * (highest loss found in the box - loss) / (1 + loss), in the `full` space or a "
        "random `subspace`, for a box of size epsilon (Keskar et al. 2017, metric 2.1).",
        "% of 1 + loss",
    ),
    "sam_sharpness_{rho}": Column(
        "Rise of the loss at one step of length rho along its gradient (Foret et al. 2021)."
    ),
    "hessian_top_eigenvalue": Column("Largest eigenvalue of the training loss's Hessian."),
    "hessian_top_eigenvalue_error": Column(
        "Euclidean norm of H v - lambda v: an eigenvalue lies no further away than that."
    ),
    "hessian_trace": Column("Trace of the Hessian: the mean over random probes (Hutchinson)."),
    "hessian_trace_error": Column("Standard error of that mean."),
    "landscape_rise": Column(
        "Mean over random lines of (f(-r) + f(r)) / 2 - f(0), f the training loss and r half of "
        "the span of the landscape, in filter-normalised units (Li et al. 2018)."
    ),
    "train_examples": Column("Examples in the training split.", "examples", "int"),
    "validation_examples": Column("Examples in the validation split.", "examples", "int"),
    "test_examples": Column("Examples in the test split.", "examples", "int"),
}
# Columns of published.csv; a factor is empty where the document's series is not named by it.
_SERIES_FACTORS = tuple(
    name
    for name in {**run_factors.FACTORS, **sweep_names.FACTORS}
    if name not in ("batch_size", "seed")
)
PUBLISHED_COLUMNS: dict[str, str] = {
    "figure": "Figure that shows the number.",
    "document": "What the document calls its counterpart.",
    "series": "The factors below in words; empty where none names the series.",
    **dict.fromkeys(_SERIES_FACTORS, "Factor that names the series, or empty."),
    "batch_size": "Batch size in the document.",
    "column": "What the number is of.",
    "value": "The number, as published.",
}
_RECORD_COLUMNS = (
    "message",
    "best_validation_loss",
    "best_epoch",
    "epochs_run",
    "steps_run",
    "stop_reason",
    "reached_target",
    "effective_learning_rate",
    "parameters",
    "contended_seconds",
)
_PATTERNS = {
    name: re.compile(re.sub(r"\\\{\w+\\\}", r"[a-z0-9.-]+", re.escape(name)))
    for name in COLUMNS
    if "{" in name
}


def describe(column: str) -> Column | None:
    """Returns what a column holds, or None for one that is not documented."""
    name = _registered(column)
    return COLUMNS[name] if name else None


def markdown() -> str:
    """Returns the columns of runs.csv as a Markdown table, for the README."""
    lines = ["| column | unit | what it holds |", "|---|---|---|"]
    lines += [f"| `{name}` | {item.unit} | {item.doc} |" for name, item in COLUMNS.items()]
    return "\n".join(lines) + "\n"


def _registered(column: str) -> str | None:
    if column in COLUMNS:
        return column
    return next((name for name, form in _PATTERNS.items() if form.fullmatch(column)), None)


def _position(column: str) -> int:
    """Returns a column's place in the table; what is not documented comes last."""
    order = list(COLUMNS)
    name = _registered(column)
    return order.index(name) if name else len(order)


def collect(results: Path | str, study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per machine and run of an experiment, in the plan's order.

    Whatever is not on disk is NaN (or empty), and a run without a record has the status
    `missing`, or that of what is not here; of another machine only the runs that its results hold
    have a row.

    Args:
        results: The folder of all results.
        study: The plan.
        experiment: Name of one of its experiments.
    """
    chosen = study.experiments[experiment]
    rows = []
    for place in job_files.places(study, results):
        reader = _Reader(place)
        for run in chosen.runs:
            row = {"run": run, "study": study.name, "experiment": experiment}
            row.update({"machine": place.machine, **long_tables.factors(run)})
            row.update(reader.run(run, chosen.measures))
            if row["status"] == records.MISSING:
                if place.machine != study.machine:
                    continue
                row["status"] = job_files.unrecorded(run_names.parse_run(run))
            rows.append(row)
    columns = [name for name in COLUMNS if name not in _PATTERNS]
    for measure, settings in chosen.measures.items():
        if measure in measures.MODULES:  # a timing's columns are all fixed
            columns += measures.module(measure).columns(settings)
    frame = pandas.DataFrame(rows, columns=_ordered([*columns, *_keys(rows)]))
    return frame.astype({name: _dtype(name) for name in frame.columns})


def _ordered(columns: list[str]) -> list[str]:
    return sorted(dict.fromkeys(columns), key=_position)  # stable: settings keep their order


def _keys(rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield from row


def _dtype(column: str) -> str:
    kind = (describe(column) or Column("")).kind
    if kind == "int":
        return "Int64"  # whole numbers that may be missing
    return {"str": "object", "bool": "bool"}.get(kind, "float64")


class _Reader:
    """Reads the records of one machine, each shared file once."""

    def __init__(self, place: job_files.Place) -> None:
        self.results = place.results
        self.machine = place.recorded
        self._shared: dict[Path, dict[str, Any] | None] = {}

    def run(self, run: str, wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Returns the columns that the files of one run give."""
        path = records.run_folder(self.results, run) / "record.json"
        record = long_tables.read_record(path, "status")
        row: dict[str, Any] = {"status": records.MISSING, **self._examples(run)}
        if record is not None:
            row["status"] = long_tables.shown_status(record)
            row.update({name: record.get(name) for name in _RECORD_COLUMNS})
            row["best_train_loss"] = _lowest(long_tables.history(self.results, run), "train_loss")
        for measure, settings in wanted.items():
            row.update(self._measure(run, measure, settings))
        row["train_seconds"] = _product(row.get("epochs_run"), row.get("seconds_per_epoch"))
        return row

    def _measure(self, run: str, measure: str, settings: dict[str, Any]) -> dict[str, Any]:
        if measure in measure_settings.PAIR_MEASURES:
            return {}  # of two runs: a long table of its own
        name = measure_settings.settings_name(measure, settings)
        if measure == "time_epoch":
            timing = run_names.timing_name(run_names.parse_run(run))
            path = records.timing_path(self.results, self.machine, timing, name)
            record = self._once(path, "values")
        else:
            path = records.measure_path(self.results, run, measure, name)
            record = long_tables.read_record(path, "values")
        return record["values"] if record else {}

    def _examples(self, run: str) -> dict[str, Any]:
        dataset = run.partition("+")[0]
        path = records.dataset_folder(self.results, dataset) / "record.json"
        counts = (self._once(path, "counts") or {"counts": {}})["counts"]
        return {f"{split}_examples": counts.get(split) for split in records.SPLITS}

    def _once(self, path: Path, *keys: str) -> dict[str, Any] | None:
        if path not in self._shared:
            self._shared[path] = long_tables.read_record(path, *keys)
        return self._shared[path]


def _product(epochs: float | None, seconds: float | None) -> float:
    return NAN if epochs is None or seconds is None else epochs * seconds


def _lowest(rows: list[dict[str, float]], column: str) -> float:
    values = [row[column] for row in rows]
    return min((value for value in values if math.isfinite(value)), default=NAN)


def published(study: Study, experiment: str) -> pandas.DataFrame:
    """Returns one row per number of a document that stands beside a figure of an experiment."""
    chosen = study.experiments[experiment]
    rows = []
    for figure, found in chosen.numbers.items():
        document = " ".join(chosen.published[figure]["figure"].split())
        for series in found:
            factors = {name: _plain_name(name, series.factors) for name in _SERIES_FACTORS}
            told = {name: value for name, value in factors.items() if value is not None}
            first = {"figure": figure, "document": document, "series": run_series.describe(told)}
            for column, numbers in series.columns.items():
                for size, value in zip(series.batch_sizes, numbers, strict=True):
                    last = {"batch_size": size, "column": column, "value": value}
                    rows.append({**first, **factors, **last})
    # Values as they are: a column with gaps would turn whole numbers into fractions.
    return pandas.DataFrame(rows, columns=list(PUBLISHED_COLUMNS), dtype=object)


def _plain_name(factor: str, factors: dict[str, Any]) -> Any:
    """Returns a factor's value, data set and model without their digests; None where not given."""
    value = factors.get(factor)
    if value is not None and factor in ("dataset", "model"):
        return run_names.split_token(str(value))[0]
    return value


def write(results: Path | str, study: Study, experiment: str, folder: Path | str) -> None:
    """Writes runs.csv and all other tables of an experiment, each atomically."""
    runs, found = collect(results, study, experiment), study.experiments[experiment]
    long_tables.write_table(runs, Path(folder) / RUNS)
    stated = largest_within_margin.table(runs, found.margins)
    long_tables.write_table(stated, Path(folder) / "margins.csv")
    limits = timing_tables.limits(results, study, found.beside)
    long_tables.write_table(limits, Path(folder) / "limits.csv")
    long_tables.write(results, study, experiment, folder)
    timing_tables.write(results, study, experiment, folder)
    long_tables.write_table(published(study, experiment), Path(folder) / PUBLISHED)
