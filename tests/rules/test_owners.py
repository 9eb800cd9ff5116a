"""A study's folder belongs to one configuration file: another file cannot overwrite it."""

import os
from pathlib import Path

import pytest
import yaml

import run
import small_study
from batchscope.cli import plan
from batchscope.core.errors import UserError
from batchscope.rules import study as rules_study

TABLE = Path("results/studies/s/a/runs.csv")


def write(path: str, **changes) -> None:
    reduced = {"experiments": {"a": {"seeds": 1}}}
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(yaml.safe_dump(small_study.config(reduced=reduced, **changes)))


def tabulate(path: str, scale: str = "full") -> None:
    folder = "results/studies/s" if scale == "full" else "results/studies/s-reduced"
    words = ("--experiment", "a", "--scale", scale, "--output", f"{folder}/a")
    run.main(["tabulate", "--config", str(path), *words])


def planned(path: str, scale: str = "full") -> str:
    rules_study.study_of_call([path], {"scale": scale})
    return plan.text(plan.study(path, scale, "results"), "results")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in which `mine.yaml` has made its tables."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write("mine.yaml")
    rules_study.note_owner(TABLE.parents[1], "s", "mine.yaml")
    TABLE.parent.mkdir()
    TABLE.write_text("run")
    return folder


def refused(call, owner: str = "mine.yaml") -> None:
    with pytest.raises((UserError, SystemExit), match=f"^study: received 's', as in {owner}, "):
        call()


def test_another_file_of_the_same_study_is_refused_before_it_changes_anything(project):
    write("studies/copy.yaml", experiment={"vary": {"batch_size": [8]}})
    before = TABLE.read_text()
    refused(lambda: rules_study.study_of_call(["studies/copy.yaml"], {}))
    refused(lambda: plan.study("studies/copy.yaml", "full", "results"))
    refused(lambda: tabulate("studies/copy.yaml"))
    refused(lambda: run.main(["advice", "--configfile", "studies/copy.yaml"]))
    assert TABLE.read_text() == before
    assert planned("mine.yaml")


def test_a_file_that_was_moved_and_a_project_keep_their_tables(project, monkeypatch):
    Path("studies").mkdir()
    Path("mine.yaml").rename("studies/renamed.yaml")
    tabulate("studies/renamed.yaml")
    project.rename(project.parent / "elsewhere")
    monkeypatch.chdir(project.parent / "elsewhere")
    assert planned("studies/renamed.yaml")
    write("mine.yaml")
    refused(lambda: plan.study("mine.yaml", "full", "results"), "studies/renamed.yaml")


def test_results_may_be_a_link_to_another_disk(project):
    Path("results").rename(project.parent / "disk")
    Path("results").symlink_to(project.parent / "disk")
    rules_study.note_owner(TABLE.parents[1], "s", "mine.yaml")
    assert rules_study.last_config("results") == ("mine.yaml", "full")


def test_a_file_that_names_another_study_by_now_has_no_tables(project):
    write("copy.yaml")
    write("mine.yaml", study="other")
    assert planned("copy.yaml")
    Path("mine.yaml").write_text("study: [")  # one that cannot be read may still name it
    refused(lambda: plan.study("copy.yaml", "full", "results"))


def test_the_reduced_form_has_its_own_folder_and_owner(project):
    assert rules_study.last_config("nowhere") is None
    assert rules_study.last_config("results") == ("mine.yaml", "full")
    write("copy.yaml")
    tabulate("copy.yaml", "reduced")
    refused(lambda: plan.study("mine.yaml", "reduced", "results"), "copy.yaml")
    assert planned("mine.yaml")
    # The study that ran last is that of the newest file.
    os.utime(Path("results/studies/s", rules_study.OWNER_FILE), (1, 1))
    assert rules_study.last_config("results") == ("copy.yaml", "reduced")
