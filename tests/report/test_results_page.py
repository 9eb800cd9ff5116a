"""The page of results, rendered from a record per document."""

import json

import pytest

from batchscope.core import disk, errors
from batchscope.report import results_page
from batchscope.study import decision_columns
from batchscope.study.outcomes import Reason, Verdict

CLAIM = {
    **dict.fromkeys(decision_columns.CLAIMS, ""),
    **{"id": "falls", "document": "A | B <2020>", "place": "figure 1", "figure": "accuracy"},
    "sentence": "Accuracy_falls with `B`.",
    **{"experiment": "gap", "scale": "difference"},
    **{"type": "trend", "table": "runs", "column": "x", "over": "batch_size", "per": "doubling"},
    **{"estimate": "-0.02", "low": "-0.03", "high": "-0.01", "level": "0.025", "high_bound": "0.0"},
    **{"n": "6", "replicates": "6", "parts": "1", "p": "0.001", "p_against": "0.999"},
    "verdict": Verdict.SUPPORTED,
}
CONTRADICTED = {"estimate": "0.02", "low": "0.01", "high": "0.03", "verdict": Verdict.CONTRADICTED}
OPEN = {"low": "-0.05", "high": "0.01", "verdict": Verdict.NOT_RESOLVED, "seeds_to_resolve": "21"}
UNTESTED = {"verdict": Verdict.NOT_TESTABLE, "reason": Reason.NO_GPU, "sentence": "GPUs idle."}
UNTESTED |= dict.fromkeys(("estimate", "low", "high", "n", "p", "p_against"), "")


def add_figure(results, study, experiment, name):
    folder = results / "studies" / study / experiment / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(f"image of {name}".encode())
    listing = folder / "figures.json"
    entries = json.loads(listing.read_text()) if listing.exists() else []
    entry = {"name": name, "title": name.title(), "caption": "Mean <b>value</b>."}
    listing.write_text(json.dumps([*entries, entry]))


def add_study(results, name, *changes):
    """Add a study with a report, a recommendation, and a claim for each of `changes`."""
    folder = results / "studies" / name
    disk.write_text(folder / "report.html", "")
    if changes:
        rows = [{**CLAIM, **change} for change in changes]
        disk.write_rows(folder / "claims.csv", list(CLAIM), rows)
    advice = {"item": "recommendation", "batch_size": 32, "effective_learning_rate": 0.4}
    advice |= {"grade": "solid", "sizes": "16 32" if name == "values" else "32"}
    disk.write_rows(folder / "gap" / "advice.csv", list(advice), [advice])
    runs = [{"run": run, "contended_seconds": 20.5} for run in ("a", "b")]
    for experiment in ("gap", "shares_runs"):
        disk.write_rows(folder / experiment / "runs.csv", list(runs[0]), runs)


@pytest.fixture
def results(tmp_path):
    machine = {"cpu": "Some CPU", "usable_cores": 2, "memory_gb": 23.5, "gpu": []}
    record = {"machine": machine, "versions": {"python": "3.11"}}
    other = {**record, "machine": {**machine, "cpu": "CPU of another study"}}
    for run in ("a", "b"):
        disk.write_json(tmp_path / "runs" / run / "record.json", record)
    disk.write_json(tmp_path / "runs" / "a_first" / "record.json", other)
    return tmp_path


def write(results, *studies):
    """Return the page, and its records by name."""
    output = results / "docs" / "results.md"
    results_page.write(results, output, studies)
    records = {path.stem: disk.read_json(path) for path in output.parent.glob("results/*.json")}
    return output.read_text(), records


def images(results):
    return {path.stem: path.read_text() for path in results.glob("docs/results/*.png")}


def lines(text, *parts):
    return [line for line in text.splitlines() if all(part in line for part in parts)]


def test_a_document_has_counts_a_picture_and_a_table_of_claims(results):
    add_study(results, "own-reduced", {}, OPEN, UNTESTED)
    add_figure(results, "own-reduced", "gap", "accuracy")
    page, records = write(results)
    assert records["own-reduced"]["document"] == CLAIM["document"]
    assert images(results) == {"own-reduced": "image of accuracy"}
    assert "## A \\| B &lt;2020&gt;, reduced form" in page
    assert "Accuracy, gap. Mean &lt;b&gt;value&lt;/b&gt;." in page
    command = "`snakemake --cores all --configfile studies/own.yaml --config scale=reduced`"
    machine = "Some CPU, 2 cores, 24 GiB of memory, no GPU, python 3.11: 2 runs, 41 s of training."
    assert lines(page, "Of 3 claims, 1 is", command, machine)
    (line,) = lines(page, "| Supported |")
    claim, _, interval, run = line.replace("\\|", "").strip("| ").split(" | ")
    assert claim == "Accuracy\\_falls with \\`B\\`. (figure 1)"
    assert interval.startswith("−0.020 \\[−0.030, −0.010\\]") and run == "gap, 6 seeds"
    assert lines(page, "| Not resolved |", "| gap, 6 seeds; needed: about 21 seeds")
    assert lines(page, "| GPUs idle. (figure 1) | Not testable here |  | gap; missing: a GPU |")


def test_a_study_that_trains_nothing_has_the_machine_and_the_time_of_its_timings(results):
    add_study(results, "timed")
    timing = disk.read_json(results / "runs" / "a" / "record.json")
    timing["machine"]["cpu"] = "Timed CPU"
    for repeat, seconds in (("a", 50.0), ("b", 35.2)):
        path = results / "timing" / "local" / "sweep" / "throughput" / f"{repeat}.json"
        disk.write_json(path, {**timing, "job_seconds": seconds})
    experiment = results / "studies" / "timed" / "gap"
    for path in experiment.parent.glob("*/runs.csv"):
        path.unlink()
    disk.write_rows(experiment / "throughput.csv", ("sweep",), [{"sweep": "sweep"}])
    page, _ = write(results)
    assert lines(page, "with Timed CPU, 2 cores", "python 3.11: 85 s of timing.")
    assert " runs" not in page


def test_a_machine_without_versions_is_named_once_and_only_if_no_other_run_names_it(results):
    add_study(results, "commands")
    record = disk.read_json(results / "runs" / "b" / "record.json")
    for run, end in (("b", "no GPU, python 3.11: 2 runs"), ("a", "no GPU: 2 runs")):
        disk.write_json(results / "runs" / run / "record.json", {**record, "versions": {}})
        page, _ = write(results)
        assert lines(page, f" with Some CPU, 2 cores, 24 GiB of memory, {end}")


def test_series_of_an_experiment_have_a_recommendation_each(results):
    add_study(results, "own")
    path = results / "studies" / "own" / "gap" / "advice.csv"
    row = disk.read_rows(path)[0]
    sizes = {"sgd": 32, "adam": 64}.items()
    rows = [{**row, "optimizer": name, "batch_size": size} for name, size in sizes]
    disk.write_rows(path, list(rows[0]), rows)
    page, _ = write(results)
    assert "Recommended: gap, SGD: batch size 32, learning rate 0.4 (solid); gap, Adam:" in page


def test_documents_with_the_largest_contradicted_share_come_first(results):
    add_study(results, "half", CONTRADICTED, {})
    add_study(results, "third", CONTRADICTED, {}, OPEN)
    add_study(results, "two_of_four", CONTRADICTED, CONTRADICTED, {}, UNTESTED)
    page, _ = write(results)
    assert "Of 9 claims, 7 are" in page and "3 supported, 4 contradicted; 1 not" in page
    rows = [line.split("|") for line in lines(page, "| [A \\| B")]
    assert [row[3].strip() for row in rows] == ["two\\_of\\_four", "half", "third"]
    assert [int(cell) for cell in rows[0][4:9]] == [4, 1, 2, 0, 1]
    contradicted = lines(page, "- [A ", "stated: below 0")
    assert len(contradicted) == 4 and "](#two_of_four): Accuracy" in contradicted[0]


def test_the_documents_of_a_study_have_a_section_each(results):
    other = {"document": "Second", "experiment": "rule", "figure": "loss"}
    add_study(results, "two", {}, other)
    add_figure(results, "two", "gap", "accuracy")
    add_figure(results, "two", "rule", "loss")
    page, records = write(results)
    assert {name: record["document"] for name, record in records.items()} == {
        "two-1": CLAIM["document"],
        "two-2": "Second",
    }
    assert images(results) == {"two-1": "image of accuracy", "two-2": "image of loss"}
    assert lines(page, "| [Second](#two-2) | two | 1 |")
    add_study(results, "two", {})
    _, records = write(results)
    assert {*records} == {*images(results)} == {"two"}


def test_the_picture_is_the_figure_of_most_claims_or_the_primary_one_or_the_first(results):
    add_study(results, "own", {}, *[{"figure": "loss"}] * 2, {"figure": "missing"})
    add_study(results, "plain")  # without claims
    add_study(results, "values")  # and without a primary figure
    for study in ("own", "plain", "values", "unfinished"):  # the last one has no report yet
        for name in ("accuracy", "loss", "primary")[: 2 if study == "values" else 3]:
            add_figure(results, study, "gap", name)
    page, records = write(results)
    assert records["own"]["picture"]["figure"] == "loss"
    expected = {"own": "loss", "plain": "primary", "values": "accuracy"}
    assert images(results) == {name: f"image of {figure}" for name, figure in expected.items()}
    assert lines(page, "gap: batch size 32, learning rate 0.4 (solid)")
    assert lines(page, "gap: ", "batch sizes 16 and 32", "use 32, learning rate 0.4")


def test_sections_of_other_studies_stay(results):
    add_study(results, "kept", CONTRADICTED)
    write(results, "kept")
    add_study(results, "kept", {})
    add_study(results, "other", {}, {})
    page, _ = write(results, "other")
    assert "Of 3 claims, 3 are" in page and "2 supported, 1 contradicted" in page
    page, _ = write(results)
    assert "3 supported, 0 contradicted" in page


def test_a_study_without_a_report_is_named(results):
    with pytest.raises(errors.UserError, match=r"'own'.*\(none\)"):
        write(results, "own")
    add_study(results, "own-reduced", {})
    with pytest.raises(errors.UserError, match="--study: received 'own'.*own-reduced"):
        write(results, "own")
