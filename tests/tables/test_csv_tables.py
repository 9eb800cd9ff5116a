"""Tables as files that spreadsheets open."""

import csv

import pandas
import pytest

from batchscope.tables import csv_tables

HOSTILE = ["=1+1", "+cmd|x", "-x", "@sum", "\t=1", "'=1", "''-x", "--fast"]
PLAIN = ["-0.5", "+1e-3", "sgd", "'quoted'", "a=b", "x-y", "-1"]


@pytest.mark.parametrize("text", [*HOSTILE, *PLAIN])
def test_no_text_is_a_formula_and_each_is_read_as_it_was(text, tmp_path):
    frame = pandas.DataFrame({"run": [text, "other"], text: [text, "x"], "loss": [-1.5, 2.0]})
    path = tmp_path / "runs.csv"
    csv_tables.write(frame, path)
    with open(path, newline="") as file:
        headers, cells, _ = csv.reader(file)
    guarded = f"'{text}" if text in HOSTILE else text
    assert headers[1] == guarded and cells == [guarded, guarded, "-1.5"]
    read = csv_tables.read(path)
    assert read["run"].tolist() == [text, "other"] and read.columns[1] == text
