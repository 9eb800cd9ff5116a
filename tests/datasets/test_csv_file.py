"""The user's own table: what is a feature, and what a class."""

import numpy as np
import pytest
from test_arrays import LABELS, ROWS, npz

from batchscope.datasets import tables
from batchscope.datasets.raw import Request
from batchscope.errors import UserError
from batchscope.store import paths
from prepared_data import SPLIT, fault, prepared


def csv(tmp_path, text, **more):
    (tmp_path / "own.csv").write_text(text)
    return {"source": "csv", "path": str(tmp_path / "own.csv"), "split": SPLIT, **more}


def table(line="{0},{1},{2},{label}", head="a,b,c,class", words=("no", "yes")):
    lines = [
        line.format(*map(repr, map(float, row)), label=words[label])
        for row, label in zip(ROWS, LABELS, strict=True)
    ]
    return "\n".join([head, *lines] if head else lines) + "\n"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (table(), {}),
        (table(head=""), {}),
        (table(words=("9", "10")), {"label": "class"}),
        (table(line="{label};{0};{1};{2}", head="class;a;b;c"), {"label": "class"}),
        (table(line="x,{0},{1},{label},{2}", head="2,a,b,c,d"), {"label": "4", "ignore": ["2"]}),
        (table(line='{0},{1},{2},"{label}"', head='"a","b","c","class"') + "\n\n", {}),
        (table(line='{0};{1};{2};"{label}"', head='"a, m";"b, m";"c, m";class'), {}),
        (table(head=" a , b , c , class "), {"label": "class "}),
        (table(line="{0},{1},{2},{label}", head="0,1,2,3"), {}),
    ],
)
def test_a_table_is_what_its_arrays_are(text, more, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, text, **more))
    plain = prepared(tmp_path, npz(tmp_path, {"inputs": ROWS, "labels": LABELS}))
    for key in ("feature_means", "feature_deviations"):
        assert data.record[key] == plain.record[key]
    for split in paths.SPLITS:
        assert data.images(split).tobytes() == plain.images(split).tobytes()
        assert data.labels(split).tolist() == plain.labels(split).tolist()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("100000000000000001", "100000000000000002"), None),
        (("11", "1_1"), None),
        (("1", "nan"), None),
        (("07", "1e3"), ["7", "1000"]),
    ],
)
def test_no_two_labels_become_one_class(words, names, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, table(words=words)))
    assert data.record["class_names"] == (names or list(words))


@pytest.mark.parametrize("word", ["NaN", "?"])
def test_a_missing_number_is_no_class(word, tmp_path):
    lines = table(words=("0", "1")).splitlines()
    lines += [line.rpartition(",")[0] + f",{word}" for line in lines[1:4]]
    data = prepared(tmp_path, csv(tmp_path, "\n".join(lines), missing="drop"))
    assert data.record["class_names"] == ["0", "1"] and data.record["dropped"] == 3
    rates = [line.rpartition(",")[0] + f",{at / 8}" for at, line in enumerate(lines[1:])]
    found = prepared(
        tmp_path, csv(tmp_path, "\n".join([lines[0], *rates, *lines[-3:]]), missing="drop")
    )
    assert found.task == "regression"


def test_a_column_that_the_training_part_lacks_is_told(tmp_path):
    """Its median would be none, and each example one of NaN."""
    lines = table().splitlines()
    for row in range(2, 41):
        cells = lines[row].split(",")
        lines[row] = ",".join([*cells[:1], "", *cells[2:]])
    for seed in range(6):
        own = csv(tmp_path, "\n".join(lines), missing="median")
        own["split"] = {**SPLIT, "seed": seed}
        try:
            data = prepared(tmp_path, own)
        except UserError as error:
            assert "no value of b to train on" in str(error) and "ignore: [b]" in str(error)
        else:
            assert np.isfinite(data.images("train")).all()


def test_names_above_numbers_are_names_where_words_are_features(tmp_path):
    lines = table(head="", words=("0", "1")).splitlines()
    rows = [f"{'ab'[at % 2]},{line.partition(',')[2]}" for at, line in enumerate(lines)]
    text = "\n".join(["region,2019,2020,y", *rows])
    data = prepared(tmp_path, csv(tmp_path, text, categorical="auto"))
    assert sum(data.record["counts"].values()) == 40 and data.record["class_names"] == ["0", "1"]


def test_a_row_behind_a_blank_line_is_not_lost(tmp_path):
    lines = table().splitlines()
    text = "\n".join([*lines[:5], '""', *lines[5:]])
    assert "received" in fault(tmp_path, csv(tmp_path, text, missing="drop"))


def test_numbers_are_read_as_python_reads_them(tmp_path):
    """To the last bit, whatever their length; decimal commas where cells have other separators."""
    rng = np.random.default_rng(0)
    cells = [f"{x:.{digits}e}" for x, digits in zip(rng.normal(size=30), range(30), strict=True)]
    cells += ["9007199254740993", "4.9e-324", "1.7e38", "+.5", " -7. ", "1E5", "0" * 30 + "1"]
    for decimal, separator in ((".", ","), (",", ";"), (",", "\t")):
        lines = [f"{cell}{separator}{i % 2}" for i, cell in enumerate(cells)]
        text = "\n".join(line.replace(".", decimal) for line in lines)
        request = Request("", csv(tmp_path, text), tmp_path, tmp_path)
        assert tables.read(request).raw.images[:, 0].tolist() == [float(cell) for cell in cells]
