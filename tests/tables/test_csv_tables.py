"""Tables as files that spreadsheets open."""

import csv

import pandas
import pytest

from batchscope.errors import UserError
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


@pytest.mark.parametrize(
    ("table", "column", "word"),
    [("runs", "test_loss", "low"), ("runs", "batch_size", "64 x"), ("advice", "estimate", "-")],
)
def test_a_word_in_a_column_of_numbers_is_told_by_its_place(table, column, word, tmp_path):
    path = tmp_path / f"{table}.csv"
    frame = pandas.DataFrame({"run": ["a", "b", "c"], column: [1, None, 0.5]})
    csv_tables.write(frame, path)
    assert csv_tables.read(path)[column].sum() == 1.5
    csv_tables.write(frame.astype({column: object}).replace({column: {0.5: word}}), path)
    with pytest.raises(UserError) as raised:
        csv_tables.read(path)
    line = f"{path}:4: received '{word}' in column {column}; a number is expected. Delete {path} "
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)
