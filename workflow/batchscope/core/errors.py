"""Classes of errors for the user, and functions that return or raise such errors."""

import contextlib
import errno
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from batchscope.core import display

_MAX_LISTED = 20


class UserError(Exception):
    """A problem that the user can fix; the CLI prints the message without a traceback."""

    def __init__(self, message: object = "") -> None:
        # A message may contain names and texts of users' files.
        super().__init__("\n".join(map(display.printable, str(message).split("\n"))))


class ConfigError(UserError):
    """All problems of a configuration, one line each: `place: problem (received X). Fix.`"""

    def __init__(self, problems: list[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[Self], tuple[list[str]]]:
        return type(self), (self.problems,)


def raise_problems(problems: Iterable[str], where: str = "") -> None:
    """Raise a `ConfigError` with the first problems and the number of further ones, if any."""
    lines = list(problems)
    if hidden := lines[_MAX_LISTED:]:
        start = f"{where}: " if where else "And "
        lines[_MAX_LISTED:] = [f"{start}{display.count(len(hidden), 'more problem')}."]
    if lines:
        raise ConfigError(lines)


class Interrupted(Exception):
    """A training stopped because of a signal, after it wrote its checkpoint."""


class DamagedFileError(UserError):
    """The content of a file differs from the content that was written."""


def unexpected(where: Path | str, received: str, expected: str, hint: str = "") -> UserError:
    return UserError(f"{where}: received {received}; {expected} is expected{display.aside(hint)}.")


def is_content_error(error: OSError) -> bool:
    """Return whether the content of a file caused an error, so that the file may be deleted.

    Errors of libraries have no number. EINVAL comes from a seek to an invalid position, which a
    damaged archive contains.
    """
    return error.errno in (None, errno.EINVAL)


def damaged_file(
    path: Path | str, received: str, expected: str, path_to_delete: Path | str | None = None
) -> DamagedFileError:
    """Return the error of a damaged file.

    Args:
        received: Description of the content, such as `an empty file`.
        path_to_delete: Snakemake makes the file again without this path; by default the file.
    """
    error = unexpected(path, received, expected)
    return DamagedFileError(f"{error} Delete {path_to_delete or 'it'} and run snakemake again.")


@contextlib.contextmanager
def reading(
    path: Path | str, expected: str, path_to_delete: Path | str | None = None
) -> Iterator[None]:
    """Convert any error in a block that reads a file into a `UserError`."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except FileNotFoundError:
        fix = "run snakemake to make it"
        if path_to_delete and Path(path_to_delete).exists():
            fix = f"delete {path_to_delete} and run snakemake again"
        raise UserError(f"{path}: missing; {fix}.") from None
    except Exception as error:  # zipfile, NumPy, json and csv raise nearly anything
        if isinstance(error, OSError) and not is_content_error(error):
            raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
        empty = Path(path).is_file() and not Path(path).stat().st_size
        reason = " ".join(str(error).split()) or type(error).__name__
        received = "an empty file" if empty else f"a damaged file ({reason})"
        raise damaged_file(path, received, expected, path_to_delete) from None


def check_regular(path: Path | str, expected: str) -> None:
    mode = Path(path).stat().st_mode
    # A folder needs no check here: the system refuses to read it.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise unexpected(path, "a pipe or a device", expected)


def check_folder(path: Path | str) -> None:
    if not Path(path).is_dir() and (Path(path).exists() or Path(path).is_symlink()):
        received = "a file" if Path(path).exists() else "a broken link"
        raise unexpected(path, received, "a folder, or nothing,")
