"""From a table of one's own trainings to text, table and figure, through the door."""

import contextlib
import csv
import io
import math
import re
import signal
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas
import pytest
from PIL import Image

import made_trainings
import run
from batchscope.report import external_runs
from batchscope.study import decision_columns

SIZES = (8, 16, 32, 64, 128, 256)


def table(models=("small", "wide"), never=(), seconds=True):
    """Trainings of known B_crit, 40 and 160, whose loss is straight in its logarithm."""
    rng, rows = np.random.default_rng(0), []
    for model, critical in zip(("small", "wide"), (40.0, 160.0), strict=True):
        for size in SIZES:
            for seed in range(3):
                scale = 10 * (1 + critical / size) * math.exp(rng.normal(0, 0.02))
                for updates in range(0, 1201, 10):
                    loss = 2 * math.exp(-updates / scale)
                    loss = 1.5 if (size, seed) in never else loss
                    row = {"model": model, "batch_size": size, "seed": seed, "updates": updates}
                    took = {"seconds": updates * (0.002 + 1e-4 * size)} if seconds else {}
                    rows.append({**row, **took, "validation_loss": loss})
    frame = pandas.DataFrame(rows)
    return frame[frame["model"].isin(models)]


def door(*words):
    """Returns what a call of the door prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run.main(["critical_batch_size", *map(str, words)])
    return printed.getvalue()


def rows_of(folder):
    """Returns the rows of the table that a call wrote."""
    return list(csv.DictReader((folder / "critical_batch_size.csv").read_text().splitlines()))


@pytest.fixture(autouse=True)
def same_signals(monkeypatch):
    """The command line, called in this process, leaves its signals alone."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Output and folder of one call."""
    folder = tmp_path_factory.mktemp("own")
    table().to_csv(folder / "own.csv", index=False)
    targets = ("--target", "validation_loss=0.2", "--target", "validation_loss=1e-3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        return door(folder / "own.csv", *targets, "--output", folder / "out"), folder / "out"


def test_the_text_has_the_numbers(printed):
    blocks = printed[0].split("\n\n")
    first, wide = blocks[0], blocks[2]
    assert [each.splitlines()[0] for each in blocks[:2]] == [
        *("small, validation_loss=0.2", "small, validation_loss=0.001")
    ]
    value, low, high = re.search(r"B_crit ([\d.]+) \[([\d.]+), ([\d.]+)\]", first).groups()
    assert float(low) < 40 < float(high) and float(value) == pytest.approx(40, rel=0.05)
    base, twenty = re.search(r"(\d+) \(B_20\): ([\d.]+)", first).groups()
    assert base == "256"
    assert float(twenty) == pytest.approx(0.2 * float(value) + 1.2 * 256, rel=0.01)
    assert "B_half 20" in first
    best = float(re.search(r"B\* ([\d.]+) ", first)[1])
    assert best == pytest.approx(math.sqrt(40 * 20), rel=0.03)
    assert re.search(r"^ +8 .* perfect scaling$", wide, re.M)
    assert re.search(r"^ +256 .* 3/3 \[0.29, 1.00\]  diminishing returns$", wide, re.M)
    assert re.search(r"measured: 32;.* 64: 1\.\d+ \[", first)


def test_the_table_and_the_figure(printed):
    rows = rows_of(printed[1])
    assert tuple(rows[0]) == ("model", *decision_columns.CRITICAL)
    assert [row["model"] for row in rows] == ["small", "small", "wide", "wide"]
    assert rows[0]["target"] == "validation_loss=0.2" and rows[0]["points"] == "6"
    root = ElementTree.parse(printed[1] / "critical_batch_size.svg").getroot()
    assert root.find("{http://www.w3.org/2000/svg}title").text == external_runs.TITLE
    with Image.open(printed[1] / "critical_batch_size.png") as image:
        assert image.width > 700 and np.asarray(image.convert("L")).std() > 5


def test_what_never_reached_is_reported_and_not_fitted(tmp_path):
    frame = table(models=("small",), never=[(8, 1)], seconds=False)
    frame.to_csv(tmp_path / "own.csv", index=False)
    given = (tmp_path / "own.csv", "--target", "validation_loss=0.2")
    output = door(*given, "--base", 16)
    assert "points 5," in output and "16 (B_20)" in output
    assert re.search(r"^ +8 .* 2/3 \[0.09, 0.99\]", output, re.M)
    assert "seconds" not in output
    assert "B_half 40" in door(*given, "--step-seconds", "0.004,0.0001")
    few = door(tmp_path / "own.csv", "--target", "validation_loss=1e-80")
    assert "no fit" in few and re.search(r"^ +256 +never +never  0/3", few, re.M)


def test_rates_that_were_tried_are_chosen(tmp_path):
    """trajectories.csv of an experiment that crosses learning rates with batch sizes."""
    trajectories, _ = made_trainings.tables(rates=(0.1, 0.2, 0.8))
    trajectories.to_csv(tmp_path / "own.csv", index=False)
    given = (tmp_path / "own.csv", "--target", "validation_loss=0.2", "--output", tmp_path / "out")
    text = door(*given)
    assert "0.1, 0.2 and 0.8: 0.2 at 8, 16, 32, 64 and 128" in text
    assert "0.8 at 8, 16, 32, 64 and 128" in text and text.count("B_crit 40") == 1  # one series
    (row,) = rows_of(tmp_path / "out")
    assert float(row["critical_batch_size"]) == pytest.approx(40)
    edges, _ = made_trainings.tables(rates=(0.1, 0.2), seeds=(0,))
    edges.to_csv(tmp_path / "own.csv", index=False)
    assert "0.2 at 8, 16, 32, 64 and 128 (edge)" in door(*given)


@pytest.mark.parametrize("source", ["tensorboard", "weights_and_biases"])
def test_exports_are_imported(tmp_path, source):
    runs = table(models=("small",)).groupby(["batch_size", "seed"])
    given = ["--columns", "validation_loss=Value"] if source == "tensorboard" else []
    chart = pandas.DataFrame({"Step": range(0, 1201, 10)})
    for (size, seed), rows in runs:
        name, loss = f"bs{size}_seed{seed}", rows["validation_loss"].to_numpy()
        export = {"Wall time": 1.7e9 + rows["seconds"], "Step": rows["updates"], "Value": loss}
        pandas.DataFrame(export).to_csv(tmp_path / f"{name}.csv", index=False)
        column = f"{name} - validation_loss"
        chart = chart.assign(**{column: loss, f"{column}__MIN": loss, f"{column}__MAX": loss})
    files = sorted(tmp_path.glob("bs*.csv"))
    if source == "weights_and_biases":
        files = [tmp_path / "chart.csv"]
        chart.to_csv(files[0], index=False)
    words = ["import", *map(str, files), "-o", str(tmp_path / "own_runs.csv"), *given]
    pattern = "bs{batch_size}_seed{seed}"
    pattern = f"{pattern}.csv" if len(files) > 1 else f"run: {pattern}"
    with contextlib.redirect_stdout(io.StringIO()):
        run.main([*words, "--pattern", pattern])
    output = door(tmp_path / "own_runs.csv", "--target", "validation_loss=0.2")
    value = float(re.search(r"B_crit ([\d.]+) ", output)[1])
    assert value == pytest.approx(40, rel=0.05)
