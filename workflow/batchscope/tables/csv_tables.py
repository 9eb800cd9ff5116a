"""Write the tables of an experiment as CSV files, and read them for statistics and figures."""

import io
from pathlib import Path
from typing import TextIO

import pandas

from batchscope.core import disk, errors
from batchscope.study import run_factors, table_entries

RUNS_FILE, CLAIMS_FILE = "runs.csv", "claims.csv"  # files of an experiment and of a study
# Texts that may look like numbers, as some digests do (12345678, 1e234567): read as text.
_TEXT_COLUMNS = ("run", "dataset", "dataset_digest", "model", "model_digest", "message")
_TEXT_COLUMNS += ("document", "series")
# Every table has at least one of these columns.
_FIRST_COLUMNS = {"run", "figure", "machine", *run_factors.EVERY_FACTOR}


def read(path: Path | str | TextIO) -> pandas.DataFrame:
    """Read a table of an experiment, from its path or an open file.

    Raises:
        UserError: If the file is missing or damaged.
    """
    if not isinstance(path, Path | str):
        types = dict.fromkeys(_TEXT_COLUMNS, str)
        # Only an empty field is missing: a data set may be called "null".
        return pandas.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
    text = disk.read_csv_text(path)
    with errors.reading(path, "a table of an experiment"):
        frame = read(io.StringIO(text))
        if _FIRST_COLUMNS.isdisjoint(frame.columns):
            raise ValueError("no column of a table of ours")
    _check_numbers(frame, Path(path))
    return frame


def _check_numbers(frame: pandas.DataFrame, path: Path) -> None:
    for name, cells in frame.select_dtypes(exclude=["number", "bool"]).items():
        column = table_entries.describe(str(name), table=path.stem)
        if column and column.kind in ("int", "float"):
            is_text = cells.notna() & pandas.to_numeric(cells, errors="coerce").isna()
            for row in is_text.index[is_text][:1]:
                place, received = f"{path}:{row + 2}", f"{cells[row]!r} in column {name}"
                raise errors.damaged_file(place, received, "a number", path_to_delete=path)


def write(frame: pandas.DataFrame, path: Path) -> None:
    with disk.atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n")
