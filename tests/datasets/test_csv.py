"""A user's own table: features and classes, and all problems of a table at once."""

import numpy as np
import pytest
from test_arrays import LABELS, ROWS

from batchscope.datasets.source import Request
from batchscope.datasets.sources.csv import find_dialect
from batchscope.store import paths
from batchscope.study import dataset_definitions
from prepared_data import HOSTILE, SHOWN, SPLIT, csv, fault, faults, npz, prepared


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
    assert find_dialect(tmp_path / "own.csv") == keys
    rows = dataset_definitions.read(definition).read(Request("")).images
    assert rows.to_numpy() == pytest.approx(ROWS)


def test_control_characters_reach_neither_a_record_nor_the_terminal(tmp_path):
    words, classes = ("a", HOSTILE), ("b", HOSTILE)
    rows = [f"{row % 7},{words[row % 3 == 0]},{classes[row % 2]}" for row in range(60)]
    text = "\n".join([f"{HOSTILE},word,y", *rows])
    record = prepared(tmp_path, csv(tmp_path, text, label="y")).record
    assert record["class_names"] == [SHOWN, "b"]
    assert record["feature_names"][0] == SHOWN and record["categories"]["word"] == [SHOWN, "a"]


DAYS = [f"2024-01-{day:02}" for day in range(1, 13)]
NUMBERS = [0.5, 2, 2, 7.25, 1, 1, 3, 8, 2.5, 0, 4, 4]
JOBS = ["clerk", "nurse", "chef"] * 4
CLASSES = ["no", "yes"] * 6


def columns_of(separator=",", **columns):
    """Return the lines of 12 rows, below the names of the columns; `_` stands for no name."""
    head = separator.join("" if name == "_" else name for name in columns)
    rows = zip(*columns.values(), strict=True)
    return [head, *(separator.join(map(str, row)) for row in rows)]


def but(cells, **changed):
    """Return cells with some replaced, by their rows: `but(NUMBERS, r3="x")`."""
    return [changed.get(f"r{row}", cell) for row, cell in enumerate(cells)]


def plain(**columns):
    labels = columns.pop("y", CLASSES)
    return columns_of(a=NUMBERS, **columns, y=labels)


# Name -> the lines, more of the definition, and place and received value of each problem.
BAD = {
    "columns that are no features": (
        plain(
            _=range(12),
            id=[f"p{row}" for row in range(12)],
            day=DAYS,
            time=[f"{day} 10:00:00" for day in DAYS],
            de=["1.2.2024", "13.12.24"] * 6,
            five=[5] * 12,
            empty=[""] * 12,
            large=but(NUMBERS, r2="inf"),
        ),
        {},
        [
            (
                "own.csv",
                "2 (the numbers of the rows, 0 to 11), id (12 different words, such as 'p0'), "
                "day (dates, such as '2024-01-01'), time (dates, such as '2024-01-01 10:00:00'), "
                "de (dates, such as '1.2.2024'), five (5 in every row), empty (no value), "
                "large (a number above 3.4e+38)",
            ),
        ],
    ),
    "missing cells": (
        plain(b=but(NUMBERS, r3="", r5="NA", r7="?"), job=but(JOBS, r0=" ")),
        {},
        [("column b, row 4", "nothing (and 2 more cells)"), ("column job, row 1", "nothing")],
    ),
    "missing labels": (
        plain(y=but(CLASSES, r4="")),
        {"missing": "median"},
        [("column y, row 5", "nothing")],
    ),
    "labels that are none": (
        plain(u=[0, 1] * 6, y=but([0, 1] * 6, r5="2")),
        {"label": ["u", "y"], "task": "multi_label"},
        [("column y, row 6", "'2'")],
    ),
    "a word among numbers, and dates": (
        plain(b=but(NUMBERS, r1="red"), day=DAYS),
        {},
        [("column b, row 2", "'red'"), ("own.csv", "day (dates, such as '2024-01-01')")],
    ),
    "wrong names": (
        plain(job=JOBS),
        {"label": "yy", "ignore": ["b"], "categorical": ["a", "jobs"]},
        [("own.label", "'yy'"), ("own.ignore", "'b'"), ("own.categorical", "'jobs'")],
    ),
    "a name twice": (
        ["y,a,y", *(f"0,{line}" for line in plain()[1:])],
        {},
        [("own.csv", "'y' as the name of 2 columns")],
    ),
    "decimal commas and points": (
        columns_of(";", a=but([str(n).replace(".", ",") for n in NUMBERS], r6="1.5"), y=CLASSES),
        {"separator": ";", "decimal": ","},
        [("column a, row 7", "'1.5'")],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_all_problems_are_reported_at_once(name, tmp_path):
    lines, options, expected = BAD[name]
    definition = csv(tmp_path, "\n".join(lines), **options)
    reported = [line.removeprefix("datasets.") for line in faults(tmp_path, definition)]
    assert len(reported) == len(expected), reported
    for line, (place, received) in zip(reported, expected, strict=True):
        where, _, text = line.partition(": received ")
        assert where.endswith(place) and text.startswith(received), line
        assert text[len(received)] in ";, (", line


def test_one_column_is_refused(tmp_path):
    (line,) = faults(tmp_path, csv(tmp_path, "\n".join(plain()), separator=";"))
    assert "own.csv: received one column (a,y);" in line


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a,y\n1,n\u00e9\n".encode("latin-1"), "'utf-8' codec"),
        (b"a,y\n1,no\n1,no,2\n", "Error tokenizing data. C error: Expected 2 fields in line 3"),
    ],
)
def test_a_file_that_pandas_cannot_read(content, reason, tmp_path):
    definition = csv(tmp_path, "")
    (tmp_path / "own.csv").write_bytes(content)
    (line,) = faults(tmp_path, definition)
    assert f"own.csv: cannot be read ({reason}" in line


def test_many_problems_are_counted(tmp_path):
    columns = {f"c{index}": but(NUMBERS, r1="") for index in range(30)}
    lines = faults(tmp_path, csv(tmp_path, "\n".join(plain(**columns))))
    assert len(lines) == 21 and ": 10 more" in lines[-1]


def test_many_words_are_no_categories(tmp_path):
    words = [f"w{row // 2}" for row in range(210)]
    rows = [f"{word},{word[1:]},{row % 7},{row % 2}" for row, word in enumerate(words)]
    text = "\n".join(["job,code,a,y", *rows])
    definition = csv(tmp_path, text, categorical=["code"], ignore=["a"])
    (line,) = faults(tmp_path, definition)
    assert "received job (105 different words, such as 'w0'), code (105 different" in line
    assert line.endswith("(add `ignore: [a, job, code]`).")
