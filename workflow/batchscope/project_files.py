"""Where the files of the project beside the library lie, and which code a room depends on."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

WORKFLOW = Path(__file__).resolve().parents[1]
LIBRARY = WORKFLOW / "batchscope"
DOOR = WORKFLOW / "run.py"
TEMPLATES = WORKFLOW / "templates"
STYLE = WORKFLOW / "report" / "batchscope.mplstyle"
LOCKS = WORKFLOW.parent / "envs"
DEFAULT_CONFIG = "config.yaml"  # of the study that runs where none is named

# `from batchscope.a.b import c, d`, its names perhaps in parentheses over several lines.
_IMPORT = re.compile(
    r"^[ \t]*from batchscope(?:\.([\w.]+))? import (?:\(([^)]*)\)|([^\n(]+))", re.M
)


def templates() -> list[str]:
    """Returns the files that the page is made from, relative to the working directory."""
    return sorted(os.path.relpath(path) for path in TEMPLATES.iterdir())


def code_of(room: str) -> list[str]:
    """Returns a room's modules and all that they import from the library, wherever they do.

    The paths are relative to the working directory, and sorted.
    """
    found: set[Path] = set()
    queue = list((LIBRARY / room).rglob("*.py"))
    while queue:
        path = queue.pop()
        if path not in found:
            found.add(path)
            queue += _imported(path)
    return sorted(os.path.relpath(path) for path in found)


@functools.cache
def _imported(path: Path) -> list[Path]:
    found: list[Path] = []
    for package, several, one in _IMPORT.findall(path.read_text(encoding="utf-8")):
        home = LIBRARY.joinpath(*package.split(".")) if package else LIBRARY
        names = [part.split(" as ")[0].strip() for part in (several or one).split(",")]
        modules = [_module(each) for each in (home, *(home / name for name in names))]
        found += filter(None, modules)
        if home.is_dir() and None in modules:
            found += home.rglob("*.py")  # what a package finds by itself
    return found


@functools.cache
def _module(path: Path) -> Path | None:
    """Returns the file of a module or package; None for a name in one."""
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
