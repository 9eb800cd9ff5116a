"""SVG files as parts of a page: ids and colours of the page, nothing that runs or fetches."""

from __future__ import annotations

import pytest

from batchscope.report import inline_svg

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 10 10" width="10pt" onload="alert(1)">%s</svg>'
)


def _read(inner: str) -> str:
    return str(inline_svg.read((SVG % inner).encode(), "f3"))


def test_ids_get_a_prefix_and_what_refers_to_them_follows():
    found = _read(
        '<defs><path id="m1" d="M0 0"/><clipPath id="c"><rect width="1" height="1"/></clipPath>'
        '</defs><g id="unused" clip-path="url(#c)"><use xlink:href="#m1" x="1"/></g>'
        '<path d="M0 1" style="clip-path: url(#c); fill: none"/>'
    )
    assert '<path id="f3-0" d="M0 0"/>' in found and '<clipPath id="f3-1">' in found
    assert 'clip-path="url(#f3-1)"' in found and '<use href="#f3-0" x="1"/>' in found
    assert "clip-path: url(#f3-1); fill: none" in found
    assert "unused" not in found and 'width="10pt"' not in found


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<foreignObject><iframe src='https://example.invalid'/></foreignObject>",
        "<style>* { stroke-width: 9 }</style>",
        '<image href="https://example.invalid/spy.png" width="1" height="1"/>',
        '<image xlink:href="data:image/svg+xml;base64,AA" width="1" height="1"/>',
        '<rect onclick="alert(1)" fill="url(https://example.invalid/a.svg#b)" width="1"/>',
        '<rect style="fill: url(https://example.invalid/a.svg#b)" width="1"/>',
        '<rect style="fill: URL( https://example.invalid/a.svg#b)" width="1"/>',
        '<rect style="fill: u\\72l(https://example.invalid/a.svg#b)" width="1"/>',
        '<rect style="background: image-set(&quot;https://example.invalid/a.png&quot;)"/>',
        '<a href="javascript:alert(1)"><rect width="1"/></a>',
        '<use href="https://example.invalid/a.svg#b"/>',
        "<animate attributeName='href' values='javascript:alert(1)'/>",
    ],
)
def test_what_runs_or_fetches_is_left_out(hostile):
    found = _read(hostile)
    for word in ("script", "alert", "invalid", "onclick", "onload", "svg+xml", "animate", "9"):
        assert word not in found


def test_text_stays_text_in_the_colour_of_the_page():
    found = _read('<text style="font: 8px sans-serif">a &lt;b&gt; &amp;amp;</text>')
    assert ">a &lt;b&gt; &amp;amp;</text>" in found and 'fill="currentColor"' in found
    coloured = _read('<text style="fill: #0072b2">a</text>')
    assert "fill: #0072b2" in coloured and "currentColor" not in coloured


def test_ink_grid_and_paper_follow_the_page_and_other_colours_stay():
    found = _read(
        '<path style="fill: #FFFFFF; stroke: #1a1a1a"/><path style="fill: #dddddd"/>'
        '<path fill="#666666" stroke="#d55e00"/>'
    )
    assert "fill: var(--page, #ffffff); stroke: currentColor" in found
    assert "fill: var(--line" in found and 'fill="var(--soft' in found
    assert 'stroke="#d55e00"' in found


def test_a_style_that_all_points_share_is_stated_once():
    found = _read('<g><use x="1" style="fill: red"/><use x="2" style="fill: red"/></g>')
    assert found.count("fill: red") == 1 and '<g style="fill: red"><use x="1"/>' in found
    other = _read('<g><use x="1" style="fill: red"/><use x="2" style="fill: blue"/></g>')
    assert 'x="1" style="fill: red"' in other and 'x="2" style="fill: blue"' in other


@pytest.mark.parametrize("damaged", [b"<svg", b"<p viewBox='0 0 1 1'></p>", b"<svg></svg>"])
def test_what_is_no_picture_is_refused(damaged):
    with pytest.raises(ValueError, match=".+"):
        inline_svg.read(damaged, "f1")
