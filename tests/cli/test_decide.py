"""`decide` repeats a command of Snakemake, once per stage."""

import subprocess
from pathlib import Path

import pytest
import yaml

import run
import small_study
from batchscope.core import disk
from batchscope.store import interims, paths

COLUMNS = ("experiment", "planned", "seeds_to_resolve", "seeds", "runs")


@pytest.fixture
def snakemake(tmp_path, monkeypatch):
    """Commands that were run; each writes the next interim analysis, the third leaves none open."""
    monkeypatch.chdir(tmp_path)
    seeds = {"until": "decided", "at_most": 28}
    study = small_study.config(experiment={"seeds": seeds})
    Path("study.yaml").write_text(yaml.safe_dump(study))
    commands = []

    def make_stage(command):
        commands.append(command[1:])
        number = interims.count("results", "s") + 1
        if "-n" not in command:
            path = paths.interim_table("results", "s", number)
            path.parent.mkdir(parents=True, exist_ok=True)
            cells = ("a", "28", "", "" if number >= 3 else "9", "[]")
            disk.write_rows(path, COLUMNS, [dict(zip(COLUMNS, cells, strict=True))])
        return subprocess.CompletedProcess(command, 3 if "--fail" in command else 0)

    monkeypatch.setattr(subprocess, "run", make_stage)
    return commands


def test_the_command_is_repeated_until_nothing_is_open(snakemake):
    options = ["--cores", "2", "--configfile", "study.yaml", "--config", "partial=false"]
    run.main(["decide", *options])
    assert snakemake == [["-m", "snakemake", *options]] * 3
    run.main(["decide", *options])
    assert len(snakemake) == 4


@pytest.mark.parametrize(("option", "status"), [("--fail", 3), ("-n", "no interim analysis")])
def test_a_command_that_makes_no_stage_is_not_repeated(snakemake, option, status):
    with pytest.raises(SystemExit) as end:
        run.main(["decide", option, "--configfile", "study.yaml"])
    assert len(snakemake) == 1
    assert end.value.code == status or status in str(end.value.code)


def test_a_study_without_stages_is_run_once(snakemake):
    Path("config.yaml").write_text(yaml.safe_dump(small_study.config()))
    run.main(["decide", "--cores", "2"])
    assert snakemake == [["-m", "snakemake", "--cores", "2"]]
