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


def make(path: Path, kind: str) -> str:
    """Makes a broken file; returns the message that is expected of it."""
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(BROKEN[kind])
    with pytest.raises(UserError) as raised:
        yaml_file.read(path.name)
    return str(raised.value)


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    folder = project.copy(tmp_path_factory.mktemp("project"))
    project.write_config(folder, project.TINY)
    shutil.copy(folder / "config.yaml", folder / "good.yaml")
    return folder


def error_lines(clone: Path, *arguments: str) -> list[str]:
    """Returns what a dry-run that is refused says beside Snakemake's word on its profile."""
    done = project.snakemake(clone, "-n", *arguments)
    assert done.returncode != 0
    return [line for line in done.stdout.splitlines() if not line.startswith("Using ")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("name", ["config.yaml", "study.yaml"])
def test_a_broken_file_is_reported_with_its_line(clone, monkeypatch, name, kind):
    monkeypatch.chdir(clone)
    path = clone / name
    try:
        message = make(path, kind)
        arguments = () if name == "config.yaml" else ("--configfile", name)
        assert error_lines(clone, *arguments) == [message]
    finally:
        if path.is_dir():
            path.rmdir()
        project.write_config(clone, project.TINY)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("--configfile", "good.yaml", "data"), ("--config", "scale=reduced", "data")],
)
def test_a_target_behind_an_option_that_takes_several(clone, arguments):
    (line,) = error_lines(clone, *arguments)
    assert line.startswith(f"{arguments[0]}: received ")
    assert "; " in line and " is expected. " in line
    assert f"snakemake TARGET {arguments[0]} " in line


@pytest.mark.slow
def test_a_target_where_it_is_expected(clone):
    jobs = project.planned(clone, "data", "--configfile", "good.yaml")
    assert jobs == project.planned(clone, "--configfile", "good.yaml", "--", "data")
    assert set(jobs) == {"prepare_data", "data"}


def test_every_problem_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_bytes(BROKEN["colon"])
    with pytest.raises(SystemExit) as raised:
        command_line.check(["--cores", "1", "--config", "data", "--configfile", "a.yaml"])
    lines = str(raised.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["--config", "a.yaml"]


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
def test_what_is_given_as_it_must_be(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    path = Path("a.yaml")
    path.write_text(TEXT)
    command_line.check(words)
    if any("a.yaml" in word for word in words):  # it was read
        path.write_bytes(BROKEN["colon"])
        with pytest.raises(SystemExit, match=r"^a\.yaml:"):
            command_line.check(words)


def test_two_studies_are_refused_however_they_are_given():
    with pytest.raises(SystemExit, match="received 2 files"):
        command_line.check(["--configfile", "a.yaml", "--configfile", "b.yaml"])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["-n"], False),
        (["--workflow-profile", "x", "--conda-prefix", "p", "-j4", "-C", "partial=true"], False),
        (["--profile", "slurm"], True),
        (["--profile=slurm"], True),
        (["-e", "slurm"], True),
        (["--executor", "slurm"], True),
        (["-p"], True),
        (["-np"], True),
        (["-pk"], True),
        (["--printshellcmds"], True),
        (["-q", "rules"], True),
        (["--quiet=all"], True),
    ],
)
def test_bars_give_way_to_every_line(words, wanted, monkeypatch):
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    command_line.check(words)
    assert command_line.wants_every_line(words) is wanted
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    assert command_line.wants_every_line(words)
