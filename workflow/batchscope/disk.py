"""Files: atomic writes, JSON, CSV, npz, links; every reader says what to do with a damaged one."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from batchscope.errors import UserError


@contextlib.contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path beside `path`; moves it over `path` when the block succeeds.

    The bytes reach the disk before the name does, so that a reader sees the old file or the
    whole new one, whatever dies. Folders are made as needed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes private files
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path | str, text: str) -> None:
    """Writes a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, record: dict[str, Any]) -> None:
    """Writes a record atomically, as strict JSON: NaN and infinities become null."""
    text = json.dumps(_plain(record), indent=1, allow_nan=False)
    write_text(path, text + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_json(path: Path | str) -> dict[str, Any]:
    """Reads a record.

    Raises:
        UserError: If the file is missing or is no JSON object.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: missing; run snakemake to make it.") from None
    except ValueError as error:
        raise UserError(f"{path}: expected JSON ({error}); delete it and run again.") from None
    if not isinstance(record, dict):
        raise UserError(f"{path}: expected a JSON object. Received: {type(record).__name__}.")
    return record


def write_rows(path: Path | str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Writes rows as CSV atomically; floats in their shortest exact form, None as empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def file_sha256(path: Path | str) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_arrays(path: Path | str, members: dict[str, np.ndarray]) -> None:
    """Writes named arrays atomically as an uncompressed npz without pickles."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **members)


def read_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """Reads an npz; nothing is unpickled.

    Raises:
        UserError: If the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except FileNotFoundError:
        raise UserError(f"{path}: missing; run snakemake to make it.") from None
    except (ValueError, OSError, EOFError) as error:
        raise UserError(f"{path}: expected an npz ({error}); delete it and run again.") from None


def link(source: Path | str, target: Path | str) -> None:
    """Makes `target` a second name of `source`, or a copy where links are not to be had."""
    with atomic_path(target) as temporary:
        temporary.unlink()
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
