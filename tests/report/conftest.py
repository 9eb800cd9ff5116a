"""Studies with results, and the page of one."""

import pytest

import report_example
from batchscope.report import report_inputs
from html_page import Page


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
