"""The report in headless Chromium: nothing fetched, nothing overflows, it reads and prints."""

from __future__ import annotations

import base64
import json
import re

import pytest

import report_example

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browsing

pytestmark = pytest.mark.slow


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
    browsing.size(opened, width, 800)
    browsing.unfold(opened)
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
    with browsing.without_script(browser):
        browsing.visit(browser, page)
        assert len(browser.find_elements(By.CSS_SELECTOR, ".runs tbody tr")) == 30
        assert not browser.find_elements(By.CLASS_NAME, "tools")  # nothing that would do nothing
        browsing.visit(browser, drawn)
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
        browsing.visit(browser, drawn)
        explanation = browser.find_element(By.ID, "help-same_epochs")
        assert not explanation.is_displayed()
        browser.find_element(By.CSS_SELECTOR, "[popovertarget=help-same_epochs]").click()
        assert explanation.is_displayed() and len(explanation.text) > 80
    assert len(tabs) > 1 and at > 0


def test_first_screen_of_a_window_and_of_a_telephone(browser, drawn):
    browsing.visit(browser, drawn)
    for width, last in ((1280, ".decision .plate"), (400, ".card .use")):
        browsing.size(browser, width, 800)
        for selector in ("h1", "header .scope", ".card .use", last):
            element = browser.find_element(By.CSS_SELECTOR, selector)
            assert browsing.inside(browser, element), selector
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
    browsing.visit(browser, drawn)
    marked = "return [...document.querySelectorAll('#contents [aria-current]')].map(a => a.hash)"
    assert browser.execute_script(marked) == ["#top"]
    browser.execute_script("document.getElementById('files').scrollIntoView()")
    browsing.until(lambda: browser.execute_script(marked) == ["#files"])
    browser.execute_script("location.hash = '#config'")
    browsing.until(lambda: displayed(browser, "#config pre") == [True])


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
    browsing.visit(browser, drawn)
    browsing.media(browser, scheme)
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (_luminance(colour) < 0.05) == (scheme == "dark")
    assert browser.find_elements(By.CSS_SELECTOR, ".plate svg text")
    pairs = browser.execute_script(CONTRASTS)
    assert len(pairs) > 4
    for ink, paper, where in pairs:
        light, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{scheme}: {ink} on {paper}: {where}"


def test_prints_two_pages_on_a4_and_the_rest_on_demand(browser, drawn):
    browsing.visit(browser, drawn)
    browsing.media(browser, "dark", "print")
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    browsing.media(browser)
    pages = []
    for _ in range(2):
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        content = base64.b64decode(printed["data"])
        pages.append(len(re.findall(rb"/Type\s*/Page\b", content)))
        box = re.search(rb"/MediaBox\s*\[([\d. ]+)\]", content)[1].split()[2:]
        assert [round(float(side)) for side in box] == [595, 842]
        browser.find_element(By.ID, "print-all").click()
    assert pages[0] <= 2 < pages[1]
