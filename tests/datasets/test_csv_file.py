"""The user's own table: features and classes."""

import numpy as np
import pytest
from test_arrays import LABELS, ROWS

from batchscope.datasets import table_file
from batchscope.datasets.raw import Request
from batchscope.store import paths
from batchscope.study import dataset_definitions
from prepared_data import SPLIT, csv, fault, npz, prepared


def table(line="{0},{1},{2},{label}", head="a,b,c,class", words=("no", "yes")):
    lines = [
        line.format(*map(repr, map(float, row)), label=words[label])
        for row, label in zip(ROWS, LABELS, strict=True)
    ]
    return "\n".join([head, *lines] if head else lines) + "\n"


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    return prepared(folder, npz(folder, {"inputs": ROWS, "labels": LABELS}))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (table(), {}),
        (table(head=""), {}),
        (table(words=("9", "10")), {"label": "class"}),
        (table(line="x,{0},{1},{label},{2}", head="2,a,b,c,d"), {"label": "c", "ignore": [2]}),
        (table(head=" a , b , c , class "), {"label": "class "}),
        (table(line="{0},{1},{2},{label}", head="0,1,2,3"), {}),
    ],
)
def test_a_table_is_what_its_arrays_are(text, options, arrays, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, text, **options))
    for key in ("feature_means", "feature_deviations"):
        assert data.record[key] == arrays.record[key]
    for split in paths.SPLITS:
        assert data.images(split).tobytes() == arrays.images(split).tobytes()
        assert data.labels(split).tolist() == arrays.labels(split).tolist()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("100000000000000001", "100000000000000002"), None),
        (("11", "1_1"), None),
        (("07", "1e3"), ["7", "1000"]),
    ],
)
def test_no_two_labels_become_one_class(words, names, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, table(words=words)))
    assert data.record["class_names"] == (names or list(words))


def test_a_column_without_values_in_the_training_part_is_refused(tmp_path):
    """A median of no values would be NaN."""
    lines = table().splitlines()
    for row in range(3, 41):
        cells = lines[row].split(",")
        lines[row] = ",".join([*cells[:1], "", *cells[2:]])
    definition = csv(tmp_path, "\n".join(lines), missing="median")
    drawn, left_out = ({**definition, "split": {**SPLIT, "seed": seed}} for seed in (0, 1))
    assert np.isfinite(prepared(tmp_path, drawn).images("train")).all()
    assert "no value of b to train on" in fault(tmp_path, left_out)


def test_names_above_numbers_are_names_if_words_are_features(tmp_path):
    lines = table(head="", words=("0", "1")).splitlines()
    rows = [f"{'ab'[row % 2]},{line.partition(',')[2]}" for row, line in enumerate(lines)]
    text = "\n".join(["region,2019,2020,y", *rows])
    data = prepared(tmp_path, csv(tmp_path, text))
    assert sum(data.record["counts"].values()) == 40 and data.record["class_names"] == ["0", "1"]


@pytest.mark.parametrize(
    ("decimal", "separator", "keys"),
    [
        (".", ",", {}),
        (",", ";", {"separator": ";", "decimal": ","}),
        (",", "\t", {"separator": "\t", "decimal": ","}),
    ],
)
def test_separator_and_decimal_are_detected(decimal, separator, keys, tmp_path):
    lines = table().replace(",", separator).replace(".", decimal)
    definition = csv(tmp_path, lines, **keys)
    assert table_file.find_dialect(tmp_path / "own.csv") == keys
    request = Request("", definition, tmp_path, tmp_path)
    assert dataset_definitions.read(definition).read(request).images.to_numpy() == pytest.approx(
        ROWS
    )
