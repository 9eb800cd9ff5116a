"""Make the JSON schema of a study file for editors from the models of `study.study_file`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from batchscope.study.experiments import KINDS
from batchscope.study.figures import FIGURES
from batchscope.study.study_file import StudyFile

Schema = dict[str, Any]


def text() -> str:
    """Return the schema as JSON with a line for each definition."""
    schema = document()
    definitions = schema.pop("$defs").items()
    lines = [json.dumps({name: body}, ensure_ascii=False)[1:-1] for name, body in definitions]
    head = json.dumps(schema, ensure_ascii=False)[:-1]
    return "\n".join([f'{head}, "$defs": {{', ",\n".join(lines), "}}", ""])


def document() -> Schema:
    """Return the schema. It accepts every file that planning accepts."""
    schema = _without_titles(StudyFile.model_json_schema())
    for union in [*_nested_schemas(schema)]:
        if "discriminator" in union:
            discriminator = union.pop("discriminator")
            del union["oneOf"]
            union |= _union_schema(discriminator["propertyName"], discriminator["mapping"])
    experiments = schema["properties"]["experiments"]
    experiments["patternProperties"] = dict.fromkeys(
        experiments["patternProperties"], _experiment_schema()
    )
    figures = {"enum": list(FIGURES)}
    for model in KINDS.values():
        keys = schema["$defs"][model.__name__]["properties"]
        keys["figures"]["anyOf"] = [figures, {"type": "array", "items": figures}]
        keys["published"]["propertyNames"] = figures
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Printed by `python workflow/run.py schema`.",
        "title": "Batchscope study",
    }
    return head | schema


def _experiment_schema() -> Schema:
    """Return the schema of an experiment, whose keys decide its kind.

    Editors report the errors of that kind. With `oneOf`, they would say only that no kind fits.
    """
    *kinds, (_, last) = KINDS.items()
    schema = {"$ref": f"#/$defs/{last.__name__}"}
    for key, model in reversed(kinds):
        kind = {"$ref": f"#/$defs/{model.__name__}"}
        schema = {"if": {"required": [key]}, "then": kind, "else": schema}
    return schema


def _union_schema(key: str, members: Mapping[str, str]) -> Schema:
    """Return the schema of a union whose members are distinguished by the value of a key."""
    cases = [
        {"if": {"properties": {key: {"const": value}}}, "then": {"$ref": member}}
        for value, member in members.items()
    ]
    return {"required": [key], "properties": {key: {"enum": [*members]}}, "allOf": cases}


def _nested_schemas(node: Any) -> Iterator[Schema]:
    """Yield all maps within a schema."""
    if isinstance(node, dict):
        yield node
    for item in node.values() if isinstance(node, dict) else node:
        if isinstance(item, dict | list):
            yield from _nested_schemas(item)


def _without_titles(schema: Any, named: bool = False) -> Any:
    """Return a schema without pydantic's titles and nulls, with descriptions on one line.

    Args:
        named: Whether the keys of the map are names of the study file, not words of JSON schema.
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
