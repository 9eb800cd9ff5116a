"""Figures of the report in headless Chromium: points, legends, axes, files; many runs."""

from __future__ import annotations

import base64
import io
from dataclasses import replace

import pytest
from PIL import Image

import report_example
from batchscope import figures, report
from batchscope.datasets.samples import Sample
from batchscope.report import study_page

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browsing

pytestmark = pytest.mark.slow


def test_a_point_lights_its_run_everywhere(browser, drawn):
    browsing.visit(browser, drawn)
    plate = browsing.plate(browser, "sharpness")
    point = plate.find_element(By.CSS_SELECTOR, "use[data-run]")
    run, value = point.get_attribute("data-run"), point.get_attribute("data-value")
    note = browser.find_element(By.CLASS_NAME, "point")
    assert not note.is_displayed()
    webdriver.ActionChains(browser).move_to_element(point).perform()
    assert note.is_displayed()
    row = browser.find_element(By.CSS_SELECTOR, f'#runs-table tr[data-run="{run}"]')
    cells = row.find_elements(By.TAG_NAME, "td")
    name = cells[-1].get_property("textContent")
    seed = row.get_attribute("data-seed")
    assert note.text.splitlines() == [f"Seed {seed}: {value}", name]
    lit = browser.find_elements(By.CSS_SELECTOR, ".lit")
    assert {each.get_attribute("data-run") for each in lit} == {run}
    where = "return arguments[0].closest('figure')?.dataset.name ?? 'table'"
    assert {browser.execute_script(where, each) for each in lit} == {
        *("gap-sharpness", "gap-accuracy", "gap-loss_curves", "gap-loss_curves_by_updates"),
        "table",
    }
    mates = browser.find_elements(By.CSS_SELECTOR, "#runs-table tr.mate")
    assert {each.get_attribute("data-seed") for each in mates} == {seed} and len(mates) == 4
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert not note.is_displayed() and not browser.find_elements(By.CLASS_NAME, "lit")


def test_runs_are_reached_by_keyboard(browser, drawn):
    browsing.visit(browser, drawn)
    plate = browsing.plate(browser, "accuracy")
    note = browser.find_element(By.CLASS_NAME, "point")
    seen = []
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT):
        plate.send_keys(key)
        seen.append(note.text)
    assert seen[0] == seen[2] != seen[1] and seen[0].startswith("Seed 0: ")
    assert note.get_attribute("role") == "status"
    plate.send_keys(Keys.TAB)
    assert not note.is_displayed()


def test_a_legend_hides_and_shows_its_series(browser, drawn):
    browsing.visit(browser, drawn)
    plate = browsing.plate(browser, "loss_curves")
    entry = plate.find_element(By.CSS_SELECTOR, '[data-legend="1"][role="button"]')
    shown = "return arguments[0].querySelectorAll('[data-series=\"1\"]:not(.gone)').length"
    count = browser.execute_script(shown, plate)
    assert count > 6 and entry.get_attribute("aria-pressed") == "true"
    entry.send_keys(Keys.ENTER)
    assert browser.execute_script(shown, plate) == 0
    assert entry.get_attribute("aria-pressed") == "false"
    assert plate.find_elements(By.CSS_SELECTOR, '[data-series="0"]:not(.gone)')
    entry.click()
    assert browser.execute_script(shown, plate) == count


def test_radio_buttons_switch_the_axis_without_script(browser, drawn):
    def displayed() -> list[bool]:
        names = ("loss_curves", "loss_curves_by_updates")
        return [
            browser.find_element(By.CSS_SELECTOR, f'[data-name="gap-{name}"]').is_displayed()
            for name in names
        ]

    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browsing.visit(browser, drawn)
        assert displayed() == [True, False]
        epoch, updates = browser.find_elements(By.CSS_SELECTOR, ".switch [type=radio]")
        updates.click()
        assert displayed() == [False, True]
        epoch.click()
        assert displayed() == [True, False]
        assert not browser.find_elements(By.CLASS_NAME, "tools")  # nothing that would do nothing
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    browsing.media(browser, medium="print")
    browser.get(drawn.as_uri())
    assert displayed() == [True, True]
    browsing.media(browser)


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


def test_data_and_pictures_can_be_saved(browser, drawn):
    browsing.visit(browser, drawn)
    place = drawn.parent / "studies" / "example" / "gap" / "figures"
    found = {}
    for label in ("CSV", "SVG", "PNG"):
        name, kind, address = browser.execute_async_script(SAVED, "gap-accuracy", label)
        assert name == f"gap-accuracy.{label.lower()}" and label.lower() in kind
        found[label] = base64.b64decode(address.partition(",")[2])
    assert found["CSV"] == (place / "accuracy.csv").read_bytes()
    assert found["SVG"].startswith(b"<svg xmlns=") and found["SVG"].count(b"data-run=") == 90
    assert found["PNG"].startswith(b"\x89PNG") and len(found["PNG"]) > 10_000
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_a_figure_can_be_enlarged(browser, drawn):
    browsing.visit(browser, drawn)
    plate = browsing.plate(browser, "accuracy")
    before = plate.find_element(By.TAG_NAME, "svg").rect["width"]
    button = browser.find_element(By.CSS_SELECTOR, '[data-name="gap-accuracy"] .tools button')
    button.click()
    assert (
        button.text == "Reduce" and plate.find_element(By.TAG_NAME, "svg").rect["width"] >= before
    )
    button.click()
    assert plate.find_element(By.TAG_NAME, "svg").rect["width"] == before


def test_a_thousand_runs_are_below_five_megabytes(browser, tmp_path):
    study, results, path = report_example.write(tmp_path, seeds=200, troubles=False)
    place = results / "studies" / "example" / "gap"
    figures.write(place, figures.drawn(study.experiments["gap"]), place / "figures")
    output = results / "report.html"
    report.write(study, results, path, output)
    assert len(study.runs) == 1000 and output.stat().st_size < 5_000_000
    browsing.visit(browser, output)
    # What takes time is what is laid out: 0.9 to 1.6 s for so many.
    assert browser.execute_script("return document.querySelectorAll('*').length") < 80_000
    assert browser.find_element(By.ID, "runs-count").text == "1000 of 1000 rows"


def test_sample_images_are_seen(browser, whole, tmp_path):
    """The strip beside a data set: every image is visible, decoded and described in words."""
    study, inputs = whole
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "#0072b2").save(buffer, "WEBP")
    (token,) = study.datasets
    shown = [Sample(label, buffer.getvalue(), small=True) for label in ("cat", "dog")]
    page = tmp_path / "report.html"
    page.write_text(study_page.build(study, replace(inputs, samples={token: shown})), "utf-8")
    browsing.visit(browser, page)
    strip = browser.find_element(By.CSS_SELECTOR, "ul.samples")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", strip)
    images = strip.find_elements(By.TAG_NAME, "img")
    assert strip.is_displayed() and len(images) == 2
    for image, label in zip(images, ("cat", "dog"), strict=True):
        browsing.until(lambda image=image: image.get_property("complete"))
        assert image.is_displayed() and image.rect["height"] > 40
        assert image.get_property("naturalWidth") == 8
        assert image.get_attribute("alt") == f"Training example of class {label}"
    assert browser.get_log("browser") == []
