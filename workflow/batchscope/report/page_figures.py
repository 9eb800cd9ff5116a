"""Figures of the page: files of a folder -> SVG elements, numbered and sorted into parts.

An element has unique ids and the colours of the page.
"""

import base64
import json
import re
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

from markupsafe import Markup

from batchscope.core import errors
from batchscope.figures import LISTING
from batchscope.study.figures import LEADING_FIGURES

Row = dict[str, Any]
Links = dict[tuple[str, str], tuple[str, str]]  # experiment and figure -> label and address

LARGE_TABLE_BYTES = 20_000  # The page holds the rows of a figure up to this size, deflated.
# Colours of figures.canvas -> custom properties of the page, so that a dark page has dark
# figures. Colours that have a meaning stay.
_PAGE_COLOURS = {
    "#1a1a1a": "currentColor",
    "#000000": "currentColor",
    "#666666": "var(--soft, #666666)",
    "#dddddd": "var(--line, #dddddd)",
    "#ffffff": "var(--page, #ffffff)",
}
_COLOUR = re.compile("|".join(_PAGE_COLOURS))
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


def read(folder: Path, partial: bool = False) -> list[Row]:
    """Return the figures that a folder lists, each with its SVG element and its rows.

    `anchor` names the figure in the page, `width` is in CSS pixels or 0 if unknown, and `packed`
    has the deflated rows in base64.
    """
    if partial and not (folder / LISTING).exists():
        return []
    return [
        {**entry, **_figure_content(folder / f"{name}.svg")}
        for name, entry in entries(folder).items()
    ]


def entries(folder: Path) -> dict[str, Row]:
    """Return the figures that a folder lists, by name."""
    with errors.reading(folder / LISTING, "a list of figures", folder):
        listed = json.loads((folder / LISTING).read_text(encoding="utf-8"))
        return {entry["name"]: entry for entry in listed}


def _figure_content(path: Path) -> Row:
    anchor, rows = f"{path.parent.parent.name}-{path.stem}", path.with_suffix(".csv")
    with errors.reading(path, "an SVG image", path.parent):
        svg = svg_element(path.read_bytes(), anchor)
    width = re.match(r"<svg[^>]*?\sviewBox=\"[\d.-]+ [\d.-]+ ([\d.]+) ", svg)
    # A browser inflates raw data, so the header of zlib is left out.
    packed = zlib.compress(rows.read_bytes(), 9, -zlib.MAX_WBITS) if rows.exists() else b""
    return {
        "anchor": anchor,
        "svg": svg,
        # Matplotlib's unit is the point. An inch has 72 points and 96 CSS pixels.
        "width": round(float(width[1]) * 96 / 72) if width else 0,
        "packed": base64.b64encode(packed).decode() if len(packed) <= LARGE_TABLE_BYTES else "",
    }


def svg_element(content: bytes, prefix: str) -> Markup:
    """Return an SVG file of matplotlib as an element of a page; its ids begin with the prefix.

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
    body = _COLOUR.sub(lambda colour: _PAGE_COLOURS[colour[0]], body)
    body = body.replace("xlink:href", "href")
    return Markup(f'<svg xmlns="http://www.w3.org/2000/svg"{root[1]} {_FONT} role="img">{body}')


def _styled_once(group: re.Match) -> str:
    attributes, marks, style = group.groups()
    return f"<g{attributes}{style}>{marks.replace(style, '')}</g>"


def number(sections: list[Row]) -> Links:
    """Sort the figures of all experiments into parts, number them, and return links to them."""
    links: Links = {}
    for section in sections:
        outcomes = [row["outcome"] for row in section["answer"]]
        section |= _blocks_by_part(section["figures"], outcomes, bool(section["cards"]))
        # The figures of the first recommendation are at the top of the page.
        at_top = section is sections[0] and section["cards"]
        order = ("lead", "shown") if at_top else ("shown", "lead")
        blocks = chain.from_iterable(section[part] for part in (*order, "more"))
        for figure in chain.from_iterable(blocks):
            figure["number"] = len(links) + 1
            figure["published"] = section["plan"].keys.published.get(figure["name"])
            link = f"Figure {figure['number']}", f"#figure-{figure['number']}"
            links[section["plan"].name, figure["name"]] = link
    return links


def _blocks_by_part(
    figures: list[Row], outcomes: list[str], has_cards: bool
) -> dict[str, list[list[Row]]]:
    """Return figures as blocks by their part of the page, the variants of a figure in one block.

    Parts are `lead` (the recommendation), `shown` (the outcomes of the answer in their order, or
    else the first figure), and `more`.
    """
    blocks: dict[str, list[Row]] = {}
    for figure in figures:
        blocks.setdefault(figure["of"] or figure["name"], []).append({**figure})
    lead = [blocks.pop(name) for name in LEADING_FIGURES if name in blocks]
    shown: list[list[Row]] = []
    for outcome in outcomes:
        names = [name for name, block in blocks.items() if outcome in block[0]["columns"]]
        shown += [blocks.pop(name) for name in names]
    more = list(blocks.values())
    if not (has_cards or lead or shown):
        shown, more = more[:1], more[1:]
    return {"lead": lead, "shown": shown, "more": more}
