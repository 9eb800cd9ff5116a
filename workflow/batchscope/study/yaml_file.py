"""Read the YAML file of a study, and say where its YAML is invalid."""

import re
from pathlib import Path
from typing import Any

import yaml

from batchscope.core.errors import UserError, check_regular
from batchscope.core.problems import show

_EXPECTED = "expected a study file, which begins with `study:`"


class _Loader(yaml.SafeLoader):
    """Loader with the scalars of YAML 1.2: 1e-3 is a number, 016 is sixteen, dates are text."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Return a map as it is written; later, it also has the keys of maps that it merges."""
        node, lines = super().compose_mapping_node(anchor), dict[str, int]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # The base class refuses it.
            if key.value in lines:
                text = f"the key {show(key.value)} occurs twice (first in line {lines[key.value]})"
                raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
            lines[key.value] = key.start_mark.line + 1
            if not key.tag.endswith(":merge"):
                key.tag = "tag:yaml.org,2002:str"  # Keys such as `1` are texts.
        return node

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        """Return a text without NUL, which no path and no argument of a program contains."""
        text = super().construct_scalar(node)
        if "\0" in text:
            problem = f"{show(text)} contains the character 0x00"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return text


# Whole numbers match `float` too; `_construct_number` returns them as integers.
for _tag, _pattern in (
    ("null", "~|null|Null|NULL|"),
    ("bool", "true|True|TRUE|false|False|FALSE"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    ),
    ("merge", "<<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), None
    )


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """Return an integer for whole numbers such as 1e3, so that they may be counts."""
    text = loader.construct_scalar(node)
    if re.fullmatch("[-+]?[0-9]+", text):
        return int(text)
    value = float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
    return int(value) if "." not in text and value.is_integer() and abs(value) < 2**53 else value


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_number)


def parse(text: str) -> Any:
    return _Loader(text).get_single_data()


def read(path: Path | str) -> dict[str, Any]:
    """Return the content of a study file. Only its YAML is checked.

    Raises:
        UserError: If it is no UTF-8 file with one YAML map, or if a key occurs twice.
    """
    text = ""
    try:
        check_regular(path, "a study file")
        text = Path(path).read_text(encoding="utf-8-sig")
        content = parse(text)
    except UnicodeDecodeError as error:
        place = _place(path, error.object[: error.start].decode("utf-8"))
        byte = error.object[error.start]
        raise UserError(f"{place}: expected UTF-8 (received the byte {byte:#04x})") from None
    except yaml.MarkedYAMLError as error:
        raise UserError(_yaml_message(path, error)) from None
    except yaml.reader.ReaderError as error:
        place = _place(path, text[: error.position])
        raise UserError(f"{place}: the character {error.character:#04x} is not allowed") from None
    except (OSError, ValueError, LookupError, OverflowError, RecursionError) as error:
        # Besides a missing file, the cause is a tag such as `!!int abc`, or deep lists.
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: {_EXPECTED} (received {str(reason).lower()})") from None
    if not isinstance(content, dict):
        received = "an empty file" if content is None else show(content)
        raise UserError(f"{path}: {_EXPECTED} (received {received})")
    return content


def _place(path: Path | str, before: str) -> str:
    return f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _yaml_message(path: Path | str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(str(error.problem or error.context).split())
    if problem.startswith("but "):
        problem = f"{error.context}, {problem}"
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    return f"{place}: invalid YAML: {problem}."
