"""A user's command that makes runs: its placeholders, its inputs and the digest in its name.

The functions from `make_grid` on plan the runs of an experiment with a command.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from batchscope.core import disk
from batchscope.core.errors import UserError, check_regular
from batchscope.core.problems import Place, Problem, received
from batchscope.study import model, names
from batchscope.study.experiments import CommandExperiment
from batchscope.study.factor_maps import (
    NAME_BY_ALIAS,
    RESERVED_NAMES,
    argument_text,
    command_factors,
)
from batchscope.study.grids import Grid, SeedPlan
from batchscope.study.model import Model

RUN_DIR = "run_dir"
RESOURCES = ("threads", "gpus")
# A doubled brace, a placeholder, or an unclosed brace.
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\{")
_SCRIPT_SUFFIXES = (".py", ".sh")


class Command(Model):
    """A command with its placeholders, inputs and resources."""

    words: tuple[str, ...] = ()
    env: dict[str, str] = {}
    inputs: dict[str, str] = {}  # path -> SHA-256
    log: dict[str, Any] = {}  # keys of `log` in the study
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
        return names.token("command", model.digest(inputs))

    @property
    def needs(self) -> dict[str, Any]:
        device = {"device": "gpu", "replicas": self.gpus} if self.gpus else {"device": "cpu"}
        return {"threads": self.threads, "replicas": 1, **device}


class CommandRun(Model):
    """A run of a command, which its note in the folder of the run repeats."""

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
        texts, folder = self._placeholder_texts, self.command.folder
        paths = (os.path.expanduser(_filled(path, texts)) for path in self.command.requires)
        return self.command.needs | {"requires": [os.path.join(folder, path) for path in paths]}

    @property
    def _placeholder_texts(self) -> dict[str, str]:
        values = self.factors | {name: getattr(self.command, name) for name in RESOURCES}
        return {name: argument_text(value) for name, value in values.items()}


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


def make_grid(
    place: Place, keys: CommandExperiment, defaults: dict[str, Any], seeds: SeedPlan
) -> Grid:
    """Return the grid of an experiment, with the defaults of factors that a placeholder uses."""
    explicit = {*keys.set, *keys.vary, *(name for case in keys.cases for name in case)}
    used = placeholders((*keys.command, *keys.env.values()))
    inherited = {name: value for name, value in defaults.items() if name in used - explicit}
    factors = command_factors({*(explicit & used), *inherited, "batch_size"})
    del factors["seed"]
    return Grid(place, factors, inherited, keys.set, keys.cases, keys.vary, seeds)


def read(place: Place, keys: CommandExperiment, folder: Path, problems: list[Problem]) -> Command:
    """Return the command of an experiment. Inputs that cannot be read are added to `problems`."""
    inputs = {}
    for index, path in enumerate(keys.inputs):
        try:
            inputs[path] = sha256(folder / os.path.expanduser(path))
        except UserError as error:
            text = f"{error}. Expected a file or a folder, relative to the study file."
            problems.append(Problem((*place, "inputs", index), text))
    log = keys.log.model_dump(exclude_unset=True)
    if keys.metrics:
        log["metrics"] = keys.metrics
    return Command(
        words=keys.command,
        env=keys.env,
        inputs=inputs,
        log=log,
        folder=os.path.abspath(folder),
        threads=keys.resources.threads,
        gpus=keys.resources.gpu,
        memory_mb=keys.resources.mem_mb,
        alone=keys.alone,
        resume=keys.resume,
        requires=keys.requires,
    )


def placeholder_problems(place: Place, keys: CommandExperiment, grid: Grid) -> Iterator[Problem]:
    """Yield unknown placeholders, factors that no placeholder uses, and reserved factors."""
    # Factor -> its key in the experiment.
    stated: dict[str, Place] = {name: ("set", name) for name in keys.set}
    cases = enumerate(keys.cases)
    stated |= {name: ("cases", index, name) for index, case in cases for name in case}
    stated |= {name: ("vary", name) for name in keys.vary}
    valid = {*grid.factors, *stated, "seed", RUN_DIR, *RESOURCES}
    texts: dict[Place, str] = {("command", index): word for index, word in enumerate(keys.command)}
    texts |= {("env", name): text for name, text in keys.env.items()}
    used = placeholders(texts.values())
    texts |= {("requires", index): path for index, path in enumerate(keys.requires)}
    for key_place, text in texts.items():
        allowed = sorted(valid - {RUN_DIR} if key_place[0] == "requires" else valid)
        for name in sorted(placeholders([text]).difference(allowed)):
            choices = [f"{{{item}}}" for item in allowed]
            placeholder, expected = f"{{{name}}}" if name else "{", f"one of {', '.join(choices)}"
            yield received((*place, *key_place), placeholder, f"{expected}, or {{{{", choices)
    for name, key in stated.items():
        if text := _reason_reserved(name):
            yield Problem((*place, *key), text)
    needed = {"seed": ("seeds",), **stated} | ({RUN_DIR: ("log", "file")} if keys.log.file else {})
    for name, key in needed.items():
        if name not in used:
            text = f"The command has no placeholder for it. Add {{{name}}} to command or env."
            yield Problem((*place, *key), text)


def _reason_reserved(name: str) -> str:
    """Return the reason why a command may not have a factor; empty if it may."""
    if name == "seed":
        return "The experiment's key `seeds` states the seeds."
    if name in RESERVED_NAMES:
        return "Choose another name, or state `resources: {threads: 4, gpu: 1}` in the experiment."
    if name in NAME_BY_ALIAS:
        return f"Unknown factor. Did you mean '{NAME_BY_ALIAS[name]}'?"
    return "" if re.fullmatch("[a-z][a-z0-9_]{0,59}", name) else "Unknown factor."


def make_runs(command: Command, grid: Grid, problems: list[Problem]) -> dict[str, CommandRun]:
    """Return the runs by their names; add a problem and return none if two are equal."""
    planned_runs: dict[str, CommandRun] = {}
    first_runs: dict[str, str] = {}  # command with its arguments -> the first run that has it
    for _, factors, _ in grid.combinations():
        first_factors = {**factors, "seed": grid.seeds.every[0]}
        configuration = names.command_name(command.token, first_factors)
        for seed in grid.seeds.current(configuration):
            run = CommandRun(command=command, factors={**factors, "seed": seed})
            first = first_runs.setdefault(repr(run.resolved(RUN_DIR)), run.name)
            if first != run.name or run.name in planned_runs:
                text = f"Two runs have the same command: {first} and {run.name}."
                problems.append(Problem((*grid.place, "command"), text))
                return {}
            planned_runs[run.name] = run
    return planned_runs


def missing_inputs(place: Place, command: Command) -> Iterator[Problem]:
    """Yield the scripts in a command's words that no input contains."""
    inputs = {Path(os.path.normpath(path)) for path in command.inputs}
    for word in command.words:
        path = Path(os.path.normpath(word))
        is_script = path.suffix in _SCRIPT_SUFFIXES and os.path.isfile(Path(command.folder, word))
        if is_script and inputs.isdisjoint({path, *path.parents}):
            text = f"A change of {word} makes no new run. Add inputs: [{word}]."
            yield Problem((*place, "inputs"), text)


def missing_programs(place: Place, runs: Mapping[str, CommandRun]) -> Iterator[Problem]:
    """Yield the missing programs of commands. Runs that lack a required file are left out."""
    programs = set()
    for run in runs.values():
        arguments, env = run.resolved(RUN_DIR)
        if arguments and all(map(os.path.exists, run.needs["requires"])):
            folder = run.command.folder if os.path.dirname(arguments[0]) else ""
            programs.add((arguments[0], folder, env.get("PATH")))
    for program, folder, path in sorted(programs, key=str):
        if shutil.which(os.path.join(folder, program), path=path) is None:
            text = "a program on the PATH, or its path relative to the study file"
            yield received((*place, "command"), program, text)
