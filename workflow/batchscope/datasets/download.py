"""Files from the network, checked by their SHA-256 and kept."""

from __future__ import annotations

import http.client
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from batchscope import disk
from batchscope.datasets.raw import Request
from batchscope.errors import UserError

_TIMEOUT = 60.0  # seconds without a byte


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but none from an encrypted address to one that is not."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str):
        if req.type == "https" and not newurl.startswith("https:"):
            raise urllib.error.URLError(f"redirected to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def local_or_downloaded(request: Request, url: str, sha256: str) -> Path:
    """Returns the user's own file or folder, else the download of a public one.

    Args:
        request: Its `sha256` is that of the user's file, or of a download in place of `sha256`.
        sha256: The published one of the public file.

    Raises:
        UserError: If the file is missing, cannot be downloaded or is not the expected one.
    """
    path = request.path()
    if path is not None:
        check_local(request, path)
        return path
    expected = request.sha256 or sha256
    target = request.downloads / url.rpartition("/")[2]
    if target.is_file():
        try:
            _check(f"{request.where}: {target}", target, expected)
        except UserError as error:
            print(f"{error} It is removed and downloaded again.")
            target.unlink()
    if not target.is_file():
        _fetch(request.where, url, target, expected)
    return target


def check_local(request: Request, path: Path) -> None:
    """Raises `UserError` where a user's file is not that of the definition's SHA-256, if any."""
    if request.sha256 and path.is_dir():
        raise UserError(
            f"{request.where}.sha256: received one, but path {path} is a folder; a file is "
            "expected, or no sha256."
        )
    _check(f"{request.where}.path: {path}", path, request.sha256)


def _check(where: str, path: Path, sha256: str | None, hint: str = "") -> None:
    if sha256 and (received := disk.file_sha256(path)) != sha256:
        raise UserError(f"{where}: received SHA-256 {received}; {sha256} is expected.{hint}")


def _fetch(where: str, url: str, target: Path, sha256: str) -> None:
    hint = f"download it yourself and name the file as {where}.path"
    try:
        with disk.atomic_path(target) as temporary:
            with (
                urllib.request.build_opener(_Redirects).open(url, timeout=_TIMEOUT) as response,
                open(temporary, "wb") as file,
            ):
                expected = response.length  # None where the server does not say, or no number
                shutil.copyfileobj(response, file, 1 << 20)
                kind = response.headers.get("Content-Type", "unknown type")
            size = temporary.stat().st_size
            if expected is not None and size != expected:
                raise UserError(
                    f"{where}: {url} ended after {size} of {expected} bytes; try again, or {hint}."
                )
            sent = f" The server sent {size} bytes of {kind}; {hint}."
            _check(f"{where}: {url}", temporary, sha256, sent)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(error, urllib.error.HTTPError):
            reason = error  # with its number
        if isinstance(error, http.client.HTTPException):
            reason = repr(error)[:200]  # what a server or a proxy sent, in one line
        raise UserError(f"{where}: {url} cannot be downloaded ({reason}); {hint}.") from None
