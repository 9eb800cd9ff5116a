"""The jobs of a bundle: one after the other, whatever becomes of one of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batchscope import project_files
from batchscope.cli import bundle
from batchscope.errors import UserError
from batchscope.host import fork_server
from batchscope.store import bundles, paths

# Stands for the command line: notes its call and writes the file that it is given.
PROGRAM = """
import sys, time
from pathlib import Path
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
output = Path(words["--output"])
with open(output.parent / "calls", "a") as calls: print(sys.argv[1], output.name, file=calls)
if sys.argv[1] == "wait":
    (output.parent / "waits").touch()
    try:
        time.sleep(60)
    finally:
        sys.exit(85)
if sys.argv[1] == "fail":
    print("why it failed")
    sys.exit(1)
output.touch()
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a bundle of steps, each `word of the step: its name`, with what it needs."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(project_files, "CLI", program)
    monkeypatch.setenv(fork_server.SNAKEMAKE_PID, "0")  # no process to fork from is started

    def write(*steps, seconds_at_most=None):
        made = bundles.Bundle(
            steps=tuple(
                bundles.Step(
                    files=(str(tmp_path / name),),
                    words=(word, "--output", str(tmp_path / name)),
                    log=str(tmp_path / "logs" / f"{name}.log"),
                    after=tuple(str(tmp_path / each) for each in after),
                )
                for word, name, *after in steps
            ),
            data=(),
            threads=1,
            gpus=0,
            memory_mb=1,
            alone=False,
            seconds=None,
            seconds_at_most=seconds_at_most,
        )
        made.write(tmp_path)
        return made.name

    return write


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_what_is_there_is_not_made(written, tmp_path):
    name = written(("make", "a"), ("make", "b", "a"))
    (tmp_path / "a").touch()
    bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["make b"]
    end = json.loads(paths.bundle_file(tmp_path, name, paths.BUNDLE_MADE).read_text())
    assert end == {"jobs": 1}


def test_a_failure_keeps_only_what_needs_it_from_being_made(written, tmp_path):
    name = written(("fail", "a"), ("make", "b", "a"), ("make", "c"))
    with pytest.raises(UserError) as raised:
        bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["fail a", "make c"]
    text = str(raised.value)
    assert "1 of 2" in text and "why it failed" in text and str(tmp_path / "logs" / "a.log") in text
    assert not paths.bundle_file(tmp_path, name, paths.BUNDLE_MADE).exists()
    with pytest.raises(UserError):  # sent again: what was made stays
        bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["fail a", "make c", "fail a"]


def test_what_needs_a_run_that_another_bundle_left_is_left_too(written, tmp_path):
    """As a measure of two runs, of which one came to no turn within its bundle's time."""
    name = written(("make", "a", "elsewhere"), ("make", "b"))
    bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["make b"]
    (tmp_path / "elsewhere").touch()
    bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["make b", "make a"]


def test_after_its_time_it_leaves_the_rest_to_others(written, tmp_path):
    name = written(("make", "a"), ("make", "b"), ("make", "c"), seconds_at_most=0.0)
    bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["make a"]
    assert paths.bundle_file(tmp_path, name, paths.BUNDLE_MADE).exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_step_under_way_and_starts_no_other(written, tmp_path, signum):
    name = written(("make", "a"), ("wait", "b"), ("make", "c"))
    program = (
        "import sys; from pathlib import Path; from batchscope import project_files;"
        "from batchscope.cli import bundle; from batchscope.errors import Interrupted\n"
        "project_files.CLI = Path(sys.argv[1])\n"
        "try: bundle.make(Path(sys.argv[2]), sys.argv[3])\n"
        "except Interrupted: sys.exit(85)"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "program.py"), str(tmp_path), name]
    process = subprocess.Popen(words, env=None, cwd=project_files.WORKFLOW)
    end = time.monotonic() + 60
    while not (tmp_path / "waits").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signum)
    assert process.wait(60) == 85
    assert calls(tmp_path) == ["make a", "wait b"]


def test_a_record_that_is_planned_anew_goes_when_its_step_begins(written, tmp_path):
    """Not before: whatever keeps the bundle from being run keeps it."""
    for record in ("a.json", "b.json"):
        (tmp_path / record).write_text("of an older version")
        os.utime(tmp_path / record, (1.0, 1.0))
    name = written(("fail", "a.json"), ("make", "b.json"))
    assert (tmp_path / "a.json").exists()
    with pytest.raises(UserError):
        bundle.make(tmp_path, name)
    assert not (tmp_path / "a.json").exists() and (tmp_path / "b.json").read_text() == ""
    with pytest.raises(UserError):
        bundle.make(tmp_path, name)
    assert calls(tmp_path) == ["fail a.json", "make b.json", "fail a.json"]
