"""The report in headless Chromium: it reads, sorts, saves and prints, and fetches nothing."""

import base64
import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest

import report_example
from batchscope import figures
from batchscope.report import study_page
from project import wait_for

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.slow

ARGUMENTS = ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run")
ARGUMENTS += ("disable-background-networking", "disable-component-update", "disable-sync")
ARGUMENTS += ("disable-dev-shm-usage",)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Return a Chromium with the log of its network and console."""
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
    chrome.get("about:blank")  # The start page of Chromium would fetch files of its own.
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def page(example):
    """Return the file of a report with failed runs."""
    return example[1] / "report.html"


DRAWN = ("primary", "accuracy", "sharpness", "loss_curves", "loss_curves_by_updates")


@pytest.fixture(scope="module")
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
    return visit(browser, page)


def visit(browser, page: Path):
    browser.get_log("performance")
    browser.get_log("browser")
    media(browser)
    size(browser, 1400, 900)
    browser.get(page.as_uri())
    return browser


def size(browser, width: int, height: int) -> None:
    given = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", given)


def media(browser, scheme: str = "light", medium: str = "") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    given = {"media": medium, "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", given)


def column(browser, name: str) -> list[str]:
    """Returns the texts of a column of the table of runs, from top to bottom."""
    return browser.execute_script(
        """
        const table = document.querySelector(".runs");
        const heads = [...table.tHead.rows[0].cells];
        const index = heads.findIndex((head) => head.textContent === arguments[0]);
        return [...table.tBodies[0].rows].map((row) => row.cells[index].textContent);
        """,
        name,
    )


def head(browser, name: str):
    heads = browser.find_elements(By.CSS_SELECTOR, ".runs thead th")
    return next(head for head in heads if head.get_property("textContent") == name)


def inside(browser, element, height: int = 800) -> bool:
    """Returns whether all of an element is on the first screen."""
    rect = element.rect
    return rect["y"] >= 0 and rect["y"] + rect["height"] <= height


def unfold(browser) -> None:
    """Opens all that is folded."""
    browser.execute_script("document.querySelectorAll('details').forEach((d) => (d.open = true))")


def plate(browser, figure: str):
    plate = browser.find_element(By.CSS_SELECTOR, f'[data-name="gap-{figure}"] .plate')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plate)
    return plate


@contextlib.contextmanager
def without_script(browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def displayed(browser, selector: str) -> list[bool]:
    return [node.is_displayed() for node in browser.find_elements(By.CSS_SELECTOR, selector)]


def test_opens_without_errors_and_without_requests(opened, page):
    assert [entry["message"] for entry in opened.get_log("browser")] == []
    log = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    sent = [message for message in log if message["method"] == "Network.requestWillBeSent"]
    requests = [message["params"]["request"]["url"] for message in sent]
    assert [url for url in requests if not url.startswith("data:")] == [page.as_uri()]
    assert opened.title == report_example.TITLE


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_overflows(opened, width):
    size(opened, width, 800)
    unfold(opened)
    scroll_width = opened.execute_script("return document.documentElement.scrollWidth")
    # Nothing exceeds the page except inside a container that scrolls.
    outside = opened.execute_script(
        """
        const inside = ".scroll, .plate, pre, .skip";
        return [...document.querySelectorAll("body *")]
          .filter((each) => !each.closest(inside) && each.getClientRects().length)
          .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
          .map((each) => each.outerHTML.slice(0, 200));
        """
    )
    assert scroll_width <= width and outside == []


def test_works_without_script(browser, page, drawn):
    with without_script(browser):
        visit(browser, page)
        assert len(browser.find_elements(By.CSS_SELECTOR, ".runs tbody tr")) == 30
        assert not browser.find_elements(By.CLASS_NAME, "tools")  # nothing that would do nothing
        visit(browser, drawn)
        panels = ".experiment > .tabs > .panel"
        tabs = browser.find_elements(By.CSS_SELECTOR, ".experiment > .tabs > label")
        for at, tab in enumerate(tabs):
            tab.click()
            shown = displayed(browser, panels)
            assert shown[at] and sum(shown) == 1
        browser.find_element(By.CSS_SELECTOR, "details:has(.switch) > summary").click()
        figures = ".switch > figure"
        for at, radio in enumerate(browser.find_elements(By.CSS_SELECTOR, ".switch [type=radio]")):
            radio.click()
            assert displayed(browser, figures)[at] and sum(displayed(browser, figures)) == 1
        visit(browser, drawn)
        explanation = browser.find_element(By.ID, "help-same_epochs")
        assert not explanation.is_displayed()
        browser.find_element(By.CSS_SELECTOR, "[popovertarget=help-same_epochs]").click()
        assert explanation.is_displayed() and len(explanation.text) > 80
    assert len(tabs) > 1 and at > 0


def test_first_screen_of_a_window_and_of_a_telephone(browser, drawn):
    visit(browser, drawn)
    for width, last in ((1280, ".decision .plate"), (400, ".card .use")):
        size(browser, width, 800)
        for selector in ("h1", "header .scope", ".card .use", last):
            element = browser.find_element(By.CSS_SELECTOR, selector)
            assert inside(browser, element), selector
    contents, menu = (browser.find_element(By.CSS_SELECTOR, css) for css in ("#contents", ".menu"))
    assert not contents.is_displayed()
    menu.send_keys(Keys.ENTER)
    assert contents.is_displayed()
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not contents.is_displayed()
    menu.click()
    contents.find_element(By.CSS_SELECTOR, 'a[href="#runs"]').click()
    assert not contents.is_displayed()
    ends = browser.execute_script("""
        const [head, ...rows] = document.querySelector(".sizes").rows;
        const texts = Array.from(head.cells, (cell) => cell.textContent);
        const names = [/Batch size/, /rate/, /Verdict/];
        const places = names.map((name) => texts.findIndex((text) => name.test(text)));
        const box = (row, place) => row.cells[place].getBoundingClientRect();
        return rows.flatMap((row) => places.map((at) => [box(row, at).left, box(row, at).right]));
    """)
    assert ends and all(0 <= left < right <= 400 for left, right in ends)


def test_the_contents_mark_the_section_in_view_and_open_folds(browser, drawn):
    visit(browser, drawn)
    marked = "return [...document.querySelectorAll('#contents [aria-current]')].map(a => a.hash)"
    assert browser.execute_script(marked) == ["#top"]
    browser.execute_script("document.getElementById('files').scrollIntoView()")
    wait_for(lambda: browser.execute_script(marked) == ["#files"])
    browser.execute_script("location.hash = '#config'")
    wait_for(lambda: displayed(browser, "#config pre") == [True])


def _luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


CONTRASTS = """
const transparent = (colour) => colour === "rgba(0, 0, 0, 0)";
const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!transparent(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const pairs = new Map();
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || element.closest("script, title") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const pair = [element.closest("svg") ? style.fill : style.color, background(element)];
  pairs.set(pair.join("|"), [...pair, element.outerHTML.slice(0, 120)]);
}
return [...pairs.values()];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_page_and_figures_is_enough(browser, drawn, scheme):
    visit(browser, drawn)
    media(browser, scheme)
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (_luminance(colour) < 0.05) == (scheme == "dark")
    assert browser.find_elements(By.CSS_SELECTOR, ".plate svg text")
    pairs = browser.execute_script(CONTRASTS)
    assert len(pairs) > 4
    for ink, paper, where in pairs:
        light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{scheme}: {ink} on {paper}: {where}"


def test_prints_two_pages_on_a4_and_the_rest_on_demand(browser, drawn):
    visit(browser, drawn)
    media(browser, "dark", "print")
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    media(browser)
    pages = []
    for _ in range(2):
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        content = base64.b64decode(printed["data"])
        pages.append(len(re.findall(rb"/Type\s*/Page\b", content)))
        box = re.search(rb"/MediaBox\s*\[([\d. ]+)\]", content)[1].split()[2:]
        assert [round(float(side)) for side in box] == [595, 842]
        browser.find_element(By.ID, "print-all").click()
    assert pages[0] <= 2 < pages[1]


def test_sorts_by_click(opened):
    unfold(opened)
    accuracy_head = head(opened, "test_accuracy")
    before = column(opened, "test_accuracy")
    for order, sign in (("ascending", 1), ("descending", -1)):
        accuracy_head.find_element(By.TAG_NAME, "button").click()
        assert accuracy_head.get_attribute("aria-sort") == order
        texts = column(opened, "test_accuracy")
        numbers = [float(text) for text in texts if re.match(r"[\d.]", text)]
        assert numbers == sorted(numbers)[::sign] and len(numbers) == 27
        # Cells without a number come last in both directions.
        assert sorted(texts) == sorted(before) and len(set(texts[27:])) == 1
    head(opened, "status").find_element(By.TAG_NAME, "button").click()
    texts = column(opened, "status")
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
    visit(browser, drawn)
    unfold(browser)
    svg = plate(browser, "accuracy").find_element(By.TAG_NAME, "svg")
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
    visit(browser, output)
    unfold(browser)
    # Layout takes most of the time: 0.9 to 1.6 s for this number of elements.
    assert browser.execute_script("return document.querySelectorAll('*').length") < 80_000
    assert len(browser.find_elements(By.CSS_SELECTOR, ".runs tbody tr")) == 1000
