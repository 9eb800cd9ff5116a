"""Where the files of the project beside the library lie, and the code behind tables and pages."""

import os
from pathlib import Path

WORKFLOW = Path(__file__).resolve().parents[1]
LIBRARY = WORKFLOW / "batchscope"
CLI = WORKFLOW / "run.py"
TEMPLATES = WORKFLOW / "templates"
STYLE = WORKFLOW / "report" / "batchscope.mplstyle"
DEFAULT_CONFIG = "config.yaml"  # of the study that runs where none is named

# Package -> the packages whose code decides what it writes, beside the library's own modules.
_TABLES = (
    *("host", "study", "store", "datasets", "measures"),
    *("timing", "external", "analysis", "tables"),
)
_BEHIND = {
    "tables": _TABLES,
    "figures": (*_TABLES, "figures"),
    "report": (*_TABLES, "figures", "report"),
}


def templates() -> list[str]:
    return sorted(os.path.relpath(path) for path in TEMPLATES.iterdir())


def code_of(package: str) -> list[str]:
    """Returns the modules that decide what tables, figures or the report hold.

    The paths are relative to the working directory, and sorted.
    """
    own = {path for path in LIBRARY.glob("*.py")}
    behind = (path for name in _BEHIND[package] for path in (LIBRARY / name).rglob("*.py"))
    return sorted(map(os.path.relpath, own.union(behind)))
