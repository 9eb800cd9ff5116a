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
from batchscope.measures.measure_job import FinishedRun
from batchscope.report import page_figures
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


EVALUATED = synthetic.grid([16], [0], evaluate_every=500, epochs=1)[0]
TRAJECTORY, TABLE = f"runs/{EVALUATED}/trajectory.csv", "studies/runs.csv"
RECORD, EVALUATED_RECORD = "{run}/record.json", f"runs/{EVALUATED}/record.json"


def collect(results, study, run):
    return run_table.from_records(results, study, "gap")


def load(results, study, run):
    return datasets.load(results, DATASET).images("train")


def reported(results, study, run):
    return page_figures.read(results / "figures")


def made(table):
    return lambda results, study, run: synthetic.made(table, results, study)


def weights(which):
    return lambda results, study, run: FinishedRun(results, run).weights(which)


def evaluations(results, study, run):
    return long_tables._trajectory_rows(results, EVALUATED, names.parse_run(EVALUATED))


def displaced(results, study, run):
    return displacement.measure_run(FinishedRun(results, run), {}).values


# Kind of file -> its path below results (a run's below its folder), the function that reads it, and
# the path to delete if that is not the file.
FILES = {
    "run": (RECORD, collect, None),
    "history in runs.csv": ("{run}/history.csv", collect, RECORD),
    "history in curves": ("{run}/history.csv", made("history"), RECORD),
    "trajectory": (TRAJECTORY, evaluations, EVALUATED_RECORD),
    "measure": ("{run}/evaluate/default.json", collect, None),
    "surfaces": ("{run}/landscape/*.npz", made("landscapes"), None),
    "updates": ("{run}/updates.npz", displaced, RECORD),
    "weights": ("{run}/final.npz", weights("final"), RECORD),
    "snapshot": ("{run}/epochs/2.npz", weights("epochs/2"), None),
    "data": (f"data/{DATASET}/record.json", load, None),
    "images": (f"data/{DATASET}/train_images.npy", load, f"data/{DATASET}"),
    "table": (TABLE, lambda results, *_: csv_tables.read(results / TABLE), None),
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
    datasets.prepare(DATASET, dataset_definitions.read({"source": "digits"}).resolved(), results)
    run = next(iter(study.experiments["gap"].runs))
    folder = paths.run_folder(results, run)
    for name, value in (("initial", 0.0), ("final", 1.0), ("epochs/2", 0.5)):
        kernel = np.full((8, 8), value, np.float32)
        records.write_weights(folder / f"{name}.npz", {"dense/kernel": kernel}, {})
    disk.write_arrays(folder / "updates.npz", {"update_norms": np.ones(50, np.float32)})
    for run_folder in results.glob("runs/*"):
        synthetic.write_sha256(run_folder)
    csv_tables.write(collect(results, study, run), results / TABLE)
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
        *itertools.product(("history in curves", "trajectory"), OF_TABLES),
        *((kind, flip(share / 10)) for kind in BINARY for share in range(0, 10, 3)),
    ],
)
def test_a_damaged_file_is_named_with_its_fix(whole, kind, damage):
    results, study, run = whole
    pattern, read, delete = FILES[kind]
    folder = paths.run_folder(results, run).relative_to(results)
    (path, *_) = sorted(results.glob(pattern.format(run=folder)))
    content = path.read_bytes()
    damaged = ({**DAMAGES, **OF_TABLES}.get(damage) or damage)(content)
    assert damaged != content
    path.write_bytes(damaged)
    try:
        with pytest.raises(UserError) as caught:
            read(results, study, run)
    finally:
        path.write_bytes(content)
    message = str(caught.value)
    received = "an empty file" if not damaged else "a damaged file ("
    assert message.startswith(f"{path}: received {received}") and "\n" not in message
    delete = results / delete.format(run=folder) if delete else "it"
    assert message.endswith(f" is expected. Delete {delete} and run snakemake again.")


@pytest.mark.parametrize("delete", [None, "."])
def test_a_missing_file_is_named_with_the_path_to_delete(tmp_path, delete):
    with pytest.raises(UserError, match=r"a\.csv: missing; ") as raised:
        disk.read_csv_text(tmp_path / "a.csv", path_to_delete=delete and tmp_path)
    assert (f"delete {tmp_path} and" in str(raised.value)) == bool(delete)


@pytest.mark.parametrize("error", [OSError(errno.EINVAL, "Invalid"), OSError("truncated")])
def test_an_error_that_a_damaged_archive_leads_to_is_of_its_content(error):
    assert errors.is_content_error(error)
    assert not errors.is_content_error(PermissionError(13, "Denied"))
    with pytest.raises(errors.DamagedFileError), errors.reading("a.npz", "an npz"):
        raise error
    with pytest.raises(MemoryError), errors.reading("a.npz", "an npz"):
        raise MemoryError
