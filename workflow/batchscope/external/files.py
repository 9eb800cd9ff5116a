"""The files of logs: patterns that find them and give factors, and their text within a limit."""

from __future__ import annotations

import glob
import os
import re
import string
from pathlib import Path

from batchscope import problems, wording
from batchscope.errors import UserError, check_regular

MOST_BYTES = 200_000_000  # of a text, which is read whole
MOST_EVENT_BYTES = 2_000_000_000  # of an event file, which is read record by record
_SHOWN = 3  # names of what is there in place of what is asked for
_WILD = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}  # of a pattern -> of a regular expression


def text(path: Path | str) -> str:
    """Returns the text of a log.

    Raises:
        UserError: If it cannot be read, is no text, or is larger than any log.
    """
    try:
        check_regular(path, "a log")
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({why}); a log is expected.") from None
    if len(content) > MOST_BYTES:
        raise too_large(path, MOST_BYTES)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: received no text ({error}); a log is expected.") from None


def too_large(path: Path | str, most: int) -> UserError:
    return UserError(f"{path}: received more than {wording.size(most)}; a smaller log is expected.")


class Pattern:
    """A text with `{name}` where factors stand, and wildcards; `{{` is a brace.

    Attributes:
        names: The factors, in order.
        plain: Whether it has neither, so that it is a path.
    """

    def __init__(self, text: str) -> None:
        try:
            parts = [*string.Formatter().parse(text)]
        except ValueError:
            parts = [("", "", "", None)]
        self.text, self.names = text, []
        self._glob = self._regex = ""
        for literal, name, spec, conversion in parts:
            self._glob += literal.replace("[", "[[]")
            pieces = re.split(r"(\*\*/|[*?])", literal)
            self._regex += "".join(_WILD.get(piece) or re.escape(piece) for piece in pieces)
            if name is None:
                continue
            if spec or conversion or not name.isidentifier():
                raise UserError(
                    f"received {problems.show(text)}; names in braces are expected, as in "
                    "logs/bs{batch_size}_seed{seed}.csv."
                )
            self._glob += "*"
            self._regex += f"(?P={name})" if name in self.names else f"(?P<{name}>[^/]+?)"
            self.names += [] if name in self.names else [name]
        self.plain = not self.names and not glob.has_magic(self._glob)

    def found(self, folder: Path) -> list[tuple[str, dict[str, str]]]:
        """Returns the paths that are like it, seen from a folder, each with its factors.

        Raises:
            UserError: If there is none.
        """
        wanted = os.path.expanduser(self._glob)
        if self.plain:
            return [(os.path.normpath(folder / os.path.expanduser(self.text)), {})]
        whole = re.compile(self._regex)
        matches = [
            (os.path.normpath(folder / path), match.groupdict())
            for path in sorted(glob.glob(wanted, root_dir=folder, recursive=True))
            if (match := whole.fullmatch(path if wanted == self._glob else self._home(path)))
        ]
        if not matches:
            raise UserError(f"received {problems.show(self.text)}; {self._instead(folder)}.")
        return matches

    def within(self, text: str) -> dict[str, str] | None:
        """Returns the factors of the first whole parts of a path that are like it, or None."""
        match = re.search(f"(?:^|/)(?:{self._regex})(?:/|$)", text)
        return match and match.groupdict()

    def _home(self, path: str) -> str:
        return path.replace(os.path.expanduser("~"), "~", 1)

    def _instead(self, folder: Path) -> str:
        """Returns what is expected, and what there is in the nearest folder that exists."""
        near = folder / os.path.expanduser(self._glob.partition("*")[0])
        near = next(each for each in (near, *near.parents) if each.is_dir())
        names = sorted(os.listdir(near))
        more = ["..."] if len(names) > _SHOWN else []
        there = ", ".join([*map(problems.clip, names[:_SHOWN]), *more]) or "nothing"
        return f"files that are like it are expected, but {near} has {there}"


def located(path: str) -> str:
    here = os.getcwd()
    absolute = os.path.abspath(path)
    return os.path.relpath(absolute, here) if Path(absolute).is_relative_to(here) else path
