"""Atomic writes and checked reads of JSON, CSV and npz files, and lock files.

Readers raise a `UserError` for a file that is missing, corrupt or changed. It names a path to
delete, so that the same command makes the file again: `path_to_delete`, by default the file itself.
"""

import contextlib
import csv
import fcntl
import hashlib
import io
import json
import math
import os
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.core import errors

_STALE_SECONDS = 24 * 3600.0  # a killed process left an older temporary file
LOCK_SECONDS = 10.0  # a killed process may take a moment to end and release its lock
# First key of a JSON record. It has the second value while the SHA-256 of the text is computed.
_SHA256_KEY, _PLACEHOLDER = "content_sha256", "0" * 64
_CHANGED = "another content than was written"

AnyPath = Path | str


@contextlib.contextmanager
def _parent_synced(path: Path) -> Iterator[None]:
    """Create the parent folder of a path; sync it after the block, so that the new name is on disk.

    If a system error in the block names no path (a full disk), add this path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; rename it to `path` if the block succeeds.

    The bytes reach the disk before the new name, so a crash leaves the old file or the new one.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with _parent_synced(path):
        try:
            temporary.touch(exist_ok=False)
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path | str) -> Iterator[Path]:
    """Yield an empty folder, which replaces `path` if the block succeeds.

    A crash leaves the old folder, the new one, or none.
    """
    path = Path(path)
    with (
        _parent_synced(path),
        tempfile.TemporaryDirectory(".tmp", f".{path.name}.", path.parent) as scratch,
    ):
        new, old = Path(scratch) / "new", Path(scratch) / "old"
        new.mkdir()
        yield new
        if path.exists():
            os.replace(path, old)
        os.replace(new, path)


def is_abandoned(path: Path) -> bool:
    is_temporary = path.name.startswith(".") and path.suffix == ".tmp"
    return is_temporary and time.time() - path.stat().st_mtime > _STALE_SECONDS


def write_text(path: Path | str, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, record: dict[str, Any]) -> None:
    """Write a record and its SHA-256 atomically as strict JSON; NaN and infinities become null."""
    placeholder = {_SHA256_KEY: _PLACEHOLDER}
    # The placeholder comes first, because the first match is replaced below.
    content = placeholder | _to_json(record) | placeholder
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    write_text(path, text.replace(_PLACEHOLDER, sha256, 1))


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _to_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_json(path: Path | str, *keys: str) -> dict[str, Any]:
    """Read a record; raise `UserError` if it is missing, has changed or lacks a key."""
    with errors.reading(path, "a JSON record"):
        text = Path(path).read_text(encoding="utf-8")
        record = json.loads(text)
        if not isinstance(record, dict):
            raise ValueError(f"a {type(record).__name__}")
        if sha256 := record.pop(_SHA256_KEY, None):
            written = text.replace(str(sha256), _PLACEHOLDER, 1).encode()
            if sha256 != hashlib.sha256(written).hexdigest():
                raise ValueError(_CHANGED)
        _require_names(record, keys)
    return record


def _require_names(names: Iterable[str], required: Iterable[str]) -> None:
    if missing := [name for name in required if name not in names]:
        raise ValueError(f"without {', '.join(missing)}")


def write_rows(path: Path | str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV: floats in their shortest exact form, None as an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_csv_text(
    path: AnyPath, *columns: str, sha256: str | None = None, path_to_delete: AnyPath | None = None
) -> str:
    """Read a table as text; raise `UserError` if it is missing, changed or lacks a column.

    Args:
        sha256: SHA-256 of the file when it was written.
    """
    with errors.reading(path, "a CSV table", path_to_delete):
        content = Path(path).read_bytes()
        if sha256 not in (None, hashlib.sha256(content).hexdigest()):
            raise ValueError(_CHANGED)
        text = content.decode()
        _require_names(next(csv.reader(io.StringIO(text))), columns)
        if not text.endswith("\n"):
            raise ValueError("its last line is cut")
    return text


def read_rows(
    path: AnyPath, *columns: str, sha256: str | None = None, path_to_delete: AnyPath | None = None
) -> list[dict[str, str]]:
    """Read the rows of a table by column, with the checks of `read_csv_text`."""
    text = read_csv_text(path, *columns, sha256=sha256, path_to_delete=path_to_delete)
    with errors.reading(path, "a CSV table", path_to_delete):
        header, *rows = csv.reader(io.StringIO(text), strict=True)
        return [dict(zip(header, row, strict=True)) for row in rows]


def file_sha256(path: Path | str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: Path | str, expected: str, path_to_delete: Path | str | None = None) -> None:
    """Raise `UserError` if a file is missing or has another SHA-256 (hexadecimal)."""
    with errors.reading(path, "a file", path_to_delete):
        received = file_sha256(path)
    if received != expected:
        raise errors.damaged_file(path, f"SHA-256 {received}", expected, path_to_delete)


def write_arrays(path: Path | str, members: dict[str, np.ndarray]) -> None:
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **members)


def read_arrays(
    path: AnyPath, *members: str, sha256: str | None = None, path_to_delete: AnyPath | None = None
) -> dict[str, np.ndarray]:
    """Read an npz without pickles; raise `UserError` if it is missing, changed or lacks a member.

    Args:
        sha256: SHA-256 of the file when it was written.
    """
    with errors.reading(path, "an npz of plain arrays", path_to_delete), open(path, "rb") as file:
        if sha256 not in (None, hashlib.file_digest(file, "sha256").hexdigest()):
            raise ValueError(_CHANGED)
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        _require_names(arrays, members)
    return arrays


def map_array(
    path: Path | str, shape: tuple[int, ...], path_to_delete: Path | str | None = None
) -> np.ndarray:
    """Map an npy read-only; raise `UserError` if it is missing, corrupt or of another shape."""
    with errors.reading(path, f"an array of shape {shape}", path_to_delete):
        array = np.lib.format.open_memmap(path, mode="r")
        if array.shape != shape:
            raise ValueError(f"an array of shape {array.shape}")
    return array


def link(source: Path | str, target: Path | str) -> None:
    """Make `target` a hard link to `source`, or a copy if the file system has no links."""
    with atomic_path(target) as temporary:
        temporary.unlink()
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def copy(source: Path | str, target: Path | str) -> None:
    with atomic_path(target) as temporary:
        shutil.copyfile(source, temporary)


@contextlib.contextmanager
def lock(path: Path, task: str) -> Iterator[None]:
    """Hold a lock file inside the block and remove it afterwards.

    The system releases a lock when its process ends. If the file system has no locks, print that
    and run the block without a lock.

    Args:
        task: Verb phrase for messages, such as `train this run`.

    Raises:
        UserError: If another process holds the file for too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + LOCK_SECONDS
    with open(path, "a+b", buffering=0) as file:
        while True:
            try:
                # Unlike `flock`, most shared file systems pass this lock between nodes.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() > end:
                    file.seek(0)
                    raise errors.UserError(
                        f"{path.parent}: received a second process that would {task}; one at a "
                        f"time is expected. Wait until {file.read().decode().strip()} has ended, "
                        "or end it, and run again."
                    ) from None
                time.sleep(0.1)
            except OSError as error:
                text = f"no lock ({error}); see that no other process can {task}."
                print(f"{path}: {text}", file=sys.stderr)
                break
        with contextlib.suppress(OSError):  # a full disk; only messages need the text
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
