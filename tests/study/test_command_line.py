"""Snakemake's command line: a broken configuration is reported by us, before Snakemake reads it."""

import shutil
from pathlib import Path

import pytest
import yaml

import project
from batchscope.core.errors import UserError
from batchscope.study import command_line, yaml_file

TEXT = yaml.safe_dump(project.TINY)
BROKEN = {
    "tab": b"study: tiny\ndefaults:\n\tepochs: 2\n",
    "colon": b"study tiny\ndefaults:\n  epochs: 2\n",
    "empty": b"",
    "utf_16": TEXT.encode("utf-16"),
    "latin_1": b"study: tiny\ntitle: Gr\xf6\xdfe\n",
    "list": b"- study\n",
    "folder": None,
    "missing": None,
}


def message(path: Path, kind: str) -> str:
    """Write a broken file; return the message that is expected of it."""
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(BROKEN[kind])
    with pytest.raises(UserError) as raised:
        yaml_file.read(path.name)
    return str(raised.value)


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        command_line.check_options(words)
    return str(raised.value)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_reported_before_snakemake_reads_it(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    expected = message(tmp_path / "a.yaml", kind)
    assert refused("-n", "--configfile", "a.yaml") == expected
    lines = refused("--cores", "1", "--config", "data", "--configfile", "a.yaml").splitlines()
    assert lines[0].startswith("--config: ") and lines[1:] == [expected]


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
    [("config.yaml", "colon"), ("config.yaml", "missing"), ("a.yaml", "utf_16")],
)
def test_snakemake_prints_only_the_line_of_a_broken_file(clone, monkeypatch, name, kind):
    monkeypatch.chdir(clone)
    expected = message(clone / name, kind)
    try:
        arguments = () if name == "config.yaml" else ("--configfile", name)
        assert error_lines(clone, *arguments) == [expected]
    finally:
        project.write_config(clone, project.TINY)


@pytest.mark.slow
def test_a_target_where_it_is_expected(clone):
    jobs = project.planned(clone, "data", "--configfile", "good.yaml")
    assert jobs == project.planned(clone, "--configfile", "good.yaml", "--", "data")
    assert set(jobs) == {"prepare_data", "data"}


@pytest.mark.parametrize(
    "words",
    [
        ["--cores", "2"],
        ["-n", "data", "--configfile=a.yaml", "--config", "scale=reduced"],
        ["--configfiles", "a.yaml", "--conda-prefix", "x", "-C", "partial=true"],
        ["--configfile", "a.yaml", "--", "data"],
        ["--configfile"],  # Snakemake says so
    ],
)
def test_a_valid_command_line_is_accepted(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    path = Path("a.yaml")
    path.write_text(TEXT)
    command_line.check_options(words)
    if any("a.yaml" in word for word in words):  # it was read
        path.write_bytes(BROKEN["colon"])
        assert refused(*words).startswith("a.yaml:")


@pytest.mark.parametrize(
    "words",
    ["--configfile a.yaml data", "--configfile a.yaml --configfile b", "--config scale=x data"],
)
def test_two_studies_or_a_target_behind_an_option_are_refused(words):
    option, line = words.split()[0], refused(*words.split())
    assert line.startswith(f"{option}: received ") and f"snakemake TARGET {option} " in line


BARS = ("-n", "--workflow-profile x --conda-prefix p -j4 -C partial=true")
EVERY_LINE = ("--profile slurm", "--profile=slurm", "-e slurm", "--executor slurm", "-p", "-pk")
EVERY_LINE += ("-np", "--printshellcmds", "-q rules", "--quiet=all")


@pytest.mark.parametrize("words", BARS + EVERY_LINE)
def test_bars_are_not_shown_with_every_line(words, monkeypatch):
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    command_line.check_options(words.split())
    assert command_line.wants_every_line(words.split()) == (words in EVERY_LINE)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    assert command_line.wants_every_line(words.split())
