"""What is reported of a file of results that is missing or damaged: one sentence for every kind."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from batchscope.errors import UserError


class Damaged(UserError):
    """A file that is not what was written there."""


def of_content(error: OSError) -> bool:
    """Whether an error says that a file is damaged: it is no error of the system's.

    Or one that a damaged archive leads to, by places that are none. Any other says nothing about
    the file, which is then not to be deleted, nor to be taken for damaged.
    """
    return error.errno in (None, errno.EINVAL)


def fault(
    path: Path | str, received: str, expected: str, delete: Path | str | None = None
) -> Damaged:
    """Returns the error of a file that is not what was written there, such as `an empty file`.

    Args:
        delete: What to delete so that Snakemake makes it again, where it is not the file itself.
    """
    return Damaged(
        f"{path}: received {received}; {expected} is expected. Delete {delete or 'it'} and run "
        "snakemake again."
    )


@contextlib.contextmanager
def reading(path: Path | str, expected: str, delete: Path | str | None = None) -> Iterator[None]:
    """Turns whatever reading a file raises into one `UserError`; `delete` as in `fault`."""
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
