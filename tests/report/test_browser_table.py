"""Tables, claims and figures of the report in headless Chromium: sorted, filtered, saved."""

from __future__ import annotations

import base64
import re

import pytest

import report_example
from batchscope import figures, report

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browsing

pytestmark = pytest.mark.slow
BATCH_SIZE = "batch_size"


@pytest.fixture
def opened(opened):
    """Return the browser with the table of runs unfolded."""
    opened.execute_script("document.querySelector('details:has(#runs-table)').open = true")
    return opened


def sorter(browser, name: str):
    return browsing.head(browser, name).find_element(By.TAG_NAME, "button")


def test_sorts_by_click(opened):
    given = browsing.column(opened, "test_accuracy")
    sorter(opened, "test_accuracy").click()
    assert browsing.head(opened, "test_accuracy").get_attribute("aria-sort") == "ascending"
    found = browsing.column(opened, "test_accuracy")
    numbers = [float(text) for text in found if re.match(r"[\d.]", text)]
    absent = found[len(numbers) :]
    assert numbers == sorted(numbers) and len(numbers) == 54
    assert sorted(found) == sorted(given) and len(set(absent)) == 1
    sorter(opened, "test_accuracy").click()
    found = browsing.column(opened, "test_accuracy")
    assert [float(text) for text in found[:54]] == numbers[::-1]
    assert found[54:] == absent  # what is absent comes last both ways
    sorter(opened, "status").click()
    found = browsing.column(opened, "status")
    assert found == sorted(found) and len(set(found)) == 4


def test_filters(opened):
    count = opened.find_element(By.ID, "runs-count")
    assert count.text == "60 of 60 rows"
    field = opened.find_element(By.ID, "runs-filter")
    field.send_keys("BS=32+ seed=1")
    assert count.text == "2 of 60 rows"
    assert set(browsing.column(opened, BATCH_SIZE)) == {"32"}
    field.send_keys(" nothing-has-this")
    assert count.text == "0 of 60 rows"
    field.clear()
    field.send_keys(Keys.ENTER)  # must not leave the page
    assert count.text == "60 of 60 rows"


def test_the_head_of_the_table_stays(opened):
    top = """
        const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
        return top("#runs-table thead th") - top(".tall");
    """
    opened.execute_script("document.querySelector('.tall').scrollIntoView();")
    before = opened.execute_script(top)
    opened.execute_script("document.querySelector('.tall').scrollTop = 400;")
    assert opened.execute_script("return document.querySelector('.tall').scrollTop") > 0
    assert abs(opened.execute_script(top) - before) <= 1


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
[...figure.querySelectorAll(".tools button")].find((one) => one.textContent === label).click();
"""


def test_a_figure_can_be_enlarged_and_saved(browser, drawn):
    browsing.visit(browser, drawn)
    browser.execute_script(
        "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
    )
    svg = browsing.plate(browser, "accuracy").find_element(By.TAG_NAME, "svg")
    before = svg.rect["width"]
    button = browser.find_element(By.CSS_SELECTOR, '[data-name="gap-accuracy"] .tools button')
    button.click()
    assert svg.rect["width"] >= before
    button.click()
    assert svg.rect["width"] == before
    place, found = drawn.parent / "studies" / "example" / "gap" / "figures", {}
    for label in ("CSV", "SVG"):
        name, kind, address = browser.execute_async_script(SAVED, "gap-accuracy", label)
        assert name == f"gap-accuracy.{label.lower()}" and label.lower() in kind
        found[label] = base64.b64decode(address.partition(",")[2])
    assert found["CSV"] == (place / "accuracy.csv").read_bytes()
    assert found["SVG"].startswith(b"<svg xmlns=") and b"batch size</text>" in found["SVG"]
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_a_thousand_runs_are_below_five_megabytes(browser, tmp_path):
    study, results, path = report_example.write(tmp_path, seeds=200, troubles=False)
    place = results / "studies" / "example" / "gap"
    figures.write(place, figures.drawn(study.experiments["gap"]), place / "figures")
    output = results / "report.html"
    report.write(study, results, path, output)
    assert len(study.runs) == 1000 and output.stat().st_size < 5_000_000
    browsing.visit(browser, output)
    browsing.unfold(browser)
    # What takes time is what is laid out: 0.9 to 1.6 s for so many.
    assert browser.execute_script("return document.querySelectorAll('*').length") < 80_000
    assert browser.find_element(By.ID, "runs-count").text == "1000 of 1000 rows"
