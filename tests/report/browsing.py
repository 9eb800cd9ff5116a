"""A report in headless Chromium: opening it, its size, and what is looked for."""

import contextlib
import time
from pathlib import Path

from selenium.webdriver.common.by import By


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


def until(true) -> None:
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


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
