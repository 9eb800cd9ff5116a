"""Reading a study's configuration: strict YAML, the schema, and errors that a person can act on.

A study is planned in one go by `study`; `load` stops at the structure. Both report every
problem at once.
"""

from __future__ import annotations

import copy
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from batchscope import project_files
from batchscope.catalogue import coercion, parameters, run_factors, sweep_names
from batchscope.catalogue.dataset_definitions import SOURCES
from batchscope.catalogue.entries import Entry, Measure
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.parameters import Parameter
from batchscope.catalogue.tables import CLAIMED as TABLES
from batchscope.catalogue.timings import OF_SWEEPS, OF_TRAININGS
from batchscope.errors import ConfigError, UserError
from batchscope.problems import (
    Place,
    Problem,
    merged,
    missing,
    missing_blank,
    received,
    show,
    unknown,
)
from batchscope.study import (
    claims,
    experiment_keys,
    plan,
    planner,
    published_numbers,
    reduced_form,
    run_pairs,
    value_reader,
    yaml_text,
)

SCALES = ("full", "reduced")

_MOST_BYTES = 500_000  # fifty times a long study
_FILE = "a file that begins with `study:`"


def read(path: Path | str) -> dict[str, Any]:
    """Reads a configuration file; nothing but its YAML is checked.

    Raises:
        UserError: If it is no file of UTF-8 YAML that holds one map without duplicate keys.
    """
    text = _read_text(path)
    try:
        config = yaml_text.parse(text)
    except yaml.MarkedYAMLError as error:
        raise UserError(_yaml_message(path, text, error)) from None
    except yaml.reader.ReaderError as error:
        where = _position(path, text[: error.position])
        got = f"received the character {error.character:#04x}"
        raise UserError(f"{where}: {got}; printable text is expected.") from None
    except RecursionError:
        got = "received lists or maps nested too deep"
        raise UserError(f"{path}: {got}; a few levels are expected.") from None
    if not isinstance(config, dict):
        got = "an empty file" if config is None else show(config)
        raise UserError(f"{path}: received {got}; {_FILE} is expected.")
    return config


def _read_text(path: Path | str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            got = f"received a file of more than {_MOST_BYTES} bytes"
            raise UserError(f"{path}: {got}; {_FILE}, and a smaller one, is expected.")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: received no such file; {_FILE} is expected.") from None
    except IsADirectoryError:
        raise UserError(f"{path}: received a folder; {_FILE} is expected.") from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        got = f"received the byte {error.object[error.start]:#04x}"
        raise UserError(f"{_position(path, before)}: {got}; UTF-8 is expected.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: {reason}; {_FILE} is expected.") from None


def _position(path: Path | str, before: str) -> str:
    """Returns file, line and column of what follows `before`."""
    return f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _yaml_message(path: Path | str, text: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    problem = " ".join(str(error.problem or error.context).split())
    if problem.startswith("but "):
        problem = f"{error.context}, {problem}"
    if isinstance(error, yaml_text.Refused):
        return f"{where}: {problem} expected."
    # The line that lacks a blank is taken for text, and what follows it is found at fault.
    first = (error.context_mark or mark).line - 1 if mark else 0
    lines = text.splitlines()[max(first, 0) : mark.line + 1] if mark else []
    hint = next(filter(None, (missing_blank(line.strip(" -")) for line in lines)), "")
    return f"{where}: broken YAML: {problem}; valid YAML is expected.{hint}"


@functools.cache
def schema() -> dict[str, Any]:
    """Returns the whole schema: the file, with the definitions made from the registries."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C in a tenth of the time
    document = loader(project_files.SCHEMA.read_text(encoding="utf-8")).get_single_data()
    defs = document["$defs"]
    source, test = defs["dataset"]["properties"]["source"], defs["claim_test"]["properties"]
    for rule, known in ((source, SOURCES), (test["type"], claims.TYPES), (test["table"], TABLES)):
        rule |= {"enum": [*known], "expected": f"one of {', '.join(known)}"}
    for each in SOURCES:
        then = {"$ref": f"#/$defs/{'text_file' if each == 'text' else each}"}
        defs["dataset"]["allOf"].append(_where("source", each, then))
    for each, (needed, others) in claims.TYPES.items():
        keys = dict.fromkeys((*claims.COMMON, *others), True) | {key: test[key] for key in needed}
        then = {"required": [*needed], **_closed("key", "a map", keys)}
        if each in claims.BOUNDED:
            then["allOf"] = [{"$ref": "#/$defs/bounded"}]
        defs["claim_test"]["allOf"].append(_where("type", each, then))
    defs.update(_registry_definitions())
    return document


def _registry_definitions() -> dict[str, Any]:
    # Which of them an experiment may have depends on whether it trains: planning says so.
    factors = {name: factor for name, factor in sweep_names.EVERY_FACTOR.items() if name != "seed"}
    # The wider of the two is checked here; the words are true of both.
    words = f"{run_factors.FACTORS['threads'].expected} (or all, beside `timing`)"
    overrides = {"threads": {"expected": words}}

    def values(**keywords: str) -> dict[str, Any]:
        return {
            name: parameter_schema(one, **keywords, **overrides.get(name, {}))
            for name, one in factors.items()
        }

    scalars, single = values(), values(several="Several values belong under `vary`.")
    lists = {
        name: {**_list_of(scalar, scalar["description"]), "alias": scalar["alias"]}
        for name, scalar in scalars.items()
    }
    # Known, to be refused in words of its own.
    no_seed = {"not": {}, "expected": value_reader.EXPECTED_SEED}
    # Planning says which factors and columns a figure takes, and what is none of them.
    numbers = {
        name: _list_of(
            parameter_schema(column), f"{column.doc[:-1]} in the document, in {column.unit}."
        )
        for name, column in published_numbers.COLUMNS.items()
    }
    sizes = {**lists["batch_size"], "description": "The document's batch sizes."}
    return {
        "published_numbers": {
            "type": "object",
            "required": ["batch_size"],
            "expected": "a map with batch_size and a column of numbers",
            "properties": {**scalars, **numbers, "batch_size": sizes, "seed": no_seed},
        },
        "factors": _closed("factor", "a map from factors to values", {**single, "seed": no_seed}),
        "factor_lists": _closed(
            "factor", "a map from factors to lists of values", {**lists, "seed": no_seed}
        ),
        "measures": _one_of("measure", _settings({**MEASURES, **OF_TRAININGS})),
        "timings": _one_of("timing", _settings(OF_SWEEPS)),
    }


def _where(key: str, value: str, then: dict[str, Any]) -> dict[str, Any]:
    """Returns a rule for maps in which a key has a value."""
    return {"if": {"required": [key], "properties": {key: {"const": value}}}, "then": then}


def _list_of(item: dict[str, Any], description: str) -> dict[str, Any]:
    """Returns the schema of a list of values, given that of one."""
    return {
        "type": "array",
        "minItems": 1,
        "items": {key: value for key, value in item.items() if key != "default"},
        "description": description,
        "expected": f"a list of at least one value (each {item['expected']})",
    }


def _settings(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Returns the schema of the settings of each measure or timing."""
    found = {}
    for name, entry in entries.items():
        known = {item.name: parameter_schema(item) for item in entry.settings}
        for given, expected in experiment_keys.given_elsewhere(entry).items():
            known[given] = {"not": {}, "expected": expected}
        if isinstance(entry, Measure) and entry.pairs:
            words = "Factor -> its value in the first and in the second run of each pair."
            known["between"] = {"description": words, "expected": run_pairs.EXPECTED}
        found[name] = _closed("setting", "a map of settings, or nothing", known)
        found[name]["type"] = ["object", "null"]
    return found


def _one_of(noun: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"additionalProperties": False, "noun": noun, "properties": properties}


def _closed(noun: str, expected: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "expected": expected, **_one_of(noun, properties)}


def parameter_schema(parameter: Parameter, **keywords: str) -> dict[str, Any]:
    """Returns the schema of a factor or setting, with further keywords of a value."""
    types = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
    item: dict[str, Any] = {"type": types[parameter.kind], "expected": parameter.expected_item}
    item |= keywords
    if parameter.choices:
        item["enum"] = list(parameter.choices)
    for key, limit in (
        ("minimum", parameter.minimum),
        ("maximum", parameter.maximum),
        ("exclusiveMinimum", parameter.above),
    ):
        if limit is not None:
            item[key] = limit
    for word, _ in parameter.words:
        item = {"if": {"const": word}, "else": item}
    if parameter.many:
        item = {"type": "array", "minItems": 1, "items": item}
    unit = f" In {parameter.unit}." if parameter.unit else ""
    item |= {"description": parameter.doc + unit, "expected": parameter.expected}
    item |= {"alias": parameter.alias, **keywords}
    if parameter.birth is not None:
        birth = parameters.shown(parameter, parameter.birth)
        item["default"] = list(birth) if parameter.many else birth
    return item


@functools.cache
def _validator_class() -> Any:
    """The validator to which text that spells a number is that number, and a pattern is of all."""
    import jsonschema
    from jsonschema import validators

    def is_number(_: Any, instance: Any) -> bool:
        return coercion.number(instance) is not None

    def is_integer(_: Any, instance: Any) -> bool:
        value = coercion.number(instance)
        return value is not None and value == int(value)

    def limit(fits: Callable[[float, float], bool]) -> Any:
        def check(_: Any, bound: float, instance: Any, __: Any) -> Iterator[Any]:
            value = coercion.number(instance)
            if value is not None and not fits(value, bound):
                yield jsonschema.ValidationError("out of bounds")

        return check

    def pattern(_: Any, expected: str, instance: Any, __: Any) -> Iterator[Any]:
        # jsonschema searches, and its `$` is met before a last line break too.
        if isinstance(instance, str) and not re.fullmatch(expected, instance):
            yield jsonschema.ValidationError("another pattern")

    base = jsonschema.Draft202012Validator
    checker = base.TYPE_CHECKER.redefine("number", is_number).redefine("integer", is_integer)
    rules = {
        "pattern": pattern,
        "minimum": limit(operator.ge),
        "maximum": limit(operator.le),
        "exclusiveMinimum": limit(operator.gt),
        "exclusiveMaximum": limit(operator.lt),
    }
    return validators.extend(base, rules, type_checker=checker)


def schema_problems(config: dict[str, Any]) -> list[Problem]:
    """Returns what is wrong with the structure of a configuration."""
    config = _without_removals(config)
    problems = list(_problems(schema(), config, ()))
    problems += _reduced_dataset_problems(config, problems)
    return merged(problems)


def _without_removals(config: dict[str, Any]) -> dict[str, Any]:
    """In `reduced`, a key of an experiment without a value takes that key away."""
    config = copy.deepcopy(config)
    experiments = coercion.as_map(coercion.as_map(config.get("reduced")).get("experiments"))
    for name, body in experiments.items():
        if isinstance(body, dict):
            experiments[name] = {key: value for key, value in body.items() if value is not None}
    return config


def _reduced_dataset_problems(config: dict[str, Any], problems: list[Problem]) -> Iterator[Problem]:
    found = {problem.place for problem in problems}
    for place, definition in reduced_form.definitions(config):
        whole = {"$ref": "#/$defs/dataset", "$defs": schema()["$defs"]}
        for problem in _problems(whole, definition, place):
            if problem.place[1:] not in found:
                yield problem


def _problems(document: dict[str, Any], instance: Any, root: Place) -> Iterator[Problem]:
    for error in _validator_class()(document).iter_errors(instance):
        yield from _translate(error, (*root, *error.absolute_path))


def _translate(error: Any, place: Place) -> Iterator[Problem]:
    rule = error.schema
    if error.validator == "additionalProperties":
        known = {
            key: item
            for key, item in rule["properties"].items()
            if item is True or "not" not in item
        }
        aliases = {item.get("alias"): key for key, item in known.items() if item is not True}
        for key in error.instance:
            if key not in rule["properties"]:
                yield unknown((*place, key), rule.get("noun", "key"), known, aliases)
    elif error.validator == "required":
        for key in error.validator_value:
            if key not in error.instance:
                yield missing((*place, key), _expected_of(rule, key))
    elif "propertyNames" in error.absolute_schema_path:
        yield Problem(
            (*place, error.instance), f"received this name; {rule['expected']} is expected."
        )
    else:
        found = received(place, error.instance, rule["expected"], rule.get("enum", ()))
        several = isinstance(error.instance, list) and "several" in rule
        yield Problem(place, f"{found.text} {rule['several']}") if several else found


def _expected_of(rule: dict[str, Any], key: str) -> str:
    """What is expected of a property, through `$ref`."""
    return _resolved(_resolved(rule)["properties"][key])["expected"]


def _resolved(rule: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in rule:
        target = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
        rule = {**target, **{key: value for key, value in rule.items() if key != "$ref"}}
    return rule


def load(path: Path | str, scale: str = "full") -> dict[str, Any]:
    """Returns a configuration that fits the schema.

    Raises:
        ConfigError: With every problem, those that planning finds in the parts that are well
            formed among them.
        UserError: If the file cannot be read.
    """
    config = read(path)
    structure = schema_problems(config)
    if structure:
        meaning = planner.draft(config, scale, structure, folder=Path(path).parent)[1]
        raise ConfigError([problem.line for problem in merged([*structure, *meaning])])
    return config


def study(
    path: Path | str, scale: str = "full", recorded: planner.Recorded = planner.unrecorded
) -> plan.Study:
    """Returns the planned study of a configuration file.

    Raises:
        ConfigError: With every problem of structure and of meaning.
        UserError: If the file cannot be read.
    """
    return planner.make(load(path, scale), scale, recorded, Path(path).parent)


def check_overrides(given: dict[str, Any], loaded: dict[str, Any]) -> dict[str, Any]:
    """Returns what `--config` asked for: `{"scale": "full", "partial": False}` by default.

    Args:
        given: Snakemake's configuration: the file's, changed by `--config`.
        loaded: The file's own, from `load`.

    Raises:
        ConfigError: If anything but `scale` and `partial` was given.
    """
    problems = []
    options: dict[str, Any] = {"scale": "full", "partial": False}
    asked = {key: given[key] for key in options if key in given and key not in loaded}
    for key in sorted({*given, *loaded} - {*asked}):
        if key not in loaded:
            problems.append(unknown(("--config", key), "key", sorted(options)))
        elif key not in given or _comparable(given[key]) != _comparable(loaded[key]):
            text = "received another value than the file's; "
            text += "scale or partial is expected: a study is changed in its file."
            problems.append(Problem(("--config", key), text))
    options |= asked
    if options["scale"] not in SCALES:
        place = ("--config", "scale")
        problems.append(received(place, options["scale"], "full or reduced", SCALES))
    try:
        options["partial"] = parse_flag(options["partial"])
    except ValueError:
        place = ("--config", "partial")
        problems.append(received(place, options["partial"], "true or false"))
    if problems:
        lines = [problem.line.replace("--config.", "--config ", 1) for problem in problems]
        raise ConfigError(lines)
    return options


def _comparable(value: Any) -> Any:
    """Returns a value in which whatever is or spells a number is one text for that number.

    Snakemake reads a file as JSON where it can, to which 1e-05 is a number, and YAML 1.1 has it
    as text.
    """
    if isinstance(value, dict):
        return {key: _comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    try:
        return str(float(value))  # as text not a number is equal to itself
    except (TypeError, ValueError, OverflowError):
        return value


def parse_flag(value: Any) -> bool:
    """Returns a flag of the command line, where "false" is text and therefore truthy.

    Raises:
        ValueError: If it is neither true nor false.
    """
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"Expected true or false. Received: {value!r}")
    return text == "true"
