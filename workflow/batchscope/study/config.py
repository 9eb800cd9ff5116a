"""Reading a study's file: strict YAML, the options of the command line, the planned study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from batchscope.catalogue.parameters import Parameter
from batchscope.errors import ConfigError, UserError, check_regular
from batchscope.problems import Problem, missing_blank, received, show, unknown
from batchscope.study import plan, planner, yaml_text

SCALES = ("full", "reduced")
AUTO = "auto"
# What --config takes: how a study is run, and nothing of what it is.
OVERRIDES = {"scale": "full", "partial": False, "runs_per_job": AUTO}
_RUNS_PER_JOB = Parameter(kind="int", minimum=1, words=((AUTO, AUTO),))

_MOST_BYTES = 500_000  # fifty times a long study
_FILE = "a file that begins with `study:`"


def read(path: Path | str) -> dict[str, Any]:
    """Reads a configuration file; nothing but its YAML is checked.

    Raises:
        UserError: If it is no file of UTF-8 YAML that holds one map without duplicate keys.
    """
    text = _read_text(path)
    try:
        config = yaml_text.parse(text)
    except yaml.MarkedYAMLError as error:
        raise UserError(_yaml_message(path, text, error)) from None
    except yaml.reader.ReaderError as error:
        where = _position(path, text[: error.position])
        got = f"received the character {error.character:#04x}"
        raise UserError(f"{where}: {got}; printable text is expected.") from None
    except RecursionError:
        got = "received lists or maps nested too deep"
        raise UserError(f"{path}: {got}; a few levels are expected.") from None
    if not isinstance(config, dict):
        got = "an empty file" if config is None else show(config)
        raise UserError(f"{path}: received {got}; {_FILE} is expected.")
    return config


def _read_text(path: Path | str) -> str:
    try:
        check_regular(path, _FILE)
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            got = f"received a file of more than {_MOST_BYTES} bytes"
            raise UserError(f"{path}: {got}; {_FILE}, and a smaller one, is expected.")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: received no such file; {_FILE} is expected.") from None
    except IsADirectoryError:
        raise UserError(f"{path}: received a folder; {_FILE} is expected.") from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        got = f"received the byte {error.object[error.start]:#04x}"
        raise UserError(f"{_position(path, before)}: {got}; UTF-8 is expected.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: {reason}; {_FILE} is expected.") from None


def _position(path: Path | str, before: str) -> str:
    """Returns file, line and column of what follows `before`."""
    return f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _yaml_message(path: Path | str, text: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    problem = " ".join(str(error.problem or error.context).split())
    if problem.startswith("but "):
        problem = f"{error.context}, {problem}"
    if isinstance(error, yaml_text.Refused):
        return f"{where}: {problem} expected."
    # The line that lacks a blank is taken for text, and what follows it is found at fault.
    first = (error.context_mark or mark).line - 1 if mark else 0
    lines = text.splitlines()[max(first, 0) : mark.line + 1] if mark else []
    hint = next(filter(None, (missing_blank(line.strip(" -")) for line in lines)), "")
    return f"{where}: broken YAML: {problem}; valid YAML is expected.{hint}"


def study(
    path: Path | str,
    scale: str = "full",
    recorded: planner.Recorded = planner.unrecorded,
    looked: planner.Looked = planner.unlooked,
) -> plan.Study:
    """Returns the planned study of a configuration file.

    Raises:
        ConfigError: With every problem of structure and of meaning.
        UserError: If the file cannot be read.
    """
    return planner.make(read(path), scale, recorded, Path(path).parent, looked)


def check_overrides(given: dict[str, Any], loaded: dict[str, Any]) -> dict[str, Any]:
    """Returns what `--config` asked for, or the default of each of `OVERRIDES`.

    Args:
        given: Snakemake's configuration: the file's, changed by `--config`.
        loaded: The file's own, from `read`.

    Raises:
        ConfigError: If anything else was given.
    """
    problems = []
    options = dict(OVERRIDES)
    asked = {key: given[key] for key in options if key in given and key not in loaded}
    for key in sorted({*given, *loaded} - {*asked}):
        if key not in loaded:
            problems.append(unknown(("--config", key), "key", sorted(options)))
        elif key not in given or _comparable(given[key]) != _comparable(loaded[key]):
            text = "received another value than the file's; "
            text += f"{', '.join(options)} are expected: a study is changed in its file."
            problems.append(Problem(("--config", key), text))
    options |= asked
    if options["scale"] not in SCALES:
        place = ("--config", "scale")
        problems.append(received(place, options["scale"], "full or reduced", SCALES))
    try:
        options["partial"] = parse_flag(options["partial"])
    except ValueError:
        place = ("--config", "partial")
        problems.append(received(place, options["partial"], "true or false"))
    try:
        options["runs_per_job"] = _RUNS_PER_JOB.read(options["runs_per_job"])
    except ValueError:
        place = ("--config", "runs_per_job")
        problems.append(received(place, options["runs_per_job"], _RUNS_PER_JOB.expected))
    if problems:
        lines = [problem.line.replace("--config.", "--config ", 1) for problem in problems]
        raise ConfigError(lines)
    return options


def _comparable(value: Any) -> Any:
    """Returns a value in which whatever is or spells a number is one text for that number.

    Snakemake reads a file as JSON where it can, to which 1e-05 is a number, and YAML 1.1 has it
    as text.
    """
    if isinstance(value, dict):
        return {key: _comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    try:
        return str(float(value))  # as text not a number is equal to itself
    except (TypeError, ValueError, OverflowError):
        return value


def parse_flag(value: Any) -> bool:
    """Returns a flag of the command line, where "false" is text and therefore truthy.

    Raises:
        ValueError: If it is neither true nor false.
    """
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"Expected true or false. Received: {value!r}")
    return text == "true"
