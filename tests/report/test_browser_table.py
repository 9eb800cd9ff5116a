"""The table of runs and the ledger in headless Chromium: sorted, filtered, chosen."""

from __future__ import annotations

import re

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browsing

pytestmark = pytest.mark.slow
STATUS, BATCH_SIZE = "status", "batch_size"


def test_sorts_by_click(opened):
    given = browsing.column(opened, "test_accuracy")
    browsing.head(opened, "test_accuracy").find_element(By.TAG_NAME, "button").click()
    assert browsing.head(opened, "test_accuracy").get_attribute("aria-sort") == "ascending"
    found = browsing.column(opened, "test_accuracy")
    numbers = [float(text) for text in found if re.match(r"[\d.]", text)]
    assert numbers == sorted(numbers) and len(numbers) == 54
    absent = found[len(numbers) :]
    assert sorted(found) == sorted(given) and set(absent) == {"–"} and len(absent) == 6
    browsing.head(opened, "test_accuracy").find_element(By.TAG_NAME, "button").click()
    assert browsing.head(opened, "test_accuracy").get_attribute("aria-sort") == "descending"
    found = browsing.column(opened, "test_accuracy")
    assert [float(text) for text in found[:54]] == numbers[::-1]
    assert found[54:] == absent  # what is absent comes last both ways


def test_sorts_by_keyboard(opened):
    button = browsing.head(opened, BATCH_SIZE).find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    button.send_keys(Keys.ENTER)
    assert browsing.head(opened, BATCH_SIZE).get_attribute("aria-sort") == "descending"
    found = [int(text) for text in browsing.column(opened, BATCH_SIZE)]
    assert found == sorted(found, reverse=True)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert opened.execute_script(outline) == "solid"
    opened.switch_to.active_element.send_keys(Keys.TAB)
    opened.switch_to.active_element.send_keys(Keys.SPACE)
    assert browsing.head(opened, BATCH_SIZE).get_attribute("aria-sort") == "none"
    assert browsing.head(opened, "seed").get_attribute("aria-sort") == "ascending"
    assert [int(text) for text in browsing.column(opened, "seed")] == sorted(
        int(text) for text in browsing.column(opened, "seed")
    )


def test_text_sorts_too(opened):
    browsing.head(opened, STATUS).find_element(By.TAG_NAME, "button").click()
    found = browsing.column(opened, STATUS)
    assert found == sorted(found) and len(set(found)) == 4


def test_filters(opened):
    count = opened.find_element(By.ID, "runs-count")
    assert count.text == "60 of 60 rows"
    field = opened.find_element(By.ID, "runs-filter")
    field.send_keys("BS=32+ seed=1")
    assert count.text == "2 of 60 rows"
    assert set(browsing.column(opened, BATCH_SIZE)) == {"32"} and set(
        browsing.column(opened, "seed")
    ) == {"1"}
    field.send_keys(" nothing-has-this")
    assert count.text == "0 of 60 rows"
    field.clear()
    field.send_keys(Keys.ENTER)  # must not leave the page
    assert count.text == "60 of 60 rows"
    status, experiment = opened.find_elements(By.CSS_SELECTOR, "#runs-controls select")
    status.find_element(By.CSS_SELECTOR, "option[value=diverged]").click()
    assert count.text == "2 of 60 rows" and set(browsing.column(opened, STATUS)) == {"diverged"}
    experiment.find_element(By.CSS_SELECTOR, "option[value=second]").click()
    assert count.text == "1 of 60 rows" and browsing.column(opened, "experiment") == ["second"]


def test_claims_are_filtered_by_verdict(opened):
    rows = opened.find_elements(By.CSS_SELECTOR, ".claims tbody tr")
    assert len(rows) == 3 and all(row.is_displayed() for row in rows)
    opened.find_element(By.ID, "verdict-supported").click()
    assert not any(row.is_displayed() for row in rows)  # the seeds are too few for any verdict
    opened.find_element(By.ID, "verdict-provisional").click()
    assert all(row.is_displayed() for row in rows)


def test_columns_can_be_chosen(opened):
    head = browsing.head(opened, "parameters")
    assert not head.is_displayed() and browsing.head(opened, "test_accuracy").is_displayed()
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
