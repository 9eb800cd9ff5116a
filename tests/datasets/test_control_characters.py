"""Names in users' files: control characters reach neither a record nor the terminal."""

import pytest
from PIL import Image

from batchscope import datasets
from batchscope.study import dataset_definitions
from prepared_data import SPLIT, prepared

HOSTILE, SHOWN = "\x1b]0;owned\x07x", r"\x1b]0;owned\x07x"
TABLE = {"source": "csv", "path": "own.csv", "split": SPLIT, "label": "y"}


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{row % 7},{'a' if row % 3 else HOSTILE},{('b', HOSTILE)[row % 2]}" for row in range(60)
    ]
    (tmp_path / "own.csv").write_text("\n".join([f"{HOSTILE},word,y", *rows]))
    return tmp_path


def test_columns_categories_and_classes_of_a_table(table):
    record = prepared(table, TABLE).record
    assert record["class_names"] == [SHOWN, "b"]
    assert record["feature_names"][0] == SHOWN and record["categories"]["word"] == [SHOWN, "a"]


@pytest.fixture
def folder(tmp_path):
    for name in (HOSTILE, "b"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (4, 4)).save(tmp_path / "own" / name / f"{number}.png")
    return tmp_path


def definition_of(folder):
    path = str(folder / "own")
    return {"source": "image_folder", "path": path, "image_size": 4, "split": SPLIT}


def test_classes_and_skipped_files_of_a_folder(folder):
    (folder / "own" / "b" / f"{HOSTILE}.png").write_text("no image")
    record = prepared(folder, definition_of(folder)).record
    assert record["class_names"] == [SHOWN, "b"]
    assert record["skipped"][0]["file"].endswith(f"{SHOWN}.png")


def test_the_classes_of_a_text_stay_its_characters(tmp_path):
    (tmp_path / "own.txt").write_text("a\tb\nc\x07" * 200)
    definition = {"source": "text", "path": str(tmp_path / "own.txt"), "length": 8}
    token = dataset_definitions.token("own", definition)
    datasets.prepare(token, definition, tmp_path / "results")
    names = datasets.load(tmp_path / "results", token).record["class_names"]
    assert names == ["\x07", "\t", "\n", "a", "b", "c"]
