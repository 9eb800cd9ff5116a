"""JSON schema of a study file, for editors: hints and completion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from batchscope.study.experiments import KINDS
from batchscope.study.figures import FIGURES
from batchscope.study.study_file import StudyFile

_WIDTH = 150
_SHORT = 60  # characters; a longer schema that occurs several times becomes a definition

Schema = dict[str, Any]


def text() -> str:
    return _lines(document()) + "\n"


def document() -> Schema:
    """Return the schema. It accepts every file that planning accepts."""
    schema = _without_titles(StudyFile.model_json_schema())
    for union in [*_schemas(schema)]:
        if "discriminator" in union:
            discriminator = union.pop("discriminator")
            del union["oneOf"]
            union |= _by_value(discriminator["propertyName"], discriminator["mapping"])
    experiments = schema["properties"]["experiments"]
    experiments["patternProperties"] = dict.fromkeys(experiments["patternProperties"], _by_kind())
    figures = {"enum": list(FIGURES)}
    for model in KINDS.values():
        keys = schema["$defs"][model.__name__]["properties"]
        keys["figures"]["anyOf"] = [figures, {"type": "array", "items": figures}]
        keys["published"]["propertyNames"] = figures
    _share(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Printed by `python workflow/run.py schema`.",
        "title": "Batchscope study",
    }
    return head | schema


def _by_kind() -> Schema:
    """Return the schema of an experiment. Its keys decide its kind.

    With it, editors report the errors of that kind; with `oneOf`, only that no kind fits.
    """
    *kinds, (_, last) = KINDS.items()
    schema = {"$ref": f"#/$defs/{last.__name__}"}
    for key, model in reversed(kinds):
        kind = {"$ref": f"#/$defs/{model.__name__}"}
        schema = {"if": {"required": [key]}, "then": kind, "else": schema}
    return schema


def _by_value(key: str, members: Mapping[str, str]) -> Schema:
    """Return the schema of a union: the value of a key distinguishes its members."""
    cases = [
        {"if": {"properties": {key: {"const": value}}}, "then": {"$ref": member}}
        for value, member in members.items()
    ]
    return {"required": [key], "properties": {key: {"enum": [*members]}}, "allOf": cases}


def _share(schema: Schema) -> None:
    """Replace schemas of keys that occur several times by references to one definition."""
    definitions = schema["$defs"]
    maps = [node["properties"] for node in _schemas(schema) if "properties" in node]
    counts = Counter(json.dumps(value) for keys in maps for value in keys.values())
    names: dict[str, str] = {}
    for keys in maps:
        for key, value in keys.items():
            written = json.dumps(value)
            if counts[written] > 1 and len(written) > _SHORT:
                if written not in names:
                    number = sum(name.partition("-")[0] == key for name in names.values())
                    names[written] = f"{key}-{number + 1}" if number else key
                    definitions[names[written]] = value
                keys[key] = {"$ref": f"#/$defs/{names[written]}"}


def _schemas(node: Any) -> Iterator[Schema]:
    """Yield all maps within a schema."""
    if isinstance(node, dict):
        yield node
    for item in node.values() if isinstance(node, dict) else node:
        if isinstance(item, dict | list):
            yield from _schemas(item)


def _without_titles(schema: Any, named: bool = False) -> Any:
    """Return a schema without pydantic's titles and nulls, with descriptions on one line.

    Args:
        named: Whether the keys are names of the study file instead of words of JSON schema.
    """
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {
        key: _without_titles(value, key in ("properties", "$defs") and not named)
        for key, value in schema.items()
        if named or (key != "title" and (key, value) != ("default", None))
    }
    if not named and isinstance(cleaned.get("description"), str):
        cleaned["description"] = " ".join(cleaned["description"].split())
    return cleaned


def _lines(value: Any, indent: str = "") -> str:
    """Return JSON in lines of at most `_WIDTH` characters, each filled with short items."""
    short = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(short) <= _WIDTH or not isinstance(value, dict | list):
        return short
    inner = f"{indent} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_lines(item, inner)}" for key, item in value.items()]
    else:
        parts = [_lines(item, inner) for item in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    lines = [""]
    for part in parts:
        line = f"{lines[-1]}, {part}" if lines[-1] else part
        if "\n" not in line and len(inner) + len(line) < _WIDTH:
            lines[-1] = line
        else:
            lines.append(part)
    text = f",\n{inner}".join(filter(None, lines))
    return f"{left}\n{inner}{text}\n{indent}{right}"
