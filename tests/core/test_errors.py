"""Every file below results/ that is missing its end, is empty or garbage is named, and mended."""

import errno
import itertools

import numpy as np
import pytest

import synthetic
from batchscope import datasets
from batchscope.core import disk, errors
from batchscope.core.errors import UserError
from batchscope.measures import displacement
from batchscope.measures.finished_run import FinishedRun
from batchscope.report import report_inputs
from batchscope.store import paths, records
from batchscope.study import dataset_definitions, names
from batchscope.tables import csv_tables, long_tables, run_table
from synthetic import DATASET

DAMAGES = {
    "empty": lambda whole: b"",
    "truncated": lambda whole: whole[: len(whole) // 2],
    "garbage": lambda whole: bytes(range(256)) * 8,
    "words": lambda whole: b"Not found\n",
}
# Little damages of text tables.
OF_TABLES = {
    "last line": lambda whole: b"".join(lines(whole)[:-1]),
    "end of the last line": lambda whole: whole[:-4],
    "middle line": lambda whole: b"".join(lines(whole)[:2] + lines(whole)[3:]),
    "digit": lambda whole: whole[:-2] + (b"1" if whole[-2:-1] == b"2" else b"2") + whole[-1:],
    "word": lambda whole: b"".join([*lines(whole)[:-1], b"x" + lines(whole)[-1]]),
}
BINARY = ("updates", "weights", "measure")


def lines(whole):
    return whole.splitlines(keepends=True)


def flip(share):
    """Return the damage of one bit, at a share of the file."""

    def damage(whole):
        at = int(share * len(whole))
        return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]

    return damage


def collect(results, study, run):
    return run_table.from_records(results, study, "gap")


def load(results, study, run):
    return datasets.load(results, DATASET).images("train")


def displaced(results, study, run):
    return displacement.measure_run(FinishedRun(results, run), {}).values


def table(name):
    return lambda results, study, run: synthetic.made(name, results, study)


def weights(results, study, run):
    return records.RunFiles(paths.run_folder(results, run)).weights("epochs/2")


def final(results, study, run):
    return FinishedRun(results, run).weights("final")


def tabled(results, study, run):
    return csv_tables.read(results / "studies" / "runs.csv")


def reported(results, study, run):
    return report_inputs.read_figures(results / "figures", False)


EVALUATED = synthetic.grid([16], [0], evaluate_every=500, epochs=1)[0]
TRAJECTORY = f"runs/{EVALUATED}/trajectory.csv"


def evaluations(results, study, run):
    return long_tables._trajectory_rows(results, EVALUATED, names.parse_run(EVALUATED))


# Where it is, below results (a run's below its folder); what reads it; and what Snakemake misses
# in its place, where it is not the file.
RECORD, EVALUATED_RECORD = "{run}/record.json", f"runs/{EVALUATED}/record.json"
FILES = {
    "run": ("{run}/record.json", collect, None),
    "history in runs.csv": ("{run}/history.csv", collect, RECORD),
    "history in curves": ("{run}/history.csv", table("history"), RECORD),
    "trajectory": (TRAJECTORY, evaluations, EVALUATED_RECORD),
    "measure": ("{run}/evaluate/default.json", collect, None),
    "measure of layers": ("{run}/weight_distance/*.json", table("layers"), None),
    "times": ("timing/local/*/time_epoch/*.json", collect, None),
    "surfaces": ("{run}/landscape/*.npz", table("landscapes"), None),
    "line": ("{run}/line_to/*/*.json", table("lines"), None),
    "updates": ("{run}/updates.npz", displaced, RECORD),
    "weights": ("{run}/final.npz", final, RECORD),
    "snapshot": ("{run}/epochs/2.npz", weights, None),
    "data": (f"data/{DATASET}/record.json", load, None),
    "images": (f"data/{DATASET}/train_images.npy", load, f"data/{DATASET}"),
    "labels": (f"data/{DATASET}/test_labels.npy", load, f"data/{DATASET}"),
    "table": ("studies/runs.csv", tabled, None),
    "figures": ("figures/figures.json", reported, "figures"),
    "image": ("figures/a.svg", reported, "figures"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    results = tmp_path_factory.mktemp("whole")
    study = synthetic.study(synthetic.grid(batch_sizes=(16, 64), seeds=(0,)))
    synthetic.write(results, study)
    synthetic.write(results, synthetic.study([EVALUATED]))
    used = [
        {name: 1.0 for name in records.trajectory_columns("classification")}
        | {"examples": count, "updates": updates}
        for count, updates in ((512, 32), (1024, 64), (1149, 72))
    ]
    disk.write_rows(results / TRAJECTORY, records.trajectory_columns("classification"), used)
    datasets.prepare(DATASET, dataset_definitions.resolve({"source": "digits"}), results)
    run = next(iter(study.experiments["gap"].runs))
    folder = paths.run_folder(results, run)
    for name, value in (("initial", 0.0), ("final", 1.0), ("epochs/2", 0.5)):
        kernel = np.full((8, 8), value, np.float32)
        records.write_weights(folder / f"{name}.npz", {"dense/kernel": kernel}, {})
    disk.write_arrays(folder / "updates.npz", {"update_norms": np.ones(50, np.float32)})
    for run_folder in results.glob("runs/*"):
        synthetic.write_sha256(run_folder)
    csv_tables.write(
        run_table.from_records(results, study, "gap"), results / "studies" / "runs.csv"
    )
    figure = {"name": "a", "title": "A", "caption": "A."}
    disk.write_text(results / "figures" / "figures.json", f"[{figure}]".replace("'", '"'))
    disk.write_text(results / "figures" / "a.svg", '<svg viewBox="0 0 9 9"><g/><g/></svg>')
    return results, study, run


def test_whole_files_are_read(whole):
    for name, (_, read, _) in FILES.items():
        assert len(read(*whole)) > 0, name


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *itertools.product(FILES, DAMAGES),
        *itertools.product(("history in runs.csv", "history in curves", "trajectory"), OF_TABLES),
        *((kind, flip(share / 10)) for kind in BINARY for share in range(10)),
    ],
)
def test_a_damaged_file_is_named_with_its_fix(whole, kind, damage):
    results, study, run = whole
    pattern, read, delete = FILES[kind]
    folder = paths.run_folder(results, run).relative_to(results)
    (path, *_) = sorted(results.glob(pattern.format(run=folder)))
    report_inputs = path.read_bytes()
    damaged = (
        damage(report_inputs)
        if callable(damage)
        else {**DAMAGES, **OF_TABLES}[damage](report_inputs)
    )
    assert damaged != report_inputs
    path.write_bytes(damaged)
    try:
        with pytest.raises(UserError) as caught:
            read(results, study, run)
    finally:
        path.write_bytes(report_inputs)
    message = str(caught.value)
    received = "an empty file" if not damaged else "a damaged file ("
    assert message.startswith(f"{path}: received {received}") and "\n" not in message
    delete = results / delete.format(run=folder) if delete else "it"
    assert message.endswith(f" is expected. Delete {delete} and run snakemake again.")


def test_a_missing_file_is_made_or_named_with_what_to_delete(tmp_path):
    for delete, mend in ((None, "to make it"), (tmp_path, f"delete {tmp_path}")):
        with pytest.raises(UserError, match=rf"a\.json: missing; .*{mend}"):
            disk.read_csv(tmp_path / "a.json", path_to_delete=delete)


@pytest.mark.parametrize("error", [OSError(errno.EINVAL, "Invalid"), OSError("truncated")])
def test_an_error_that_a_damaged_archive_leads_to_is_of_its_content(error):
    assert errors.is_content_error(error) and not errors.is_content_error(
        PermissionError(13, "Denied")
    )
    with (
        pytest.raises(errors.DamagedFileError, match="a damaged file"),
        errors.reading("a.npz", "an npz"),
    ):
        raise error
    with pytest.raises(MemoryError), errors.reading("a.npz", "an npz"):
        raise MemoryError
