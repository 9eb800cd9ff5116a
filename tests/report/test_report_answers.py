"""What the report says: answers, headlines, the ledger, gaps, and numbers in words."""

from __future__ import annotations

import io
import itertools
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas
import pytest
from markupsafe import escape

import synthetic
from batchscope import report, wording
from batchscope.analysis import intervals, seed_pairs, trends
from batchscope.analysis.seed_pairs import Differences
from batchscope.catalogue.sweep_names import Sweep
from batchscope.errors import UserError
from batchscope.figures import Tables
from batchscope.figures.drawing import target_words
from batchscope.report import (
    answers,
    claim_rows,
    content,
    experiment_answer,
    experiment_view,
    gaps,
    ledger_page,
    study_page,
    text,
)
from batchscope.study.plan import Experiment, Times
from batchscope.tables import csv_tables
from html_page import Page
from report_example import altered

SWEEP = Sweep({"dataset": "digits", "model": "small_cnn", "optimizer": "sgd"}, batch_sizes=(8, 16))
FATES = "27 finished, 1 diverged, 1 out of memory, 1 missing"


def test_answers_say_what_the_statistics_say(example, shown, troubled):
    for answer in troubled[1].experiments["gap"].answers:
        assert answer.outcome.label in shown.text and answer.words in shown.text
        assert f">{answer.outcome.column}</code>" in example[3]
        assert all(source.strip() in shown.text for source in answer.outcome.source.split(";"))


def test_answers_are_the_rows_of_trends_with_words_for_their_series():
    rows = itertools.product((0.1, 0.2), (16, 256), range(7))
    runs = pandas.DataFrame(rows, columns=["learning_rate", "batch_size", "seed"])
    rise = (runs["batch_size"] > 16) * np.where(runs["learning_rate"] > 0.1, 0.4, -0.4)
    runs["generalisation_gap"] = rise + np.random.default_rng(0).normal(0, 0.01, len(runs))
    runs = runs.assign(status="finished", patience=0, epochs=40, epochs_run=40)
    runs.loc[0, "status"] = "diverged"
    table = trends.table(runs, (), {})
    written = csv_tables.read(io.StringIO(table.to_csv(index=False)))
    down, up = answers.read(written, runs)
    assert (down.series, up.series) == ("learning rate 0.1", "learning rate 0.2")
    assert down.against and up.resolved and down.held == "at equal epochs (40)"
    assert down.slope == pytest.approx((*table.loc[0, ["estimate", "low", "high"]], 6))
    assert [down.p, up.p] == pytest.approx([table["p_against"][0], table["p"][1]])
    assert "6 of 7 seeds" in down.note and up.note == ""
    assert answers.read(pandas.DataFrame(), runs) == []


def test_verdicts_become_headlines():
    held = "at equal epochs (40)"
    given = [
        synthetic.answer(label="Gap", held=held),
        synthetic.answer("supported", label="Distance", direction="falls", held=held),
        synthetic.answer("supported", label="Epochs until it stopped", series="adam", held=held),
        synthetic.answer("contradicted", label="Width", held=held),
        synthetic.answer("provisional", label="Accuracy", held=held, n=3),
        synthetic.answer("not_testable", label="Time", held=held),
    ]
    short = f"as the batch size grows, {held}, distance falls; epochs until it stopped rise (adam)"
    assert answers.in_short(given) == short and answers.in_short(given[-1:]) == ""
    (_, told), *others = found = answers.headlines(given)
    assert told.count("10 [\N{MINUS SIGN}10, 30] points per doubling") == 2
    assert all(held in verdict for verdict, _ in found)  # none without its budget
    assert [text.partition(" ")[0] for _, text in others] == ["gap.", "width", "accuracy."]


def test_a_table_has_the_p_of_what_the_verdict_says_and_its_level():
    against, open_ = (synthetic.answer(verdict) for verdict in ("contradicted", "not_resolved"))
    for answer, p in ((against, "0.100 of the contrary"), (open_, "0.100")):
        ((row,),) = [table["head"] + table["rest"] for table in answers.groups([answer])]
        assert (row["p"], row["level"], row["resolved"]) == (p, "level 0.02", False)
        ((row,),) = [answers.across([answer])["rest"]]
        assert row["cells"][0]["p"] == p


def test_a_gpu_that_is_asked_for_and_was_not_there_is_reported(whole):
    gap = whole[1].experiments["gap"]

    def missed(question, sentences=(), **columns):
        rows = [{**row, **columns} for row in gap.rows]
        experiment = replace(gap.experiment, question=question)
        found = replace(gap, experiment=experiment, rows=rows)
        return bool(experiment_view._no_gpu(found, [], [*sentences]))

    question = "Is a large batch faster on one thread and on a GPU?"
    assert missed(question) and not missed("Is a large batch faster?")
    assert not missed(question, device="gpu") and missed(question, device="gpu", status="no_gpu")
    assert not missed(question, ["What several GPUs save cannot be tested here."])


def test_a_timing_on_a_gpu_answers_for_one():
    timed = content.ExperimentResults(
        Experiment("e", "", "A GPU?", {}, times=Times(sweeps=(SWEEP,))), []
    )
    record = {"run": SWEEP.name, "device": "gpu"}
    assert experiment_view._no_gpu(timed, [record], []) == []
    for other in ({"device": "cpu"}, {"run": "of another experiment"}):
        assert len(experiment_view._no_gpu(timed, [{**record, **other}], [])) == 1


def test_a_noise_scale_is_compared_with_critical_batch_sizes_of_other_experiments(monkeypatch):
    def results(target):
        tables = Tables(critical_batch_size=pandas.DataFrame({"target": [target]}))
        return content.ExperimentResults(Experiment("e", "", "", vary={}), [], tables)

    found, noise = results("own"), content.Figure("", "", "noise_scale")
    inputs = content.Inputs("", "", {"a": found, "b": results("other")})
    both = [noise, content.Figure("", "", "critical_batch_size")]
    monkeypatch.setattr(
        target_words, "noise_sentence", lambda _, given: f"To {given['target'].item()}."
    )
    assert experiment_view._with_others(found, inputs, both) == ["To other."]
    assert experiment_view._with_others(found, inputs, [noise]) == []
    alone = replace(inputs, experiments={"a": found})
    assert experiment_view._with_others(found, alone, both) == []


def test_sources_are_numbered_as_the_table_shows_them():
    """What is asked stands at the head of the table, and so does who states it."""
    gap, loss = (synthetic.answer(label=label) for label in ("Gap", "Loss"))
    gap = replace(gap, outcome=replace(gap.outcome, source="A; B"))
    loss = replace(loss, outcome=replace(loss.outcome, source="C; A"))
    assert answers.sources([gap, loss]) == ["A", "B", "C"]
    assert answers.sources([gap, loss], [loss]) == ["C", "A", "B"]
    (table,) = answers.groups([gap, loss], [loss])
    assert [row["references"] for row in (*table["head"], *table["rest"])] == [[1, 2], [2, 3]]


def test_the_headline_stands_beside_the_report(example, tmp_path):
    troubled = (example[1] / "report.txt").read_text(encoding="utf-8")
    assert troubled.startswith("The gap <u>found</u>: ") and troubled.count("\n") == 1
    assert troubled.endswith("(30 training runs in 1 experiment: " + FATES + ").\n")
    empty = study_page.headline(example[0], content.read(example[0], tmp_path, example[2], True))
    assert empty == "30 training runs in 1 experiment: 30 missing."


def test_headlines_state_no_single_rate_where_rates_are_tuned(whole, monkeypatch):
    study, inputs = whole[0], altered(whole[1], advice=pandas.DataFrame())
    assert "As the batch size grows, at" in Page(study_page.build(study, inputs)).text
    monkeypatch.setattr(content, "tuned_factor", lambda runs: "learning_rate")
    inputs = altered(inputs)  # each asks once whether rates are tuned
    assert "As the batch size grows, at" not in Page(study_page.build(study, inputs)).text


def test_the_ledger_stands_at_the_top_and_below_its_figures(example, shown, troubled):
    html, rows = example[3], troubled[1].claims
    assert [row["id"] for row in rows] == ["gap_rises", "sharpness_rises", "epochs_are_faster"]
    assert "A <b>document</b> 2 provisional." in shown.text
    links = re.findall(r'<a href="#(figure-\d+)">(Figure \d+)</a>', html)
    assert len(links) == 3
    for (link, label), row in zip(links, rows, strict=True):
        figure = html.partition(f'id="{link}"')[2].partition("</figure>")[0]
        assert f'><span id="gap-{row["figure"]}"></span>' in figure.partition("\n")[0]
        assert escape(row["sentence"]) in figure
        assert link == label.lower().replace(" ", "-")
    assert "Figure &lt;i&gt;3&lt;/i&gt;, as published:" in html
    assert "Measured of: final weights" in shown.text


def test_claims_stand_in_the_report_and_their_table_is_asked_for(finished, whole, built, tmp_path):
    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    assert claim_rows.counts(whole[1].claims) == "3 supported"
    assert '<tr class="supported">' in built and Page(built).open == []
    (results / "studies" / "example" / "claims.csv").unlink()
    with pytest.raises(UserError, match=r"claims\.csv: missing; run snakemake to make it"):
        content.read(study, results, path)
    assert content.read(study, results, path, partial=True).claims == []


def test_the_ledger_of_all_studies_is_by_document_and_links_their_figures(finished, tmp_path):
    empty = Page(ledger_page.build(tmp_path, tmp_path))
    assert "No study has claims.csv yet" in empty.text and empty.open == []
    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    alone = ledger_page.build(results, results)
    assert "<a href" not in alone.partition("<main")[2]
    report.write(study, results, path, results / "studies" / "example" / "report.html")
    ledger_page.write(results, results / "ledger.html")
    html = (results / "ledger.html").read_text(encoding="utf-8")
    page = Page(html)
    assert page.open == [] and "script-src &#39;none&#39;" in html
    assert "3 claims: 3 supported." in page.text
    assert html.index("A &lt;b&gt;document") < html.index("Another document")
    own = (results / "studies" / "example" / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(studies/example/report\.html)#([\w-]+)"', html)
    assert len(links) == 3 and all(f'id="{anchor}"' in own for _, anchor in links)


def test_series_stand_beside_the_first_of_them(monkeypatch):
    assert answers.contrast(pandas.DataFrame()) is None
    difference = intervals.Interval(-0.25, -0.5, 0.0, 6)
    given = Differences(256, "no scaling", ("linear",), {"test_accuracy": (difference,)})
    monkeypatch.setattr(seed_pairs, "differences", lambda runs: given)
    table = answers.contrast(pandas.DataFrame({"run": ["a"]}))
    ((row,), series) = table["rows"], table["series"]
    assert (row["column"], series) == ("test_accuracy", ("linear",))
    assert row["cells"][0]["difference"].value == "\N{MINUS SIGN}0.25"


def test_total_times_in_parallel_are_of_one_series():
    rows = itertools.product((32, 256), (0, 1))
    trained = pandas.DataFrame(rows, columns=["batch_size", "seed"])
    trained = trained.assign(learning_rate=0.01, stop_reason="patience", epochs_run=[1, 2, 3, 5])
    timed = trained.assign(replicas=4, device="gpu", status="finished", seconds_per_epoch=2.0)
    told = experiment_view._in_parallel(timed, trained)
    ratio = intervals.ratio_interval([6, 10], [2, 4])
    assert f"(2 seeds), a factor of {wording.estimated(*ratio[:3])}." in told
    both = [pandas.concat([of, of.assign(learning_rate=0.02)]) for of in (timed, trained)]
    assert experiment_view._in_parallel(*both) == ""
    missed = timed.assign(status="no_gpu")
    reasons = [experiment_view._in_parallel(of, trained) for of in (missed, timed, missed[:0])]
    assert [bool(reason) for reason in reasons] == [True, True, False] and "no GPU" in reasons[0]
    assert experiment_view._in_parallel(timed.drop(columns="replicas"), trained) == ""


def test_runs_that_missed_their_target_loss_are_reported():
    rows = [
        {"batch_size": size, "reached_target": reached}
        for size, reached in (("256", "0"), ("32", "1"), ("256", "1"), ("32", "1"))
    ]
    note = experiment_view._targets(rows)
    assert "2 of 2 at batch size 32, 1 of 2 at batch size 256" in note
    assert experiment_view._targets([{"batch_size": "32", "reached_target": ""}]) == ""


def test_a_missed_target_loss_is_a_gap_of_its_own(troubled):
    study, inputs = troubled
    run = list(study.runs)[5]
    rows = [{**row, "status": "off_target"} if row["run"] == run else row for row in inputs.rows]
    found = gaps.find(study, altered(inputs, rows=rows))
    (gap,) = (gap for gap in found if gap.title == "Off target")
    assert [found for found, _ in gap.entries] == [run]
    assert "target_train_loss" in gap.text and not gap.command


def test_gaps_are_listed_with_what_mends_them(shown, troubled):
    for words in (FATES, "Missing: sharpness", "lower learning_rate", "smaller batch_size"):
        assert words in shown.text
    assert troubled[1].missing.measures == {"sharpness": {list(troubled[0].runs)[8]: ""}}


def test_gaps_quote_the_logs_of_what_failed(example, tmp_path):
    study, given, path, _ = example
    results = shutil.copytree(given, tmp_path / "results")
    lacking = list(study.runs)[8]
    (missing,) = content.read(study, results, path, partial=True).missing.runs
    (dataset,) = study.datasets
    logs = {
        f"logs/train/{missing}.log": 'Traceback:\n  File "x"\n\nValueError: no <b>model</b>\n\n',
        f"logs/sharpness/{lacking}/default.log": "",
        f"logs/prepare_data/{dataset}.log": "No disk.\n",
    }
    for name, log_text in logs.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(log_text)
    trained, measured, prepared = logs
    inputs = content.read(study, results, path, partial=True)
    assert inputs.missing.runs == {missing: f"ValueError: no <b>model</b> ({trained})"}
    assert inputs.missing.measures == {"sharpness": {lacking: f"nothing ({measured})"}}
    assert (
        f"{missing}: {inputs.missing.runs[missing]}" in Page(study_page.build(study, inputs)).text
    )
    # Where the data are not there, the training never began: their log says why.
    (tmp_path / trained).unlink()
    (results / "data" / dataset / "record.json").unlink()
    inputs = content.read(study, results, path, partial=True)
    assert inputs.missing.runs == {missing: f"No disk. ({prepared})"}


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.98123, 0.9788, 0.9837), ("0.9812", "0.9788", "0.9837")),
        ((5.1, 3.2, 7.0), ("5.1", "3.2", "7.0")),
        ((1234.5, 1100.0, 1369.0), ("1234", "1100", "1369")),
        ((-2e-9, -3e-9, -1e-9), ("−2e-9", "−3e-9", "−1e-9")),
        ((0.5, None, None), ("0.5", "", "")),
        ((0.5, 0.5, 0.5), ("0.5", "", "")),
    ],
)
def test_intervals_keep_two_digits_of_their_half_width(numbers, shown):
    found = text.format_interval(*numbers)
    assert tuple(part.replace("e−", "e-") for part in found) == shown
    assert text.format_interval(None, None, None) is None


def test_columns_share_decimals_where_that_suits():
    columns = ([0.9812345, 0.5], [0.02, 0.03], [1.0, 2.0], [0.001, 250.5], [])
    assert [text.common_decimals(column) for column in columns] == [4, 2, None, None, None]


def test_small_words():
    assert text.format_p(0.0004) == "< 0.001" and text.format_p(0.0123) == "0.012"
    assert text.moment("2026-11-21T02:53:07.1+00:00") == "2026-11-21 02:53 UTC"
    assert text.moment("yesterday <b>") == "yesterday <b>"
    assert str(text.marked("`a<b` & ``c``")) == "<code>a&lt;b</code> &amp; <code>c</code>"
    assert text.plain([True, 0.1, None]) == f"true, 0.1, {wording.ABSENT}"


def test_series_are_distinguished_by_factors_and_their_values():
    runs = [{"optimizer": name, "batch_size": "8", "seed": "0"} for name in ("adam", "sgd")]
    apart = experiment_view._distinguishing(runs)
    assert sorted(apart) == ["adam", "optimizer", "sgd"]
    assert not experiment_view._distinguishing(runs[:1])
    assert experiment_answer.compares("Does Adam keep its accuracy?", apart)
