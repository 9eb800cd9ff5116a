"""CPU time and memory of another process and its descendants."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time

import psutil
import pytest

from batchscope.timing.instruments.processes import Family
from costs import first

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

# Holds 150 MB, which the processes that it forks share, and some more in each of them.
FORKED = """
import os, sys, time
held = bytearray(b"x") * (150 * 10**6)
workers, more = int(sys.argv[1]), int(sys.argv[2])
filled, fill = os.pipe()
for _ in range(workers):
    if os.fork() == 0:
        own = bytearray(b"x") * (more * 10**6)
        os.write(fill, b"x")
        time.sleep(60)
for _ in range(workers):
    os.read(filled, 1)
print("ready", flush=True)
time.sleep(60)
"""

# Holds 200 MB and starts a process that waits between vfork and exec until somebody writes.
STARTING = """
import os, sys
held = bytearray(b"x") * (200 * 10**6)
print("ready", flush=True)
action = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
pid = os.posix_spawn("/bin/true", ["true"], {}, file_actions=[action])
os.waitpid(pid, 0)
"""


def started(code: str, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-S", "-c", code, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("processes", first([(1, 5), (0, 0), (3, 100)]))
@pytest.mark.slow
def test_memory_that_processes_share_counts_once_and_their_own_each(processes):
    workers, more = processes
    process = started(FORKED, str(workers), str(more))
    family = Family(process.pid)
    try:
        assert len(family.members()) == 1 + workers
        alone = 150 + workers * more
        # An interpreter takes some 10 MB, of which a worker has touched some itself.
        assert alone < family.usage().memory_mb < alone + 12 * (1 + workers)
    finally:
        family.end()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_a_process_that_is_only_starting_has_its_parents_memory(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    process = started(STARTING, str(tmp_path / "pipe"))
    family = Family(process.pid)
    try:
        for _ in range(100):
            if len(family.members()) == 2:
                break
            time.sleep(0.02)
        first, second = family.members()
        assert second.memory_info().vms == first.memory_info().vms
        assert 200 < family.usage().memory_mb < 230
    finally:
        with open(tmp_path / "pipe", "w"):
            assert process.wait(30) == 0
        process.stdout.close()
    assert family.members() == []


@pytest.mark.slow
def test_what_has_ended_holds_nothing_and_is_not_once_it_was_waited_for():
    code = "import time\nwhile time.process_time() < 0.3: pass"
    process = subprocess.Popen([sys.executable, "-S", "-c", code])
    family = Family(process.pid)
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.02)
    used = family.usage()
    assert math.isnan(used.memory_mb) and used.cpu_seconds == pytest.approx(0.3, abs=0.1)
    process.wait()
    assert family.members() == [] and family.usage() is None
    family.end()
    assert Family(process.pid).usage() is None


@pytest.mark.slow
def test_all_of_a_family_are_ended():
    process = started(FORKED, "2", "1")
    family = Family(process.pid)
    members = family.members()
    family.end()
    process.wait()
    process.stdout.close()
    gone, alive = psutil.wait_procs(members, timeout=10)
    assert len(gone) == 3 and not alive
    assert family.usage() is None
