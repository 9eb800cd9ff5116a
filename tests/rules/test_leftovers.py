"""Leftovers of killed processes go; files of running processes and of users stay."""

import os
import time

import pytest

from batchscope.core import disk
from batchscope.host import memory_limits
from batchscope.rules import session
from batchscope.store import paths


def age(path, days):
    date = time.time() - days * 24 * 3600
    os.utime(path, (date, date))


@pytest.mark.parametrize("days", [0, 2])
def test_old_temporary_files_and_folders_go(tmp_path, days):
    files = [tmp_path / "runs" / ".a.json.abcdefgh.tmp", tmp_path / ".b.abcdefgh.tmp" / "new" / "c"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    age(files[0], days)
    age(tmp_path / ".b.abcdefgh.tmp", days)
    with disk.atomic_path(tmp_path / "a.json") as file, disk.atomic_folder(tmp_path / "c"):
        session.delete_leftovers(tmp_path)
        assert file.exists()
    assert (tmp_path / "c").is_dir()
    assert [file.exists() for file in files] == [not days] * 2


def test_files_of_a_command_stay(tmp_path):
    run = tmp_path / "runs" / "command-1"
    file = run / paths.COMMAND_FOLDER / ".a.json.abcdefgh.tmp"
    file.parent.mkdir(parents=True)
    for path in (file, run / paths.COMMAND_NOTE):
        path.touch()
    age(file, 2)
    session.delete_leftovers(tmp_path)
    assert file.exists()


def test_the_checkpoint_of_a_finished_run_goes(tmp_path):
    finished, again = tmp_path / "runs" / "finished", tmp_path / "runs" / "again"
    for folder, record_age in ((finished, 0), (again, 1)):
        folder.mkdir(parents=True)
        for name in (paths.CHECKPOINT, memory_limits.KILL_NOTE, paths.RECORD):
            (folder / name).touch()
        age(folder / paths.RECORD, record_age)
    session.delete_leftovers(tmp_path)
    assert [path.name for path in finished.iterdir()] == [paths.RECORD]
    assert len(list(again.iterdir())) == 3  # a training that was started again
