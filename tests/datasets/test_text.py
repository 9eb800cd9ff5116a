"""A text as windows of characters, each with its next characters."""

import numpy as np

from batchscope.datasets.sources import text as texts
from prepared_data import read

SPLIT = {"train": 0.5, "validation": 0.25, "test": 0.25}


def text(tmp_path, content, **options):
    (tmp_path / "own.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    path = str(tmp_path / "own.txt")
    return {"source": "text", "path": path, "length": 4, "split": SPLIT, **options}


def test_windows_by_hand():
    result, following = texts.windows(np.arange(10), 3)
    assert result.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert following.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    result, following = texts.windows(np.arange(9), 3)  # the ninth is a label alone
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert following[-1].tolist() == [4, 5, 6]


def test_no_window_lies_in_two_parts(tmp_path):
    """Every character is of its own kind: a character says where in the text it stood."""
    letters = "".join(chr(0x4E00 + index) for index in range(200))
    data = read(tmp_path, text(tmp_path, letters))
    ends = {"train": (0, 100), "validation": (100, 150), "test": (150, 200)}
    for split, (start, stop) in ends.items():
        result, labels = data.images(split), data.labels(split)
        assert result.dtype == labels.dtype == np.int32
        assert result.shape == labels.shape == ((stop - start - 1) // 4, 4)
        assert (labels == result + 1).all()
        assert start <= result.min() and labels.max() < stop
        assert len(np.unique(result)) == result.size
    assert data.model_input[:4] == ((4,), 200, "tokens", 1) and data.scale == 1.0
    assert data.record["class_names"] == list(letters)
    assert not data.record["class_counts"]


def test_control_characters_of_a_text_stay_its_classes(tmp_path):
    data = read(tmp_path, text(tmp_path, "a\tb\nc\x07" * 20))
    assert data.record["class_names"] == ["\x07", "\t", "\n", "a", "b", "c"]
