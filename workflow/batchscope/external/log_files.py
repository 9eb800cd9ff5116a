"""Find logs by patterns that also state factors, and read their text. `Log` holds a log's rows."""

from __future__ import annotations

import glob
import os
import re
import string
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.core import problems
from batchscope.core.errors import UserError, check_regular

if TYPE_CHECKING:
    import pandas

_WILDCARDS = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}  # map to regular expressions


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of a file, or of one run of a folder.

    Attributes:
        rows: Texts; an empty text if a cell has no value. The index is the place of a row.
        files: All files that were read; if empty, the file is the path.
        unit: Unit of the index, such as `line`.
    """

    path: str
    format: str
    rows: pandas.DataFrame
    files: tuple[str, ...] = ()
    unit: str = "line"


def read_text(path: Path | str) -> str:
    """Return the text of a log.

    Raises:
        UserError: If the file cannot be read or is no text.
    """
    try:
        check_regular(path, "a log")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: received no text ({error}); a log is expected.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}); a log is expected.") from None


def matching_paths(pattern: str, folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the paths relative to a folder that match a pattern, with the factors of each.

    Args:
        pattern: A path with `{name}` for factors and with wildcards. `{{` is a brace.

    Raises:
        UserError: If the pattern is invalid, or no path matches.
    """
    try:
        parts = list(string.Formatter().parse(os.path.expanduser(pattern)))
    except ValueError:
        parts = [("", "", "", None)]
    glob_pattern, regex, names = "", "", set()
    for literal, name, spec, conversion in parts:
        glob_pattern += literal.replace("[", "[[]") + ("*" if name is not None else "")
        pieces = re.split(r"(\*\*/|[*?])", literal)
        regex += "".join(_WILDCARDS.get(piece) or re.escape(piece) for piece in pieces)
        if name is None:
            continue
        if spec or conversion or not name.isidentifier():
            expected = "names in braces are expected, as in logs/bs{batch_size}_seed{seed}.csv."
            raise UserError(f"received {problems.show(pattern)}; {expected}")
        regex += f"(?P={name})" if name in names else f"(?P<{name}>[^/]+?)"
        names.add(name)
    if not names and not glob.has_magic(glob_pattern):
        return [(os.path.normpath(folder / os.path.expanduser(pattern.format())), {})]
    matches = [
        (os.path.normpath(folder / path), match.groupdict())
        for path in sorted(glob.glob(glob_pattern, root_dir=folder, recursive=True))
        if (match := re.fullmatch(regex, path))
    ]
    if not matches:
        raise UserError(f"received {problems.show(pattern)}, which no file in {folder} matches.")
    return matches


def shown_path(path: str) -> str:
    """Return a path without `..`. A path below the working directory becomes relative to it."""
    folder, absolute = os.getcwd(), os.path.abspath(path)
    return os.path.relpath(absolute, folder) if Path(absolute).is_relative_to(folder) else absolute
