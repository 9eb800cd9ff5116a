"""Commands of the user that make runs, their placeholders and the digest in their names."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from batchscope import disk
from batchscope.errors import UserError, check_regular
from batchscope.study import command_factors, names, setting

RUN_DIR = "run_dir"
RESOURCES = ("threads", "gpus")
# A brace that is written twice, a placeholder, or a brace that nothing closes.
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\{")
_MOST_FILES = 10_000  # of a folder that runs depend on
_LARGE = 2**23  # bytes; digests of larger files are cached
_KEPT = Path(".snakemake", "batchscope_inputs.json")


@dataclass(frozen=True)
class Command:
    """A command with its placeholders, inputs and resources.

    Attributes:
        inputs: File or folder that its runs depend on -> SHA-256.
        log: Keys of the log that the study states.
        requires: Paths with placeholders; runs are left out while one is missing.
        folder: Working directory, the folder of the study file.
    """

    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)
    folder: str = "."
    threads: int = 1
    gpus: int = 0
    memory_mb: int = 2000
    alone: bool = False
    resume: bool = False
    requires: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.words, *self.env.values())

    @cached_property
    def token(self) -> str:
        """Digest in the names of its runs of everything that changes their numbers."""
        given = {"command": self.words, "env": self.env, "inputs": self.inputs, "log": self.log}
        used = placeholders(self.texts)
        given |= {name: getattr(self, name) for name in RESOURCES if name in used}
        given |= {"alone": True} if self.alone else {}
        return names.token("command", setting.digest(given))

    @property
    def needs(self) -> dict[str, Any]:
        device = {"device": "gpu", "replicas": self.gpus} if self.gpus else {"device": "cpu"}
        return {"threads": self.threads, "replicas": 1, **device}


class CommandRun(NamedTuple):
    """A run that a command makes."""

    command: Command
    factors: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name in paths; raises ValueError where it is too long."""
        return names.command_name(self.command.token, self.factors)

    def resolved(self, run_dir: str) -> tuple[list[str], dict[str, str]]:
        """Return the argument vector and the environment of a run in a folder.

        A word with a placeholder that becomes empty is left out, so that it may be a flag.
        """
        values = self._values | {RUN_DIR: run_dir}
        words = [(word, _filled(word, values)) for word in self.command.words]
        kept = [filled for word, filled in words if filled or not _BRACES.search(word)]
        return kept, {name: _filled(text, values) for name, text in self.command.env.items()}

    @property
    def needs(self) -> dict[str, Any]:
        """Resources of its command, and the paths that it requires."""
        paths = (os.path.expanduser(_filled(path, self._values)) for path in self.command.requires)
        return self.command.needs | {
            "requires": [os.path.join(self.command.folder, path) for path in paths]
        }

    @property
    def _values(self) -> dict[str, str]:
        values = self.factors | {name: getattr(self.command, name) for name in RESOURCES}
        return {name: command_factors.word(value) for name, value in values.items()}

    def note(self) -> dict[str, Any]:
        return {"command": asdict(self.command), "factors": self.factors}

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> CommandRun:
        command = {**note["command"], "words": tuple(note["command"]["words"])}
        return cls(Command(**command), note["factors"])


def placeholders(texts: Iterable[str]) -> set[str]:
    """Return the names in braces; an unclosed brace is a placeholder with an empty name."""
    found = (match for text in texts for match in _BRACES.finditer(text))
    return {match[1] or "" for match in found if match[0] not in ("{{", "}}")}


def _filled(text: str, values: Mapping[str, str]) -> str:
    single = {"{{": "{", "}}": "}"}
    return _BRACES.sub(lambda match: single.get(match[0]) or values[match[1]], text)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files.

    Hidden files, compiled Python and results of Batchscope are left out.

    Raises:
        UserError: If it cannot be read, or has too many files.
    """
    try:
        if not path.is_dir():
            return _of_file(path)
        files = sorted(_files(path))
        if len(files) > _MOST_FILES:
            raise UserError(f"received a folder of more than {_MOST_FILES} files")
        inside = {file.relative_to(path).as_posix(): _of_file(file) for file in files}
        return hashlib.sha256(repr(inside).encode()).hexdigest()
    except OSError as error:
        raise UserError(f"received '{path}', which cannot be read ({error.strerror})") from None


def _files(folder: Path) -> Iterator[Path]:
    own = {os.path.abspath(each) for each in ("results", "logs")}
    for place, folders, files in os.walk(folder, followlinks=True):
        here = Path(place)
        if here.is_symlink() and here.resolve() in {each.resolve() for each in here.parents}:
            folders.clear()  # a link to a parent folder
            continue
        kept = [each for each in folders if each[0] != "." and each != "__pycache__"]
        folders[:] = [each for each in kept if os.path.abspath(Path(place, each)) not in own]
        yield from (Path(place, name) for name in files if name[0] != ".")


def _of_file(path: Path) -> str:
    """Return the SHA-256 of a file, from the cache for a large file that has not changed."""
    check_regular(path, "a file")
    found = path.stat()
    if found.st_size < _LARGE:
        return disk.file_sha256(path)
    state = [found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]
    known, key = {}, str(path.resolve())
    with contextlib.suppress(UserError):
        known = disk.read_json(_KEPT)
    if key not in known or known[key][:-1] != state:
        known[key] = [*state, disk.file_sha256(path)]
        with contextlib.suppress(OSError):
            disk.write_json(_KEPT, known)
    return known[key][-1]
