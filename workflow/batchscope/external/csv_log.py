"""CSV tables with any header, and sheets of Excel."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from batchscope import problems, wording
from batchscope.errors import UserError, raise_problems
from batchscope.external import log_files
from batchscope.external.log_files import Log, Unrecognised

if TYPE_CHECKING:
    import pandas

_DELIMITERS = (",", ";", "\t")
_MOST_SHOWN = 20  # names of columns
_AS_TEXTS = {"dtype": str, "keep_default_na": False, "header": None}


def read(path: str, text: str) -> Log:
    """Return the log of a CSV text.

    Raises:
        Unrecognised: If the text is no table.
        UserError: If the table is damaged; with every problem, at its line.
    """
    import pandas

    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        cells = pandas.read_csv(
            io.StringIO(text), sep=delimiter, engine="python", skip_blank_lines=False, **_AS_TEXTS
        )
    except pandas.errors.EmptyDataError:
        raise UserError(f"{path}: received an empty file; a log is expected.") from None
    except pandas.errors.ParserError as error:
        if delimiter in first:
            raise UserError(f"{path}: received no CSV text ({error}).") from None
        raise Unrecognised(path) from None
    return Log(path, "CSV", _table(path, cells, "line"))


def excel(path: str) -> list[Log]:
    import pandas

    log_files.check_size(path, log_files.MOST_BYTES)
    try:
        cells = pandas.read_excel(path, **_AS_TEXTS)
    except ImportError:
        text = "received a sheet of Excel, and openpyxl is not installed; a CSV file is expected"
        raise UserError(f"{path}: {text}.") from None
    except Exception as error:  # a damaged archive raises nearly anything
        raise UserError(f"{path}: received no sheet of Excel ({error}).") from None
    return [Log(path, "Excel", _table(path, cells, "row"), unit="row")]


def _table(path: str, cells: pandas.DataFrame, unit: str) -> pandas.DataFrame:
    """Return the rows of a sheet below its header, with their lines as index."""
    cells.index += 1
    cells = cells[cells.fillna("").ne("").any(axis=1)]
    if len(cells) < 2:
        raise UserError(f"{path}: received a header alone; at least one row is expected.")
    header = [str(name).strip() for name in cells.iloc[0].fillna("")]
    rows = cells.iloc[1:].set_axis(header, axis=1)
    short = rows.isna().any(axis=1) if unit == "line" else []  # pandas fills what a line lacks
    raise_problems(
        f"{path}, line {line}: received {wording.count(int(rows.loc[line].notna().sum()), 'cell')};"
        f" as many as the header's {len(header)} are expected."
        for line in rows.index[short]
    )
    rows = rows.fillna("").apply(lambda column: column.str.strip())
    if header[0] == "" and rows.iloc[:, 0].tolist() == [str(row) for row in range(len(rows))]:
        rows, header = rows.iloc[:, 1:], header[1:]  # the index that pandas writes
    if problem := _header_problem(header):
        raise UserError(f"{path}, {unit} 1: received {problem}")
    return rows


def _header_problem(header: list[str]) -> str:
    """Return the problem of the names of the columns, or an empty text."""
    if all(name.replace(".", "").lstrip("-").isdigit() for name in header):
        shown = ", ".join(map(problems.clip, header[:_MOST_SHOWN]))
        return f"{shown}; a header is expected."
    if "" in header:
        return f"column {header.index('') + 1} without a name; a name is expected of every column."
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        return f"{wording.listed(repeated)} twice; once is expected."
    return ""
