"""The schema as editors read it: what a study may hold, in the words of JSON schema alone.

Editors take it for hints and completion. Whatever the program accepts is valid in it; what only
planning can detect (a batch size above the training set, a figure without its measure) is too.
"""

from __future__ import annotations

import json
from typing import Any

from batchscope.catalogue.figures import FIGURES
from batchscope.study.document import StudyFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def text() -> str:
    """Returns the schema as the text of a JSON file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """Returns the schema."""
    found = _without_titles(StudyFile.model_json_schema())
    comment = "Printed by `python workflow/run.py schema`."
    head = {"$schema": _DIALECT, "$comment": comment, "title": "Batchscope study"}
    experiment = found["$defs"]["ExperimentKeys"]
    figures = experiment["properties"]["figures"]
    for item in (figures["then"]["items"], figures["else"]):
        item["enum"] = list(FIGURES)
    # There a key without a value takes that key away.
    keys = {
        key: {"anyOf": [{"$ref": f"#/$defs/ExperimentKeys/properties/{key}"}, {"type": "null"}]}
        for key in experiment["properties"]
    }
    found["$defs"]["ReducedExperiment"] = {**experiment, "properties": keys}
    reduced = found["$defs"]["Reduced"]["properties"]["experiments"]
    reduced["additionalProperties"] = {"$ref": "#/$defs/ReducedExperiment"}
    return {**head, **found}


def _without_titles(rule: Any, named: bool = False) -> Any:
    """Returns a schema without the titles that pydantic makes of names, descriptions on a line.

    Args:
        named: Whether the keys are names of the study and not of JSON schema.
    """
    if isinstance(rule, list):
        return [_without_titles(each) for each in rule]
    if not isinstance(rule, dict):
        return rule
    found = {
        key: _without_titles(value, key in ("properties", "$defs") and not named)
        for key, value in rule.items()
        if named or key != "title"
    }
    if not named and "description" in found:
        found["description"] = " ".join(found["description"].split())
    # As nothing fits is stated without offering the key.
    return False if found == {"not": {}} else found
