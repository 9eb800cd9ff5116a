"""Matplotlib's SVG file -> an element of the page, with unique ids and the colours of the page."""

from __future__ import annotations

import re

from markupsafe import Markup

# Colours of figures.canvas -> custom properties of the page, so that a dark page has dark
# figures. Colours that have a meaning stay.
COLOURS = {
    "#1a1a1a": "currentColor",
    "#000000": "currentColor",
    "#666666": "var(--soft, #666666)",
    "#dddddd": "var(--line, #dddddd)",
    "#ffffff": "var(--page, #ffffff)",
}
_COLOUR = re.compile("|".join(COLOURS))
_ID = re.compile(r'(\bid="|\bhref="#|\burl\(#)')
# Matplotlib's style element would apply to the whole page.
_DROPPED = re.compile(r"<(metadata|style)\b.*?</\1>", re.S)
# The page states the font of figures once; empty groups and rotations by 0 show nothing.
_WITHOUT_EFFECT = re.compile(
    r"<g/>| font-family: [^;]*;(?=[^<]*>)| transform=\"rotate\(-0 [^\"]*\"(?=>)"
)
_FONT = "font-family=\"'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif\""
# A group of markers that share a style.
_MARKS = re.compile(r'<g([^>]*)>(<use [^>]*( style="[^"]*")/>(?:<use [^>]*\3/>)+)</g>')


def read(content: bytes, prefix: str) -> Markup:
    """Return an SVG file as an element of a page; its ids begin with the prefix.

    Raises:
        ValueError: If the file is no SVG.
    """
    text = content.decode("utf-8")
    if not (root := re.search(r"<svg\b[^>]*?( viewBox=\"[^\"]*\")[^>]*>", text)):
        raise ValueError("it has no viewBox")
    body = re.sub(r">\s+<(?!tspan)", "><", _DROPPED.sub("", text[root.end() :]))
    body = re.sub(r'<g id="[^"]*"', "<g", body)  # No link refers to a group.
    body = _MARKS.sub(_styled_once, _WITHOUT_EFFECT.sub("", body))
    body = _ID.sub(rf"\g<1>{prefix}-", body)
    body = re.sub(r"<text (?![^>]*fill: )", '<text fill="currentColor" ', body)
    body = _COLOUR.sub(lambda colour: COLOURS[colour[0]], body)
    body = body.replace("xlink:href", "href")
    return Markup(f'<svg xmlns="http://www.w3.org/2000/svg"{root[1]} {_FONT} role="img">{body}')


def _styled_once(group: re.Match) -> str:
    attributes, marks, style = group.groups()
    return f"<g{attributes}{style}>{marks.replace(style, '')}</g>"
