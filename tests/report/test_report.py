"""The report without a browser: contents, escaping, formats, size and speed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace

import pytest

import costs
import report_example
from batchscope import report, wording
from batchscope.catalogue import outcomes, run_names
from batchscope.catalogue.weight_counts import Summary
from batchscope.datasets.samples import Sample
from batchscope.errors import UserError
from batchscope.report import content, gaps, places, runs_table, study_page
from batchscope.store import records
from batchscope.study import config
from html_page import Page


def test_page_is_well_formed_and_ordered(example, shown):
    assert shown.open == []
    headings = [tag for tag, _ in shown.elements if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1
    levels = [int(tag[1]) for tag in headings]
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    wanted = ["Answer", "Figures", "Runs", "What failed or is missing"]
    wanted += ["Data sets", "Machine", "Configuration", "How to repeat it"]
    found = re.findall(r"<h[23][^>]*>([^<]+)</h", example[3])
    assert [title for title in found if title in wanted] == wanted


def test_links_stay_inside_and_ids_are_unique(shown):
    ids = [attributes["id"] for _, attributes in shown.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in shown.all("a"):
        assert link["href"][0] == "#" and link["href"][1:] in ids
    labelled = [a["aria-labelledby"] for _, a in shown.elements if "aria-labelledby" in a]
    assert set(labelled) <= set(ids)


def test_many_notes_are_folded_under_the_first(whole):
    study, inputs = whole
    reduced = "This is the reduced form of the study: smaller than the full one, so its numbers"
    for many, summary in ((2, ""), (3, " And 3 more notes.</summary>")):
        warned = replace(study, reduced=True, warnings=tuple(f"Warning {n}." for n in range(many)))
        (box,) = re.findall(r'<div class="note">.*?</div>', study_page.build(warned, inputs), re.S)
        assert box.count(reduced) == 1 and f"<p>Warning {many - 1}.</p>" in box
        assert ("<details>" in box) == bool(summary) and summary in box


def test_nothing_can_be_fetched(example, shown):
    sources = [a[key] for _, a in shown.elements for key in ("src", "href") if a.get(key)]
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "@import" not in example[3] and not re.search(r"url\((?!#)", example[3])
    policy = next(a["content"] for a in shown.all("meta") if "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(shown.scripts[0].encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    # A page is read without the script: it may not become a library.
    assert len(shown.scripts) == 1 and 1_000 < len(shown.scripts[0]) < 8_500


def test_text_of_the_configuration_is_escaped(example, shown):
    _, _, path, html = example
    assert "<script>alert" not in html and "<b>bold" not in html and "<u>found" not in html
    assert shown.all("b") == shown.all("u") == shown.all("i") == []
    assert report_example.QUESTION in shown.text and report_example.TITLE in shown.text
    config = re.search(r'<pre class="config"[^>]*><code>(.*?)</code></pre>', html, re.S)[1]
    assert "".join(Page(f"<p>{config}</p>").texts) == path.read_text(encoding="utf-8")
    for hostile in ("NaN at step 190 & <stopped>", "CPU <4>", "cat <666>.jpg", "learn <digits>"):
        assert hostile in shown.text and hostile not in html


def test_every_run_and_column_is_in_the_table(example, shown):
    study, results, _, html = example
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
    assert all(run in shown.text for run in study.runs)


def test_what_every_study_asks_about_is_shown_first(troubled):
    table, _ = runs_table.build(troubled[1].rows)
    shown = [column.name for column in table["columns"] if column.usual]
    found = shown[shown.index("status") + 1 : -1]  # the run's name is last
    asked = [name for name in found if outcomes.outcome(name)]
    assert found[: len(asked)] == asked
    assert {"test_accuracy", "generalisation_gap", "sharpness_full_0.001"} <= {*asked}
    others = [f"{split}_{what}" for split in records.SPLITS for what in ("loss", "accuracy")]
    assert found[len(asked) :] == [name for name in others if name not in asked]


def test_exact_numbers_stand_behind_rounded_ones(example, troubled):
    finished = [row for row in troubled[1].rows if row["status"] == "finished"]
    for column in ("test_accuracy", "weight_distance", "sharpness_full_0.001"):
        assert f'title="{finished[0][column]}"' in example[3]


def test_data_and_machine_are_shown(example, shown):
    (dataset,) = example[0].datasets
    for words in (dataset, "ab" * 32, "scikit-learn", "1000", "397", "1 file skipped", "31.2 GiB"):
        assert words in shown.text
    # One machine, whatever was made on it.
    assert example[3].count('<th scope="col">local</th>') == 1
    assert "29 runs on CPU with 1 thread" in shown.text
    assert "30 timing jobs on CPU with 1 thread" in shown.text
    assert "python 3.11.9, tensorflow 2.21.0" in shown.text


def test_examples_and_layers_are_shown(whole):
    study, inputs = whole
    assert inputs.samples == dict.fromkeys(study.datasets, [])  # no arrays lie there
    (token,) = study.datasets
    given = {token: [Sample("<b>7</b>", b"RIFF", small=True), Sample("", text="a<b>c")]}
    layers = {("own-0123abcd", (4,), 2): [Summary("mine <i>(Mine)</i>", None, 1234)]}
    html = study_page.build(study, replace(inputs, samples=given, models=inputs.models | layers))
    page = Page(html)
    assert page.open == [] and "<b>" not in html and "<i>" not in html
    (picture,) = page.all("img")
    assert picture["src"] == "data:image/webp;base64,UklGRg==" and picture["class"] == "pixels"
    assert picture["alt"] == "Training example of class <b>7</b>"
    assert "<b>7</b>" in page.text and "a<b>c" in page.text
    times = "\N{MULTIPLICATION SIGN}"
    looks = f"8 {times} 8 {times} 1 in 10 classes"
    assert f"small_cnn, for examples of {looks}: 6,058 weights in 4" in page.text
    assert f"convolution 3 {times} 3, stride 2</th><td>4 {times} 4 {times} 8</td>" in html
    assert f"mine <i>(Mine)</i>{wording.ABSENT}1,234" in page.text


def test_layers_of_a_users_model_are_those_that_were_stored(finished, tmp_path):
    study, given, _ = finished
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


def test_what_the_study_took_is_reported(built):
    took = r"It took 0\.0\d+ core-hours of training; its runs hold [^<]*"
    text = re.search(took, built)[0]
    assert text.endswith("what 30 timings and 90 measures took was not noted.")


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
    shown = places.machines(content.Records(records))
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


def test_figures_are_embedded_numbered_and_captioned(example, shown):
    pictures = shown.all("svg")
    assert len(pictures) == 17 and shown.all("img") == []
    assert all(each["viewbox"] == "0 0 504 288" for each in pictures)
    assert example[3].count("--width: 672px; --height: 384px") == 17
    ids = [each["id"] for each in shown.all("circle")]
    assert len(ids) == len(set(ids)) == 17  # all files call theirs the same
    assert "stolen by" not in example[3] and "example.invalid" not in example[3]
    numbers = re.findall(r"<strong>Figure (\d+)\.", example[3])
    assert sorted(map(int, numbers)) == list(range(1, 18))
    assert numbers[1:] == sorted(numbers[1:], key=int)  # the matrix stands at the top
    assert "Every <code>point</code> of loss_curves &amp; &lt;i&gt;seeds" in example[3]


def test_large_svg_gives_way_to_a_smaller_png(tmp_path):
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "time.svg").write_text(
        '<svg viewBox="0 0 72 36" xmlns="http://www.w3.org/2000/svg">' + " " * 1_100_000 + "</svg>"
    )
    (figures / "time.png").write_bytes(b"\x89PNG")
    listing = [{"name": "time", "title": "Time", "caption": ""}]
    (figures / "figures.json").write_text(json.dumps(listing))
    picture = content.read_figures(figures, tmp_path, partial=False)[0].picture
    assert picture.source.startswith("data:image/png;base64,") and picture.svg == b""
    assert (picture.width, picture.height) == (96, 48)


def test_same_results_give_the_same_page(example):
    study, results, path, html = example
    assert study_page.build(study, content.read(study, results, path, partial=True)) == html


@pytest.mark.slow
def test_tables_of_several_experiments_stand_together(tmp_path):
    study, results, path = report_example.write(tmp_path, 2, ("gap", "second"), troubles=False)
    html = study_page.build(study, content.read(study, results, path))
    page = Page(html)
    assert "10 training runs in 2 experiments: 10 finished" in page.text
    assert "has a row for each of them: 20 rows of 10 runs." in page.text
    assert "20 of 20 rows" in page.text
    assert re.search(r'<table class="runs".*?</table>', html, re.S)[0].count("<tr data-run=") == 20
    numbers = re.findall(r"<strong>Figure (\d+)\.", html)
    assert sorted(map(int, numbers)) == list(range(1, 35))
    assert len(page.all("select")) == 2


def test_empty_results_give_a_partial_page(tmp_path):
    path = report_example.write_config(tmp_path)
    study = config.study(path)
    with pytest.raises(UserError, match=r"runs\.csv: missing; run snakemake"):
        report.write(study, tmp_path / "results", path, tmp_path / "report.html")
    inputs = content.read(study, tmp_path / "results", path, partial=True)
    page = Page(study_page.build(study, inputs))
    assert "30 training runs in 1 experiment: 30 missing" in page.text
    assert "No answer yet" in page.text and "No data set has been prepared" in page.text


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


def test_commands_name_configuration_and_scale(example):
    study = example[0]
    assert gaps.snakemake(study, "config.yaml") == "snakemake --cores 8"
    quoted = gaps.snakemake(study, "my studies/it's.yaml")
    assert quoted == "snakemake --cores 8 --configfile 'my studies/it'\"'\"'s.yaml'"
    listed = [command for _, command in gaps.commands(study, "studies/a.yaml")]
    assert listed[0] == "python workflow/run.py plan studies/a.yaml"
    assert listed[2] == "snakemake --profile slurm --configfile studies/a.yaml"
    assert listed[3].startswith(f"snakemake results/runs/{next(iter(study.runs))}/record.json ")


def test_many_classes_are_summed_up():
    counts = list(range(1, 101))
    record = {"counts": {"train": 5050}, "class_counts": {"train": counts}}
    shown = places.dataset("mine-0123abcd", record)
    assert shown["balance"] == [] and ("Per class, train", "1 to 100") in shown["pairs"]


def test_factors_read_as_in_names(example):
    study = example[0]
    run = next(iter(study.runs))
    row = {"run": run, "status": "finished", "learning_rate": "1e-05", "nesterov": "False"}
    tidy = runs_table.complete(study, "gap", [row])
    assert (tidy[0]["learning_rate"], tidy[0]["nesterov"]) == ("1e-5", "false")
    assert tidy[1]["status"] == records.MISSING and tidy[1]["dataset"] == "digits"
    assert tidy[1]["dataset_digest"] == run_names.split_token(next(iter(study.datasets)))[1]


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


def test_the_scope_names_model_data_machine_runs_and_time(troubled):
    scope = study_page.scope(troubled[1])
    assert scope.startswith("small_cnn on digits; Example CPU <4> @ 2.4 GHz (8 cores); ")
    assert "30 training runs (1 diverged, 1 missing, 1 out of memory), 2 min of training" in scope


def test_many_models_are_counted_and_gpus_come_first(finished):
    shared = {"dataset": "d", "status": "finished"}
    rows = [{"run": str(n), "model": f"m{n}", **shared} for n in range(4)]
    found = content.ExperimentResults(finished[0].experiments["gap"], rows)
    machine = {"machine": {"cpu": "A  CPU", "cores": 8, "gpu": ["A GPU", "A GPU"]}}
    inputs = content.Inputs("c.yaml", "", {"gap": found}, content.Records({"0": machine}))
    scope = study_page.scope(inputs)
    assert scope == "4 models on d; A GPU, A CPU (8 cores); 4 training runs."
