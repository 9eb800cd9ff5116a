"""JSON schema of a study file, for editors: hints and completion."""

from __future__ import annotations

import json
from typing import Any

from batchscope.study.study_file import StudyFile

_WIDTH = 110


def text() -> str:
    return _lines(document()) + "\n"


def document() -> dict[str, Any]:
    """Return the schema. It accepts every file that planning accepts."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Printed by `python workflow/run.py schema`.",
        "title": "Batchscope study",
    }
    return {**head, **_without_titles(StudyFile.model_json_schema())}


def _without_titles(schema: Any, named: bool = False) -> Any:
    """Return a schema without pydantic's titles of fields, with descriptions on one line.

    Args:
        named: Whether the keys are names of the study file instead of words of JSON schema.
    """
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _without_titles(value, key in ("properties", "$defs") and not named)
        for key, value in schema.items()
        if named or key != "title"
    }
    if not named and isinstance(found.get("description"), str):
        found["description"] = " ".join(found["description"].split())
    return found


def _lines(value: Any, indent: str = "") -> str:
    """Return JSON in which a value stands on one line if it is short."""
    short = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(short) <= _WIDTH or not isinstance(value, dict | list):
        return short
    inner = f"{indent} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_lines(item, inner)}" for key, item in value.items()]
    else:
        parts = [_lines(item, inner) for item in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{right}"
