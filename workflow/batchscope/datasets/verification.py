"""Whether arrays and weights are still those that their records name by their SHA-256.

Arrays are hashed when their data set is loaded, but only where size or times of a file are not
those that it had when it was hashed last: `verified.json` beside the record has these. So a change
of a file is found by the next job that reads it, and a job that reads what nobody changed pays for
one `stat` per file. Bytes that change while size and times stay, as those of a failing disk, are
found by `python workflow/run.py plan --verify`, which reads every byte.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope import disk, errors
from batchscope.errors import UserError
from batchscope.store import paths
from batchscope.study import plan

_VERIFIED = "verified.json"


def note(folder: Path, sha256: dict[str, str]) -> None:
    disk.write_json(folder / _VERIFIED, _states(folder, sha256))


def check(folder: Path, sha256: dict[str, str]) -> None:
    """Hashes the prepared arrays that changed since they were hashed last.

    Raises:
        UserError: If a file is missing or is another one.
    """
    states = _states(folder, sha256)  # before they are hashed: a change meanwhile is found later
    verified: dict[str, Any] = {}
    with contextlib.suppress(UserError):  # nothing is known to be verified
        verified = disk.read_json(folder / _VERIFIED)
    if states == verified:
        return
    for file, state in states.items():
        if state != verified.get(file):
            disk.check_sha256(folder / file, sha256[file], delete=folder)
    with contextlib.suppress(OSError):  # results that may only be read are hashed every time
        disk.write_json(folder / _VERIFIED, states)


def _states(folder: Path, sha256: dict[str, str]) -> dict[str, list[Any]]:
    """Returns file -> SHA-256, bytes, and when its content and its inode changed, in ns."""
    states = {}
    for file, expected in sha256.items():
        with errors.reading(folder / file, "a prepared array", delete=folder):
            stat = (folder / file).stat()
        states[file] = [expected, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    return states


def verify(study: plan.Study, results: Path | str) -> str:
    """Checks arrays and weights of a study by their SHA-256; returns what, in a sentence.

    Raises:
        UserError: If a file is missing or another one; it says so of every such file.
    """
    data = [paths.dataset_record(results, token) for token in study.datasets]
    runs = [paths.run_record(paths.run_folder(results, run)) for run in study.runs]
    named = [(record, "sha256", "", record.parent) for record in data if record.exists()]
    counts = f"the arrays of {len(named)} data set(s)"
    named += [(record, "weights", ".npz", record) for record in runs if record.exists()]
    counts += f", the weights of {sum(record.exists() for record in runs)} run(s)"
    problems: list[str] = []
    for record, key, ending, delete in named:
        files: dict[str, str] = {}
        with _noted(problems):
            files = disk.read_json(record, key)[key]
        for name, sha256 in files.items():
            with _noted(problems):
                disk.check_sha256(record.with_name(f"{name}{ending}"), sha256, delete)
    if problems:
        raise UserError("\n".join(problems))
    return f"Verified by SHA-256: {counts}."


@contextlib.contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        problems.append(str(error))
