"""The pages of what became of documents, and their index."""

import json

import pytest

from batchscope import disk, errors
from batchscope.catalogue import decision_columns
from batchscope.catalogue.outcomes import Reason, Verdict
from batchscope.catalogue.tables import TABLES
from batchscope.report import claim_rows, results_index, results_page
from batchscope.report.results_page import Chosen

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
AGAINST = {"estimate": "0.02", "low": "0.01", "high": "0.03", "verdict": Verdict.CONTRADICTED}
FARTHER = {**AGAINST, "low": "0.019", "high": "0.021", "sentence": "Farther off."}
OPEN = {**AGAINST, "low": "-0.01", "high": "0.05", "verdict": Verdict.NOT_RESOLVED}
NEAR = {**OPEN, "sentence": "Nearly resolved.", "seeds_to_resolve": "21"}
FAR = {**OPEN, "sentence": "Far from it.", "seeds_to_resolve": "300"}
HOPELESS = {**OPEN, "sentence": "Nothing there."}
UNTESTED = {"verdict": Verdict.NOT_TESTABLE, "reason": Reason.NO_GPU, "sentence": "GPUs idle."}
UNTESTED |= dict.fromkeys(("estimate", "low", "high", "n", "p", "p_against"), "")


def add_figure(results, study, experiment, name, published=None):
    """Adds a figure to those that an experiment has."""
    chosen = Chosen(study, experiment, name)
    folder = chosen.image(results).parent
    folder.mkdir(parents=True, exist_ok=True)
    chosen.image(results).write_bytes(f"image of {name}".encode())
    entry = {"name": name, "title": name.title(), "caption": "Mean <b>value</b>.", "of": name}
    entry |= {"category": "Quality", "table": "runs", "columns": [], "axis": ""}
    listing = folder / "figures.json"
    there = json.loads(listing.read_text()) if listing.exists() else []
    of_document = {"published": published} if published else {}  # older lists have no such key
    listing.write_text(json.dumps([*there, {**entry, **of_document}]))
    return chosen


def add_study(results, name, *changes):
    """Adds a study with a report, a claim for each of some changes, and a recommendation."""
    folder = results / "studies" / name
    disk.write_text(folder / "report.html", "")
    if changes:
        rows = [{**CLAIM, **each} for each in changes]
        disk.write_rows(folder / "claims.csv", list(CLAIM), rows)
    advice = {"item": "recommendation", "batch_size": 32, "learning_rate": 0.4, "grade": "solid"}
    disk.write_rows(folder / "gap" / "advice.csv", list(advice), [advice])


@pytest.fixture
def results(tmp_path):
    add_study(tmp_path, "own-reduced", {})
    add_figure(tmp_path, "own-reduced", "gap", "accuracy")
    machine = {"cpu": "Some CPU", "usable_cores": 2, "memory_gb": 23.5, "gpu": []}
    record = {"machine": machine, "versions": {"python": "3.11"}}
    disk.write_json(tmp_path / "runs" / "a" / "record.json", record)
    return tmp_path


def written(results, studies=(), figures=()):
    """Returns the index, the pages by name, and what is kept of them."""
    output = results / "docs" / "results.md"
    results_index.write(results, output, studies, figures)
    pages = {path.stem: path.read_text() for path in output.with_suffix("").glob("*.md")}
    return output.read_text(), pages, disk.read_json(output.with_suffix("") / "pages.json")


def images(results):
    return {path.name: path.read_bytes() for path in results.glob("docs/results/*.png")}


def lines(text, *parts):
    return [line for line in text.splitlines() if all(part in line for part in parts)]


def test_a_page_has_command_machine_advice_figures_and_claims(results):
    text = written(results)[1]["own-reduced"]
    assert images(results) == {"own-reduced-gap-accuracy.png": b"image of accuracy"}
    assert '<img src="own-reduced-gap-accuracy.png"' in text
    command = "snakemake --cores all --configfile studies/own.yaml --config scale=reduced"
    assert f"```bash\n{command}\n```" in text
    for each in ("&lt;b&gt;value", "Some CPU, 2 cores, 24 GB", "no GPU; python 3.11", "32"):
        assert each in text
    assert text.startswith("# A \\| B &lt;2020&gt;")
    (line,) = lines(text, "| Figure 1")
    cells = line.strip("|").replace("\\|", "").split("|")
    assert len(cells) == 6 and cells[1].strip() == "Accuracy\\_falls with \\`B\\`."
    assert "−0.020 \\[−0.030, −0.010\\]" in cells[3] and cells[4].strip() == "0.001"


def test_the_conclusion_counts_and_names_the_surprising_and_the_nearest(results):
    every = ({}, AGAINST, FARTHER, FAR, NEAR, HOPELESS, UNTESTED)
    add_study(results, "all", *every, {"verdict": Verdict.PROVISIONAL, "n": "3"})
    _, pages, kept = written(results, ["all"])
    assert kept["all"]["claims"] == dict(supported=1, contradicted=2, open=4, not_testable=1)
    _, _, conclusion, *_ = pages["all"].splitlines()
    assert "8 claims, 3 are" in conclusion and "4 claims stay open" in conclusion
    assert FARTHER["sentence"] in conclusion and "0.0200 \\[0.0190, 0.0210\\]" in conclusion
    # Three seeds lack three; of those with six the nearest would take 21.
    assert "6 seeds (3 here)" in conclusion
    for sentence in ("Farther off.", "Far from it.", "Nearly resolved.", "GPUs idle."):
        assert lines(pages["all"], "- Figure 1: ", sentence)
    assert lines(pages["all"], "- Figure 1: GPUs idle.", "a GPU")


def test_what_surprises_is_the_distance_in_half_widths_alike_in_ratios():
    assert claim_rows.surprise({**CLAIM, **AGAINST}) == pytest.approx(1)
    assert claim_rows.surprise({**CLAIM, **FARTHER}) == pytest.approx(19)
    of_ratio = {**CLAIM, "scale": "ratio", "low_bound": "0.8", "high_bound": "1.25"}
    assert claim_rows.surprise({**of_ratio, "low": "0.1", "high": "0.2"}) == pytest.approx(4)
    assert claim_rows.surprise({**of_ratio, "low": "2.5", "high": "10"}) == pytest.approx(1)
    alike = {**CLAIM, **AGAINST, "low": "0.02"}
    assert claim_rows.surprise({**alike, "high": "0.02"}) > 1e6


def test_seeds_that_a_claim_waits_for():
    found = {
        each["sentence"]: claim_rows.seeds_wanted(claim_rows.shown({**CLAIM, **each}, None))
        for each in (NEAR, FAR, HOPELESS, {"verdict": Verdict.ONE_SEED, "sentence": "one"})
    }
    assert [*found.values()] == [21, 300, float("inf"), 6]


def test_a_page_shows_the_figures_that_its_document_has_with_its_numbers(results):
    there = {"figure": "table <2>", "found": "It is 99 %."}
    chosen = add_figure(results, "own-reduced", "other", "time", there)
    row = {"figure": "time", "document": "table 2", "series": "", "here_n": 6}
    row |= {"column": "seconds_per_epoch", "here": 1.5, "here_low": 1.4, "here_high": 1.6}
    rows = [{**row, "batch_size": 32, "value": 12.4}]
    rows += [{**row, "batch_size": 256, "value": 7.7, "here": "", "here_low": "", "here_high": ""}]
    rows[1]["here_reason"] = Reason.NOT_IN_GRID
    place = results / "studies" / "own-reduced" / "other"
    disk.write_rows(place / "published.csv", [*rows[1]], rows)
    for table in {*TABLES} - {"published", "runs"}:
        disk.write_text(place / f"{table}.csv", "item,run\n")
    ran = {"machine": "local", "device": "cpu", "status": "finished", "seconds_per_epoch": 2}
    ran = [{**ran, "run": f"{size}", "seed": 0, "batch_size": size} for size in (32, 64)]
    disk.write_rows(place / "runs.csv", [*ran[0]], ran)
    text = written(results)[1]["own-reduced"]
    assert [*images(results)] == [chosen.file]
    assert "Table &lt;2&gt; there: It is 99 %." in text
    assert lines(text, "| 32 |", "12.4; here 1.50 \\[1.40, 1.60\\]")
    assert lines(text, "| 64 | here 2 |") and lines(text, "| 256 | 7.7; no such batch size")
    written(results, figures=[Chosen("own-reduced", "gap", "accuracy")])
    assert [*images(results)] == ["own-reduced-gap-accuracy.png"]


def test_documents_of_a_study_have_a_page_each_with_their_own_figures(results):
    second = {"document": "Second", "experiment": "rule", "figure": "loss"}
    add_study(results, "two", {}, second)
    add_figure(results, "two", "gap", "accuracy")
    add_figure(results, "two", "rule", "loss")
    add_figure(results, "two", "rule", "unnamed")
    index, pages, kept = written(results, ["two"])
    assert {name: entry["document"] for name, entry in kept.items()} == {
        "two-1": CLAIM["document"],
        "two-2": "Second",
    }
    assert kept["two-1"]["images"] == ["two-gap-accuracy.png"]
    assert kept["two-2"]["images"] == ["two-rule-loss.png"]
    assert "two-rule-loss.png" in pages["two-2"] and "results/two-2.md" in index
    add_study(results, "two", {})  # with one document less, its page goes
    _, pages, kept = written(results, ["two"])
    assert {*kept} == {*pages} == {"two"} and {*images(results)} == {"two-gap-accuracy.png"}


def test_a_study_without_documents_shows_what_decides_and_its_recommendation(results):
    add_study(results, "plain")
    add_figure(results, "plain", "gap", "loss_curves")
    add_figure(results, "plain", "gap", "primary")
    add_figure(results, "unfinished", "gap", "primary")  # no report yet
    index, pages, kept = written(results)
    assert kept["plain"]["images"] == ["plain-gap-primary.png"]
    assert {*pages} == {"plain", "own-reduced"}
    assert lines(index, "results/plain.md", "batch size 32", "0.4", "solid")


def test_the_index_counts_all_and_has_the_surprising_first(results):
    add_study(results, "half", AGAINST, {})
    add_study(results, "third", FARTHER, {}, OPEN)
    add_study(results, "two_of_four", AGAINST, AGAINST, {}, UNTESTED)
    index, *_ = written(results)
    assert "Of 10 claims, 8 are" in index and "4 supported, 4 contradicted; 1 not" in index
    rows = [line.split("|") for line in lines(index, "| A \\| B")]
    names = [row[3].split("]")[0].strip(" [") for row in rows]
    assert names == ["two\\_of\\_four", "half", "third", "own, reduced form"]
    assert [int(cell) for cell in rows[0][4:9]] == [4, 1, 2, 0, 1]
    listed = lines(index, "- [A ", "Found is")
    assert len(listed) == 4 and "results/third.md" in listed[0] and "Farther off." in listed[0]


def test_pages_of_other_studies_stay_and_older_ones_are_told(results):
    add_study(results, "kept", AGAINST)
    written(results, ["kept"])
    pages = results / "docs" / "results"
    before = (pages / "kept.md").read_bytes()
    add_study(results, "kept", {})
    kept = disk.read_json(pages / "pages.json")
    older = {"name": "older", "reduced": False, "made": "2020-02-02", "figures": 3, "claims": 2}
    kept |= {"older": {**older, "verdicts": {}}, "own-reduced": {**older, "name": "own"}}
    disk.write_json(pages / "pages.json", kept)
    index, _, kept = written(results, ["own-reduced"])
    assert (pages / "kept.md").read_bytes() == before
    assert "Of 2 claims, 2 are" in index and lines(index, "results/kept.md", "stated")
    assert index.splitlines()[-1] == "- [older](results/older.md), 2020-02-02"
    assert kept["own-reduced"]["document"] == CLAIM["document"] and kept["older"]["claims"] == 2
    lacking = kept["kept"]["contradicted"][0].pop("scale")
    assert lacking == "difference"  # a column that a later version reads
    disk.write_json(pages / "pages.json", kept)
    assert lines(written(results, ["own-reduced"])[0], "- [kept](results/kept.md)")


def test_what_is_not_there_is_named(results):
    with pytest.raises(errors.UserError, match="study/experiment/figure is expected"):
        Chosen.of("own/accuracy")
    missing = Chosen.of("own-reduced/gap/time")
    with pytest.raises(errors.UserError, match=r"time\.png is missing; run its study first"):
        results_index.write(results, results / "page.md", [], [missing])
    with pytest.raises(errors.UserError, match="--study: received 'own'; .*own-reduced"):
        results_index.write(results, results / "page.md", ["own"], [])
    assert results_page.REDUCED == "-reduced"
