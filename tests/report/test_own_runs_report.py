"""From a table of one's own trainings to text, table and figure, through the door."""

import contextlib
import csv
import io
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas
import pytest
from PIL import Image

import made_trainings
import run
from batchscope.analysis import critical_batch_size, to_target_tables, updates_to_target
from batchscope.catalogue import decision_columns
from batchscope.report import own_runs
from project import ROOT

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
    """The door, called in this process, leaves its signals alone."""
    monkeypatch.setattr(run, "_end_with_the_reader", lambda: None)


@pytest.fixture(scope="module")
def from_a_shell(tmp_path_factory):
    """Output and folder of one call, in a process of its own that gets by without TensorFlow."""
    folder = tmp_path_factory.mktemp("own")
    table().to_csv(folder / "own.csv", index=False)
    words = [
        *("critical_batch_size", folder / "own.csv", "--target", "validation_loss=0.2"),
        *("--target", "validation_loss=1e-3", "--output", folder / "out"),
    ]
    code = (
        "import sys; sys.path.insert(0, 'workflow'); import run; run.main(sys.argv[1:]);"
        "assert not {'tensorflow', 'keras'} & {*sys.modules}"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder / "out"


def test_the_text_has_the_numbers(from_a_shell):
    text = from_a_shell[0]
    titles = re.findall(r"^(\w+, validation_loss=\S+)$", text, re.M)
    assert titles[:2] == ["small, validation_loss=0.2", "small, validation_loss=0.001"]
    assert len(titles) == 4
    first, wide = text.split("\n\n")[0], text.split("\n\n")[2]
    value, low, high = re.search(r"B_crit ([\d.]+) \[([\d.]+), ([\d.]+)\] \(95 %", first).groups()
    assert float(low) < 40 < float(high) and float(value) == pytest.approx(40, rel=0.05)
    base, twenty = re.search(r"batch size (\d+) \(B_20\): ([\d.]+)", first).groups()
    assert float(twenty) == pytest.approx(0.2 * float(value) + 1.2 * int(base), rel=0.01)
    assert "a step takes 2 ms + 0.1 ms per example (B_half 20)" in first
    best = float(re.search(r"closed form: B\* ([\d.]+) ", first)[1])
    assert best == pytest.approx(math.sqrt(40 * 20), rel=0.03)
    assert re.search(r"^ +8 .* perfect scaling$", wide, re.M)
    assert re.search(r"^ +256 .* 3/3 \[0.29, 1.00\]  diminishing returns$", wide, re.M)
    assert "fastest as measured: 32" in first


def test_the_table(from_a_shell):
    rows = rows_of(from_a_shell[1])
    assert tuple(rows[0]) == ("model", *decision_columns.CRITICAL)
    assert [row["model"] for row in rows] == ["small", "small", "wide", "wide"]
    assert rows[0]["target"] == "validation_loss=0.2" and rows[0]["points"] == "6"
    for row in rows:
        ends = [float(row[f"critical_batch_size{end}"]) for end in ("_low", "", "_high")]
        assert ends == sorted(ends)
        product = float(row["updates_min"]) * float(row["critical_batch_size"])
        assert product == pytest.approx(float(row["examples_min"]))


def test_the_figure(from_a_shell):
    root = ElementTree.parse(from_a_shell[1] / "critical_batch_size.svg").getroot()
    assert root.find("{http://www.w3.org/2000/svg}title").text == own_runs.TITLE
    with Image.open(from_a_shell[1] / "critical_batch_size.png") as image:
        assert image.width > 700 and np.asarray(image.convert("L")).std() > 5


def test_what_never_reached_is_reported_and_not_fitted(tmp_path):
    frame = table(models=("small",), never=[(8, 1)], seconds=False)
    frame.to_csv(tmp_path / "own.csv", index=False)
    output = door(tmp_path / "own.csv", "--target", "validation_loss=0.2")
    assert "points 5," in output and "(B_20)" in output
    assert re.search(r"^ +8 .* 2/3 \[0.09, 0.99\]", output, re.M)
    assert "seconds" not in output
    stated = door(
        *(tmp_path / "own.csv", "--target", "validation_loss=0.2"),
        *("--step-seconds", "0.004,0.0001"),
    )
    assert "a step takes 4 ms + 0.1 ms per example (B_half 40)" in stated
    few = door(tmp_path / "own.csv", "--target", "validation_loss=1e-80")
    assert "0 batch sizes reach the target with every seed; a fit needs 3" in few
    assert re.search(r"^ +256 +never +never  0/3", few, re.M)


def test_sizes_without_a_seed_in_common_have_no_fastest(tmp_path):
    frame = table(models=("small",))
    frame["seed"] += 10 * frame["batch_size"]
    frame.to_csv(tmp_path / "own.csv", index=False)
    output = door(tmp_path / "own.csv", "--target", "validation_loss=0.2")
    text = "no fastest as measured: the batch sizes that reached the target share no seed"
    assert text in output


def test_rates_that_were_tried_are_chosen(tmp_path):
    """trajectories.csv of an experiment that crosses learning rates with batch sizes."""
    trajectories, _ = made_trainings.tables(rates=(0.1, 0.2, 0.8))
    trajectories.to_csv(tmp_path / "trajectories.csv", index=False)
    text = door(
        *(tmp_path / "trajectories.csv", "--target", "validation_loss=0.2"),
        *("--output", tmp_path / "out"),
    )
    assert "validation_loss=0.2\n  learning rate chosen of 0.1, 0.2 and 0.8: 0.2 at 8, 16," in text
    assert "each seed is read at the rate that the other seeds choose" in text
    assert "Not chosen, as a run diverged: 0.8 at 8, 16, 32, 64 and 128" in text
    assert "edge:" not in text and "B_crit 40 [40, 40]" in text
    assert text.count("B_crit 40") == 1  # one series
    (row,) = rows_of(tmp_path / "out")
    assert float(row["critical_batch_size"]) == pytest.approx(40)
    edges, _ = made_trainings.tables(rates=(0.1, 0.2), seeds=(0,))
    edges.to_csv(tmp_path / "edges.csv", index=False)
    text = door(tmp_path / "edges.csv", "--target", "validation_loss=0.2")
    assert "0.2 at 8, 16, 32, 64 and 128 (edge)" in text and "  edge: the lowest or highest" in text
    assert "one seed: read at the rate that it chooses itself, which flatters it" in text


def test_bad_files_end_in_their_message(tmp_path):
    (tmp_path / "own.csv").write_text("batch_size,seed,updates\n8,0,ten\n")
    with pytest.raises(SystemExit) as ended:
        door(tmp_path / "own.csv")
    message = ended.value.code
    assert message.startswith(f"{tmp_path / 'own.csv'}, line 2, updates: received 'ten'; ")
    assert "Traceback" not in message


def test_open_ends_and_bends_in_words():
    sizes = 2.0 ** np.arange(8)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.05, 8))

    def words(updates):
        return to_target_tables.critical_text(critical_batch_size.fit(sizes, updates))

    assert re.fullmatch(r"B_crit [\d.]+ \[[\d.]+, [\d.]+\]", words(100 * (1 + 20 / sizes) * noise))
    assert re.search(r", at least [\d.]+$", words(100 * (1 + 50_000 / sizes) * noise))
    assert re.search(r", at most [\d.]+$", words(100 * (1 + 0.05 / sizes) * noise))
    assert words(1e4 / sizes).startswith("B_crit beyond these sizes, at least ")
    rows = pandas.DataFrame(
        {"batch_size": sizes, "seed": 0, "updates": 100 * (1 + 20 / sizes**0.6)}
    )
    rows = rows.assign(examples=rows["updates"] * rows["batch_size"])
    found = updates_to_target.scalings(rows)
    assert "lack of fit (" in own_runs.text(found)
    assert to_target_tables.fits(found)["lack_of_fit"][0]


@pytest.mark.parametrize("source", ["tensorboard", "weights_and_biases"])
def test_the_example_of_the_page_converts_exports(tmp_path, monkeypatch, source):
    page = (ROOT / "docs" / "own_runs.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(example.strip().splitlines()) <= 11
    (tmp_path / "exports").mkdir()
    for (size, seed), rows in table(models=("small",)).groupby(["batch_size", "seed"]):
        name, step, loss = f"bs{size}_seed{seed}", rows["updates"], rows["validation_loss"]
        if source == "tensorboard":
            export = {"Wall time": 1.7e9 + rows["seconds"], "Step": step, "Value": loss}
        else:
            column = f"{name} - validation_loss"
            export = {"Step": step, column: loss}
            export |= {f"{column}__MIN": loss, f"{column}__MAX": loss}
        pandas.DataFrame(export).to_csv(tmp_path / "exports" / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    output = door("own_runs.csv", "--target", "validation_loss=0.2")
    value = float(re.search(r"B_crit ([\d.]+) ", output)[1])
    assert value == pytest.approx(40, rel=0.05)
