"""Find logs by patterns that also state factors, and read their text. `Log` holds a log's rows."""

from __future__ import annotations

import glob
import os
import re
import string
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchscope.core import display, problems
from batchscope.core.errors import UserError, check_regular

if TYPE_CHECKING:
    import pandas

MAX_BYTES = 200_000_000  # A text is read into memory as a whole.
_WILDCARDS = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}  # map to regular expressions


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of a file, or of one run of a folder.

    Attributes:
        rows: Texts; an empty text if a cell has no value. The index is the place of a row.
        files: All files that were read; if empty, the file is the path.
        unit: Unit of the index, such as `line`.
        progress: Column of the progress, if the format determines it.
    """

    path: str
    format: str
    rows: pandas.DataFrame
    files: tuple[str, ...] = ()
    unit: str = "line"
    progress: str = ""


def read_text(path: Path | str) -> str:
    """Return the text of a log.

    Raises:
        UserError: If the file cannot be read, is no text, or is too large.
    """
    try:
        check_regular(path, "a log")
        check_size(path)
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: received no text ({error}); a log is expected.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}); a log is expected.") from None


def check_size(path: Path | str) -> None:
    if Path(path).stat().st_size > MAX_BYTES:
        size = display.size(MAX_BYTES)
        raise UserError(f"{path}: received more than {size}; a smaller log is expected.")


class Pattern:
    """A pattern of paths with `{name}` for factors and wildcards. `{{` is a brace.

    Attributes:
        names: The names of the factors, in order.
    """

    def __init__(self, text: str) -> None:
        try:
            parts = list(string.Formatter().parse(os.path.expanduser(text)))
        except ValueError:
            parts = [("", "", "", None)]
        self.text, self.names = text, []
        self._glob = self._regex = ""
        for literal, name, spec, conversion in parts:
            self._glob += literal.replace("[", "[[]") + ("*" if name is not None else "")
            pieces = re.split(r"(\*\*/|[*?])", literal)
            self._regex += "".join(_WILDCARDS.get(piece) or re.escape(piece) for piece in pieces)
            if name is None:
                continue
            if spec or conversion or not name.isidentifier():
                expected = "names in braces are expected, as in logs/bs{batch_size}_seed{seed}.csv."
                raise UserError(f"received {problems.show(text)}; {expected}")
            self._regex += f"(?P={name})" if name in self.names else f"(?P<{name}>[^/]+?)"
            self.names += [] if name in self.names else [name]

    def paths(self, folder: Path) -> list[tuple[str, dict[str, str]]]:
        """Return the paths that match, relative to a folder, with the factors of each.

        Raises:
            UserError: If no path matches.
        """
        if not self.names and not glob.has_magic(self._glob):
            return [(os.path.normpath(folder / os.path.expanduser(self.text.format())), {})]
        matches = [
            (os.path.normpath(folder / path), match.groupdict())
            for path in sorted(glob.glob(self._glob, root_dir=folder, recursive=True))
            if (match := re.fullmatch(self._regex, path))
        ]
        if not matches:
            raise UserError(
                f"received {problems.show(self.text)}, which no file in {folder} matches."
            )
        return matches

    def within(self, text: str) -> dict[str, str] | None:
        """Return the factors of the first complete parts of a path that match, or None."""
        match = re.search(f"(?:^|/)(?:{self._regex})(?:/|$)", text)
        return match and match.groupdict()


def shown_path(path: str) -> str:
    """Return a path without `..`. A path below the working directory becomes relative to it."""
    folder, absolute = os.getcwd(), os.path.abspath(path)
    return os.path.relpath(absolute, folder) if Path(absolute).is_relative_to(folder) else absolute
