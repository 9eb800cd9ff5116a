"""The schema as editors read it: what a study may hold, in the words of JSON schema alone.

Editors take it for hints and completion. Whatever the program accepts is valid in it; what only
planning can detect (a batch size above the training set, a figure without its measure) is too.
"""

from __future__ import annotations

import json
from typing import Any

from batchscope.catalogue import coercion
from batchscope.catalogue.figures import FIGURES
from batchscope.study import config

_OURS = ("expected", "noun")  # keywords that the program's own messages are made from
_ONE = ("additionalProperties", "else", "if", "items", "not", "propertyNames", "then")
_MANY = ("allOf",)
_NAMED = ("$defs", "properties")


def text() -> str:
    """Returns the schema as the text of a JSON file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """Returns the schema."""
    found = _plain(config.schema())
    found["$comment"] = "Printed by `python workflow/run.py schema`."
    defs = found["$defs"]
    experiment = defs["experiment"]
    for name in ("measures", "timings"):  # listed by name, or a map from names to settings
        names = {"enum": list(defs[name]["properties"])}
        defs[name] |= {"if": {"type": "string"}, "then": names}
    experiment["properties"]["figures"]["items"] = {"enum": list(FIGURES)}
    # There a key without a value takes that key away.
    keys = {
        key: {"anyOf": [{"$ref": f"#/$defs/experiment/properties/{key}"}, {"type": "null"}]}
        for key in experiment["properties"]
    }
    defs["reduced_experiment"] = {**experiment, "properties": keys}
    reduced = found["properties"]["reduced"]["properties"]["experiments"]
    reduced["additionalProperties"] = {"$ref": "#/$defs/reduced_experiment"}
    return found


def _plain(rule: Any) -> Any:
    """Returns a schema without our keywords, to which text that spells a number is that number."""
    if isinstance(rule, bool):
        return rule
    found = {}
    for key, value in rule.items():
        if key in _ONE:
            value = _plain(value)
        elif key in _MANY:
            value = [_plain(each) for each in value]
        elif key in _NAMED:
            value = {name: _plain(each) for name, each in value.items()}
        if key not in _OURS:
            found[key] = value
    if found == {"not": {}}:
        return False  # as the same is stated without offering the key
    types = found.get("type", [])
    types = types if isinstance(types, list) else [types]
    if {"integer", "number"} & {*types} and "string" not in types:
        # `1e-3` is text to YAML 1.1, and so is what stands in quotes.
        found |= {"type": [*types, "string"], "pattern": coercion.NUMBER}
    return found
