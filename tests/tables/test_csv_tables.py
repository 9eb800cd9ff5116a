"""Tables as files that spreadsheets open."""

import pandas
import pytest

from batchscope.core.errors import UserError
from batchscope.tables import csv_tables


def test_a_run_whose_digest_looks_like_a_number_stays_a_text(tmp_path):
    frame = pandas.DataFrame({"run": ["12345678", "null"], "loss": [-1.5, 2.0]})
    csv_tables.write(frame, tmp_path / "runs.csv")
    assert csv_tables.read(tmp_path / "runs.csv").to_dict() == frame.to_dict()


@pytest.mark.parametrize(
    ("table", "column", "word"), [("runs", "batch_size", "64 x"), ("advice", "estimate", "-")]
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
