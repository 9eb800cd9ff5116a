"""Errors that are meant for the user: their message is all that is shown.

One sentence, of one place, tells of every kind of file below results/ that is missing or damaged.
"""

from __future__ import annotations

import contextlib
import errno
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from batchscope import wording

_MOST_LISTED = 20


class UserError(Exception):
    """Something the user can fix; the CLI prints the message and no traceback.

    A message may hold names and texts of users' files.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__("\n".join(map(wording.printable, str(message).split("\n"))))


class ConfigError(UserError):
    """Every problem of a configuration, one line each: ``where: received X; Y is expected.``"""

    def __init__(self, problems: list[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[list[str]]]:
        return ConfigError, (self.problems,)


def raise_problems(problems: Iterable[str], where: str = "") -> None:
    """Raise a `ConfigError` of the first problems, with the number of the others, if any."""
    lines = list(problems)
    if lines:
        more = wording.count(len(lines) - _MOST_LISTED, "more problem")
        rest = [f"{where + ': ' if where else 'And '}{more}."] if len(lines) > _MOST_LISTED else []
        raise ConfigError(lines[:_MOST_LISTED] + rest)


class TrainsItself(UserError):
    """A model's class defines its own updates, so that only its own script can train it."""


class Interrupted(Exception):
    """A signal asked the training to stop; its checkpoint is written."""


class Damaged(UserError):
    """A file that is not what was written there."""


def unexpected(where: Path | str, received: str, expected: str, hint: str = "") -> UserError:
    """Return the error `where: received X; Y is expected (hint).`"""
    text = f"{where}: received {received}; {expected} is expected{wording.aside(hint)}."
    return UserError(text)


def of_content(error: OSError) -> bool:
    """Whether an error tells of a damaged file: a library's, or a place that an archive leads to.

    The system's others say nothing about the file, which is then not to be deleted.
    """
    return error.errno in (None, errno.EINVAL)


def fault(
    path: Path | str, received: str, expected: str, delete: Path | str | None = None
) -> Damaged:
    """Returns the error of a file that is not what was written there, such as `an empty file`.

    Args:
        delete: What to delete so that Snakemake makes it again, where it is not the file itself.
    """
    error = unexpected(path, received, expected)
    return Damaged(f"{error} Delete {delete or 'it'} and run snakemake again.")


@contextlib.contextmanager
def reading(path: Path | str, expected: str, delete: Path | str | None = None) -> Iterator[None]:
    """Turns any error of reading a file into one `UserError`; `delete` as in `fault`."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except FileNotFoundError:
        whole = delete and Path(delete).exists()
        mend = f"delete {delete} and run snakemake again" if whole else "run snakemake to make it"
        raise UserError(f"{path}: missing; {mend}.") from None
    except Exception as error:  # zipfile, NumPy, json and csv raise nearly anything
        if isinstance(error, OSError) and not of_content(error):
            raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
        empty = Path(path).is_file() and not Path(path).stat().st_size
        reason = " ".join(str(error).split()) or type(error).__name__
        received = "an empty file" if empty else f"a damaged file ({reason})"
        raise fault(path, received, expected, delete) from None


def check_regular(path: Path | str, expected: str) -> None:
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # the system refuses to read a folder
        raise unexpected(path, "a pipe or a device", expected)


def check_folder(path: Path | str) -> None:
    if Path(path).exists() and not Path(path).is_dir():
        raise unexpected(path, "a file", "a folder, or nothing,")
