"""The schema as editors read it: what a study may hold, in the words of JSON schema alone.

Editors take it for hints and completion. Whatever the program accepts is valid in it; what only
planning can detect (a batch size above the training set, a figure without its measure) is too.
"""

from __future__ import annotations

import json
from typing import Any

from batchscope.catalogue.figures import FIGURES
from batchscope.study.document import CommandKeys, StudyFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def text() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """Returns the schema."""
    found = _without_titles(StudyFile.model_json_schema())
    comment = "Printed by `python workflow/run.py schema`."
    head = {"$schema": _DIALECT, "$comment": comment, "title": "Batchscope study"}
    definitions = found["$defs"]
    commanded = _without_titles(CommandKeys.model_json_schema())
    definitions |= commanded.pop("$defs")
    experiment, own = definitions["ExperimentKeys"], commanded["properties"]
    for key in own.keys() & experiment["properties"].keys():
        if own[key] == experiment["properties"][key]:  # stands once
            own[key] = {"$ref": f"#/$defs/ExperimentKeys/properties/{key}"}
    figures = experiment["properties"]["figures"]
    for item in (figures["then"]["items"], figures["else"]):
        item["enum"] = list(FIGURES)
    kinds = {"CommandKeys": commanded, "ExperimentKeys": experiment}
    of_kind = [{"$ref": f"#/$defs/{kind}"} for kind in kinds]
    named = found["properties"]["experiments"]["patternProperties"]
    for name in named:
        named[name] = {"if": {"required": ["command"]}, "then": of_kind[0], "else": of_kind[1]}
    # There a key without a value takes that key away, and its kind is stated elsewhere.
    keys = {
        key: {"anyOf": [*_of_kinds(key, kinds), {"type": "null"}]}
        for key in {**experiment["properties"], **own}
    }
    definitions["ReducedExperiment"] = {**experiment, "properties": keys}
    reduced = definitions["Reduced"]["properties"]["experiments"]
    reduced["additionalProperties"] = {"$ref": "#/$defs/ReducedExperiment"}
    definitions["CommandKeys"] = commanded
    del definitions["EveryKey"]
    return {**head, **found}


def _of_kinds(key: str, kinds: dict[str, Any]) -> list[dict[str, str]]:
    having = [kind for kind, schema in kinds.items() if schema["properties"].get(key)]
    return [{"$ref": f"#/$defs/{kind}/properties/{key}"} for kind in having]


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
    return False if not named and found.get("not") == {} else found
