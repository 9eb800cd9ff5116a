"""Pages of the report, and a browser that opens them."""

from __future__ import annotations

import shutil

import pytest

import report_example
from batchscope import figures
from batchscope.report import report_inputs
from html_page import Page

ARGUMENTS = ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run")
ARGUMENTS += ("disable-background-networking", "disable-component-update", "disable-sync")
ARGUMENTS += ("disable-dev-shm-usage",)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Return a Chromium with the log of its network and console."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
    from selenium.webdriver.chrome.service import Service

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*ARGUMENTS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    chrome.set_page_load_timeout(60)
    yield chrome
    chrome.quit()


@pytest.fixture(scope="session")
def page(example):
    """Return the file of a report with failed runs."""
    return example[1] / "report.html"


DRAWN = ("primary", "accuracy", "sharpness", "loss_curves", "loss_curves_by_updates")


@pytest.fixture(scope="session")
def drawn(finished, tmp_path_factory):
    """Return the file of a report with drawn figures, one of them over two axes."""
    study, given, path = finished
    results = shutil.copytree(given, tmp_path_factory.mktemp("drawn") / "results")
    place = results / "studies" / "example" / "gap"
    figures.write(place, DRAWN, place / "figures")
    return report_example.written(study, results, path)


@pytest.fixture
def opened(browser, page):
    """Return the browser at 1400 x 900 with the report opened."""
    import browsing

    return browsing.visit(browser, page)


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """Return plan, results, configuration and HTML of a study with failed runs."""
    folder = tmp_path_factory.mktemp("report")
    study, results, path = report_example.write(folder)
    html = report_example.written(study, results, path, partial=True).read_text(encoding="utf-8")
    return study, results, path, html


@pytest.fixture(scope="session")
def shown(example):
    """Return that page, parsed."""
    return Page(example[3])


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return plan, results and configuration of a study without failed runs."""
    return report_example.write(tmp_path_factory.mktemp("finished"), troubles=False)


@pytest.fixture(scope="session")
def whole(finished):
    """Return plan and inputs of that study."""
    return finished[0], report_inputs.read(*finished)
