"""Snakemake's command line: a broken configuration is reported by us, before Snakemake reads it."""

import shutil
from pathlib import Path

import pytest
import yaml

import project
from batchscope.core.errors import UserError
from batchscope.study import command_line, yaml_file

TEXT = yaml.safe_dump(project.TINY)
BROKEN = {"colon": b"study tiny\ndefaults:\n  epochs: 2\n", "utf_16": TEXT.encode("utf-16")}


def message(path: Path, kind: str) -> str:
    """Write a broken file, or none; return the message that is expected."""
    path.unlink(missing_ok=True)
    if kind in BROKEN:
        path.write_bytes(BROKEN[kind])
    with pytest.raises(UserError) as raised:
        yaml_file.read(path.name)
    return str(raised.value)


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        command_line.check_options(words)
    return str(raised.value)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    folder = project.copy(tmp_path_factory.mktemp("project"))
    project.write_config(folder, project.TINY)
    shutil.copy(folder / "config.yaml", folder / "good.yaml")
    return folder


def error_lines(clone: Path, *arguments: str) -> list[str]:
    """Return the output of a refused dry-run, without Snakemake's line on its profile."""
    done = project.snakemake(clone, "-n", *arguments)
    assert done.returncode != 0
    return [line for line in done.stdout.splitlines() if not line.startswith("Using ")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [("config.yaml", "missing"), ("a.yaml", "utf_16")],
)
def test_snakemake_prints_only_the_line_of_a_broken_file(clone, monkeypatch, name, kind):
    monkeypatch.chdir(clone)
    expected = message(clone / name, kind)
    try:
        arguments = () if name == "config.yaml" else ("--configfile", name)
        assert error_lines(clone, *arguments) == [expected]
    finally:
        project.write_config(clone, project.TINY)


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "data", "--configfile=a.yaml", "--config", "scale=reduced"],
        ["--configfiles", "a.yaml", "--conda-prefix", "x", "-C", "partial=true"],
        ["--configfile", "a.yaml", "--", "data"],
    ],
)
def test_the_file_of_a_command_line_is_read(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(TEXT)
    command_line.check_options(words)
    expected = message(Path("a.yaml"), "colon")
    assert refused(*words) == expected


@pytest.mark.parametrize("words", ["--configfile a.yaml data", "--configfile a --configfile b"])
def test_two_studies_or_a_target_behind_an_option_are_refused(words):
    line = refused(*words.split())
    assert line.startswith("--configfile: received ") and "snakemake TARGET --configfile " in line


BARS = ("-n", "--workflow-profile x --conda-prefix p -j4 -C partial=true")
EVERY_LINE = ("--profile slurm", "--profile=slurm", "-e slurm", "-np", "-q rules", "--quiet=all")


@pytest.mark.parametrize("words", BARS + EVERY_LINE)
def test_bars_are_not_shown_with_every_line(words, monkeypatch):
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    assert command_line.wants_every_line(words.split()) == (words in EVERY_LINE)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    assert command_line.wants_every_line(words.split())
