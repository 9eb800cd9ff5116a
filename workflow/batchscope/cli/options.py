"""Every option of the command line: it means the same in each command that has it."""

from __future__ import annotations

import functools
import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from batchscope import project_files
from batchscope.errors import unexpected
from batchscope.problems import show
from batchscope.store import looks
from batchscope.study import log_keys, optimizer_constants, snapshot_epochs, tasks
from batchscope.study.model import Positive
from batchscope.study.names import (
    configuration,
    is_command,
    parse_run,
    parse_settings,
    parse_sweep,
    split_token,
)

_POSITIVE = TypeAdapter(Positive)


def converted(option: str, parse: Callable[[str], Any], expected: str, word: str) -> Any:
    """Returns what `parse` makes of a word; raises `UserError` where it raises."""
    try:
        return parse(word)
    except (KeyError, ValueError):
        raise unexpected(option, show(word), expected) from None


def _word(option: str, parse: Callable[[str], Any], expected: str, **given: Any) -> dict[str, Any]:
    read = functools.partial(converted, option, parse, expected)
    return {"type": read, "required": "default" not in given, "help": expected, **given}


def _name(option: str, parse: Callable[[str], Any], what: str, **given: Any) -> dict[str, Any]:
    """Returns the keywords of an option for a name in paths, which stays as it is written."""

    def checked(word: str) -> str:
        parse(word)
        return word

    return _word(option, checked, f"the name of {what} in paths", **given)


def _map(word: str) -> dict[str, Any]:
    if not isinstance(found := json.loads(word), dict):
        raise ValueError
    return found


def _command(word: str) -> None:
    if not is_command(word):
        raise ValueError


# What argparse's `add_argument` is given.
_FLAG = {"action": "store_true"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "config": {"nargs": "?", "default": project_files.DEFAULT_CONFIG, "help": "the study's file"},
    "data": {"help": "a folder of images or of logs, a table, a text, arrays, or such as digits"},
    "model": {"nargs": "?", "help": "your model's file; one that is built in if left out"},
    "--label": {"metavar": "COLUMN", "help": "of a table; the last column if left out"},
    "--task": {
        "choices": tuple(tasks.TASKS),
        "help": "what is learned, where labels leave it open",
    },
    "--optimizer": {
        "choices": tuple(optimizer_constants.CONSTANTS),
        "help": "that of the model's compile, or adam, if left out",
    },
    "words": {
        **{"nargs": "*", "metavar": "WORD"},
        "help": "such as batch_size or not resolved; all if left out",
    },
    "names": {
        **{"nargs": "*", "metavar": "WORD"},
        "help": "a study's name, or of a run's name, such as bs=16 seed=0",
    },
    "files": {"nargs": "+", "metavar": "FILES", "help": "logs, folders, and patterns with {name}"},
    "--columns": {
        **{"nargs": "+", "default": [], "metavar": "OURS=THEIRS"},
        "help": "such as validation_loss=val/loss batch_size=bs",
    },
    "--examples-per-epoch": {
        **{"type": float, "metavar": "N"},
        "help": "training examples of an epoch, where logs count epochs",
    },
    "--pattern": {
        **{"metavar": "PATTERN"},
        "help": "of paths, bs{batch_size}_seed{seed}, or of a column, 'run: bs{batch_size}'",
    },
    "--factors": {
        **{"nargs": "+", "metavar": "COLUMN"},
        "help": "further columns that are factors",
    },
    "--lines": {
        **{"nargs": "+", "metavar": "PATTERN"},
        "help": "of printed lines: 'step {updates}: loss {train_loss}', or keras",
    },
    "--rows": {
        **{"choices": (log_keys.AT_TARGET,)},
        "help": "the single row of every run is the one at its target; else it is the run's end",
    },
    "--config": {"required": True, "help": "the study's file"},
    "--scale": {"choices": ("full", "reduced"), "default": "full"},
    "--results": {"type": Path, "default": Path("results"), "help": "the results"},
    "--output": {"type": Path, "required": True, "help": "the file or folder to write"},
    "--experiment": {"required": True},
    "--gpus": {**_FLAG, "help": "jobs go to GPUs: to a cluster"},
    "--verify": {**_FLAG, "help": "check every recorded SHA-256"},
    "--once": {**_FLAG, "help": "print it once, as for a pipe"},
    "--seeds": {**_FLAG, "help": "and what more seeds would resolve"},
    "--partial": {**_FLAG, "help": "from whatever exists"},
    "--seconds": _word(
        "--seconds",
        lambda word: _POSITIVE.validate_python(float(word)),
        "a positive number of seconds",
        default=5.0,
    ),
    "--study": {
        **{"nargs": "*", "default": [], "metavar": "NAME"},
        "help": "folders in results/studies; all that have a report if left out",
    },
    "--dataset": _name("--dataset", split_token, "a data set"),
    "--definition": _word("--definition", _map, "its definition as JSON"),
    "--run": _name("--run", parse_run, "a run"),
    "--command": _name("--command", _command, "a command's run"),
    "--of-study": {"required": True, "help": "the name of a study in paths"},
    "--bundle": {"required": True, "help": "the name of a bundle of jobs in paths"},
    "--other": _name("--other", parse_run, "a run"),
    "--sweep": _name("--sweep", parse_sweep, "a sweep"),
    "--timing": _name("--timing", configuration, "a timing configuration"),
    "--machine": {"default": "local"},
    "--epoch": _word(
        "--epoch",
        lambda word: word if word == snapshot_epochs.MIDDLE else int(word),
        f"a number of epochs or {snapshot_epochs.MIDDLE}",
    ),
    # The workflow writes the option without a value for a built-in model.
    "--model-file": {"nargs": "?", "help": "the user's model file"},
    "--chunk-seconds": {"type": float, "default": 5.0, "help": "most in one call"},
    "--chunk-steps": {"type": int, "help": "most steps in one call"},
    "--checkpoint-seconds": {"type": float, "default": 30.0, "help": "between two"},
    "--killed-at-mb": {"type": float, "help": "the kernel killed it at this limit"},
    "--batch-size": {"type": int, "required": True},
    "--memory-mb": {"type": float, "help": "the limit"},
    "--tables": {"type": Path, "required": True},
    "--processes": {"type": int, "default": 1},
}


def add(parser: ArgumentParser, *names: str, output_required: bool = True) -> None:
    """Adds options by their names."""
    for name in names:
        changed = {} if output_required or name != "--output" else {"required": False}
        short = ("-o",) if name == "--output" else ()
        parser.add_argument(*short, name, **{**_OPTIONS[name], **changed})


def add_settings(parser: ArgumentParser, step: str) -> None:
    parse = functools.partial(parse_settings, step)
    given = _name("--settings", parse, "its settings", default="default")
    parser.add_argument("--settings", **given)


def study(arguments: Namespace) -> Any:
    """Returns the study, which has the experiment that is asked for."""
    from batchscope.study import config

    looked = functools.partial(looks.stages, vars(arguments).get("results", "results"))
    found = config.study(arguments.config, arguments.scale, looked=looked)
    if "experiment" in arguments:
        known = found.experiments
        expected = f"one of {', '.join(known)}"
        converted("--experiment", known.__getitem__, expected, arguments.experiment)
    return found


def logs(arguments: Namespace) -> Any:
    """Return the keys of logs; paths that exist are no patterns.

    Raises:
        UserError: If an option is invalid.
    """
    columns = dict(word.partition("=")[::2] for word in arguments.columns)
    if wrong := [word for word in arguments.columns if not all(word.partition("="))]:
        raise unexpected("--columns", show(wrong[0]), "such as batch_size=bs")
    stated = {
        "files": [
            log_keys.escaped(file) if os.path.exists(file) else file for file in arguments.files
        ],
        "columns": columns,
        "pattern": yaml.safe_load(arguments.pattern or "") or {},
        **{
            name: vars(arguments)[name]
            for name in ("factors", "lines", "examples_per_epoch", "rows")
        },
    }
    try:
        keys = {name: value for name, value in stated.items() if value is not None}
        return log_keys.Logs.model_validate(keys)
    except ValidationError as error:
        option = str(error.errors()[0]["loc"][0]).replace("_", "-")
        raise unexpected(f"--{option}", show(stated.get(option)), "another value") from None


def last_study(results: Path, names: Collection[str] = ()) -> Any:
    """Return the study that ran last, or the last of some names; None before the first run."""
    from batchscope.store import owners
    from batchscope.study import config

    if not (last := owners.last(results, names)):
        return None
    return config.study(*last, looked=functools.partial(looks.stages, results))
