"""The advice of a finished study: the report's first section, and the terminal's."""

import os
import re
import subprocess
import sys

import pandas
import pytest

from batchscope.errors import UserError
from batchscope.report import advice_card, study_page
from batchscope.tables import csv_tables
from made_advice import advised, comparisons, runs
from project import ROOT
from report_example import altered


def cards(study, frame, asked=False):
    return advice_card.cards(study, {"gap": frame}, asked)


def test_what_recommends_comes_first_and_series_are_distinguished(example):
    frames = [advised(comparisons("fffff", "")), advised()]
    both = pandas.concat(
        frame.assign(optimizer=name) for name, frame in zip(("adam", "sgd"), frames, strict=True)
    )
    shown = cards(example[0], both)
    assert [each.found for each in shown] == [True, False]
    assert [each.title.rpartition(", ")[2] for each in shown] == ["SGD", "Adam"]


def test_the_words_of_every_row(example, tmp_path):
    """As the table is made, and as it is read back."""
    frame = advised(comparisons("bnwwb", n=3), runs(3, [0.1]))
    csv_tables.write(frame, tmp_path / "advice.csv")
    for rows in (frame, csv_tables.read(tmp_path / "advice.csv")):
        (card,) = cards(example[0], rows, asked=True)
        assert "32" in card.headline and "0.32" in card.headline and "provisional" in card.headline
        assert [cells[0] for cells in card.table[1:]] == ["16", "32", "64", "128", "256"]
        assert card.table[1][2:4] == ["1.50 [1.20, 1.80]", "0.0 [−1.0, 1.0]"]
        assert [point.count("recommended") for point in card.aligned] == [0, 0, 1, 0, 0, 0]
        assert any("seeds: 6 (about 3 min of one core)" in point for point in card.missing)
        assert any("vary: {learning_rate: [0.05, 0.1, 0.2]}" in each for each in card.missing)
        assert len(card.questions) == 10


def test_an_open_end_is_a_dash(example):
    frame = comparisons()
    frame.loc[frame["verdict"] == "beyond", "high"] = float("nan")
    (card,) = cards(example[0], advised(frame))
    assert card.table[1][2] == "1.5 [1.2, –]"


def test_the_report_begins_with_the_card_and_escapes_it(troubled):
    study, inputs = troubled
    text = '<script>alert("scope")</script>'
    inputs = altered(inputs, advice=advised().assign(model=text))
    html = study_page.build(study, inputs)
    assert "&lt;script&gt;alert(" in html and "<script>alert" not in html
    assert html.index('class="summary"') < html.index('id="advice"') < html.index("<main")
    assert "learning rate 0.32 (solid) (" in study_page.headline(study, inputs)
    # The matrix stands beside it, once, and where it stood before is a link.
    decision = html[html.index('class="decision') : html.index("</section>")]
    assert decision.count("<figure") == 1 and "verdict_matrix" in decision
    number = re.search(r"<strong>Figure (\d+)\.", decision)[1]
    assert html.count(f'id="figure-{number}"') == 1
    assert '<a href="#advice">at the top of the report</a>' in html


def test_without_advice_the_answers_stand_first(troubled):
    study, inputs = troubled
    html = study_page.build(study, altered(inputs, advice=advised(comparisons().iloc[:0])))
    assert 'id="advice"' not in html
    assert html.index('id="short"') < html.index("<main")


_WITHOUT = """
import sys
sys.modules["tensorflow"] = sys.modules["keras"] = None
sys.path.insert(0, "workflow")
import run
run.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_the_terminal_prints_the_card_of_the_table(example):
    study, results, path, _ = example
    command = [sys.executable, "-c", _WITHOUT, "advice", path, "--results", results, "--seeds"]
    given = {"cwd": ROOT, "capture_output": True, "text": True, "env": os.environ}
    done = subprocess.run([*map(str, command)], **given)
    assert done.returncode == 0, done.stderr
    table = csv_tables.read(results / "studies" / study.folder_name / "gap" / "advice.csv")
    (card,) = cards(study, table, asked=True)
    assert card.headline in done.stdout and all(line in done.stdout for line in card.aligned)
    assert all(point in done.stdout for point in (*card.points, *card.missing, *card.questions))


def test_a_missing_table_names_the_command(example, tmp_path):
    study, _, path, _ = example
    with pytest.raises(UserError) as raised:
        advice_card.text(study, tmp_path, str(path))
    command = f"snakemake --cores all --configfile {path}"
    assert f"advice.csv: missing; it is expected. Make it by: {command}" in str(raised.value)
