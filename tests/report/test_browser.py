"""The report in headless Chromium: nothing fetched, nothing overflows, it reads and prints.

Screenshots and the printed page stay in $BATCHSCOPE_SCREENSHOTS, or in pytest's folder.
"""

from __future__ import annotations

import base64
import json
import re
import time

import pytest

import report_example
from batchscope import report

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browsing

pytestmark = pytest.mark.slow


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
    browsing.visit(browser, timing_page)
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
    limit, messages = time.monotonic() + 60, []
    while not any("Content Security Policy" in one["message"] for one in messages):
        assert time.monotonic() < limit
        time.sleep(0.1)
        messages += opened.get_log("browser")
    opened.refresh()


@pytest.mark.parametrize("width", [1400, 1024, 768, 390, 360])
def test_nothing_overflows(opened, width):
    browsing.size(opened, width, 800)
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
    browsing.size(opened, width, 1000)
    card, matrix = (
        opened.find_element(By.CSS_SELECTOR, f".decision {name}").rect
        for name in (".card", ".plate svg")
    )
    assert matrix["x"] > card["x"] + card["width"]
    assert matrix["y"] < card["y"] + card["height"] and matrix["y"] + matrix["height"] < 1000
    assert card["y"] + card["height"] < 800
    doubts = opened.find_element(By.CSS_SELECTOR, ".card details p")
    assert not doubts.is_displayed()
    opened.find_element(By.CSS_SELECTOR, ".card summary").click()
    assert doubts.is_displayed()


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


def test_first_screen_of_a_window(browser, drawn, screenshots):
    browsing.visit(browser, drawn)
    browsing.size(browser, 1280, 800)
    for selector in ("h1", ".summary", ".card .use", ".tally", ".decision .plate"):
        assert browsing.inside(browser, browser.find_element(By.CSS_SELECTOR, selector)), selector
    contents = browser.find_element(By.ID, "contents")
    title, matrix = (
        browser.find_element(By.CSS_SELECTOR, each) for each in ("h1", ".decision .plate")
    )
    assert contents.rect["x"] + contents.rect["width"] <= title.rect["x"]  # beside, not above
    assert matrix.rect["x"] > browser.find_element(By.CLASS_NAME, "card").rect["x"]
    assert not browser.find_element(By.CLASS_NAME, "menu").is_displayed()
    browsing.picture(browser, screenshots / "report-drawn.png")


def test_first_screen_of_a_telephone(browser, drawn):
    browsing.visit(browser, drawn)
    browsing.size(browser, 400, 800)
    for selector in ("h1", ".summary", ".card .use"):
        assert browsing.inside(browser, browser.find_element(By.CSS_SELECTOR, selector)), selector
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
    browsing.visit(browser, drawn)
    marked = "return [...document.querySelectorAll('#contents [aria-current]')].map(a => a.hash)"
    assert browser.execute_script(marked) == ["#top"]
    browser.execute_script("document.getElementById('repeat').scrollIntoView()")
    browsing.until(lambda: browser.execute_script(marked)[0] in ("#repeat", "#config"))
    side = browser.execute_script("return document.getElementById('contents').offsetTop")
    assert side > 0  # it came along
    browser.execute_script("window.scrollTo(0, 0)")
    browsing.until(lambda: browser.execute_script(marked) == ["#top"])


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
    browsing.media(opened, scheme)
    colour = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (_luminance(colour) < 0.05) == (scheme == "dark")
    pairs = opened.execute_script(CONTRASTS)
    assert len(pairs) > 4
    for ink, paper, where in pairs:
        light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{scheme}: {ink} on {paper}: {where}"
    plate = "return getComputedStyle(document.querySelector('.plate')).backgroundColor"
    assert opened.execute_script(plate) == "rgb(255, 255, 255)"
    browsing.picture(opened, screenshots / f"report-{scheme}.png")


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
    browsing.size(opened, 390, 844)
    size = "return parseFloat(getComputedStyle(document.querySelector('.answers td')).fontSize)"
    assert opened.execute_script(size) >= 14
    # The answers become a list, with the head's words before each value.
    display = "return getComputedStyle(document.querySelector('.answers td')).display"
    assert opened.execute_script(display) == "block"
    browsing.picture(opened, screenshots / "report-narrow.png")


def test_prints_on_a4(opened, screenshots):
    browsing.media(opened, "dark", "print")
    colour = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    shown = opened.execute_script(
        "return [...document.querySelectorAll('#runs-table thead th')]"
        ".filter((head) => getComputedStyle(head).display !== 'none')"
        ".map((head) => head.textContent)"
    )
    assert {"experiment", "batch_size", "seed", "status", "test_accuracy"} <= set(shown)
    assert len(shown) <= report.runs_table.PRINTED_COLUMNS
    browsing.media(opened, "dark")
    printed = opened.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    content = base64.b64decode(printed["data"])
    (screenshots / "report.pdf").write_bytes(content)
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) > 3
    boxes = re.findall(rb"/MediaBox\s*\[([\d. ]+)\]", content)
    # The head's buttons are back afterwards.
    browsing.drawn_anew(opened)
    browsing.head(opened, "seed").find_element(By.TAG_NAME, "button").click()
    assert browsing.head(opened, "seed").get_attribute("aria-sort") == "ascending"
    width, height = (float(side) for side in boxes[0].split()[2:])
    assert (round(width), round(height)) == (595, 842)
