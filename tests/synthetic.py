"""Results of a made-up study on disk: plausible numbers without any training."""

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.random import Generator

from batchscope.core import disk
from batchscope.measures import displacement, evaluate
from batchscope.store import jobs, paths, records
from batchscope.study import dataset_definitions, model, names, tasks
from batchscope.study.claims import Claim
from batchscope.study.experiments import TrainingExperiment
from batchscope.study.plan import PlannedExperiment
from batchscope.study.registry import MEASURES as catalogue_measures
from batchscope.study.registry import TRAINING_TIMINGS
from batchscope.study.study_file import Machine
from batchscope.tables import csv_tables, long_tables, run_table, study_tables

DATASET = names.token("digits", "1f0a93c2")
LAYERS = ("conv_1", "conv_2", "dense_1", "output")
MEASURES: dict[str, dict[str, Any]] = {
    name: names.parse_settings(name, "default") for name in (*catalogue_measures, *TRAINING_TIMINGS)
}
MEASURES["landscape"] |= {"points": 7, "pairs": 2, "lines": 2}
MEASURES["line"] |= {"points": 7}
Measured = tuple[dict[str, float | None], dict[str, Any]]
AT_EPOCHS = (1, 2, 5, 16)  # where patience is at work, small batches have stopped before the last


@dataclass
class Study:
    """As much of the plan's study as tables need."""

    name: str
    experiments: dict[str, PlannedExperiment]
    machine: str = "local"
    folder_name: str = "made_up"
    machines: dict[str, Machine] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    datasets: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {DATASET: dataset_definitions.BUILT_IN["digits"].resolved()}
    )


_COUNTS = {"train": 1149, "validation": 288, "test": 360}
_DATASET = {
    "counts": _COUNTS,
    "class_counts": {split: [size // 10] * 10 for split, size in _COUNTS.items()},
    "class_names": [str(digit) for digit in range(10)],
    "input_shape": [8, 8, 1],
    "classes": 10,
    "source": "scikit-learn <digits>",
    "sha256": {"train_images.npy": "ab" * 32},
    "split_seed": 0,
    "skipped": [{"file": "cat <666>.jpg", "reason": "cannot be decoded"}],
    "skipped_count": 1,
    "bytes": 115008,
}
# Where runs and timings were made.
_WHERE = {
    "threads": 1,
    "device": "cpu",
    "versions": {"tensorflow": "2.21.0", "keras": "3.15.1"},
    "machine": {"cpu": "A CPU <4>", "cores": 2, "memory_gb": 8.0, "gpu": None, "name": "local"},
}


def grid(
    batch_sizes: Iterable[int] = (16, 32, 64, 128, 256),
    seeds: Iterable[int] = range(6),
    cases: Iterable[dict[str, Any]] = ({},),
    **factors: Any,
) -> list[str]:
    """Returns the names of the runs of a product of batch sizes, cases and seeds."""
    base = {"dataset": DATASET, "model": "small_cnn", "optimizer": "sgd", "epochs": 40}
    base |= {"learning_rate": 0.05, **factors}
    return [
        names.run_name({**base, "batch_size": size, **case, "seed": seed})
        for case, size, seed in itertools.product(cases, batch_sizes, seeds)
    ]


def study(runs: list[str], measures: dict[str, dict[str, Any]] | None = None) -> Study:
    """Returns a study of one experiment; its lines join smallest and largest batch size."""
    chosen = dict(MEASURES if measures is None else measures)
    pairs = {"line": _ends(runs)} if "line" in chosen else {}
    factors = {run: names.parse_run(run) for run in runs}
    seeds = tuple(dict.fromkeys(each["seed"] for each in factors.values()))
    keys = {"title": "The gap", "question": "Does the gap widen with batch size?"}
    keys |= {"seeds": list(seeds), "at_epochs": AT_EPOCHS, "margins": {"test_accuracy": 0.03}}
    keys = TrainingExperiment.model_validate(keys)
    experiment = PlannedExperiment("gap", keys, {}, runs=factors, timed="time_epoch" in chosen)
    vars(experiment).update(measures=chosen, pairs=pairs)  # cached
    return Study("made_up", {"gap": experiment})


def _ends(runs: list[str]) -> tuple[tuple[str, str], ...]:
    """Returns (smallest, largest batch size) for every seed and all else that runs share."""
    alike: dict[tuple, dict[int, str]] = {}
    for run in runs:
        factors = names.parse_run(run)
        size = factors.pop("batch_size")
        alike.setdefault(tuple(factors.items()), {})[size] = run
    return tuple(
        (group[min(group)], group[max(group)]) for group in alike.values() if len(group) > 1
    )


def write(
    results: Path, planned: Study, failed: dict[str, str] | None = None, patience: bool = False
) -> None:
    """Writes the records of every run of a study.

    Args:
        failed: Run -> its status, where it is not `finished`; `missing` writes nothing.
        patience: Whether trainings stop early, large batches later.
    """
    failed = failed or {}
    for experiment in planned.experiments.values():
        for run in experiment.runs:
            status = failed.get(run, records.FINISHED)
            if status != records.MISSING:
                _write_run(results, planned, experiment, run, status, patience)
        for small, large in experiment.pairs.get("line", ()):
            _write_line(results, planned, experiment, small, large, failed)
    every = (each.runs.values() for each in planned.experiments.values())
    for token in {factors["dataset"] for runs in every for factors in runs}:
        record, task = {**_DATASET, "dataset": token}, _task(planned, token)
        if task != tasks.CLASSIFICATION:
            worst = _of_task({"accuracy": 0.1}, task)
            record |= {"task": task, "class_counts": {}, "baselines": {"test": worst}}
        disk.write_json(paths.dataset_folder(results, token) / "record.json", record)


def write_sha256(folder: Path) -> None:
    """Write the SHA-256 of the files in a run's folder into its record."""
    record = disk.read_json(paths.run_record(folder))
    files = [path.name for path in folder.iterdir() if path.suffix in (".csv", ".npz")]
    record["sha256"] = records.file_sha256(folder, files)
    disk.write_json(paths.run_record(folder), record)


def tabulate(results: Path, planned: Study, folder: Path, only: Iterable[str] = ()) -> None:
    """Writes the tables of an experiment: all, or some that are made of no other."""
    if not only:
        study_tables.write(results, planned, "gap", folder)
        return
    tables = {"runs": run_table.from_records(results, planned, "gap")}
    tables |= long_tables.for_experiment(results, planned, "gap")
    for table in only:
        frame = tables[table] if table in tables else made(table, results, planned)
        csv_tables.write(frame, folder / f"{table}.csv")


def made(table: str, results: Path, planned: Study) -> pandas.DataFrame:
    """Returns one table of an experiment, without the others where it is made of none."""
    if table == "runs":
        return run_table.from_records(results, planned, "gap")
    tables = long_tables.for_experiment(results, planned, "gap")
    if table not in tables:
        tables = study_tables.make(results, planned, "gap")
    return tables[table]


def _write_run(results, planned, experiment, run, status, patience):
    factors = names.parse_run(run)
    size, seed, rate = factors["batch_size"], factors["seed"], factors["learning_rate"]
    generator = np.random.default_rng([size, seed, int(rate * 1e6)])
    epochs = int(factors["epochs"])
    if patience:
        epochs = min(epochs, int(epochs * 0.15 * (size / 16) ** 0.5 + generator.integers(5)))
    finished = status == records.FINISHED
    if not finished:
        epochs = 7 if status == records.DIVERGED else 0
    history = _history(size, rate, epochs, generator, diverges=not finished)
    folder, task = paths.run_folder(results, run), _task(planned, factors["dataset"])
    rows = [_of_task(row, task) for row in history]
    disk.write_rows(folder / "history.csv", records.history_columns(task), rows)
    losses = (row["validation_loss"] for row in history if row["validation_loss"] is not None)
    lowest = min(losses, default=None)
    stopped = "patience" if patience else "epochs"
    record = {"run": run, "version": "train-v1", "factors": factors, "status": status, **_WHERE}
    record |= {"message": "" if finished else f"the training ended & <{status}>"}
    record |= {"dataset": factors["dataset"], "model": factors["model"], "parameters": 9098}
    record |= {"epochs_run": epochs, "steps_run": epochs * math.ceil(1149 / size), "resumed": 0}
    record |= {"best_epoch": epochs if finished else None, "best_validation_loss": lowest}
    record |= {"stop_reason": stopped if finished else status, "effective_learning_rate": rate}
    record |= {"contended_seconds": epochs * 0.4, "finished_at": "2026-11-21T00:00:00Z"}
    record["sha256"] = records.file_sha256(folder, ["history.csv"])
    disk.write_json(folder / "record.json", record)
    for measure, settings in experiment.measures.items():
        if measure in experiment.pairs:
            continue
        path = _measure_path(results, run, measure, settings)
        values, details = _measured(measure, settings, size, rate, generator)
        if measure == "landscape" and finished:
            disk.write_arrays(path.with_suffix(".npz"), _landscape(settings, size, generator))
        if measure == "time_epoch":
            place = next(jobs.machine_results(planned, results))
            path = jobs.time_path(place, experiment, factors, measure)
        elif not finished:
            values, details = dict.fromkeys(values), {}
        values = _of_task(values, task)
        record = records.measure_record(measure, run, settings, status, values, **details)
        disk.write_json(path, record)
    early = {"evaluate": _evaluated_at, "noise_scale": _noise_at}
    for epoch, measure in itertools.product(experiment.at_epochs, early):
        if measure in experiment.measures:
            settings = {**experiment.measures[measure], "epoch": epoch}
            values = early[measure](epoch, size, np.random.default_rng([size, seed, epoch]))
            values = values if finished and epoch <= epochs else dict.fromkeys(values)
            values = _of_task(values, task)
            record = records.measure_record(measure, run, settings, status, values)
            disk.write_json(_measure_path(results, run, measure, settings), record)


def _task(planned: Study, dataset: str) -> str:
    """Returns what is learned of a data set."""
    return dataset_definitions.read(planned.datasets[dataset]).task_of_labels()


def _of_task(values: dict[str, Any], task: str) -> dict[str, Any]:
    """Returns values of a classification as another task has them: its metrics for accuracies."""
    found = {}
    for name, value in values.items():
        if not tasks.is_share(name) or task == tasks.CLASSIFICATION:
            found[name] = value
            continue
        for metric in tasks.TASKS[task]:
            error = metric in ("mse", "mae")  # in the target's unit
            known = value if value is None or not error else 100 * (1 - value)
            found[name.removesuffix("accuracy") + metric] = known
    return found


def _measure_path(results: Path, run: str, measure: str, settings: dict[str, Any]) -> Path:
    name = names.settings_name(measure, settings)
    return paths.measure_path(results, run, measure, name)


def _evaluated_at(epoch: int, size: int, generator: Generator) -> dict[str, float]:
    """Returns what evaluate says of the weights after an epoch: worse after fewer updates."""
    away = 1.2 * math.exp(-1.2 * epoch**0.5 * (16 / size) ** 0.2)
    heights = {"train": 0.01, "validation": 0.07, "test": 0.075}
    losses = {split: height + away for split, height in heights.items()}
    return _of_losses({split: loss * _alone(generator, 0.05) for split, loss in losses.items()})


def _of_losses(losses: dict[str, float]) -> dict[str, float]:
    """Returns the losses of splits and their accuracies, each counted on 360 examples."""
    values = {f"{split}_loss": loss for split, loss in losses.items()}
    for split, loss in losses.items():
        values[f"{split}_accuracy"] = round(math.exp(-loss / 3) * 360) / 360
    return values


def _history(size, rate, epochs, generator, diverges):
    speed = 0.25 * (16 / size) ** 0.45 * (rate / 0.05) ** 0.5
    rows = []
    for epoch in range(1, epochs + 1):
        train = 2.3 * math.exp(-speed * epoch**0.8) + 0.004 * math.exp(generator.normal(0, 0.2))
        validation = train + 0.05 + 0.01 * math.log2(size) + abs(generator.normal(0, 0.01))
        if diverges:
            train, validation = train * 9.0**epoch, validation * 9.0**epoch
        last = diverges and epoch == epochs
        moved = _moved(size, rate) * (epoch / 40) ** 0.5
        row = {"epoch": epoch, "step": epoch * math.ceil(1149 / size), "learning_rate": rate}
        for split, loss in (("train", train), ("validation", validation)):
            row[f"{split}_loss"] = None if last else loss
            row[f"{split}_accuracy"] = math.exp(-loss / 2)
        row |= {"seconds": 0.4, "weight_distance": moved}
        row["epoch_distance"] = moved / epoch**0.7 * _alone(generator, 0.1)
        rows.append(row)
    return rows


def _moved(size: int, rate: float) -> float:
    return 4.2 * 0.82 ** math.log2(size / 16) * (rate / 0.05) ** 0.4


def _alone(generator: Generator, scatter: float) -> float:
    """Returns a factor that scatters around 1 by so much."""
    return math.exp(generator.normal(0, scatter))


def _measured(measure, settings, size, rate, generator) -> Measured:
    """Returns the values of a measure, and what else its record holds."""
    doublings = math.log2(size / 16)
    if measure == "evaluate":
        losses = {"train": 0.01 * 1.35**doublings, "test": 0.075 * 1.15**doublings}
        losses = {split: loss * _alone(generator, 0.1) for split, loss in losses.items()}
        train, test = losses.values()
        losses["validation"] = (0.9 * test + 0.1 * train) * _alone(generator, 0.05)
        values = _of_losses(losses)
        return values | evaluate.generalisation_gaps(values, "accuracy"), {}
    if measure == "weight_distance":
        moved, shares = _moved(size, rate) * _alone(generator, 0.03), (0.3, 0.5, 0.75, 0.32)
        rows = {
            layer: {"distance": moved * share, "relative": moved * share / 3}
            for layer, share in zip(LAYERS, shares, strict=True)
        }
        return {"weight_distance": moved, "weight_distance_relative": moved / 6}, {"layers": rows}
    if measure == "time_epoch":
        seconds = 0.09 + 3.2 / size
        ends = {"": seconds, "_q1": seconds * 0.97, "_q3": seconds * 1.06}
        values = {f"seconds_per_epoch{end}": each for end, each in ends.items()}
        return values | {"examples_per_second": 1149 / seconds}, _WHERE
    if measure == "sharpness":
        values, of = {}, {"full": 12.0, "subspace": 0.4}
        for space, epsilon in itertools.product(settings["spaces"], settings["epsilons"]):
            value = of[space] * (epsilon / 1e-3) ** 1.6 * 2.1**doublings * _alone(generator, 0.3)
            values[f"sharpness_{space}_{model.number_text(epsilon)}"] = value
        return values, {}
    if measure == "hessian":
        top = 20 * 1.4**doublings * _alone(generator, 0.1)
        values = {"top_eigenvalue": top, "top_eigenvalue_error": top / 1000}
        values |= {"trace": 6 * top, "trace_error": top / 3}
        return {f"hessian_{name}": value for name, value in values.items()}, {}
    if measure == "noise_scale":
        start = {f"{name}_start": each for name, each in _noise_at(0, size, generator).items()}
        return start | _noise_at(40, size, generator), {}
    if measure == "sam_sharpness":
        scale, texts = 0.02 * 1.3**doublings * _alone(generator, 0.1), settings["rhos"]
        return {f"sam_sharpness_{model.number_text(rho)}": scale * rho for rho in texts}, {}
    if measure == "landscape":
        rise = 0.3 * (size / 16) ** 0.2 * _alone(generator, 0.1)
        return {"landscape_rise": rise}, {}
    if measure == "branches":
        return _branches(settings, size)
    if measure == "displacement":
        return _displacement(size, rate, generator)
    return _alignment(size, generator)


def _displacement(size: int, rate: float, generator: Generator) -> Measured:
    """As if each size took straighter ways than the one below it."""
    steps, distance = 40 * math.ceil(1149 / size), _moved(size, rate)
    straightness = min(0.3 * 1.2 ** math.log2(size / 16) * _alone(generator, 0.05), 1)
    norms = generator.lognormal(0, 0.5, steps)
    norms *= distance / straightness / norms.sum()
    values = displacement.path_columns(norms, distance)
    return values, {"histogram": displacement.histogram(norms)}


def _branches(settings: dict[str, Any], size: int) -> Measured:
    """Losses that rise where a batch exceeds a size, which grows along the training."""
    generator, factors, points = np.random.default_rng(size), [1, *settings["factors"]], []
    for share in settings["points"]:
        too_large = [max(math.log2(size * each / (2000 * share)), 0.0) for each in factors]
        losses = [1 - share / 2 + 0.1 * each + generator.normal(0, 0.003) for each in too_large]
        noise = _noise_at(round(40 * share), size, generator)
        point = {"share": share, "examples_used": round(share * 40 * 1149), "losses": losses}
        point["learning_rates"] = [0.05 * each for each in factors]
        parts = ("noise_scale", "norm_squared", "variance")
        point["noise"] = {f"gradient_{part}": noise[f"gradient_{part}"] for part in parts}
        points.append(point)
    details = {"factors": factors, "batch_size": size, "points": points}
    return {"local_critical_batch_size": size * factors[-1]}, details


def _alignment(size: int, generator: Generator) -> Measured:
    values, places, examples = {}, [], 2.0 ** np.arange(9)
    for place, epoch, cosine in (("start", 0, 0.12), ("middle", 20, 0.05), ("end", 40, 0.01)):
        cosine = cosine * (1 + math.log2(size / 16) / 8) * _alone(generator, 0.1)
        ratio = np.sqrt((1 + (examples - 1) * cosine) / examples)
        values[f"gradient_cosine_{place}"] = cosine
        found = {"place": place, "epoch": epoch, "batch_sizes": examples.astype(int)}
        found |= {"norm": 3 * ratio, "ratio": ratio, "independent": examples**-0.5}
        places.append(found)
    return values, {"places": places}


def _noise_at(epoch: int, size: int, generator: Generator) -> dict[str, float | None]:
    """Noise that outgrows the gradient; after 40 epochs the gradient is below its own error."""
    variance = 40 * _alone(generator, 0.05)
    norm_squared = 2 * math.exp(-epoch / 6) + generator.normal(0, 0.02)
    scale = variance / norm_squared if norm_squared > 0 else None
    found = {"noise_scale": scale, "noise_scale_error": scale and scale / 5}
    found |= {"norm_squared": norm_squared, "variance": variance}
    found = {f"gradient_{name}": value for name, value in found.items()}
    own = {"scale": scale and 1.4 * scale, "ratio": scale and 1.4}
    return found | {f"normalisation_noise_{name}": value for name, value in own.items()}


def _landscape(settings: dict[str, Any], size: int, generator: Generator) -> dict[str, np.ndarray]:
    """Bowls, a little steeper for larger batches; tilted, so that rows differ from columns."""
    axis = np.linspace(-1.0, 1.0, settings["points"])
    steep = 2.0 * (size / 16) ** 0.2
    members = {"axis": axis}
    for index in range(settings["pairs"]):
        bowl = axis[None, :] ** 2 + 2 * axis[:, None] ** 2 + 0.1 * axis[None, :]
        members[f"surface:{index}"] = 0.05 + steep * bowl * math.exp(generator.normal(0, 0.1))
    for index in range(settings["lines"]):
        members[f"line:{index}"] = 0.05 + steep * axis**2 * math.exp(generator.normal(0, 0.1))
    return members


def _write_line(results, planned, experiment, small, large, failed):
    settings = experiment.measures["line"]
    name = names.settings_name("line", settings)
    path = paths.pair_path(results, small, large, "line", name)
    states = [failed.get(run, records.FINISHED) for run in (small, large)]
    if records.MISSING in states:
        return
    status = next((state for state in states if state != records.FINISHED), records.FINISHED)
    details: dict[str, Any] = {}
    if status == records.FINISHED:
        alphas = np.linspace(-1.0, 2.0, settings["points"])
        details = {"alphas": alphas, "batch_norm": "none"}
        for split, height in (("train", 0.02), ("validation", 0.1), ("test", 0.12)):
            loss = height + 0.8 * (alphas * (alphas - 1)) ** 2 + 0.05 * alphas**2
            details |= {f"{split}_loss": loss, f"{split}_accuracy": np.exp(-loss / 2)}
    details = _of_task(details, _task(planned, names.parse_run(small)["dataset"]))
    record = records.measure_record("line", small, settings, status, {}, other=large, **details)
    disk.write_json(path, record)


@contextlib.contextmanager
def edited(path: Path) -> Iterator[dict[str, Any]]:
    """Yields a record, which is written again."""
    record = disk.read_json(path)
    yield record
    disk.write_json(path, record)
