"""Paths of the project's files, and of the code that tables, figures and reports depend on."""

import os
from pathlib import Path

WORKFLOW = Path(__file__).resolve().parents[2]
LIBRARY = WORKFLOW / "batchscope"
CLI = WORKFLOW / "run.py"
TEMPLATES = WORKFLOW / "templates"
STYLE = WORKFLOW / "report" / "batchscope.mplstyle"
DEFAULT_CONFIG = "config.yaml"  # the study of a call without --configfile

# The tables depend on these packages and on their own; figures and the report each add a package.
_TABLE_PACKAGES = (
    *("core", "host", "study", "store", "datasets", "measures", "timing", "external", "analysis"),
)
_OUTPUT_PACKAGES = ("tables", "figures", "report")


def templates() -> list[str]:
    return sorted(os.path.relpath(path) for path in TEMPLATES.iterdir())


def code_files(package: str) -> list[str]:
    """Return the modules that `tables`, `figures` or `report` depends on, as relative paths."""
    packages = (*_TABLE_PACKAGES, *_OUTPUT_PACKAGES[: _OUTPUT_PACKAGES.index(package) + 1])
    modules = [path for name in packages for path in (LIBRARY / name).rglob("*.py")]
    return sorted(map(os.path.relpath, [LIBRARY / "__init__.py", *modules]))
