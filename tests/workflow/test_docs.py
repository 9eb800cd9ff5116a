"""README and docs: links, commands and examples are what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from batchscope import PACKAGES
from batchscope.study import config, editor_schema
from project import ROOT

PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
IDS = [path.relative_to(ROOT).as_posix() for path in PAGES]
PROGRAMS = {
    *("python", "python3", "pip", "pytest", "snakemake", "ruff", "snakefmt", "scancel", "awk"),
    *(".", ".ci/run"),
}
FILES = (".yaml", ".py", ".lock", ".toml", ".smk", ".md", ".json")


def prose(path: Path) -> str:
    """Returns a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def blocks(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def links(path: Path) -> list[tuple[str, str]]:
    """Returns file and anchor of every link that stays in the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(path))
    return [(link.partition("#")[0], link.partition("#")[2]) for link in found if ":" not in link]


def anchors(path: Path) -> set[str]:
    """Returns the anchors that a page's headings have on the web."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.M)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


def commands(path: Path) -> list[list[str]]:
    """Returns the words of each command in a page's fenced blocks, without comments."""
    lines = "".join(blocks(path, "bash")).splitlines()
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        while words:
            end = next((at for at, word in enumerate(words) if word in ("&&", "|")), len(words))
            found.append(words[:end])
            words = words[end + 1 :]
    return found


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_links_lead_somewhere(path):
    for file, anchor in links(path):
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_files_of_the_project_that_are_named_exist(path):
    named = re.findall(r"`([\w.]+/[\w./]+\.(?:py|smk|yaml|lock|json))`", prose(path))
    new = ("weight_norm", "norms")  # of the examples
    for name in (
        name
        for name in named
        if not any(each in name for each in new) and not name.startswith("results/")
    ):
        places = (ROOT, ROOT / "workflow" / "batchscope")
        assert any((place / name).is_file() for place in places), name


def test_every_page_is_linked_from_the_readme():
    linked = {(ROOT / file).resolve() for file, _ in links(ROOT / "README.md")}
    assert {*PAGES} - {ROOT / "README.md"} <= linked


def test_the_readme_is_two_pages():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 180


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_commands_are_of_known_programs_and_files_that_exist(path):
    for words in commands(path):
        assert words[0] in PROGRAMS, words
        for word in words[1:]:
            assert not word.endswith(FILES) or (ROOT / word).exists(), words


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_examples_of_a_configuration_fit_the_schema(path):
    schema = editor_schema.document()
    in_experiments = schema["$defs"]["experiment"]["properties"]
    for text in blocks(path, "yaml"):
        found = yaml.safe_load(text) or {}
        whole = found
        if found.keys() <= in_experiments.keys():
            whole = {"experiments": {"shown": found}}
        whole = {"study": "shown", "experiments": {"shown": {}}} | whole
        jsonschema.Draft202012Validator(schema).validate(whole)
        assert not config.schema_problems(whole), text


def test_the_example_of_a_study_is_planned(tmp_path):
    (study,) = (text for text in blocks(ROOT / "README.md", "yaml") if "\nstudy: " in text)
    (tmp_path / "study.yaml").write_text(study, encoding="utf-8")
    assert len(config.study(tmp_path / "study.yaml").runs) == 18


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = page.partition("## Dependencies")[2]
    rows = re.findall(r"^\| ([a-z0-9, -]+) \| [a-z].+ \|$", table, re.M)
    listed = {name for row in rows for name in row.split(", ")}
    assert {pin.partition("==")[0] for pin in pins} <= listed


def test_every_room_has_its_place_in_the_table():
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    rows = re.search(r"^\| room \|.*\n((?:\|.*\n)+)", page, re.M)[1]
    named = [
        name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    assert named == [*PACKAGES]


def test_the_hooks_of_a_commit_are_the_formatters_of_the_tests():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (local,) = hooks["repos"]
    used = [hook["entry"].removesuffix(" --force-exclude") for hook in local["hooks"]]
    assert used == [".venv/bin/ruff check", ".venv/bin/ruff format", ".venv/bin/snakefmt"]
    assert all(hook["language"] == "system" for hook in local["hooks"])


def test_the_license_is_one_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project["license"] == citation["license"] == "MIT"
    assert project["version"] == citation["version"]
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License\n")


def test_a_clone_has_a_results_folder_that_says_what_comes():
    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.split()

    assert git("ls-files", "results") == ["results/README.md"]
    made = ["results/report.html", "results/runs/run/record.json"]
    assert git("check-ignore", "results/README.md", *made) == made
