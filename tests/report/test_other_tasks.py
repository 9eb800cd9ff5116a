"""What is learned: no outcome of one task in the tables, figures or report of another."""

import json
import re

import numpy as np
import pandas
import pytest

import synthetic
from batchscope import figures
from batchscope.report import recommendation
from batchscope.study import config
from batchscope.tables import csv_tables, study_tables
from html_page import Page
from report_example import written

STUDY = """\
study: example
datasets:
  several:
    {{source: npz, path: {path}, task: multi_label, split: {{train: 6, validation: 2, test: 2}}}}
defaults: {{dataset: {dataset}, model: mlp, optimizer: sgd, learning_rate: 0.05, epochs: 40}}
experiments:
  quality:
    vary: {{batch_size: [16, 64, 256]}}
    seeds: 6
    at_epochs: [1, 2]
    budgets: {{target: {{validation_{metric}: 0.6}}}}
    margins: {{test_{metric}: 0.05}}
    measure: {{evaluate: , noise_scale: , time_epoch: , sam_sharpness: ,
      line: {{between: {{batch_size: [16, 256]}}, points: 7}}}}
    published:
      best_losses: {{figure: F, found: G, numbers: [{{batch_size: [16], best_train_loss: [0.5]}}]}}
      accuracy: {{figure: F, found: G, numbers: [{{batch_size: [16], test_{metric}: [0.5]}}]}}
claims:
  - {{id: one, document: D, place: P, sentence: S,
     test: {{type: trend, experiment: quality, column: test_{metric}, direction: falls}}}}
  - {{id: two, document: D, place: P, sentence: S,
     test: {{type: value, experiment: quality, table: lines, column: loss, above: 0}}}}
"""
# Data set -> metric by which sizes are compared, its words, and those of the baseline.
ERRORS = "R²|r2|mse|mae|mean squared error|mean absolute error"
CASES = {
    "digits": ("accuracy", "accuracy", "the most frequent class"),
    "diabetes": ("r2", ERRORS, "predicting the mean"),
    "several": ("f1", "micro-F1|f1", "always the same labels"),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != "diabetes"]


@pytest.fixture(scope="module", params=["diabetes", *SLOW])
def made(request, tmp_path_factory):
    """Returns data set, study, folder of its tables and figures, and its report."""
    folder = tmp_path_factory.mktemp(request.param)
    np.savez(folder / "several.npz", images=np.ones((10, 4)), labels=np.ones((10, 3), int))
    path = folder / "example.yaml"
    given = {"dataset": request.param, "metric": CASES[request.param][0]}
    path.write_text(STUDY.format(path=folder / "several.npz", **given))
    study = config.study(path)
    synthetic.write(folder / "results", study)
    tables = folder / "results" / "studies" / study.folder_name
    study_tables.write(folder / "results", study, "quality", tables / "quality")
    study_tables.write_claims(study, tables, tables / csv_tables.CLAIMS_FILE)
    names = figures.figure_names(study.experiments["quality"])
    figures.write(tables / "quality", names, tables / "quality" / "figures")
    return request.param, study, tables, written(study, folder / "results", path)


def listed(tables):
    """Returns what is said of every figure, by its name."""
    listing = json.loads((tables / "quality" / "figures" / figures.LISTING).read_text())
    return {entry["name"]: entry for entry in listing}


def spoken(tables, report):
    """Yields the texts of every table and figure, and of the report; a figure's name is a key."""
    for path in tables.glob("**/*.csv"):
        frame = pandas.read_csv(path, dtype=str)
        yield path, frame.drop(columns="figure", errors="ignore").to_csv()
    for path in tables.glob("**/*.svg"):
        yield path, " ".join(re.findall(r">([^<]+)<", path.read_text()))
    for name, entry in listed(tables).items():
        yield name, " ".join([entry["title"], entry["caption"], *entry["columns"]])
    page = Page(report.read_text())
    yield report, page.text.partition("Configuration: ")[0]  # where the study names figures
    yield "titles", " ".join(each.get("title") or "" for _, each in page.elements)


def test_no_word_of_another_task_is_anywhere(made):
    dataset, _, tables, report = made
    others = [words for name, (_, words, _) in CASES.items() if name != dataset]
    others += ["nats"] if dataset == "diabetes" else []
    foreign = re.compile(rf"(?<![a-z])({'|'.join(others)})(?![a-z0-9])", re.IGNORECASE)
    texts = dict(spoken(tables, report))
    assert len(texts) > 30
    assert {path for path, text in texts.items() if foreign.search(text)} == set()
    assert len([path for path, text in texts.items() if re.search(CASES[dataset][1], text)]) > 12


def test_percentages_are_of_shares_alone(made):
    dataset, study, tables, report = made
    (metric, _, baseline), share = CASES[dataset], dataset != "diabetes"
    (card,) = recommendation.cards(study, {"quality": figures.FigureTables(tables / "quality")})
    outcome = card["outcomes"][0]
    assert outcome["margin"] == ("5 points" if share else "0.05")
    entries = listed(tables)
    metrics = [metric] if share else ["r2", "mse", "mae"]
    assert entries["accuracy_by_epochs"]["columns"] == [f"test_{name}" for name in metrics]
    assert entries["line"]["columns"] == ["loss", metric]
    assert ("binomial" in entries["accuracy"]["caption"]) == (dataset == "digits")
    assert ("(%)" in (tables / "quality" / "figures" / "accuracy.svg").read_text()) == share
    assert baseline in Page(report.read_text()).text
    numbers = csv_tables.read(tables / "quality" / "published.csv")
    assert numbers["here"].notna().all()
