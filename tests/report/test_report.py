"""The report without a browser: contents, escaping, formats, size and speed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pandas
import pytest

import costs
import report_example
from batchscope import disk, report, wording
from batchscope.catalogue import run_names
from batchscope.catalogue.weight_counts import Summary
from batchscope.datasets.samples import Sample
from batchscope.errors import UserError
from batchscope.report import content, gaps, runs_table, study_page
from batchscope.store import records
from batchscope.study import config
from html_page import Page

MOST_WORDS, MOST_UNFOLDED = 3000, 1200


def test_page_is_well_formed_and_ordered(example, shown):
    assert shown.open == []
    headings = [tag for tag, _ in shown.elements if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1
    order = ["top", "experiment-gap", "claims", "runs", "gaps", "data", "repeat"]
    found = [attributes["id"] for _, attributes in shown.elements if "id" in attributes]
    assert [each for each in found if each in order] == order


def test_links_lead_somewhere_and_ids_are_unique(example, shown):
    ids = [attributes["id"] for _, attributes in shown.elements if "id" in attributes]
    assert [each for each, count in Counter(ids).items() if count > 1] == []
    links = [link["href"] for link in shown.all("a")]
    assert {link[1:] for link in links if link[0] == "#"} <= set(ids)
    files = [link for link in links if link[0] != "#"]
    assert "studies/example/gap/runs.csv" in files
    assert all((example[1] / file).exists() for file in files)
    labelled = [a["aria-labelledby"] for _, a in shown.elements if "aria-labelledby" in a]
    assert set(labelled) <= set(ids)


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
    for hostile in ("NaN at step 190 & <stopped>", "CPU <4>", "cat <666>.jpg", "learn <digits>"):
        assert hostile in shown.text and hostile not in html


def test_a_page_is_short_and_says_nothing_twice(built):
    text = re.sub(r"<(table|svg|script|style|pre|title)\b.*?</\1>", " ", built, flags=re.S)
    unfolded = re.sub(r"<details(?! open).*?</details>", " ", text, flags=re.S)
    counts = [len(re.sub(r"<[^>]*>", " ", each).split()) for each in (text, unfolded)]
    assert counts[0] < MOST_WORDS and counts[1] < MOST_UNFOLDED
    paragraphs = re.findall(r"<(?:p|li|figcaption)\b[^>]*>(.*?)</(?:p|li|figcaption)>", text, re.S)
    long = Counter(each.strip() for each in paragraphs if len(each.split()) > 8)
    assert [each for each, count in long.items() if count > 1] == []


def _runs(html: str) -> str:
    return re.search(r'<table class="runs.*?</table>', html, re.S)[0]


def test_every_run_is_in_the_table(example, shown):
    study, results, _, html = example
    table = _runs(html)
    heads = [re.sub("<wbr>", "", each) for each in re.findall(r"<th scope=[^>]*>(.*?)</th>", table)]
    rows = re.findall(r"<tr>(?:(?!</tr>).)*</tr>", table.partition("<tbody>")[2], re.S)
    assert len(rows) == 30 and all(row.count("<td") == len(heads) for row in rows)
    assert "batch_size" in heads and "learning_rate" not in heads  # which all runs share
    assert heads[-1] == "run" and all(run in table for run in study.runs)
    file = results / "studies" / "example" / "gap" / "runs.csv"
    known = pandas.read_csv(file, dtype=str).set_index("status").loc["finished"]
    for column in ("test_accuracy", "weight_distance", "sharpness_full_0.001"):
        assert f'title="{known[column].dropna().iloc[0]}"' in table  # all digits


def test_outcomes_that_nobody_measured_are_those_of_the_last_evaluation():
    runs = [
        {"run": "a", "status": "finished", "test_accuracy": ""},
        {"run": "b", "status": "finished", "test_accuracy": "0.5"},
        {"run": "c", "status": "diverged", "test_accuracy": ""},
    ]
    given = [("a", 0.1), ("a", 0.9), ("a", None), ("b", 0.7), ("c", 0.2)]
    evaluations = pandas.DataFrame(given, columns=["run", "test_accuracy"])
    found = [row["test_accuracy"] for row in runs_table.evaluated(runs, evaluations)]
    assert found == ["0.9", "0.5", ""]
    assert runs_table.evaluated(runs, pandas.DataFrame()) == runs


def test_factors_read_as_in_names(example):
    study = example[0]
    run = next(iter(study.runs))
    row = {"run": run, "status": "finished", "learning_rate": "1e-05", "nesterov": "False"}
    tidy = runs_table.complete(study, "gap", [row])
    assert (tidy[0]["learning_rate"], tidy[0]["nesterov"]) == ("1e-5", "false")
    assert tidy[1]["status"] == records.MISSING and tidy[1]["dataset"] == "digits"
    assert tidy[1]["dataset_digest"] == run_names.split_token(next(iter(study.datasets)))[1]


def test_data_and_machine_are_shown(example, shown):
    (dataset,) = example[0].datasets
    for text in (dataset, "ab" * 32, "1000", "397", "31.2 GiB", "tensorflow 2.21.0"):
        assert text in shown.text
    # One machine, whatever was made on it.
    assert example[3].count('<th scope="col">local</th>') == 1


def test_examples_and_layers_are_shown(whole):
    study, inputs = whole
    assert inputs.samples == dict.fromkeys(study.datasets, [])  # no arrays lie there
    (token,) = study.datasets
    given = {token: [Sample("<b>7</b>", b"RIFF", small=True), Sample("", text="a<b>c")]}
    layers = {("own-0123abcd", (4,), 2): [Summary("mine <i>(Mine)</i>", None, 1234)]}
    html = study_page.build(study, replace(inputs, samples=given, models=inputs.models | layers))
    page = Page(html)
    assert page.open == [] and "<b>7" not in html and "<i>" not in html
    (picture,) = page.all("img")
    assert picture["src"] == "data:image/webp;base64,UklGRg==" and picture["class"] == "pixels"
    assert picture["alt"] == "Training example of class <b>7</b>" and "a<b>c" in page.text
    assert f"mine <i>(Mine)</i>{wording.ABSENT}1,234" in page.text


def test_layers_of_a_users_model_are_those_that_were_stored(finished, tmp_path):
    study, _, _ = finished
    (dataset,), (name, experiment) = study.datasets, next(iter(study.experiments.items()))
    records_of = {dataset: {"input_shape": [8, 8, 1], "classes": 10}}
    runs = {run: {**of, "model": "own-0123abcd"} for run, of in study.runs.items()}
    trainings = replace(experiment.trainings, runs=runs)
    study = replace(study, experiments={name: replace(experiment, trainings=trainings)})
    assert content._models(study, tmp_path, records_of) == {}  # made before they were stored
    path = records.layers_path(tmp_path, "own-0123abcd", (8, 8, 1), 10)
    path.parent.mkdir()
    path.write_text(json.dumps({"layers": [["only (Dense)", [10], 650]]}))
    (found,) = content._models(study, tmp_path, records_of).items()
    assert found == (("own-0123abcd", (8, 8, 1), 10), [("only (Dense)", [10], 650)])


def test_figures_are_embedded_and_numbered_in_order(example, shown):
    pictures = shown.all("svg")
    numbers = [int(each) for each in re.findall(r">Figure (\d+)\.", example[3])]
    assert numbers == list(range(1, len(pictures) + 1)) and len(pictures) > 8
    assert all(each["viewbox"] == "0 0 504 288" for each in pictures)
    ids = [each["id"] for each in shown.all("circle")]
    assert len(ids) == len(set(ids)) == len(pictures)  # all files call theirs the same
    assert "stolen by" not in example[3] and "example.invalid" not in example[3]
    assert "Every <code>point</code> of loss_curves &amp; &lt;i&gt;seeds" in example[3]
    assert not any(f"gap-{name}" in example[3] for name in study_page.AS_TABLES)


def test_a_row_of_trends_stands_at_one_figure(whole):
    study, inputs = whole
    columns = ("generalisation_gap",)
    given = [content.Figure(name, name, "", columns=columns) for name in ("a", "b", "primary")]
    found = replace(inputs.experiments["gap"], figures=given)
    experiments = [
        study_page.experiment_view.build(found, []),
    ]
    study_page._add_figures(experiments, replace(inputs, experiments={"gap": found}))
    shown = [view for block in experiments[0]["blocks"] for view in block]
    assert [view["file"].name for view in shown] == ["primary", "a", "b"]
    assert [bool(view["trend"]) for view in shown] == [True, False, False]
    assert shown[0]["trend"]["column"] == columns[0] and shown[0]["trend"]["n"] == 6


def test_large_svg_gives_way_to_a_smaller_png(tmp_path):
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "time.svg").write_text(
        '<svg viewBox="0 0 72 36" xmlns="http://www.w3.org/2000/svg">' + " " * 1_100_000 + "</svg>"
    )
    (folder / "time.png").write_bytes(b"\x89PNG")
    (folder / "figures.json").write_text('[{"name": "time", "title": "Time", "caption": ""}]')
    (figure,) = content.read_figures(folder, partial=False)
    assert figure.source.startswith("data:image/png;base64,") and figure.svg == b""
    assert figure.width == 96 and figure.packed == ""


def test_same_results_give_the_same_page(example):
    study, results, path, html = example
    inputs = content.read(study, results, path, partial=True)
    assert study_page.build(study, inputs, results) == html


def test_a_run_that_experiments_share_has_a_row_in_each(tmp_path):
    study, results, path = report_example.write(tmp_path, 2, ("gap", "second"), troubles=False)
    inputs = content.read(study, results, path)
    assert len(inputs.rows) == 20 and len(runs_table.distinct(inputs.rows)) == 10
    table, _ = runs_table.build(inputs.rows)
    assert [select["label"] for select in table["selects"]] == ["Status", "Experiment"]
    assert study_page._counts(inputs) == {
        **{"runs": 10, "finished": 10, "parts": ["10 finished"]},
        **{"elsewhere": 0, "timings": 10},
    }


def test_empty_results_give_a_partial_page(tmp_path):
    path = report_example.write_config(tmp_path)
    study = config.study(path)
    with pytest.raises(UserError, match=r"runs\.csv: missing; run snakemake"):
        report.write(study, tmp_path / "results", path, tmp_path / "report.html")
    report.write(study, tmp_path / "results", path, tmp_path / "report.html", partial=True)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.open == [] and page.all("svg") == []
    assert "30 missing" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_damaged_inputs_are_named(finished, tmp_path):
    study, given, path = finished
    results = shutil.copytree(given, tmp_path / "results")
    place = results / "studies" / "example" / "gap"
    (place / "figures" / "time.svg").unlink()
    with pytest.raises(UserError, match=r"time\.svg: missing; delete .*figures and run"):
        content.read(study, results, path)
    (place / "figures" / "figures.json").write_text("[{}]")
    with pytest.raises(UserError, match=r"figures\.json: .*; a list of figures is expected"):
        content.read(study, results, path)
    (place / "runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"runs\.csv: received a damaged file (.*run.*)"):
        content.read(study, results, path, partial=True)


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


def test_many_models_are_counted_and_gpus_come_first(finished):
    shared = {"dataset": "d", "status": "finished"}
    rows = [{"run": str(n), "model": f"m{n}", **shared} for n in range(4)]
    found = content.ExperimentResults(finished[0].experiments["gap"], rows)
    machine = {"machine": {"cpu": "A  CPU", "cores": 8, "gpu": ["A GPU", "A GPU"]}}
    made = content.Records({"0": {**machine, "contended_seconds": 120.0}})
    scope = study_page._scope(content.Inputs("c.yaml", "", {"gap": found}, made))
    assert scope == ["4 models on d", "A GPU, A CPU (8 cores)", "2 min of training"]


def test_records_of_another_version_are_listed(tmp_path):
    study, results, path = report_example.write(tmp_path, 2, ("gap",), troubles=False)
    record = next(results.glob("runs/*/evaluate/default.json"))
    disk.write_json(record, {**disk.read_json(record), "version": "evaluate-v0"})
    found = gaps.find(study, content.read(study, results, path))
    (gap,) = (each for each in found if (each.kind, each.name) == ("version", "evaluate"))
    assert gap.title == "evaluate-v0"
    assert gap.entries == [(record.parents[1].name, "")]
