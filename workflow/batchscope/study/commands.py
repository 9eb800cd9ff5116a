"""A user's command that makes runs: its placeholders, its inputs and the digest in its name."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from batchscope.core import disk
from batchscope.core.errors import UserError, check_regular
from batchscope.study import names, setting
from batchscope.study.factor_models import argument_text

RUN_DIR = "run_dir"
RESOURCES = ("threads", "gpus")
# A doubled brace, a placeholder, or an unclosed brace.
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\{")


@dataclass(frozen=True)
class Command:
    """A command with its placeholders, inputs and resources."""

    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)  # path -> SHA-256
    log: dict[str, Any] = field(default_factory=dict)  # keys of `log` in the study
    folder: str = "."  # working directory, the folder of the study file
    threads: int = 1
    gpus: int = 0
    memory_mb: int = 2000
    alone: bool = False
    resume: bool = False
    requires: tuple[str, ...] = ()  # paths with placeholders

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.words, *self.env.values())

    @cached_property
    def token(self) -> str:
        """Name of the command in paths, with a digest of everything that changes its numbers."""
        inputs = {"command": self.words, "env": self.env, "inputs": self.inputs, "log": self.log}
        used = placeholders(self.texts)
        inputs |= {name: getattr(self, name) for name in RESOURCES if name in used}
        inputs |= {"alone": True} if self.alone else {}
        return names.token("command", setting.digest(inputs))

    @property
    def needs(self) -> dict[str, Any]:
        device = {"device": "gpu", "replicas": self.gpus} if self.gpus else {"device": "cpu"}
        return {"threads": self.threads, "replicas": 1, **device}


class CommandRun(NamedTuple):
    """A run of a command."""

    command: Command
    factors: dict[str, Any]

    @property
    def name(self) -> str:
        return names.command_name(self.command.token, self.factors)

    def resolved(self, run_dir: str) -> tuple[list[str], dict[str, str]]:
        """Return the argument vector and the environment of a run in a folder.

        A word with a placeholder that becomes empty is left out, so that it may be a flag.
        """
        values = self._placeholder_texts | {RUN_DIR: run_dir}
        pairs = [(text, _filled(text, values)) for text in self.command.words]
        arguments = [filled for text, filled in pairs if filled or not _BRACES.search(text)]
        return arguments, {name: _filled(text, values) for name, text in self.command.env.items()}

    @property
    def needs(self) -> dict[str, Any]:
        """Resources of its command, and the paths that it requires."""
        texts, folder = self._placeholder_texts, self.command.folder
        paths = (os.path.expanduser(_filled(path, texts)) for path in self.command.requires)
        return self.command.needs | {"requires": [os.path.join(folder, path) for path in paths]}

    @property
    def _placeholder_texts(self) -> dict[str, str]:
        values = self.factors | {name: getattr(self.command, name) for name in RESOURCES}
        return {name: argument_text(value) for name, value in values.items()}

    def note(self) -> dict[str, Any]:
        return {"command": asdict(self.command), "factors": self.factors}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> CommandRun:
        command = {**note["command"], "words": tuple(note["command"]["words"])}
        return cls(Command(**command), note["factors"])


def placeholders(texts: Iterable[str]) -> set[str]:
    """Return the names in braces; an unclosed brace is a placeholder with an empty name."""
    matches = (match for text in texts for match in _BRACES.finditer(text))
    return {match[1] or "" for match in matches if match[0] not in ("{{", "}}")}


def _filled(text: str, values: Mapping[str, str]) -> str:
    single = {"{{": "{", "}}": "}"}
    return _BRACES.sub(lambda match: single.get(match[0]) or values[match[1]], text)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files.

    Hidden files, compiled Python and results of Batchscope are left out.

    Raises:
        UserError: If it cannot be read or contains the project's folder.
    """
    try:
        if not path.is_dir():
            return _file_digest(path)
        if path.resolve() in Path.cwd().parents:
            raise UserError(f"received '{path}', which contains the project's folder")
        files = sorted(_folder_files(path))
        inside = {file.relative_to(path).as_posix(): _file_digest(file) for file in files}
        return hashlib.sha256(repr(inside).encode()).hexdigest()
    except OSError as error:
        raise UserError(f"received '{path}', which cannot be read ({error.strerror})") from None


def _folder_files(folder: Path) -> Iterator[Path]:
    outputs = [Path(name).resolve() for name in ("results", "logs")]
    for name, folders, files in os.walk(folder, followlinks=True):
        current = Path(name)
        # `os.walk` visits only the folders that remain in its list.
        visible = [child for child in folders if child[0] != "." and child != "__pycache__"]
        folders[:] = [child for child in visible if (current / child).resolve() not in outputs]
        yield from (current / file for file in files if file[0] != ".")


def _file_digest(path: Path) -> str:
    check_regular(path, "a file")
    return disk.file_sha256(path)
