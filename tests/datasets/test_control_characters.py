"""Names in users' files: control characters reach neither a record nor the terminal."""

from prepared_data import SPLIT, csv, image_files, prepared

HOSTILE, SHOWN = "\x1b]0;owned\x07x", r"\x1b]0;owned\x07x"


def test_columns_categories_and_classes_of_a_table(tmp_path):
    words, classes = ("a", HOSTILE), ("b", HOSTILE)
    rows = [f"{row % 7},{words[row % 3 == 0]},{classes[row % 2]}" for row in range(60)]
    text = "\n".join([f"{HOSTILE},word,y", *rows])
    record = prepared(tmp_path, csv(tmp_path, text, label="y")).record
    assert record["class_names"] == [SHOWN, "b"]
    assert record["feature_names"][0] == SHOWN and record["categories"]["word"] == [SHOWN, "a"]


def test_classes_and_skipped_files_of_a_folder(tmp_path):
    content = {HOSTILE: 8, "b": 8, f"b/{HOSTILE}.png": b"no image"}
    path = str(image_files(tmp_path / "own", content))
    definition = {"source": "image_folder", "path": path, "image_size": 4, "split": SPLIT}
    record = prepared(tmp_path, definition).record
    assert record["class_names"] == [SHOWN, "b"]
    assert record["skipped"][0]["file"].endswith(f"{SHOWN}.png")
