"""CSV tables with any header, and sheets of Excel."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from batchscope.errors import UserError
from batchscope.external import log_files
from batchscope.external.log_files import Log

if TYPE_CHECKING:
    import pandas

FORMATS = CSV, EXCEL = "CSV", "Excel"
_DELIMITERS = (",", ";", "\t")
_AS_TEXTS = {"dtype": str, "keep_default_na": False}


def read(path: str, text: str) -> Log:
    """Return the log of a CSV text.

    Raises:
        UserError: If it is damaged.
    """
    import pandas

    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    keys = {"sep": delimiter, "engine": "python", "index_col": False, "skip_blank_lines": False}
    try:
        cells = pandas.read_csv(io.StringIO(text), **keys, **_AS_TEXTS)
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    return Log(path, CSV, _table(path, cells))


def excel(path: str) -> Log:
    import pandas

    log_files.check_size(path)
    try:
        cells = pandas.read_excel(path, **_AS_TEXTS)
    except ImportError:
        text = "received a sheet of Excel, and openpyxl is not installed; a CSV file is expected"
        raise UserError(f"{path}: {text}.") from None
    except Exception as error:  # a damaged archive raises nearly anything
        raise UserError(f"{path}: received no sheet of Excel ({error}).") from None
    return Log(path, EXCEL, _table(path, cells), unit="row")


def _table(path: str, cells: pandas.DataFrame) -> pandas.DataFrame:
    """Return the rows that are not empty, by their lines, of columns with names."""
    cells = cells.fillna("").apply(lambda column: column.str.strip())
    cells.columns = cells.columns.str.strip()
    cells.index += 2  # below the header
    rows = cells.loc[cells.ne("").any(axis=1), ~cells.columns.str.startswith("Unnamed: ")]
    if rows.empty:
        raise UserError(f"{path}: received a header alone; at least one row is expected.")
    return rows
