"""Paths of the project's files outside the library, and of the code behind tables and pages."""

import os
from pathlib import Path

WORKFLOW = Path(__file__).resolve().parents[2]
LIBRARY = WORKFLOW / "batchscope"
CLI = WORKFLOW / "run.py"
TEMPLATES = WORKFLOW / "templates"
STYLE = WORKFLOW / "report" / "batchscope.mplstyle"
DEFAULT_CONFIG = "config.yaml"  # the study of a call without --configfile

# Packages with code of the tables; figures and the report each add a package.
_TABLES = (
    "core",
    "host",
    "study",
    "store",
    "datasets",
    "measures",
    "timing",
    "external",
    "analysis",
)
_OUTPUTS = ("tables", "figures", "report")


def templates() -> list[str]:
    return sorted(os.path.relpath(path) for path in TEMPLATES.iterdir())


def code_of(package: str) -> list[str]:
    """Return the modules behind the tables, the figures or the report, as relative paths."""
    packages = (*_TABLES, *_OUTPUTS[: _OUTPUTS.index(package) + 1])
    modules = [path for name in packages for path in (LIBRARY / name).rglob("*.py")]
    return sorted(map(os.path.relpath, [LIBRARY / "__init__.py", *modules]))
