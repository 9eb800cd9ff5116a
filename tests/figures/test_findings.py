"""What figures found, read aloud: whole sentences, without keys, and one way to write numbers."""

from __future__ import annotations

import re

import pytest

import synthetic
from batchscope import figures
from batchscope.analysis import run_series
from batchscope.figures.drawing import canvas
from costs import first
from made_figures import NAMES, tables_of

FAULTS = {
    "a sentence in lower case": r"(?:^|[.!?] )(?!tf\.)[a-z]",
    "a label without a sentence": r": [A-Z][a-z]+ (?:where|still|tends)",
    "a word twice": r"\b(\w+) \1\b",
    "a key": r"\b[a-z]+_[a-z_]+\b|\b(?:cpu|gpu|sgd|adam)\b",
    "a hyphen for a minus": r"(?<![\w)])-\d",
    "one of several": r"\b1 (?:seeds|runs|epochs|pairs|layers)\b",
    "nothing in a number's place": r"\b(?:nan|None|inf)\b",
    "blanks": r"  | [.,;)]|\( ",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Tables of one seed and size."""
    return figures.read(tables_of(tmp_path_factory.mktemp("alone"), synthetic.grid([32], [0])))


@pytest.mark.parametrize("name", first(NAMES))
def test_findings_are_sentences(finished_tables, alone, name):
    for tables in (finished_tables, alone):
        figure = figures.FIGURES[name]
        found = figure.found(figure.select(tables))
        faults = {what for what, fault in FAULTS.items() if re.search(fault, found)}
        assert not faults, found
        assert not found or found.endswith(".")


def test_times_are_reported_once_for_all_that_they_do_not_depend_on(finished_tables):
    frame = figures.FIGURES["time"].select(finished_tables)
    assert "learning_rate" in run_series.varying(frame)
    found = figures.FIGURES["time"].found(frame)
    assert found.startswith("Mean time per epoch was ") and "(2 of 2 seeds)" in found


def test_notes_break_where_their_figure_ends():
    with canvas.style():
        figure, _ = canvas.panels(1, 1)
        canvas.write(figure, "One note. " * 30, "", "Another.")
        figure.draw_without_rendering()
    lines = figure.get_supxlabel().split("\n")
    assert len(lines) > 3 and lines[-1] == "Another."
    assert figure._supxlabel.get_window_extent().x1 <= figure.bbox.x1
