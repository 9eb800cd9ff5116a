"""The user's files, and files from the network that are kept: both checked by their SHA-256."""

from __future__ import annotations

import http.client
import shutil
import urllib.request
from pathlib import Path

from batchscope import disk
from batchscope.datasets.raw import Request, refused
from batchscope.errors import UserError

_TIMEOUT = 60.0  # seconds without a byte


def local(request: Request) -> Path | None:
    """Returns the user's file or folder, or None; raises `UserError` where it is another file."""
    path, sha256 = request.path(), request.definition.get("sha256")
    if path is not None and sha256:
        if path.is_dir():
            raise refused(f"{request.where}.path", f"the folder {path} with a sha256", "a file")
        _check(f"{request.where}.path: {path}", path, sha256)
    return path


def local_or_downloaded(request: Request, url: str, sha256: str) -> Path:
    """Returns the user's file or folder, else the download of a public one."""
    path = local(request)
    if path is not None:
        return path
    target = request.downloads / url.rpartition("/")[2]
    if target.is_file():
        try:
            _check(f"{request.where}: {target}", target, sha256)
            return target
        except UserError as error:
            print(f"{error} It is removed and downloaded again.")
            target.unlink()
    _fetch(request.where, url, target, sha256)
    return target


def _check(where: str, path: Path, sha256: str, hint: str = "") -> None:
    if (received := disk.file_sha256(path)) != sha256.lower():
        raise UserError(f"{where}: received SHA-256 {received}; {sha256} is expected.{hint}")


def _fetch(where: str, url: str, target: Path, sha256: str) -> None:
    hint = f"download it yourself and name the file as {where}.path."
    try:
        with disk.atomic_path(target) as temporary:
            with (
                urllib.request.urlopen(url, timeout=_TIMEOUT) as response,
                open(temporary, "wb") as file,
            ):
                shutil.copyfileobj(response, file, 1 << 20)
                kind = response.headers.get("Content-Type", "unknown type")
            sent = f" The server sent {temporary.stat().st_size} bytes of {kind}; try again, or "
            _check(f"{where}: {url}", temporary, sha256, sent + hint)
    except (OSError, http.client.HTTPException) as error:
        # In one line, whatever a server or a proxy sent.
        reason = repr(error)[:200] if isinstance(error, http.client.HTTPException) else str(error)
        raise UserError(f"{where}: {url} cannot be downloaded ({reason}); {hint}") from None
