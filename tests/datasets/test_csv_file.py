"""The user's own table: what is a feature, what a class, and which line a fault is in."""

from __future__ import annotations

import pytest
from test_arrays import LABELS, ROWS, npz

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
        (table(line="{label}\t{0}\t{1}\t{2}", head=""), {"label": 1}),
        (table(line="x,{0},{1},{label},{2}", head="2,a,b,c,d"), {"label": "4", "ignore": ["2"]}),
        (table(line="{0},{label},{1},{2}", head="a,b,c,d"), {"label": 2.0}),
        (table(line="x,{0},{1},{2},{label}", head="id,a,b,c,class"), {"ignore": ["id"]}),
        (table(line='{0},{1},{2},"{label}"', head='"a","b","c","class"') + "\n\n", {}),
    ],
)
def test_a_table_is_what_its_arrays_are(text, more, tmp_path):
    data = prepared(tmp_path, csv(tmp_path, text, **more))
    plain = prepared(tmp_path, npz(tmp_path, {"inputs": ROWS, "labels": LABELS}))
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


HEAD = "a,b,class\n"


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (HEAD + "1,2,x\n3,,y\n", {}, "received nothing in line 3, column b;"),
        (HEAD + "1,red,x\n", {}, "received 'red' in line 2, column b;"),
        (HEAD + "1,1_000,x\n", {}, "received '1_000' in line 2, column b;"),
        (HEAD + "1,2,x\n1,2\n", {}, "received 2 columns in line 3;"),
        (HEAD + "1,2,x\n1,2,\n", {}, "class (row 0 is line 2): received '' in row 1;"),
        (HEAD + "1,2,1.5\n1,2,2\n", {}, "class (row 0 is line 2): received 1.5 in row 0;"),
        (HEAD + f"1,2,1\n1,2,{2**99}\n", {}, "class (row 0 is line 2): received object labels"),
        (HEAD + "1,2,x\n3,4,x\n", {}, "class (row 0 is line 2): received one class;"),
        (HEAD, {}, "received 1 lines;"),
        ("a,2,x\n1,2,y\n", {}, "received 'a' beside numbers in line 1;"),
        ("x,label,label\n1,2,2\n", {"label": "label"}, "received 'label' twice in line 1;"),
        (HEAD + "1,2,x\n", {"label": "kind"}, "own.label: received 'kind';"),
        (HEAD + "1,2,x\n", {"label": 4}, "own.label: received 4;"),
        (HEAD + "1,2,x\n", {"ignore": ["d"]}, "own.ignore: received 'd';"),
        (HEAD + "1,2,x\n", {"ignore": [1, 2]}, "own.csv: received no column of numbers;"),
        ('a,b,class\n"1,2,x\n', {}, "own.csv: cannot be read"),
    ],
)
def test_faults_of_a_table_name_the_line(text, more, message, tmp_path):
    assert message in fault(tmp_path, csv(tmp_path, text, **more))


def test_a_table_that_is_no_text(tmp_path):
    definition = csv(tmp_path, "")
    (tmp_path / "own.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert "own.csv: cannot be read ('utf-8'" in fault(tmp_path, definition)
