"""SVG files as parts of a page: ids of their own, runs by number, nothing that runs or fetches."""

from __future__ import annotations

import pytest

from batchscope.report import inline_svg

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 10 10" width="10pt" onload="alert(1)">%s</svg>'
)


def _read(inner: str, find=lambda text: None) -> str:
    return str(inline_svg.read((SVG % inner).encode(), "f3", find))


def test_ids_get_a_prefix_and_what_refers_to_them_follows():
    found = _read(
        '<defs><path id="m1" d="M0 0"/><clipPath id="c"><rect width="1" height="1"/></clipPath>'
        '</defs><g id="unused" clip-path="url(#c)"><use xlink:href="#m1" x="1"/></g>'
    )
    assert '<path id="f3-0" d="M0 0"/>' in found and '<clipPath id="f3-1">' in found
    assert 'clip-path="url(#f3-1)"' in found and '<use href="#f3-0" x="1"/>' in found
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
        '<a href="javascript:alert(1)"><rect width="1"/></a>',
        '<use href="https://example.invalid/a.svg#b"/>',
        "<animate attributeName='href' values='javascript:alert(1)'/>",
    ],
)
def test_what_runs_or_fetches_is_left_out(hostile):
    found = _read(hostile)
    for word in ("script", "alert", "invalid", "onclick", "onload", "style", "svg+xml", "animate"):
        assert word not in found


def test_text_is_escaped_again():
    assert "<text>a &lt;b&gt; &amp;amp;</text>" in _read("<text>a &lt;b&gt; &amp;amp;</text>")


def test_an_image_within_the_file_stays():
    assert 'href="data:image/png;base64,AA"' in _read(
        '<image xlink:href="data:image/png;base64,AA"/>'
    )


def test_marked_runs_get_their_number_and_seed():
    marked = '<g><use data-run="batch_size=8 seed=2" data-value="0.5"/></g><g data-run="seed=9"/>'
    runs = {"batch_size=8 seed=2": (17, "2"), "seed=9": (None, "9")}
    found = _read(marked, runs.get)
    assert '<use data-run="17" data-value="0.5"/>' in found
    assert '<g data-seed="9"/>' in found
    assert "data-run" not in _read(marked)


def test_a_style_that_all_points_share_is_stated_once():
    found = _read('<g><use x="1" style="fill: red"/><use x="2" style="fill: red"/></g>')
    assert found.count("fill: red") == 1 and '<g style="fill: red"><use x="1"/>' in found
    other = _read('<g><use x="1" style="fill: red"/><use x="2" style="fill: blue"/></g>')
    assert 'x="1" style="fill: red"' in other and 'x="2" style="fill: blue"' in other


@pytest.mark.parametrize("damaged", [b"<svg", b"<p viewBox='0 0 1 1'></p>", b"<svg></svg>"])
def test_what_is_no_picture_is_refused(damaged):
    with pytest.raises(ValueError, match=".+"):
        inline_svg.read(damaged, "f1", lambda text: None)
