"""Options that several commands have, and words of options that must be of a form."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchscope import project_files
from batchscope.errors import UserError
from batchscope.problems import received


def add_results(parser: ArgumentParser) -> None:
    """Adds the folder of results."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="the results")


def add_study(parser: ArgumentParser, named: bool = False) -> None:
    """Adds the study's file and scale, and the folder of results.

    Args:
        named: Whether the file is a required option, or else an argument that may be left out.
    """
    text = "the configuration file"
    if named:
        parser.add_argument("--config", required=True, help=text)
    else:
        parser.add_argument("config", nargs="?", default=project_files.DEFAULT_CONFIG, help=text)
    parser.add_argument("--scale", choices=("full", "reduced"), default="full")
    add_results(parser)


def add_word(
    parser: ArgumentParser, option: str, parse: Callable[[str], Any], expected: str, **given: Any
) -> None:
    """Adds an option that takes what `parse` does not raise at, and holds the word itself."""

    def read(word: str) -> str:
        converted(option, parse, expected, word)
        return word

    parser.add_argument(option, type=read, required="default" not in given, help=expected, **given)


def converted(option: str, parse: Callable[[str], Any], expected: str, word: str) -> Any:
    """Returns what `parse` makes of a word; raises UserError where it raises."""
    try:
        return parse(word)
    except (KeyError, ValueError):
        raise UserError(received((option,), word, expected).line) from None


def study(arguments: Namespace) -> Any:
    """Returns the study, which has the experiment that is asked for."""
    from batchscope.study import config

    found = config.study(arguments.config, arguments.scale)
    if "experiment" in arguments:
        known = found.experiments
        expected = f"one of {', '.join(known)}"
        converted("--experiment", known.__getitem__, expected, arguments.experiment)
    return found
