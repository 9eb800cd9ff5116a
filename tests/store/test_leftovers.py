"""Leftovers of killed processes go; files of running processes and of users stay."""

import os
import time

from batchscope.core import disk
from batchscope.host import memory_limits
from batchscope.store import leftovers, paths
from project import python

KILLED = """
import os, signal, sys
from pathlib import Path
from batchscope.core import disk

folder = Path(sys.argv[1])
with disk.atomic_path(folder / "record.json"), disk.atomic_folder(folder / "figures") as figures:
    (figures / "loss.svg").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_of_killed_processes_go_and_those_of_running_ones_stay(tmp_path):
    python("-c", KILLED, tmp_path / "studies")
    assert len(list((tmp_path / "studies").iterdir())) == 2
    fresh, old = (tmp_path / f".a.json.00000000-{pid}-abcdefgh.tmp" for pid in (1, 2))
    for path in (fresh, old):  # of another machine
        path.touch()
    os.utime(old, (0, time.time() - 2 * 24 * 3600))
    with disk.atomic_path(tmp_path / "a" / "b.json") as file, disk.atomic_folder(tmp_path / "c"):
        leftovers.delete_leftovers(tmp_path)
        assert list((tmp_path / "studies").iterdir()) == []
        assert file.exists() and fresh.exists() and not old.exists()
    assert (tmp_path / "a" / "b.json").exists() and (tmp_path / "c").is_dir()


def test_files_of_a_command_stay(tmp_path):
    python("-c", KILLED, tmp_path / "runs" / "command-1" / paths.COMMAND_FOLDER)
    (tmp_path / "runs" / "command-1" / paths.COMMAND_NOTE).touch()
    before = sorted(tmp_path.rglob("*"))
    leftovers.delete_leftovers(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_checkpoint_of_a_finished_run_goes(tmp_path):
    finished, again = tmp_path / "runs" / "finished", tmp_path / "runs" / "again"
    for folder, record_age in ((finished, 0), (again, 60)):
        folder.mkdir(parents=True)
        for name in (paths.CHECKPOINT, memory_limits.KILL_NOTE, paths.RECORD):
            (folder / name).touch()
        date = time.time() - record_age
        os.utime(folder / paths.RECORD, (date, date))
    leftovers.delete_leftovers(tmp_path)
    assert [path.name for path in finished.iterdir()] == [paths.RECORD]
    assert len(list(again.iterdir())) == 3  # a training that was started again
