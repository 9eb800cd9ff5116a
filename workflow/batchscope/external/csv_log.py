"""Read CSV tables with any header."""

from __future__ import annotations

import io

from batchscope.core.errors import UserError
from batchscope.external.log_files import Log

FORMAT = "CSV"
_DELIMITERS = (",", ";", "\t")


def read(path: str, text: str) -> Log:
    """Return the rows that are not empty, in the columns with names. The index has their lines.

    Raises:
        UserError: If the text is damaged.
    """
    import pandas

    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    try:
        cells = pandas.read_csv(
            io.StringIO(text),
            sep=delimiter,
            engine="python",
            index_col=False,
            skip_blank_lines=False,
            dtype=str,
            keep_default_na=False,
        )
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise UserError(f"{path}: received no CSV text ({error}); one is expected.") from None
    cells = cells.fillna("").apply(lambda column: column.str.strip())
    cells.columns = cells.columns.str.strip()
    cells.index += 2  # The first row is line 2, below the header.
    rows = cells.loc[cells.ne("").any(axis=1), ~cells.columns.str.startswith("Unnamed: ")]
    if rows.empty:
        raise UserError(f"{path}: received a header alone; at least one row is expected.")
    return Log(path, FORMAT, rows)
