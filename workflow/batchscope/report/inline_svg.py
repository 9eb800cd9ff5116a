"""An SVG of ours as a part of a page: its ids are its own, and nothing in it runs or fetches.

Only elements that draw are kept, of their attributes none that runs, and of addresses those alone
that point into the picture or hold an image. Runs get the numbers that they have on the page, and
where several are meant, their seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

from markupsafe import Markup

_NAMESPACES = re.compile(r"^\{[^}]*\}")
_ELEMENTS = frozenset(
    {
        *("svg", "g", "defs", "use", "clipPath", "mask", "pattern"),
        *("linearGradient", "radialGradient", "stop"),
        *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "image"),
        *("text", "tspan"),
    }
)
_DROPPED = frozenset({"id", "version", "width", "height", "class"})
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_INHERITED = ("use", "path")  # whose equal styles are stated once, of their group
_IMAGE = "data:image/png;base64,"

# The text of a run's factors, as in `data-run` -> its number on the page, or None where several
# are meant, and its seed; None where no run is.
Find = Callable[[str], tuple[int | None, str] | None]


def read(content: bytes, prefix: str, find: Find) -> Markup:
    """Returns an SVG file as an element of a page, where its ids begin with the prefix.

    Raises:
        ValueError: If it is no SVG.
    """
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    if _name(root.tag) != "svg" or "viewBox" not in root.attrib:
        raise ValueError("it has no viewBox")
    ids = {
        element.attrib["id"]: f"{prefix}-{number}"
        for number, element in enumerate(each for each in root.iter() if "id" in each.attrib)
    }
    used = {
        name
        for element in root.iter()
        for key, value in element.attrib.items()
        for name in (*_REFERENCE.findall(value), *([value[1:]] if value[:1] == "#" else ()))
        if _REFERENCE.search(value) or _name(key) == "href"
    }
    kept = _copied(root, {name: new for name, new in ids.items() if name in used}, find)
    kept.set("role", "img")
    text = ElementTree.tostring(kept, encoding="unicode").replace(" />", "/>")
    text = re.sub(r"\n\s*", "\n", text)
    return Markup(text)


def _name(tag: str) -> str:
    return _NAMESPACES.sub("", tag)


def _copied(element: ElementTree.Element, ids: dict[str, str], find: Find) -> ElementTree.Element:
    copy = ElementTree.Element(_name(element.tag), _attributes(element, ids, find))
    copy.text, copy.tail = element.text, element.tail
    for child in element:
        if isinstance(child.tag, str) and _name(child.tag) in _ELEMENTS:
            found = _copied(child, ids, find)
            if len(found) or found.attrib or (found.text or "").strip():
                copy.append(found)
    _hoist(copy)
    return copy


def _attributes(element: ElementTree.Element, ids: dict[str, str], find: Find) -> dict[str, str]:
    kept: dict[str, str] = {}
    if (own := element.attrib.get("id")) in ids:
        kept["id"] = ids[own]
    for key, value in element.attrib.items():
        name = _name(key)
        if name == "href":
            if value[:1] == "#" and value[1:] in ids:
                kept["href"] = f"#{ids[value[1:]]}"
            elif value.startswith(_IMAGE):
                kept["href"] = value
        elif name == "data-run":
            number, seed = find(value) or (None, None)
            if number is not None:
                kept["data-run"] = str(number)
            elif seed is not None:
                kept["data-seed"] = seed
        elif name == "data-value":
            kept["data-value"] = value
        elif name.startswith("on") or (name in _DROPPED and _name(element.tag) == "svg"):
            continue
        elif name != "id" and ":" not in key.partition("}")[2]:
            rewritten = _REFERENCE.sub(lambda match: f"url(#{ids.get(match[1], '')})", value)
            if "url(" not in _REFERENCE.sub("", value):
                kept[name] = rewritten
    return kept


def _hoist(group: ElementTree.Element) -> None:
    """Says a style that all marks of a group share once, of the group."""
    marks = [child for child in group if child.tag in _INHERITED and "id" not in child.attrib]
    styles = {child.attrib.get("style", "") for child in marks}
    alike = len(marks) == len(group) > 1 and len(styles) == 1 and "style" not in group.attrib
    if alike and group.tag == "g" and (style := styles.pop()):
        group.set("style", style)
        for child in marks:
            del child.attrib["style"]
