"""Where the files of the project beside the library lie."""

from __future__ import annotations

from pathlib import Path

WORKFLOW = Path(__file__).resolve().parents[1]
DOOR = WORKFLOW / "run.py"
SCHEMA = WORKFLOW / "schemas" / "config.schema.yaml"
TEMPLATES = WORKFLOW / "templates"
CAPTIONS = WORKFLOW / "report"
LOCKS = WORKFLOW.parent / "envs"
