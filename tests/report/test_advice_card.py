"""The advice of a finished study: the report's first section, and the terminal's."""

import os
import re
import subprocess
import sys

import pandas
import pytest

from batchscope.analysis import advice, advice_tables, advice_words
from batchscope.errors import UserError
from batchscope.report import advice_card, study_page
from made_advice import evidence
from project import ROOT
from report_example import altered


def made(*given):
    """Rows of advice.csv of made-up series, read back."""
    series = [
        advice_tables.SeriesAdvice({"optimizer": name, "machine": "local"}, advice.advise(each))
        for name, each in zip(("adam", "sgd"), given, strict=False)
    ]
    return advice_tables.summary(series)


def test_what_recommends_comes_first_and_series_are_distinguished(example):
    study = example[0]
    shown = advice_card.cards(study, {"gap": made(evidence(seeds=2), evidence())})
    assert [each.found for each in shown] == [True, False]
    assert shown[0].title.endswith(": SGD") and shown[1].title.endswith(": Adam")
    assert shown[0].card.headline == "Use 16 to 256 (small_cnn on digits)."


def test_the_report_begins_with_the_card_and_escapes_it(troubled):
    study, inputs = troubled
    scope = '<script>alert("scope")</script> & digits'
    inputs = altered(inputs, advice=made(evidence(scope=scope)))
    html = study_page.build(study, inputs)
    assert "Use 16 to 256 (&lt;script&gt;alert(" in html and "<script>alert" not in html
    assert html.index('class="summary"') < html.index('id="advice"') < html.index("<main")
    headline = study_page.headline(study, inputs)
    assert headline.split(": ", 1)[1].startswith("Use 16 to 256 (<script>")
    decision = html[html.index('class="decision') : html.index("</section>")]
    # The matrix stands beside it, once, and where it stood before is a link.
    assert decision.count("<figure") == 1 and "verdict_matrix" in decision
    number = re.search(r"<strong>Figure (\d+)\.", decision)[1]
    assert html.count(f'id="figure-{number}"') == 1
    assert '<a href="#advice">at the top of the report</a>' in html


def test_without_advice_the_answers_stand_first(troubled):
    study, inputs = troubled
    without = altered(inputs, advice=advice_tables.summary([], ["machine"]))
    html = study_page.build(study, without)
    assert 'id="advice"' not in html
    assert html.index('id="short"') < html.index("<main")


def door(*words, **environment):
    """Runs the door where no TensorFlow can be imported."""
    command = [sys.executable, "-c", _WITHOUT, "advice", *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}
    )


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
    done = door(path, "--results", results, "--seeds")
    assert done.returncode == 0, done.stderr
    table = results / "studies" / study.folder_name / "gap" / "advice.csv"
    (row,) = pandas.read_csv(table).to_dict("records")
    assert row["advice"] in done.stdout
    assert "what more seeds would tell (power .8, 6 seeds so far)" in done.stdout


@pytest.mark.slow
def test_a_missing_table_names_the_command(example, tmp_path):
    done = door(example[2], "--results", tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    command = f"snakemake --cores all --configfile {example[2]}"
    assert f"advice.csv: missing; it is expected. Make it by: {command}" in done.stderr


def test_questions_are_listed_with_their_cost(example, tmp_path):
    study = example[0]
    given = evidence(spread=0.5, seed_seconds=120.0, planned=4)
    series = [advice_tables.SeriesAdvice({"machine": "local"}, advice.advise(given))]
    folder = tmp_path / "studies" / study.folder_name / "gap"
    folder.mkdir(parents=True)
    advice_tables.summary(series).to_csv(folder / "advice.csv", index=False)
    sizes = advice_tables.sizes(series)
    sizes.to_csv(folder / "advice_sizes.csv", index=False)
    text = advice_card.text(study, tmp_path, "made.yaml", seeds=True)
    assert "\n  4 seeds were planned and 6 are there: those added after a look" in text
    open_ = sizes.dropna(subset="question")
    assert len(open_) > 0
    for row in open_.to_dict("records"):
        low, high = row["seeds_needed_low"], row["seeds_needed_high"]
        assert (row["minutes_needed_low"], row["minutes_needed_high"]) == (2 * low, 2 * high)
        assert f"  {row['question']}: {advice_words.seeds(low, high)} (about " in text
    with pytest.raises(UserError, match="advice.csv: missing"):
        advice_card.text(study, tmp_path / "nothing", "made.yaml")
