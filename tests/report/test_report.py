"""The report without a browser: contents, escaping, formats."""

import base64
import hashlib
import re
import shutil
from dataclasses import replace

import pandas
import pytest

import report_example
from batchscope.core import disk, display
from batchscope.core.errors import UserError
from batchscope.report import report_inputs, runs_table, study_page, unfinished
from batchscope.store import records
from batchscope.study import config, names
from html_page import Page


def test_the_page_is_in_order_its_ids_are_unique_and_its_links_lead_somewhere(example, shown):
    assert shown.open == [] and len(shown.all("h1")) == 1
    ids = [attributes["id"] for _, attributes in shown.elements if "id" in attributes]
    order = ["top", "experiment-gap", "claims", "runs", "unfinished", "data", "files"]
    assert [each for each in ids if each in order] == order and len(ids) == len(set(ids))
    links = [link["href"] for link in shown.all("a")]
    labelled = [a["aria-labelledby"] for _, a in shown.elements if "aria-labelledby" in a]
    explained = {button.get("popovertarget") for button in shown.all("button")} - {None}
    assert {*labelled, *explained, *(link[1:] for link in links if link[0] == "#")} <= set(ids)
    assert len(explained) > 3
    files = [link for link in links if link[0] != "#"]
    assert "studies/example/gap/runs.csv" in files
    assert all((example[1] / file).exists() for file in files)


def test_only_tables_and_commands_of_the_present_study_are_listed(finished):
    study, results, path = finished
    gone = results / "studies" / "example" / "gone"
    shutil.copytree(gone.with_name("gap"), gone)
    read = report_inputs.read(replace(study, claims=(), reduced=False), results, path)
    shutil.rmtree(gone)
    assert gone.with_name("gap") / "runs.csv" in read.files
    assert not {gone / "runs.csv", gone.with_name("claims.csv")} & {*read.files}
    files = study_page._files(replace(read, study=replace(study, reduced=True)), results)
    commands = files["commands"].values()
    assert all("run.py plan" not in text or "--config scale=reduced" in text for text in commands)


def test_nothing_can_be_fetched(example, shown):
    sources = [a["src"] for _, a in shown.elements if a.get("src")]
    assert all(source.startswith("data:") for source in sources)
    assert "@import" not in example[3] and not re.search(r"url\((?!#)", example[3])
    policy = next(a["content"] for a in shown.all("meta") if "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(shown.scripts[0].encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    # A page is read without the script: it may not become a library.
    assert len(shown.scripts) == 1 and 1_000 < len(shown.scripts[0]) < 8_500


def test_text_of_the_configuration_is_escaped(example, shown):
    _, _, path, html = example
    assert "<script>alert" not in html and "<b>bold" not in html and "<u>found" not in html
    assert shown.all("u") == shown.all("i") == []
    assert report_example.QUESTION in shown.text and report_example.TITLE in shown.text
    config = re.search(r'<pre class="config"[^>]*><code>(.*?)</code></pre>', html, re.S)[1]
    assert "".join(Page(f"<p>{config}</p>").texts) == path.read_text(encoding="utf-8")
    for hostile in ("ended & <diverged>", "CPU <4>", "cat <666>.jpg", "learn <digits>"):
        assert hostile in shown.text and hostile not in html


def test_every_run_is_in_the_table(example, shown):
    study, results, _, html = example
    table = re.search(r'<table class="runs.*?</table>', html, re.S)[0]
    heads = re.findall(r"<th scope=[^>]*>(.*?)</th>", table)
    rows = re.findall(r"<tr>(?:(?!</tr>).)*</tr>", table.partition("<tbody>")[2], re.S)
    assert len(rows) == 30 and all(row.count("<td") == len(heads) for row in rows)
    assert "batch_size" in heads and "learning_rate" not in heads  # which all runs share
    assert heads[-1] == "run" and all(run in table for run in study.runs)
    file = results / "studies" / "example" / "gap" / "runs.csv"
    known = pandas.read_csv(file, dtype=str).set_index("status").loc["finished"]
    assert f">{display.cell(float(known['test_accuracy'].iloc[0]))}<" in table
    assert "parameters" not in heads  # a record, and no outcome


def test_factors_read_as_in_names(example):
    study = example[0]
    run = next(iter(study.runs))
    row = {"run": run, "status": "finished", "learning_rate": "1e-05", "nesterov": "False"}
    tidy = runs_table.complete_rows(study, "gap", [row])
    assert (tidy[0]["learning_rate"], tidy[0]["nesterov"]) == ("1e-5", "false")
    assert tidy[1]["status"] == records.MISSING and tidy[1]["dataset"] == "digits"
    assert tidy[1]["dataset_digest"] == names.split_token(next(iter(study.datasets)))[1]


def test_figures_are_embedded_and_numbered_in_order(example, shown):
    pictures = shown.all("svg")
    numbers = [int(each) for each in re.findall(r">Figure (\d+)\.", example[3])]
    assert numbers == list(range(1, len(pictures) + 1)) and len(pictures) > 8
    assert all(each["viewbox"] == "0 0 504 288" for each in pictures)
    ids = [each["id"] for each in shown.all("circle")]
    assert len(ids) == len(set(ids)) == len(pictures)  # all files call theirs the same
    assert "Every point of loss_curves &amp; &lt;i&gt;seeds" in example[3]


def test_empty_results_give_a_partial_page(tmp_path):
    path = report_example.write_config(tmp_path)
    study = config.study(path)
    with pytest.raises(UserError, match=r"runs\.csv: missing; run snakemake"):
        study_page.write(study, tmp_path / "results", path, tmp_path / "report.html")
    study_page.write(study, tmp_path / "results", path, tmp_path / "report.html", partial=True)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.open == [] and page.all("svg") == []
    assert "30 missing" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_damaged_inputs_are_named(finished, tmp_path):
    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    place = results / "studies" / "example" / "gap"
    (place / "figures" / "time.svg").unlink()
    with pytest.raises(UserError, match=r"time\.svg: missing; delete .*figures and run"):
        report_inputs.read(study, results, path)
    (place / "figures" / "figures.json").write_text("[{}]")
    with pytest.raises(UserError, match=r"figures\.json: .*; a list of figures is expected"):
        report_inputs.read(study, results, path)
    (place / "runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"runs\.csv: received a damaged file (.*run.*)"):
        report_inputs.read(study, results, path, partial=True)


def test_records_of_another_version_are_listed(finished, tmp_path):
    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    record = next(results.glob("runs/*/evaluate/default.json"))
    disk.write_json(record, {**disk.read_json(record), "version": "evaluate-v0"})
    groups = unfinished.build(report_inputs.read(study, results, path))["groups"]
    (gap,) = (row for row in groups if (row["kind"], row["name"]) == ("version", "evaluate"))
    assert gap["title"] == "evaluate-v0"
    assert gap["entries"] == [(record.parents[1].name, "")]


def test_gpus_of_a_machine_come_first():
    machine = {"cpu": "A  CPU", "cores": 8, "gpu": ["A GPU", "A GPU"]}
    assert study_page.processor_words(machine) == "A GPU, A CPU (8 cores)"


def test_a_run_that_experiments_share_has_a_row_in_each(whole):
    _, inputs = whole
    shared = replace(inputs, experiments=dict.fromkeys("ab", inputs.experiments["gap"]))
    assert len(shared.rows) == 60 and study_page.run_counts(shared)["runs"] == 30
