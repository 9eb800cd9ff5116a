"""A text as windows of characters, each with its next characters."""

import numpy as np

from prepared_data import read


def test_no_window_lies_in_two_parts(tmp_path):
    """Every character is of its own kind: a character says where in the text it stood.

    The first is a control character. The 49th of a part of 49 is a label alone.
    """
    letters = "\x07" + "".join(chr(0x4E00 + index) for index in range(195))
    (tmp_path / "own.txt").write_text(letters, encoding="utf-8")
    split = {"train": 0.5, "validation": 0.25, "test": 0.25}
    own = {"source": "text", "path": str(tmp_path / "own.txt"), "length": 4, "split": split}
    data = read(tmp_path, own)
    ends = {"train": (0, 98), "validation": (98, 147), "test": (147, 196)}
    for split, (start, stop) in ends.items():
        result, labels = data.images(split), data.labels(split)
        assert result.dtype == labels.dtype == np.int32
        assert result.shape == labels.shape == ((stop - start - 1) // 4, 4)
        assert (labels == result + 1).all()
        assert start <= result.min() and labels.max() < stop
        assert len(np.unique(result)) == result.size
    assert data.model_input[:4] == ((4,), 196, "tokens", 1) and data.scale == 1.0
    assert data.record["class_names"] == list(letters)
    assert not data.record["class_counts"]
