"""Make the JSON schema of a study file for editors from the models of `study.study_file`."""

from __future__ import annotations

import json
from typing import Any

from batchscope.study.experiments import KINDS
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
    schema = StudyFile.model_json_schema()
    experiments = schema["properties"]["experiments"]
    experiments["patternProperties"] = dict.fromkeys(
        experiments["patternProperties"], _experiment_schema()
    )
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Printed by `python workflow/run.py schema`.",
        "title": "Batchscope study",
    }
    return schema | head


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
