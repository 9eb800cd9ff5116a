"""The report without a browser: contents, escaping, formats, size and speed."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markupsafe import escape

import costs
import report_example
import synthetic
from batchscope import report, wording
from batchscope.analysis import intervals
from batchscope.analysis.series_differences import Contrast
from batchscope.catalogue import outcomes, run_names
from batchscope.errors import UserError
from batchscope.report import (
    answers,
    claim_rows,
    content,
    figure_view,
    gaps,
    ledger_page,
    places,
    runs_table,
    text,
)
from batchscope.store import records
from batchscope.study import config, planner

VOID = {"meta", "link", "img", "input", "wbr", "br"}


class Page(HTMLParser):
    """A parsed page: elements with their attributes, texts, and whether all tags close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


FATES = "27 finished, 1 diverged, 1 out of memory, 1 missing"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Returns plan, results, configuration and HTML of a study with every trouble."""
    folder = tmp_path_factory.mktemp("report")
    study, results, path = report_example.write(folder)
    output = results / "report.html"
    report.write(study, results, path, output, partial=True)
    return study, results, path, output.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Returns plan, results and configuration of a study without any trouble."""
    return report_example.write(tmp_path_factory.mktemp("finished"), troubles=False)


def test_page_is_well_formed_and_ordered(example):
    page = Page(example[3])
    assert page.open == []
    headings = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1
    levels = [int(tag[1]) for tag in headings]
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    wanted = ["Answer", "Figures", "Runs", "What failed or is missing"]
    wanted += ["Data sets", "Machine", "Configuration", "How to repeat it"]
    found = re.findall(r"<h[23][^>]*>([^<]+)</h", example[3])
    assert [title for title in found if title in wanted] == wanted


def test_links_stay_inside_and_ids_are_unique(example):
    page = Page(example[3])
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert link["href"][0] == "#" and link["href"][1:] in ids
    labelled = [a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a]
    assert set(labelled) <= set(ids)


def test_nothing_can_be_fetched(example):
    page = Page(example[3])
    sources = [a[key] for _, a in page.elements for key in ("src", "href") if a.get(key)]
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "@import" not in example[3] and not re.search(r"url\((?!#)", example[3])
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    assert len(page.scripts) == 1


def test_text_of_the_configuration_is_escaped(example):
    study, _, path, html = example
    page = Page(html)
    assert "<script>alert" not in html and "<b>bold" not in html and "<u>found" not in html
    assert page.all("b") == page.all("u") == page.all("i") == []
    assert report_example.QUESTION in page.text and report_example.TITLE in page.text
    written = path.read_text(encoding="utf-8")
    shown = re.search(r'<pre class="config"[^>]*><code>(.*?)</code></pre>', html, re.S)[1]
    assert "".join(Page(f"<p>{shown}</p>").texts) == written
    for hostile in ("NaN at step 190 & <stopped>", "CPU <4>", "cat <666>.jpg", "learn <digits>"):
        assert hostile in page.text and hostile not in html


def test_answers_say_what_the_statistics_say(example):
    study, results, path, html = example
    found = report.read(study, results, path, partial=True).answers["gap"]
    page = Page(html)
    for answer in found:
        assert answer.outcome.label in page.text and answer.verdict in page.text
        assert f">{answer.outcome.column}</code>" in html
        assert all(source.strip() in page.text for source in answer.outcome.source.split(";"))


def test_verdicts_become_headlines():
    def answer(label, verdict, direction="rises", **rest):
        return synthetic.answer(verdict, (0.5, 0.4, 0.6), label, direction=direction, **rest)

    unresolved = [answer("Gap", "not resolved"), answer("Loss", "not resolved")]
    given = [
        unresolved[0],
        answer("Distance", "falls", "falls"),
        answer("Loss", "rises", series="adam"),
        answer("Epochs until it stopped", "rises"),
        answer("Width", "rises, against what was stated", "falls"),
        answer("Accuracy", "not enough seeds (3 of 6)"),
    ]
    assert answers.in_short(given) == (
        "as the batch size grows, distance falls; loss rises (adam); epochs until it stopped rise"
    )
    assert answers.in_short(unresolved) == "not resolved for 2 outcomes"
    assert answers.in_short([answer("Time", "one batch size")]) == ""
    assert answers.headlines(given) == [
        (
            "As the batch size grows",
            "distance falls (50 [40, 60] points per doubling); "
            "loss rises (adam; 50 [40, 60] points per doubling); "
            "epochs until it stopped rise (50 [40, 60] points per doubling).",
        ),
        ("Not resolved", "gap."),
        ("Rises, against what was stated", "width (50 [40, 60] points per doubling)."),
        ("Not enough seeds (3 of 6)", "accuracy."),
    ]


def test_no_headline_without_its_budget():
    held = "at equal epochs (40)"
    given = [
        synthetic.answer("falls", direction="falls", label="Distance", held=held),
        synthetic.answer("not resolved", label="Gap", held=held),
    ]
    assert answers.in_short(given) == f"as the batch size grows, {held}, distance falls"
    assert answers.in_short(given[1:]) == f"not resolved, {held}, for 1 outcome"
    said = [said for said, _ in answers.headlines(given)]
    assert said == [f"As the batch size grows, {held}", f"Not resolved, {held}"]
    assert answers.groups(given)[0]["held"] == held


def test_the_headline_stands_beside_the_report(example, tmp_path):
    results = example[1]
    troubled = (results / "report.txt").read_text(encoding="utf-8")
    start = "The gap <u>found</u>: No advice (small_cnn on digits, SGD at learning rate 0.05, "
    assert troubled.startswith(start)
    assert troubled.endswith("(30 training runs in 1 experiment: " + FATES + ").\n")
    assert troubled.count("\n") == 1
    empty = report.headline(example[0], content.read(example[0], tmp_path, example[2], True))
    assert empty == "30 training runs in 1 experiment: 30 missing."


def test_headlines_tell_no_single_rate_where_rates_are_tuned(finished):
    study, results, path = finished
    inputs = replace(report.read(study, results, path), advice={})
    assert "As the batch size grows" in Page(report.build(study, inputs)).text
    assert "as the batch size grows" in report.headline(study, inputs)
    tuned = replace(inputs, tuned=frozenset(["gap"]))
    assert "As the batch size grows, at" not in Page(report.build(study, tuned)).text
    assert report.headline(study, tuned).startswith("30 training runs in 1 experiment")


def test_resolved_answers_are_told(finished):
    study, results, path = finished
    html = report.build(study, report.read(study, results, path))
    page = Page(html)
    assert (
        "As the batch size grows, at equal epochs (40): test accuracy falls (\N{MINUS SIGN}0."
        in page.text
    )
    assert "6 paired seeds" in page.text
    assert "Nothing: every run finished" in page.text
    assert "This report is partial" not in page.text


def test_the_ledger_stands_at_the_top_and_below_its_figures(example):
    study, results, path, html = example
    rows = report.read(study, results, path, partial=True).claims
    assert [row["id"] for row in rows] == ["gap_rises", "sharpness_rises", "epochs_are_faster"]
    page = Page(html)
    assert "A <b>document</b> 2 cannot be tested here." in page.text
    (links, texts) = zip(
        *re.findall(r'<a href="#(figure-\d+)">(Figure \d+)</a>', html), strict=True
    )
    assert len(links) == 3
    for link, label, row in zip(links, texts, rows, strict=True):
        figure = html.partition(f'id="{link}"')[2].partition("</figure>")[0]
        assert f'><span id="gap-{row["figure"]}"></span>' in figure.partition("\n")[0]
        assert escape(row["sentence"]) in figure and escape(row["missing"]) in figure
        assert link == label.lower().replace(" ", "-")
    assert "Figure &lt;i&gt;3&lt;/i&gt;, as published:" in html
    assert "Measured of: final weights" in page.text


def test_a_verdict_stands_with_its_effect_and_interval(finished, tmp_path):
    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    inputs = report.read(study, results, path)
    shown = claim_rows.build(inputs.claims, lambda *_: ("Figure 1", "#figure-1"))
    assert [row["word"] for row in shown] == ["Held", "Held", "Held"]
    assert shown[0]["n"] == "6" and shown[0]["p_shown"] == "< 0.001"
    assert claim_rows.in_words(shown[0]).endswith("] per doubling of batch size")
    (against,) = claim_rows.build(
        [{**inputs.claims[0], "verdict": "not held", "p_against_holm": "0.01"}], lambda *_: None
    )
    assert (against["p_shown"], against["p_of"]) == ("0.010", "of the contrary")
    assert claim_rows.counts(inputs.claims) == "3 held"
    html = report.build(study, inputs)
    assert '<tr class="held">' in html
    assert Page(html).open == []
    (results / "studies" / "example" / "claims.csv").unlink()
    with pytest.raises(UserError, match=r"claims\.csv: missing; run snakemake to make it"):
        report.read(study, results, path)
    assert report.read(study, results, path, partial=True).claims == []


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
    assert "3 claims: 3 held." in page.text
    assert html.index("A &lt;b&gt;document") < html.index("Another document")
    own = (results / "studies" / "example" / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(studies/example/report\.html)#([\w-]+)"', html)
    assert len(links) == 3 and all(f'id="{anchor}"' in own for _, anchor in links)


def test_series_stand_beside_the_first_of_them(example):
    study, results, path, _ = example
    inputs = report.read(study, results, path, partial=True)
    assert inputs.contrasts == {}  # one series
    difference = intervals.Interval(-0.25, -0.5, 0.0, 6)
    given = Contrast(256, "no <scaling>", ("linear",), {"test_accuracy": (difference,)})
    html = report.build(study, dataclasses.replace(inputs, contrasts={"gap": given}))
    page = Page(html)
    assert page.open == []
    assert "Beside no <scaling>, at batch size 256" in page.text and "<scaling>" not in html
    minus = "\N{MINUS SIGN}"
    assert f"{minus}0.25 [{minus}0.50, 0.00] 6 paired seeds" in page.text


def test_every_run_and_column_is_in_the_table(example):
    study, results, _, html = example
    page = Page(html)
    table = re.search(r'<table class="runs".*?</table>', html, re.S)[0]
    assert table.count("<tr>") == 1 and table.count("<tr data-run=") == 30
    csv_path = results / "studies" / "example" / "gap" / "runs.csv"
    columns = csv_path.read_text(encoding="utf-8").partition("\n")[0].split(",")
    heads = [re.sub("<wbr>", "", each) for each in re.findall(r"<th scope=[^>]*>(.*?)</th>", table)]
    shared = html.partition("<summary>Columns with one value")[2].partition("</details>")[0]
    others = re.findall(r"<code>(\w+)</code>", shared)
    assert sorted([*heads, *others]) == sorted(columns)
    assert {"learning_rate", "optimizer"} <= {*others} and "batch_size" in heads
    rows = re.findall(r"<tr data-run=(?:(?!</tr>).)*</tr>", table.partition("<tbody>")[2], re.S)
    assert all(row.count("<td") == len(heads) for row in rows)
    for run in study.runs:
        assert run in page.text


def test_what_every_study_asks_about_is_shown_first(example):
    study, results, path, _ = example
    rows = runs_table.complete(study, report.read(study, results, path, partial=True).rows)
    shown = [column.name for column in runs_table.build(rows)[0]["columns"] if column.usual]
    found = shown[shown.index("status") + 1 : -1]  # the run's name is last
    asked = [name for name in found if outcomes.outcome(name)]
    assert found[: len(asked)] == asked
    assert {"test_accuracy", "generalisation_gap", "sharpness_full_0.001"} <= {*asked}
    others = [f"{split}_{what}" for split in records.SPLITS for what in ("loss", "accuracy")]
    assert found[len(asked) :] == [name for name in others if name not in asked]


def test_exact_numbers_stand_behind_rounded_ones(example):
    study, results, path, html = example
    inputs = report.read(study, results, path, partial=True)
    finished = [row for row in inputs.rows["gap"] if row["status"] == "finished"]
    for column in ("test_accuracy", "weight_distance", "sharpness_full_0.001"):
        assert f'title="{finished[0][column]}"' in html


def test_gaps_are_listed_with_what_mends_them(example):
    study, results, path, html = example
    page = Page(html)
    assert "27 finished, 1 diverged, 1 out of memory, 1 missing" in page.text
    assert "This report is partial" in page.text
    for words in ("lower learning_rate", "smaller batch_size", "This command runs what is missing"):
        assert words in page.text
    assert "Missing: sharpness" in page.text
    inputs = report.read(study, results, path, partial=True)
    assert inputs.missing_measures == {"sharpness": {list(study.runs)[8]: ""}}


def test_gaps_quote_the_logs_of_what_failed(example, tmp_path):
    study, given, path, _ = example
    results = shutil.copytree(given, tmp_path / "results")
    lacking = list(study.runs)[8]
    (missing,) = report.read(study, results, path, partial=True).missing_runs
    logs = {
        f"logs/train/{missing}.log": 'Traceback:\n  File "x"\n\nValueError: no <b>model</b>\n\n',
        f"logs/sharpness/{lacking}/default.log": "",
    }
    for name, said in logs.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(said)
    trained, measured = logs
    inputs = report.read(study, results, path, partial=True)
    assert inputs.missing_runs == {missing: f"ValueError: no <b>model</b> ({trained})"}
    assert inputs.missing_measures == {"sharpness": {lacking: f"nothing ({measured})"}}
    page = Page(report.build(study, inputs))
    for run, said in {**inputs.missing_runs, **inputs.missing_measures["sharpness"]}.items():
        assert f"{run}: {said}" in page.text
    # Where the data are not there, the training never began: their log says why.
    (tmp_path / trained).unlink()
    (dataset,) = study.datasets
    (results / "data" / dataset / "record.json").unlink()
    (tmp_path / "logs" / "prepare_data").mkdir()
    (tmp_path / "logs" / "prepare_data" / f"{dataset}.log").write_text("No disk.\n")
    inputs = report.read(study, results, path, partial=True)
    assert inputs.missing_runs == {missing: f"No disk. (logs/prepare_data/{dataset}.log)"}


def test_data_and_machine_are_shown(example):
    study, _, _, html = example
    page = Page(html)
    (dataset,) = study.datasets
    for words in (dataset, "ab" * 32, "scikit-learn", "1000", "397", "1 file skipped", "31.2 GiB"):
        assert words in page.text
    assert html.count('<th scope="col">local</th>') == 1  # one machine, whatever was made on it
    assert "29 runs on cpu with 1 thread" in page.text
    assert "30 timing jobs on cpu with 1 thread" in page.text
    assert "python 3.11.9, tensorflow 2.21.0" in page.text


def test_a_machine_with_gpus_says_their_cores_and_clocks():
    with_gpus = {
        "name": "cluster",
        "cpu": "A CPU",
        "cpu_max_mhz": 4000.0,
        "gpu": ["One", "Two"],
        "gpu_max_mhz": [1380, None],
        "gpu_cores": [5120, 4608],
        "memory_gb": 384.0,
    }
    records = {"a": {"machine": with_gpus}, "b": {"machine": {"name": "local", "gpu": []}}}
    shown = places.machines(content.Inputs("c.yaml", "", {}, runs=records))
    assert shown["titles"] == ["cluster", "local"]
    absent = wording.ABSENT
    assert shown["rows"][:6] == [
        ("CPU", ["A CPU", absent]),
        ("CPU clock, at most", ["4000 MHz", absent]),
        ("GPU", ["One, Two", "none"]),
        ("GPU clock, at most", [f"1380 MHz, {absent}", absent]),
        ("GPU cores", ["5120, 4608", absent]),
        ("Memory", ["384 GiB", absent]),
    ]


def test_figures_are_embedded_numbered_and_captioned(example):
    page = Page(example[3])
    pictures = page.all("svg")
    assert len(pictures) == 13 and page.all("img") == []
    assert all(each["viewbox"] == "0 0 504 288" for each in pictures)
    assert example[3].count("--width: 672px; --height: 384px") == 13
    ids = [each["id"] for tag, each in page.elements if tag == "circle"]
    assert len(ids) == len(set(ids)) == 13  # all files call theirs the same
    assert "stolen by" not in example[3] and "example.invalid" not in example[3]
    numbers = re.findall(r"<strong>Figure (\d+)\.", example[3])
    assert sorted(map(int, numbers)) == list(range(1, 14))
    assert numbers[1:] == sorted(numbers[1:], key=int)  # the matrix stands at the top
    assert "Every <code>point</code> of loss_curves &amp; &lt;i&gt;seeds" in example[3]


def test_large_svg_gives_way_to_a_smaller_png(example, tmp_path):
    study, results, path, _ = example
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "time.svg").write_text(
        '<svg viewBox="0 0 72 36" xmlns="http://www.w3.org/2000/svg">' + " " * 1_100_000 + "</svg>"
    )
    (figures / "time.png").write_bytes(b"\x89PNG")
    listing = [{"name": "time", "title": "Time", "caption": ""}]
    (figures / "figures.json").write_text(json.dumps(listing))
    (figure,) = report.content.read_figures(figures, tmp_path, partial=False)
    assert figure.source.startswith("data:image/png;base64,") and figure.svg == b""
    assert (figure.width, figure.height) == (96, 48)


def test_same_results_give_the_same_page(example):
    study, results, path, html = example
    assert report.build(study, report.read(study, results, path, partial=True)) == html


def test_tables_of_several_experiments_stand_together(tmp_path):
    study, results, path = report_example.write(tmp_path, 2, ("gap", "second"), troubles=False)
    html = report.build(study, report.read(study, results, path))
    page = Page(html)
    assert "10 training runs in 2 experiments: 10 finished" in page.text
    assert re.search(r'<table class="runs".*?</table>', html, re.S)[0].count("<tr data-run=") == 20
    numbers = re.findall(r"<strong>Figure (\d+)\.", html)
    assert sorted(map(int, numbers)) == list(range(1, 27))
    assert len(page.all("select")) == 2


def test_empty_results_give_a_partial_page(tmp_path):
    path = report_example.write_config(tmp_path)
    study = config.study(path)
    with pytest.raises(UserError, match=r"runs\.csv: missing; run snakemake"):
        report.write(study, tmp_path / "results", path, tmp_path / "report.html")
    report.write(study, tmp_path / "results", path, tmp_path / "report.html", partial=True)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "30 training runs in 1 experiment: 30 missing" in page.text
    assert "No answer yet" in page.text and "No data set has been prepared" in page.text


def test_damaged_inputs_are_named(tmp_path):
    study, results, path = report_example.write(tmp_path, seeds=2, troubles=False)
    place = results / "studies" / "example" / "gap"
    (place / "figures" / "time.svg").unlink()
    with pytest.raises(UserError, match=r"time\.svg: missing; delete .*figures and run"):
        report.read(study, results, path)
    (place / "figures" / "figures.json").write_text("[{}]")
    with pytest.raises(UserError, match=r"figures\.json: .*; a list of figures is expected"):
        report.read(study, results, path)
    (place / "runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"runs\.csv: received a damaged file (.*run.*)"):
        report.read(study, results, path, partial=True)


def test_commands_name_configuration_and_scale(example):
    study = example[0]
    assert gaps.snakemake(study, "config.yaml") == "snakemake --cores 8"
    quoted = gaps.snakemake(study, "my studies/it's.yaml")
    assert quoted == "snakemake --cores 8 --configfile 'my studies/it'\"'\"'s.yaml'"
    listed = [command for _, command in gaps.commands(study, "studies/a.yaml")]
    assert listed[0] == "python workflow/run.py plan studies/a.yaml"
    assert listed[2] == "snakemake --profile slurm --configfile studies/a.yaml"
    assert listed[3].startswith(f"snakemake results/runs/{next(iter(study.runs))}/record.json ")


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
    assert text.common_decimals([0.9812345, 0.5]) == 4
    assert text.common_decimals([0.02, 0.03]) == 2
    assert text.common_decimals([1.0, 2.0]) is None
    assert text.common_decimals([0.001, 250.5]) is None
    assert text.common_decimals([]) is None


def test_small_words():
    assert text.format_p(0.0004) == "< 0.001" and text.format_p(0.0123) == "0.012"
    assert text.moment("2026-11-21T02:53:07.1+00:00") == "2026-11-21 02:53 UTC"
    assert text.moment("yesterday <b>") == "yesterday <b>"
    assert str(text.marked("`a<b` & ``c``")) == "<code>a&lt;b</code> &amp; <code>c</code>"
    assert text.plain([True, 0.1, None]) == f"true, 0.1, {wording.ABSENT}"


def test_many_classes_are_summed_up():
    counts = list(range(1, 101))
    record = {"counts": {"train": 5050}, "class_counts": {"train": counts}}
    shown = places.dataset("mine-0123abcd", record)
    assert shown["balance"] == [] and ("Per class, train", "1 to 100") in shown["pairs"]


def test_factors_read_as_in_names(example):
    study = example[0]
    run = next(iter(study.runs))
    row = {"run": run, "status": "finished", "learning_rate": "1e-05", "nesterov": "False"}
    tidy = runs_table.complete(study, {"gap": [row]})["gap"]
    assert (tidy[0]["learning_rate"], tidy[0]["nesterov"]) == ("1e-5", "false")
    assert tidy[1]["status"] == records.MISSING and tidy[1]["dataset"] == "digits"
    assert tidy[1]["dataset_digest"] == run_names.split_token(next(iter(study.datasets)))[1]


def test_thresholds_are_those_of_the_statistics():
    assert f"below {outcomes.LEVEL:g} with {outcomes.LEAST_SEEDS} paired" in answers.READING


@pytest.mark.slow
def test_five_times_the_runs_cost_at_most_five_times_as_much(tmp_path):
    def cost(seeds: int) -> int:
        folder = tmp_path / str(seeds)
        study, results, path = report_example.write(folder, seeds=seeds)
        assert len(study.runs) == 5 * seeds
        output = folder / "report.html"
        _, calls = costs.calls(report.write, study, results, path, output, partial=True)
        return calls

    many = cost(100)
    assert many < 5.25 * cost(20)
    assert many / 500 < 20_000  # about twice what they take
    assert (tmp_path / "100" / "report.html").stat().st_size < 2_500_000


@pytest.mark.slow
def test_drawn_report_of_the_default_study_is_below_five_megabytes(finished, tmp_path):
    from batchscope import figures

    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    place = results / "studies" / "example" / "gap"
    figures.write(place, figures.drawn(study.experiments["gap"]), place / "figures")
    report.write(study, results, path, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 5_000_000


def test_runs_that_missed_their_target_loss_are_told():
    rows = [
        {"batch_size": size, "reached_target": reached}
        for size, reached in (("256", "0"), ("32", "1"), ("256", "1"), ("32", "1"))
    ]
    told = report._targets(rows)
    assert report._targets(rows, "target").startswith("The target was reached in 2 of 2 at batch")
    assert "2 of 2 at batch size 32, 1 of 2 at batch size 256; the other runs are left out" in told
    assert report._targets(rows[1:2]).endswith("in 1 of 1 at batch size 32.")
    assert report._targets([{"batch_size": "32", "reached_target": ""}]) == ""


def test_a_missed_target_loss_is_a_gap_of_its_own(example):
    study, results, path, _ = example
    inputs = report.read(study, results, path, partial=True)
    run = list(study.runs)[5]
    rows = {
        name: [row | {"status": "off_target"} if row["run"] == run else row for row in found]
        for name, found in inputs.rows.items()
    }
    (gap,) = (gap for gap in gaps.find(study, rows, inputs) if gap.title == "Off target")
    assert [found for found, _ in gap.entries] == [run]
    assert "target_train_loss" in gap.text and not gap.command


def test_a_figure_says_what_was_measured(tmp_path):
    def study(**measures):
        return planner.make(
            {
                "study": "s",
                "experiments": {
                    "gap": {
                        "set": {"model": "small_cnn", "dataset": "digits", "optimizer": "sgd"},
                        "vary": {"batch_size": [16], "learning_rate": [0.1], "epochs": [2]},
                        "seeds": 1,
                        "measure": measures,
                    }
                },
            }
        ).experiments["gap"]

    few = study(sharpness={"weights": "best", "examples": 500}, weight_distance=None)
    rows = [{"train_examples": "1087"}, {"train_examples": ""}]
    told = figure_view._measured("sharpness", few, rows)
    assert told == "Measured of: best weights, 500 of 1,087 training examples."
    assert figure_view._measured("weight_distance", few, rows) == "Measured of: final weights."
    assert figure_view._measured("epoch_distance", few, rows) == ""
    assert figure_view._measured("loss_curves", few, rows) == ""
    usual = study(sharpness=None)  # 2,000, or as many as there are
    assert "all 1,087 training examples" in figure_view._measured("sharpness", usual, rows)
    assert "2,000 training examples or all" in figure_view._measured("sharpness", usual, [])
