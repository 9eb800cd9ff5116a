"""A file that one process at a time holds."""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from batchscope.core.errors import UserError
from batchscope.host import locks
from project import ROOT

HOLDING = """
import sys
from pathlib import Path
sys.path.insert(0, "workflow")
from batchscope.host import locks
with locks.lock(Path(sys.argv[1]), "do this"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run" / "file"


@pytest.fixture
def holder(path):
    command = [sys.executable, "-c", HOLDING, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_learns_who_holds_it(holder, path, monkeypatch):
    monkeypatch.setattr(locks, "TIMEOUT_SECONDS", 0)
    with pytest.raises(UserError) as caught, locks.lock(path, "do this"):
        pass
    assert str(caught.value).startswith(f"{path.parent}: received ")
    assert f"process {holder.pid} on {socket.gethostname()}" in str(caught.value)


def test_who_is_killed_holds_nothing(holder, path):
    holder.kill()
    with locks.lock(path, "do this"):  # it may take a moment to end
        assert path.read_text().startswith(f"process {os.getpid()} on ")
    assert not path.exists()


def test_a_file_system_without_locks_is_no_error(path, monkeypatch, capsys):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "Refused")

    monkeypatch.setattr(locks.fcntl, "lockf", refuse)
    with locks.lock(path, "train this run"):
        assert "Refused" in capsys.readouterr().err
    assert not path.exists()
