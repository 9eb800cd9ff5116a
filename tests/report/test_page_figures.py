"""SVG files as elements of a page, with its ids and colours."""

import pytest
from matplotlib.figure import Figure

from batchscope.figures import canvas
from batchscope.report import page_figures


def read(body: str) -> str:
    svg = f'<?xml version="1.0"?>\n<svg width="10pt" viewBox="0 0 10 10" class="x">{body}</svg>\n'
    return str(page_figures.svg_element(svg.encode(), "f3"))


def test_ids_and_references_get_the_prefix():
    svg = read(
        '<defs><style type="text/css">*{x: y}</style><path id="m1"/><clipPath id="c"/></defs>'
        '<g clip-path="url(#c)"><use xlink:href="#m1" style="clip-path: url(#c)"/></g>'
    )
    assert svg.startswith("<svg ") and ' viewBox="0 0 10 10" ' in svg
    assert '<defs><path id="f3-m1"/><clipPath id="f3-c"/></defs>' in svg
    assert '<g clip-path="url(#f3-c)"><use href="#f3-m1" ' in svg
    assert 'style="clip-path: url(#f3-c)"' in svg
    assert "width" not in svg and "class" not in svg and "?xml" not in svg


def test_ink_grid_and_paper_follow_the_page_and_other_colours_stay():
    svg = read('<path style="fill: #ffffff; stroke: #1a1a1a"/><path stroke="#dddddd"/>')
    assert "fill: var(--page, #ffffff); stroke: currentColor" in svg
    assert 'stroke="var(--line, #dddddd)"' in svg
    assert 'fill="currentColor"' in read('<text x="1">a &lt;b&gt;</text>')
    assert 'style="fill: #0072b2"' in read('<text style="fill: #0072b2">a</text>')


def test_invisible_elements_are_left_out():
    svg = read(
        "<g><g/><text style=\"font-size: 9px; font-family: 'A', 'B'; fill: #1a1a1a\""
        ' transform="rotate(-0 1 2)">x; font-family: y;</text></g>'
    )
    assert svg.endswith(
        '<g><text style="font-size: 9px; fill: currentColor">x; font-family: y;</text></g></svg>\n'
    )
    assert "rotate(-90 1 2)" in read('<text transform="rotate(-90 1 2)">x</text>')


def test_texts_of_a_figure_are_escaped():
    figure = Figure(figsize=(2, 2), layout="constrained")
    figure.add_subplot().set_title("<script>alert(1)</script> & so on")
    drawing, _ = canvas.svg_and_png(figure, "Accuracy")
    svg = str(page_figures.svg_element(drawing.encode(), "f3"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; so on" in svg
    assert "<script" not in svg and "<metadata" not in svg


def test_a_style_that_all_markers_share_is_stated_once():
    svg = read('<g>\n <use x="1" style="fill: red"/>\n <use x="2" style="fill: red"/>\n</g>')
    assert svg.endswith('<g style="fill: red"><use x="1"/><use x="2"/></g></svg>\n')
    svg = read('<g><use x="1" style="fill: red"/><use x="2" style="fill: blue"/></g>')
    assert 'x="1" style="fill: red"' in svg and 'x="2" style="fill: blue"' in svg


@pytest.mark.parametrize("damaged", [b"<svg></svg>", b"\xff"])
def test_another_file_is_refused(damaged):
    with pytest.raises(ValueError, match=".+"):
        page_figures.svg_element(damaged, "f1")
