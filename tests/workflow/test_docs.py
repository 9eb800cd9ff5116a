"""README and docs: links lead somewhere, commands and examples work."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
from pydantic import ValidationError

from batchscope.study import config, experiments, study_file, yaml_file
from project import ROOT

PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
IDS = [path.relative_to(ROOT).as_posix() for path in PAGES]
PROGRAMS = {
    *("python", "python3", "pip", "pytest", "snakemake", "ruff", "snakefmt", "scancel", "awk"),
    *("rsync", ".", ".ci/run", "podman", "apptainer", "mkdir", "ln"),
    *(f".frameworks/{name}/bin/pip" for name in ("pytorch", "jax", "mxnet")),
}
FILES = (".yaml", ".py", ".lock", ".toml", ".smk", ".md", ".json")


def prose(path: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def blocks(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def links(path: Path) -> list[tuple[str, str]]:
    """Return file and anchor of every link inside the project."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(path))
    return [(link.partition("#")[0], link.partition("#")[2]) for link in targets if ":" not in link]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page: those of its headings on the web, and explicit ones."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.M)
    slugs = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}
    return slugs | set(re.findall(r'^<a id="([^"]+)"></a>$', prose(path), re.M))


def commands(path: Path) -> list[list[str]]:
    """Return the words of each command in a page's fenced blocks, without comments."""
    lines = "".join(blocks(path, "bash")).splitlines()
    commands = []
    for line in lines:
        words = shlex.split(line, comments=True)
        for is_end, group in itertools.groupby(words, ("&&", "|").__contains__):
            commands += [] if is_end else [list(group)]
    return commands


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_links_and_named_files_exist(path):
    for file, anchor in links(path):
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"
    folders = (ROOT, ROOT / "workflow" / "batchscope")
    for name in re.findall(r"`([\w.]+/[\w./]+\.(?:py|smk|yaml|lock|json))`", prose(path)):
        # Results, and new files of the examples.
        if not name.startswith("results/") and "norm" not in name:
            assert any((folder / name).is_file() for folder in folders), name


def test_every_page_is_linked_from_the_readme():
    linked = {(ROOT / file).resolve() for file, _ in links(ROOT / "README.md")}
    assert {*PAGES} - {ROOT / "README.md"} <= linked


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_commands_are_of_known_programs_and_files_that_exist(path):
    studies = set()  # written by an `init` before them on the page, from a reader's files
    for words in commands(path):
        assert words[0] in PROGRAMS, words
        if words[1:3] == ["workflow/run.py", "init"]:
            studies.add(f"studies/{Path(words[3]).stem}.yaml")
            continue
        for word in words[1:]:
            assert word in studies or not word.endswith(FILES) or (ROOT / word).exists(), words


@pytest.mark.parametrize("path", [page for page in PAGES if blocks(page, "yaml")], ids=str)
def test_examples_of_a_study_are_valid(path):
    """An example may be a part of a study or of an experiment: keys may be missing."""
    experiment_keys = {key for kind in experiments.KINDS.values() for key in kind.model_fields}
    for text in blocks(path, "yaml"):
        example = yaml_file.parse(text) or {}
        models = [*experiments.KINDS.values()]
        if not example.keys() <= experiment_keys:
            models = [study_file.StudyFile]
            example = {"study": "shown", "experiments": {"shown": {"seeds": 1}}} | example
        assert any(is_valid(model, example) for model in models), text


def is_valid(model, example):
    try:
        model.model_validate(example)
    except ValidationError as error:
        return all(problem["type"] == "missing" for problem in error.errors())
    return True


def test_the_example_of_the_readme_is_planned(tmp_path):
    (study,) = (text for text in blocks(ROOT / "README.md", "yaml") if "\nstudy: " in text)
    (tmp_path / "study.yaml").write_text(study, encoding="utf-8")
    assert len(config.study(tmp_path / "study.yaml").runs) == 18
