"""The report in headless Chromium: nothing fetched, nothing overflows, the table works.

Screenshots and the printed page stay in $BATCHSCOPE_SCREENSHOTS, or in pytest's folder.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

import project
import report_example
from batchscope import figures, report
from batchscope.study import config

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.slow

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
STATUS, BATCH_SIZE = "status", "batch_size"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Returns a Chromium of its own, with the log of its network and console."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    found.set_page_load_timeout(60)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Returns the file of a report with every trouble and two experiments."""
    folder = tmp_path_factory.mktemp("report")
    study, results, path = report_example.write(folder, experiments=("gap", "second"))
    output = results / "report.html"
    report.write(study, results, path, output, partial=True)
    return output


@pytest.fixture(scope="module")
def timing_page(tmp_path_factory):
    """Returns the file of a report of a study that only times: it has no table of runs."""
    folder = tmp_path_factory.mktemp("timing")
    path = project.ROOT / "studies" / "hardware.yaml"
    study, results = config.study(path), folder / "results"
    report_example.write_dataset(results, study)
    for name, experiment in study.experiments.items():
        figures = results / "studies" / study.folder_name / name / "figures"
        report_example.write_figures(figures, experiment.figures)
    output = results / "report.html"
    report.write(study, results, path, output, partial=True)
    return output


DRAWN = ("accuracy", "sharpness", "loss_curves", "loss_curves_by_updates", "verdict_matrix")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Returns the file of a report with figures as they are drawn, one of them over two axes."""
    folder = tmp_path_factory.mktemp("drawn")
    study, results, path = report_example.write(folder, troubles=False)
    place = results / "studies" / "example" / "gap"
    figures.write(place, DRAWN, place / "figures")
    output = results / "report.html"
    report.write(study, results, path, output)
    return output


@pytest.fixture
def opened(browser, page):
    """Returns the browser at 1400 x 900 with the report just opened."""
    return _open(browser, page)


def _open(browser, page: Path):
    browser.get_log("performance")
    browser.get_log("browser")
    _media(browser)
    _size(browser, 1400, 900)
    browser.get(page.as_uri())
    return browser


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory) -> Path:
    """Returns the folder that pictures are kept in."""
    given = os.environ.get("BATCHSCOPE_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _size(browser, width: int, height: int) -> None:
    given = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", given)


def _media(browser, scheme: str = "light", medium: str = "") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    given = {"media": medium, "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", given)


def _picture(browser, path: Path) -> None:
    """Keeps a screenshot of the whole page."""
    height = browser.execute_script("return document.documentElement.scrollHeight")
    width = browser.execute_script("return window.innerWidth")
    _size(browser, width, min(height, 16_000))
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path.write_bytes(base64.b64decode(shot["data"]))


def _column(browser, name: str) -> list[str]:
    """Returns the exact texts of a column's visible rows, from top to bottom."""
    return browser.execute_script(
        """
        const table = document.getElementById("runs-table");
        const heads = [...table.tHead.rows[0].cells];
        const index = heads.findIndex((head) => head.textContent === arguments[0]);
        return [...table.tBodies[0].rows].filter((row) => !row.hidden)
          .map((row) => row.cells[index].title || row.cells[index].textContent);
        """,
        name,
    )


def _head(browser, name: str):
    heads = browser.find_elements(By.CSS_SELECTOR, "#runs-table thead th")
    return next(head for head in heads if head.get_property("textContent") == name)


def test_opens_without_errors_and_without_requests(opened, page):
    time.sleep(0.5)
    assert [entry["message"] for entry in opened.get_log("browser")] == []
    sent = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    addresses = [
        message["params"]["request"]["url"]
        for message in sent
        if message["method"] == "Network.requestWillBeSent"
    ]
    fetched = [address for address in addresses if not address.startswith("data:")]
    assert fetched == [page.as_uri()]
    assert opened.title == report_example.TITLE


def test_a_report_without_runs(browser, timing_page):
    """The table's part of the script has nothing to do; colours and print have."""
    _open(browser, timing_page)
    time.sleep(0.5)
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    assert browser.find_elements(By.ID, "runs-table") == []
    button = browser.find_element(By.ID, "theme")
    button.click()
    assert button.text == "Colours: light"
    opened = "return [...document.querySelectorAll('main details')].map((item) => item.open)"
    event = "window.dispatchEvent(new Event(arguments[0]))"
    before = browser.execute_script(opened)
    assert False in before
    browser.execute_script(event, "beforeprint")
    assert all(browser.execute_script(opened))
    browser.execute_script(event, "afterprint")
    assert browser.execute_script(opened) == before
    assert browser.get_log("browser") == []


def test_a_request_would_be_seen_and_is_refused(opened):
    """Without this, the test above could pass because it sees nothing."""
    opened.execute_script(
        "const image = new Image(); image.src = 'https://example.invalid/spy.png';"
        "document.body.append(image);"
    )
    limit, told = time.monotonic() + 60, []
    while not any("Content Security Policy" in one["message"] for one in told):
        assert time.monotonic() < limit
        time.sleep(0.1)
        told += opened.get_log("browser")
    opened.refresh()


@pytest.mark.parametrize("width", [1400, 1024, 768, 390, 360])
def test_nothing_overflows(opened, width):
    _size(opened, width, 800)
    for chosen in ("usual", "all"):
        opened.execute_script(f"document.getElementById('columns-{chosen}').click();")
        opened.execute_script("document.querySelectorAll('details').forEach(d => d.open = true);")
        sizes = "return [document.documentElement.scrollWidth, window.innerWidth];"
        found, available = opened.execute_script(sizes)
        assert found <= available == width
    # Nothing sticks out of the page except inside a container that scrolls.
    outside = opened.execute_script(
        """
        const wide = [];
        for (const element of document.querySelectorAll("body *")) {
          if (element.closest(".scroll, .plate, pre, .skip")) continue;
          if (element.getBoundingClientRect().right > window.innerWidth + 1)
            wide.push(element.outerHTML.slice(0, 200));
        }
        return wide;
        """
    )
    assert outside == []


@pytest.mark.parametrize("width", [1280, 1920])
def test_the_matrix_stands_beside_the_advice(opened, width):
    """On a usual screen both are seen at once, and neither below the other."""
    _size(opened, width, 1000)
    card, matrix = (
        opened.find_element(By.CSS_SELECTOR, f".decision {name}").rect
        for name in (".card", ".plate svg")
    )
    assert matrix["x"] > card["x"] + card["width"]
    assert matrix["y"] < card["y"] + card["height"] and matrix["y"] + matrix["height"] < 1000


def test_sorts_by_click(opened):
    given = _column(opened, "test_accuracy")
    _head(opened, "test_accuracy").find_element(By.TAG_NAME, "button").click()
    assert _head(opened, "test_accuracy").get_attribute("aria-sort") == "ascending"
    found = _column(opened, "test_accuracy")
    numbers = [float(text) for text in found if re.match(r"[\d.]", text)]
    assert numbers == sorted(numbers) and len(numbers) == 54
    absent = found[len(numbers) :]
    assert sorted(found) == sorted(given) and set(absent) == {"–"} and len(absent) == 6
    _head(opened, "test_accuracy").find_element(By.TAG_NAME, "button").click()
    assert _head(opened, "test_accuracy").get_attribute("aria-sort") == "descending"
    found = _column(opened, "test_accuracy")
    assert [float(text) for text in found[:54]] == numbers[::-1]
    assert found[54:] == absent  # what is absent comes last both ways


def test_sorts_by_keyboard(opened):
    button = _head(opened, BATCH_SIZE).find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    button.send_keys(Keys.ENTER)
    assert _head(opened, BATCH_SIZE).get_attribute("aria-sort") == "descending"
    found = [int(text) for text in _column(opened, BATCH_SIZE)]
    assert found == sorted(found, reverse=True)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert opened.execute_script(outline) == "solid"
    opened.switch_to.active_element.send_keys(Keys.TAB)
    opened.switch_to.active_element.send_keys(Keys.SPACE)
    assert _head(opened, BATCH_SIZE).get_attribute("aria-sort") == "none"
    assert _head(opened, "seed").get_attribute("aria-sort") == "ascending"
    assert [int(text) for text in _column(opened, "seed")] == sorted(
        int(text) for text in _column(opened, "seed")
    )


def test_text_sorts_too(opened):
    _head(opened, STATUS).find_element(By.TAG_NAME, "button").click()
    found = _column(opened, STATUS)
    assert found == sorted(found) and len(set(found)) == 4


def test_filters(opened):
    count = opened.find_element(By.ID, "runs-count")
    assert count.text == "60 of 60 runs"
    field = opened.find_element(By.ID, "runs-filter")
    field.send_keys("BS=32+ seed=1")
    assert count.text == "2 of 60 runs"
    assert set(_column(opened, BATCH_SIZE)) == {"32"} and set(_column(opened, "seed")) == {"1"}
    field.send_keys(" nothing-has-this")
    assert count.text == "0 of 60 runs"
    field.clear()
    field.send_keys(Keys.ENTER)  # must not leave the page
    assert count.text == "60 of 60 runs"
    status, experiment = opened.find_elements(By.CSS_SELECTOR, "#runs-controls select")
    status.find_element(By.CSS_SELECTOR, "option[value=diverged]").click()
    assert count.text == "2 of 60 runs" and set(_column(opened, STATUS)) == {"diverged"}
    experiment.find_element(By.CSS_SELECTOR, "option[value=second]").click()
    assert count.text == "1 of 60 runs" and _column(opened, "experiment") == ["second"]


def test_claims_are_filtered_by_verdict(opened):
    rows = opened.find_elements(By.CSS_SELECTOR, ".claims tbody tr")
    assert len(rows) == 3 and all(row.is_displayed() for row in rows)
    opened.find_element(By.ID, "verdict-held").click()
    assert not any(row.is_displayed() for row in rows)  # the seeds are too few for any verdict
    opened.find_element(By.ID, "verdict-untested").click()
    assert all(row.is_displayed() for row in rows)


def test_columns_can_be_chosen(opened):
    head = _head(opened, "parameters")
    assert not head.is_displayed() and _head(opened, "test_accuracy").is_displayed()
    opened.find_element(By.CSS_SELECTOR, ".chooser summary").click()
    opened.find_element(By.ID, "columns-all").click()
    assert head.is_displayed()
    opened.find_element(By.ID, "columns-usual").click()
    assert not head.is_displayed()
    boxes = opened.find_elements(By.CSS_SELECTOR, ".choices label")
    next(box for box in boxes if box.text == "parameters").click()
    assert head.is_displayed()


def test_head_stays_while_the_table_scrolls(opened):
    top = "return document.querySelector('#runs-table thead th').getBoundingClientRect().top"
    opened.execute_script("document.querySelector('.tall').scrollIntoView();")
    before = opened.execute_script(top)
    opened.execute_script("document.querySelector('.tall').scrollTop = 400;")
    assert opened.execute_script("return document.querySelector('.tall').scrollTop") > 0
    assert abs(opened.execute_script(top) - before) <= 1


def test_keyboard_reaches_the_content(opened):
    opened.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    skip = opened.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.rect["y"] >= 0
    skip.send_keys(Keys.ENTER)
    assert opened.switch_to.active_element.get_attribute("id") == "main"


def test_works_without_javascript(opened, page, screenshots):
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened.get(page.as_uri())
        assert len(opened.find_elements(By.CSS_SELECTOR, "#runs-table tbody tr")) == 60
        assert not opened.find_element(By.ID, "runs-controls").is_displayed()
    finally:
        opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def _inside(browser, element, height: int = 800) -> bool:
    """Returns whether all of an element is on the first screen."""
    rect = element.rect
    return rect["y"] >= 0 and rect["y"] + rect["height"] <= height


def test_first_screen_of_a_window(browser, drawn, screenshots):
    _open(browser, drawn)
    _size(browser, 1280, 800)
    for selector in ("h1", ".summary", ".card .use", ".tally", ".decision .plate"):
        assert _inside(browser, browser.find_element(By.CSS_SELECTOR, selector)), selector
    contents = browser.find_element(By.ID, "contents")
    title, matrix = (
        browser.find_element(By.CSS_SELECTOR, each) for each in ("h1", ".decision .plate")
    )
    assert contents.rect["x"] + contents.rect["width"] <= title.rect["x"]  # beside, not above
    assert matrix.rect["x"] > browser.find_element(By.CLASS_NAME, "card").rect["x"]
    assert not browser.find_element(By.CLASS_NAME, "menu").is_displayed()
    _picture(browser, screenshots / "report-drawn.png")


def test_first_screen_of_a_telephone(browser, drawn):
    _open(browser, drawn)
    _size(browser, 400, 800)
    for selector in ("h1", ".summary", ".card .use"):
        assert _inside(browser, browser.find_element(By.CSS_SELECTOR, selector)), selector
    contents, menu = (
        browser.find_element(By.ID, "contents"),
        browser.find_element(By.CLASS_NAME, "menu"),
    )
    assert not contents.is_displayed()
    menu.send_keys(Keys.ENTER)
    assert contents.is_displayed()
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not contents.is_displayed()
    menu.click()
    contents.find_element(By.PARTIAL_LINK_TEXT, "Runs").click()
    assert not contents.is_displayed()


def test_the_contents_mark_where_one_is(browser, drawn):
    _open(browser, drawn)
    marked = "return [...document.querySelectorAll('#contents [aria-current]')].map(a => a.hash)"
    assert browser.execute_script(marked) == ["#top"]
    browser.execute_script("document.getElementById('repeat').scrollIntoView()")
    _until(lambda: browser.execute_script(marked)[0] in ("#repeat", "#config"))
    side = browser.execute_script("return document.getElementById('contents').offsetTop")
    assert side > 0  # it came along
    browser.execute_script("window.scrollTo(0, 0)")
    _until(lambda: browser.execute_script(marked) == ["#top"])


def _until(true) -> None:
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


def _plate(browser, figure: str):
    plate = browser.find_element(By.CSS_SELECTOR, f'[data-name="gap-{figure}"] .plate')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plate)
    return plate


def test_a_point_lights_its_run_everywhere(browser, drawn):
    _open(browser, drawn)
    plate = _plate(browser, "sharpness")
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
    _open(browser, drawn)
    plate = _plate(browser, "accuracy")
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
    _open(browser, drawn)
    plate = _plate(browser, "loss_curves")
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
        _open(browser, drawn)
        assert displayed() == [True, False]
        epoch, updates = browser.find_elements(By.CSS_SELECTOR, ".switch [type=radio]")
        updates.click()
        assert displayed() == [False, True]
        epoch.click()
        assert displayed() == [True, False]
        assert not browser.find_elements(By.CLASS_NAME, "tools")  # nothing that would do nothing
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    _media(browser, medium="print")
    browser.get(drawn.as_uri())
    assert displayed() == [True, True]
    _media(browser)


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
    _open(browser, drawn)
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
    _open(browser, drawn)
    plate = _plate(browser, "accuracy")
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
    _open(browser, output)
    # What takes time is what is laid out: 0.9 to 1.6 s for so many.
    assert browser.execute_script("return document.querySelectorAll('*').length") < 80_000
    assert browser.find_element(By.ID, "runs-count").text == "1000 of 1000 runs"


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
  if (!own || element.closest("script") || !element.getClientRects().length) continue;
  const pair = [getComputedStyle(element).color, background(element)];
  pairs.set(pair.join("|"), [...pair, element.outerHTML.slice(0, 120)]);
}
return [...pairs.values()];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(opened, scheme, screenshots):
    _media(opened, scheme)
    colour = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (_luminance(colour) < 0.05) == (scheme == "dark")
    pairs = opened.execute_script(CONTRASTS)
    assert len(pairs) > 4
    for ink, paper, where in pairs:
        light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{scheme}: {ink} on {paper}: {where}"
    plate = "return getComputedStyle(document.querySelector('.plate')).backgroundColor"
    assert opened.execute_script(plate) == "rgb(255, 255, 255)"
    _picture(opened, screenshots / f"report-{scheme}.png")


def test_colours_can_be_set_by_hand(opened):
    body = "return getComputedStyle(document.body).backgroundColor"
    given = opened.execute_script(body)
    button = opened.find_element(By.ID, "theme")
    button.click()
    assert button.text == "Colours: light" and opened.execute_script(body) == given
    button.click()
    assert button.text == "Colours: dark" and _luminance(opened.execute_script(body)) < 0.05
    button.click()
    assert button.text == "Colours: automatic" and opened.execute_script(body) == given


def test_narrow_page_is_readable(opened, screenshots):
    _size(opened, 390, 844)
    size = "return parseFloat(getComputedStyle(document.querySelector('.answers td')).fontSize)"
    assert opened.execute_script(size) >= 14
    # The answers become a list, with the head's words before each value.
    display = "return getComputedStyle(document.querySelector('.answers td')).display"
    assert opened.execute_script(display) == "block"
    _picture(opened, screenshots / "report-narrow.png")


def test_prints_on_a4(opened, screenshots):
    _media(opened, "dark", "print")
    colour = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    shown = opened.execute_script(
        "return [...document.querySelectorAll('#runs-table thead th')]"
        ".filter((head) => getComputedStyle(head).display !== 'none')"
        ".map((head) => head.textContent)"
    )
    assert {"experiment", BATCH_SIZE, "seed", STATUS, "test_accuracy"} <= set(shown)
    assert len(shown) <= report.runs_table.PRINTED_COLUMNS
    _media(opened, "dark")
    printed = opened.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    content = base64.b64decode(printed["data"])
    (screenshots / "report.pdf").write_bytes(content)
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) > 3
    boxes = re.findall(rb"/MediaBox\s*\[([\d. ]+)\]", content)
    # The head's buttons are back afterwards.
    _head(opened, "seed").find_element(By.TAG_NAME, "button").click()
    assert _head(opened, "seed").get_attribute("aria-sort") == "ascending"
    width, height = (float(side) for side in boxes[0].split()[2:])
    assert (round(width), round(height)) == (595, 842)
