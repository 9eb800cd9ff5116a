"""Frameworks side by side as a user runs them: what is not installed fails nothing."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

import project
from batchscope.catalogue import framework_names
from batchscope.host import framework_environments

pytestmark = pytest.mark.slow

STUDY = {
    "study": "compared",
    "machine": "desktop",
    "datasets": {"patches": {"source": "patches", "image_size": 32, "per_class": 60}},
    "defaults": {"dataset": "patches", "model": "campbell_cnn", "optimizer": "sgd"},
    "experiments": {
        "frameworks": {
            "question": "Which framework trains fastest?",
            "vary": {
                "batch_size": [8, 16],
                "framework": ["tensorflow", *framework_names.FRAMEWORKS],
            },
            "timing": {
                "throughput": {"blocks": 4, "block_seconds": 0.05},
                "utilisation": {"seconds": 0.3, "pause_seconds": 0.1},
            },
            "figures": ["frameworks"],
        }
    },
}
DRAWN = {"tabulate": 1, "figures": 1, "report": 1}


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    return project.rows(folder, "compared/frameworks", table)


def check_statuses(folder: Path, there: Collection[str] = ()) -> None:
    """Holds what is finished, in each table, against the frameworks that are there."""
    expected = {(name, "not_installed") for name in framework_names.FRAMEWORKS if name not in there}
    expected |= {(name, "finished") for name in ("tensorflow", *there)}
    for table in ("throughput", "utilisation", "sweeps"):
        assert {(row["framework"], row["status"]) for row in rows(folder, table)} == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The study in a copy of the project, run where no framework is installed."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(framework_environments.VARIABLE, str(folder / "none"))
        project.finished(folder, STUDY)
        assert project.planned(folder) == {}
    return folder


def test_what_is_not_installed_is_shown_and_fails_nothing(folder):
    check_statuses(folder)
    assert len(rows(folder, "throughput")) == 4 * 2
    assert len(list((folder / "results" / "timing").rglob("*.json"))) == 2  # nothing is stored
    page = project.report(folder)
    for name, framework in framework_names.FRAMEWORKS.items():
        assert f"Not installed: {framework.title}" in page
        assert framework_environments.command(name) in page
    assert "This report is partial" not in page


def test_what_is_installed_later_is_timed_then(folder, monkeypatch):
    there = [name for name in framework_names.FRAMEWORKS if framework_environments.installed(name)]
    if not there:
        pytest.skip(f"none is installed; {framework_environments.command('pytorch')} installs one")
    shared = os.path.abspath(framework_environments.folder(there[0]).parent)
    monkeypatch.setenv(framework_environments.VARIABLE, shared)
    count = len(there)
    assert project.planned(folder) == {"throughput": count, "utilisation": count, **DRAWN}
    project.run(folder)
    check_statuses(folder, there)
    for row in rows(folder, "throughput"):
        if row["status"] == "finished":
            assert float(row["examples_per_second"]) > 0 and row["blocks"] == "4"
            assert float(row["process_percent"]) < 110  # one thread is one core
    assert {row["framework"] for row in rows(folder, "samples")} == {"tensorflow", *there}
    page = project.report(folder)
    for name in there:
        assert f"Not installed: {framework_names.TITLES[name]}" not in page
        assert framework_names.TITLES[name] in page
    assert project.planned(folder) == {}
    # Without it again, what was measured stays, and nothing fails.
    monkeypatch.setenv(framework_environments.VARIABLE, str(folder / "none"))
    project.run(folder)
    check_statuses(folder, there)
