"""An SVG of ours as a part of a page: its ids are its own, and nothing in it runs or fetches.

Only elements that draw are kept, of their attributes none that runs, and of addresses those alone
that point into the picture or hold an image. Text stays text. Ink, grid and paper take the page's
colours, so that a dark page has a dark figure; colours that mean something stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from markupsafe import Markup

_TEXTS = ("text", "tspan", "title")
_ELEMENTS = {
    *("svg", "g", "defs", "use", "clipPath", "mask", "pattern", "stop", *_TEXTS),
    *("linearGradient", "radialGradient", "image"),
    *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon"),
}
_DROPPED = {"version", "width", "height", "class"}  # of the picture as a whole
_MARKS = ("use", "path")  # whose equal styles are stated once, of their group
_IMAGE = "data:image/png;base64,"
_URL = "url("
# The colours of figures.drawing.canvas that are the page's own, as custom properties of its style.
COLOURS = {
    "#1a1a1a": "currentColor",
    "#000000": "currentColor",
    "#666666": "var(--soft, #666666)",
    "#dddddd": "var(--line, #dddddd)",
    "#ffffff": "var(--page, #ffffff)",
}


def read(content: bytes, prefix: str) -> Markup:
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
    # No group of ours is referred to: its name would be of no use.
    named = [each.get("id") for each in root.iter() if _name(each.tag) != "g" and each.get("id")]
    kept = _copied(root, {name: f"{prefix}-{number}" for number, name in enumerate(named)})
    for name in _DROPPED & kept.attrib.keys():
        del kept.attrib[name]
    kept.set("role", "img")
    return Markup(ElementTree.tostring(kept, encoding="unicode").replace(" />", "/>"))


def _name(tag: str) -> str:
    """Returns the name of an element or attribute without its namespace."""
    return tag.rpartition("}")[2]


def _style(text: str) -> dict[str, str]:
    """Returns the properties of a style attribute."""
    pairs = (part.partition(":") for part in text.split(";") if part.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _copied(element: ElementTree.Element, ids: dict[str, str]) -> ElementTree.Element:
    copy = ElementTree.Element(_name(element.tag), dict(_attributes(element, ids)))
    if copy.tag == "text" and "fill" not in _style(copy.get("style", "")):
        copy.attrib.setdefault("fill", "currentColor")
    copy.text = element.text if copy.tag in _TEXTS else None
    for child in element:
        if isinstance(child.tag, str) and _name(child.tag) in _ELEMENTS:
            found = _copied(child, ids)
            found.tail = child.tail if copy.tag in _TEXTS else None
            if len(found) or found.attrib or (found.text or "").strip():
                copy.append(found)
    _hoist(copy)
    return copy


def _attributes(element: ElementTree.Element, ids: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in element.attrib.items():
        name = _name(key)
        if name == "href":
            inside = f"#{ids[value[1:]]}" if value[:1] == "#" and value[1:] in ids else ""
            value = value if value.startswith(_IMAGE) else inside
        elif name == "id":
            value = ids.get(value, "")
        elif name == "style":
            found = {part: _safe(each, ids) for part, each in _style(value).items()}
            value = "; ".join(f"{part}: {each}" for part, each in found.items() if each)
        else:
            value = _safe(value, ids) if key == name and not name.startswith("on") else ""
        if value:
            yield name, value


def _safe(value: str, ids: dict[str, str]) -> str:
    """Returns a value in the page's colours; empty of one that points out of the picture."""
    if any(mark in value.lower() for mark in (_URL, "//", "\\")):
        target = value.removeprefix(f"{_URL}#").removesuffix(")")
        return f"{_URL}#{ids[target]})" if value == f"{_URL}#{target})" and target in ids else ""
    return COLOURS.get(value.lower(), value)


def _hoist(group: ElementTree.Element) -> None:
    """States a style that all marks of a group share once, of the group."""
    marks = [child for child in group if child.tag in _MARKS and "id" not in child.attrib]
    styles = {child.get("style", "") for child in marks}
    alike = len(marks) == len(group) > 1 and len(styles) == 1 and "style" not in group.attrib
    if alike and group.tag == "g" and (style := styles.pop()):
        group.set("style", style)
        for child in marks:
            del child.attrib["style"]
