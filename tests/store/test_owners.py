"""A study's folder belongs to one configuration file: another of its name cannot overwrite it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import run
import small_study
from batchscope import snakefile
from batchscope.errors import UserError
from batchscope.store import owners, status
from batchscope.study import config

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
    snakefile.Jobs.of([path], {**config.read(path), "scale": scale})
    return status.main(path, scale, "results")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project in which `mine.yaml` has made its tables."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("mine.yaml")
        tabulate("mine.yaml")
    return folder


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """A copy of that project, to work in."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "project"))
    return tmp_path / "project"


def refused(path: str, owner: str = "mine.yaml", folder: str = "results/studies/s") -> str:
    return (
        f"study: received 's', as in {owner}, whose tables lie in {folder}; a name that no other "
        f"file has is expected. Change `study:` in {path}, or delete {owner}."
    )


def test_another_file_of_the_same_study_is_refused_before_it_changes_anything(project):
    write("studies/copy.yaml", experiment={"vary": {"batch_size": [8]}})
    before = TABLE.read_text()
    with pytest.raises(SystemExit) as raised:
        snakefile.Jobs.of(["studies/copy.yaml"], config.read("studies/copy.yaml"))
    with pytest.raises(UserError) as raised_by_plan:
        status.main("studies/copy.yaml", "full", "results")
    with pytest.raises(SystemExit) as raised_by_the_job:
        tabulate("studies/copy.yaml")
    for error in (raised, raised_by_plan, raised_by_the_job):
        assert str(error.value) == refused("studies/copy.yaml")
    assert TABLE.read_text() == before
    assert planned("mine.yaml")


@pytest.mark.slow
def test_the_same_file_is_known_by_any_path(project):
    Path("link.yaml").symlink_to("mine.yaml")
    for path in (str(project / "mine.yaml"), "./mine.yaml", "../project/mine.yaml", "link.yaml"):
        assert planned(path)
        tabulate(path)
    assert planned("mine.yaml")


def test_a_file_that_was_moved_keeps_its_tables(project):
    Path("studies").mkdir()
    Path("mine.yaml").rename("studies/renamed.yaml")
    assert planned("studies/renamed.yaml")
    tabulate("studies/renamed.yaml")
    write("mine.yaml")
    with pytest.raises(UserError) as raised:
        status.main("mine.yaml", "full", "results")
    assert str(raised.value) == refused("mine.yaml", "studies/renamed.yaml")


def test_a_project_may_move_with_its_results(project, monkeypatch):
    project.rename(project.parent / "elsewhere")
    monkeypatch.chdir(project.parent / "elsewhere")
    assert planned("mine.yaml")
    write("copy.yaml")
    with pytest.raises(UserError, match="as in mine.yaml, whose"):
        status.main("copy.yaml", "full", "results")


def test_a_file_that_names_another_study_by_now_has_no_tables(project):
    write("copy.yaml")
    write("mine.yaml", study="other")
    assert planned("copy.yaml")


def test_a_file_that_cannot_be_read_may_still_name_it(project):
    write("copy.yaml")
    Path("mine.yaml").write_text("study: [")
    with pytest.raises(UserError, match="as in mine.yaml, whose"):
        status.main("copy.yaml", "full", "results")


def test_the_reduced_form_has_a_folder_and_an_owner_of_its_own(project):
    write("copy.yaml")
    assert planned("copy.yaml", "reduced")
    tabulate("copy.yaml", "reduced")
    with pytest.raises(UserError) as raised:
        status.main("mine.yaml", "reduced", "results")
    assert str(raised.value) == refused("mine.yaml", "copy.yaml", "results/studies/s-reduced")
    assert planned("mine.yaml")


def test_a_damaged_record_is_reported(project):
    Path("results/studies/s", owners.FILE).write_text("{")
    with pytest.raises(UserError, match=r"json: received a damaged file .* Delete it and run"):
        status.main("mine.yaml", "full", "results")


def test_no_two_files_of_the_repository_name_one_study():
    root = Path(__file__).parents[2]
    found = [config.read(path)["study"] for path in (root / "config.yaml", *root.glob("studies/*"))]
    assert len(set(found)) == len(found)
