"""The pages for those who only want to read."""

import datetime
import json

import pytest

from batchscope import disk, errors
from batchscope.catalogue import decision_columns
from batchscope.catalogue.outcomes import Verdict
from batchscope.report import results_page
from batchscope.report.results_page import Chosen

ROW = {
    **dict.fromkeys(decision_columns.CLAIMS, ""),
    **{"id": "falls", "document": "A | B <2020>", "place": "Figure 1"},
    "sentence": "Accuracy_falls with `B`.",
    "experiment": "gap",
    **{"type": "trend", "table": "runs", "column": "x", "over": "batch_size", "per": "doubling"},
    **{"estimate": "-0.02", "low": "-0.03", "high": "-0.01", "level": "0.025", "high_bound": "0.0"},
    **{"n": "6", "replicates": "6", "parts": "1", "p": "0.001", "p_against": "0.999"},
    "verdict": Verdict.SUPPORTED,
}
CHOSEN = Chosen("own-reduced", "gap", "accuracy")


@pytest.fixture
def results(tmp_path):
    folder = CHOSEN.image(tmp_path).parent
    folder.mkdir(parents=True)
    (folder / "accuracy.png").write_bytes(b"image")
    (folder / "accuracy.csv").write_text("batch_size\n")
    entry = {"name": "accuracy", "title": "Accuracy", "caption": "Mean <b>accuracy</b>."}
    entry |= {"category": "Quality", "table": "runs", "columns": [], "of": "accuracy", "axis": ""}
    (folder / "figures.json").write_text(json.dumps([entry]))
    study = tmp_path / "studies" / CHOSEN.study
    disk.write_rows(study / "claims.csv", list(ROW), [ROW])
    advice = {"item": "recommendation", "batch_size": 32, "learning_rate": 0.4, "grade": "solid"}
    disk.write_rows(study / "gap" / "advice.csv", list(advice), [advice])
    machine = {"cpu": "Some CPU", "usable_cores": 2, "memory_gb": 23.5, "gpu": []}
    record = {"machine": machine, "versions": {"python": "3.11"}}
    disk.write_json(tmp_path / "runs" / "a" / "record.json", record)
    return tmp_path


def test_a_page_has_command_machine_advice_figures_and_claims(results, tmp_path):
    index = tmp_path / "docs" / "results.md"
    results_page.write(results, index, [CHOSEN])
    text = (tmp_path / "docs" / "results" / "own-reduced.md").read_text()
    assert (index.parent / "results" / "own-reduced-gap-accuracy.png").read_bytes() == b"image"
    assert '<img src="own-reduced-gap-accuracy.png"' in text
    command = "snakemake --cores 2 --configfile studies/own.yaml --config scale=reduced"
    assert f"```bash\n{command}\n```" in text
    for each in ("&lt;b&gt;accuracy", "Some CPU, 2 cores, 24 GB", "no GPU; python 3.11", "32"):
        assert each in text
    assert "A \\| B &lt;2020&gt;" in text
    (line,) = (line for line in text.splitlines() if "Figure 1" in line)
    cells = line.strip("|").replace("\\|", "").split("|")
    assert len(cells) == 6 and cells[1].strip() == "Accuracy\\_falls with \\`B\\`."
    assert "−0.020 \\[−0.030, −0.010\\]" in cells[3] and cells[4].strip() == "0.001"


def test_pages_of_other_studies_stay_and_are_listed(results, tmp_path):
    pages = tmp_path / "docs" / "results"
    pages.mkdir(parents=True)
    (pages / "other.md").write_text("as it was\n")
    other = {"name": "other", "reduced": False, "made": "2020-02-02", "figures": 3, "claims": 0}
    disk.write_json(pages / "pages.json", {"other": {**other, "verdicts": {}}})
    results_page.write(results, pages.with_suffix(".md"), [CHOSEN])
    made = (results / "studies" / "own-reduced" / "claims.csv").stat().st_mtime
    day = datetime.date.fromtimestamp(made)
    listed = pages.with_suffix(".md").read_text().splitlines()
    assert listed[-2:] == [
        "- [other](results/other.md), 2020-02-02: 3 figures",
        f"- [own, reduced form](results/own-reduced.md), {day}: 1 figure, 1 claim (1 supported)",
    ]
    assert (pages / "other.md").read_text() == "as it was\n"


def test_a_figure_that_is_not_there_is_named(results):
    with pytest.raises(errors.UserError, match="study/experiment/figure is expected"):
        Chosen.of("own/accuracy")
    missing = Chosen.of("own-reduced/gap/time")
    with pytest.raises(errors.UserError, match=r"time\.png is missing; run its study first"):
        results_page.write(results, results / "page.md", [missing])
