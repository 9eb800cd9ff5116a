"""Tables and figures of the report in headless Chromium: sorted, enlarged, saved."""

from __future__ import annotations

import base64
import re

import pytest

import report_example
from batchscope import figures
from batchscope.report import study_page

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By

import browsing

pytestmark = pytest.mark.slow


def test_sorts_by_click(opened):
    browsing.unfold(opened)
    head = browsing.head(opened, "test_accuracy")
    before = browsing.column(opened, "test_accuracy")
    for order, sign in (("ascending", 1), ("descending", -1)):
        head.find_element(By.TAG_NAME, "button").click()
        assert head.get_attribute("aria-sort") == order
        texts = browsing.column(opened, "test_accuracy")
        numbers = [float(text) for text in texts if re.match(r"[\d.]", text)]
        assert numbers == sorted(numbers)[::sign] and len(numbers) == 27
        # Cells without a number come last in both directions.
        assert sorted(texts) == sorted(before) and len(set(texts[27:])) == 1
    browsing.head(opened, "status").find_element(By.TAG_NAME, "button").click()
    texts = browsing.column(opened, "status")
    assert texts == sorted(texts) and len(set(texts)) == 4


SAVED = """
const done = arguments[arguments.length - 1];
const [name, label] = arguments;
const click = HTMLAnchorElement.prototype.click;
const create = URL.createObjectURL;
let blob;
URL.createObjectURL = (given) => { blob = given; return create(given); };
HTMLAnchorElement.prototype.click = function () {
  HTMLAnchorElement.prototype.click = click;
  URL.createObjectURL = create;
  const reader = new FileReader();
  reader.onload = () => done([this.download, blob.type, reader.result]);
  reader.readAsDataURL(blob);
};
const figure = document.querySelector(`[data-name="${name}"]`);
[...figure.querySelectorAll(".tools button")].find((tool) => tool.textContent === label).click();
"""


def test_a_figure_can_be_enlarged_and_saved(browser, drawn):
    browsing.visit(browser, drawn)
    browsing.unfold(browser)
    svg = browsing.plate(browser, "accuracy").find_element(By.TAG_NAME, "svg")
    before = svg.rect["width"]
    button = browser.find_element(By.CSS_SELECTOR, '[data-name="gap-accuracy"] .tools button')
    button.click()
    assert svg.rect["width"] >= before
    button.click()
    assert svg.rect["width"] == before
    place, saved = drawn.parent / "studies" / "example" / "gap" / "figures", {}
    for label in ("CSV", "SVG"):
        name, kind, address = browser.execute_async_script(SAVED, "gap-accuracy", label)
        assert name == f"gap-accuracy.{label.lower()}" and label.lower() in kind
        saved[label] = base64.b64decode(address.partition(",")[2])
    assert saved["CSV"] == (place / "accuracy.csv").read_bytes()
    assert saved["SVG"].startswith(b"<svg xmlns=") and b"batch size</text>" in saved["SVG"]
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_a_thousand_runs_are_below_five_megabytes(browser, tmp_path):
    study, results, path = report_example.write(tmp_path, seeds=200, troubles=False)
    place = results / "studies" / "example" / "gap"
    figures.write(place, figures.figure_names(study.experiments["gap"]), place / "figures")
    output = results / "report.html"
    study_page.write(study, results, path, output)
    assert len(study.runs) == 1000 and output.stat().st_size < 5_000_000
    browsing.visit(browser, output)
    browsing.unfold(browser)
    # Layout takes most of the time: 0.9 to 1.6 s for this number of elements.
    assert browser.execute_script("return document.querySelectorAll('*').length") < 80_000
    assert len(browser.find_elements(By.CSS_SELECTOR, ".runs tbody tr")) == 1000
