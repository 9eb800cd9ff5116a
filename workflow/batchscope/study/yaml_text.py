"""YAML as a configuration may have it: what a reader would take and we do not is refused.

Refused are duplicate keys, keys that are no text, numbers of other bases, characters that are not
printable, and more values than a study has any use for, as aliases and merges unfold to.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from batchscope.catalogue import readers
from batchscope.problems import clip, show

MOST_VALUES = 20_000  # read in a third of a second; an alias counts as what it stands for
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# Neither UTF-8 nor XML has surrogates; a control character is not shown anywhere.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Refused(yaml.MarkedYAMLError):
    """YAML that a reader would take and that we do not."""

    def __init__(self, got: str, expected: str, node: yaml.Node) -> None:
        super().__init__(problem=f"{got}; {expected} is", problem_mark=node.start_mark)


def parse(text: str) -> Any:
    """Returns what the one document of a text holds.

    Raises:
        yaml.YAMLError: If it is none; `Refused` where only we do not take it.
        RecursionError: If it is nested too deep.
    """
    loader = _StrictLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses what this module says."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._values = 0
        self._sizes: dict[int, int] = {}  # id of a composed node -> values in it

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        # Before anything is unfolded: a few hundred bytes may stand for more than memory holds.
        before, alias = self._values, self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if not alias:
            self._values += 1
            self._sizes[id(node)] = self._values - before
            _check_printable(node)
        elif id(node) in self._sizes:
            self._values += self._sizes[id(node)]
        else:
            raise Refused("received an alias to what holds it", "a value that ends", node)
        if self._values > MOST_VALUES:
            got = f"received more than {MOST_VALUES} values, aliases unfolded"
            raise Refused(got, "a smaller file", node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        # Before super() flattens merges (`<<`): a merged key may be given again.
        lines: dict[str, int] = {}
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or not _is_text(key_node.tag):
                shown = clip(key) if isinstance(key_node, yaml.ScalarNode) else "[...]"
                raise Refused(f"received the key {shown}", f"text ('{shown}' in quotes)", key_node)
            if key in lines:
                got = f"received the key {show(key)} twice (first in line {lines[key]})"
                raise Refused(got, "every key once", key_node)
            lines[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        got, is_number = f"received {show(node.value)}", node.tag in _NUMBERS
        if is_number and len(node.value) > readers.LONGEST_NUMBER:
            expected = f"a number of at most {readers.LONGEST_NUMBER} characters"
            raise Refused(got, expected, node)
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # a date such as 2026-13-45
            raise Refused(f"{got} ({error})", "a valid value", node) from None
        except (LookupError, AttributeError):  # a tag with something else: !!bool maybe
            raise Refused(got, "a valid value", node) from None
        if is_number and (meant := _meant(node.value, value)) is not None:
            got += f", which YAML takes for {value}"
            raise Refused(got, f"{meant}, or text in quotes,", node)
        return value


def _check_printable(node: yaml.Node) -> None:
    found = isinstance(node, yaml.ScalarNode) and _UNPRINTABLE.search(node.value)
    if found:
        raise Refused(f"received the character {ord(found[0]):#04x}", "printable text", node)


def _is_text(tag: str) -> bool:
    return tag in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def _meant(text: str, value: float) -> str | None:
    """Return the decimal number that a number of YAML 1.1 in base 8 (016) means, else None."""
    octal = isinstance(value, int) and re.fullmatch("([-+]?)0([0-9_]+)", text)
    return str(int(f"{octal[1]}0{octal[2].replace('_', '')}")) if octal else None
