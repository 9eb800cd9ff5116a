"""Ctrl-C ends jobs and commands without a traceback, at whatever they are."""

import os
import signal
import subprocess
import threading
import time

import pytest

import project
from batchscope.host import interruption

# A step whose main process waits for processes of a pool, each of which waits too.
STEP = """
import concurrent.futures, multiprocessing, os, sys, time
from batchscope.host import fork_server

def wait(number):
    os.write(1, b"waits\\n")
    time.sleep(600)

def main(words):
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        try:
            list(pool.map(wait, range(2)))
        finally:
            print("cleaned", flush=True)

sys.exit(fork_server.run([sys.argv[1]], main))
"""


def start(code: str, *words: str) -> subprocess.Popen:
    return project.start("-c", code, *words, stderr=subprocess.PIPE, start_new_session=True)


@pytest.mark.parametrize("step", ["figures", "train"], ids=["in its process", "in a copy of it"])
def test_ctrl_c_unwinds_a_step_and_its_pool_without_a_traceback(step):
    process = start(STEP, step)
    assert [process.stdout.readline() for _ in range(2)] == ["waits\n"] * 2
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output, errors) == (130, "cleaned\n", "")


IGNORES = """
import os, signal
from batchscope.host import interruption

signal.signal(signal.SIGINT, signal.SIG_IGN)
interruption.install_handler()
interruption.install_snakemake_handler()
os.kill(os.getpid(), signal.SIGINT)
print("goes on")
"""


@pytest.mark.slow
def test_a_process_that_ignores_ctrl_c_continues():
    process = start(IGNORES)
    assert (*process.communicate(timeout=300), process.returncode) == ("goes on\n", "", 0)


# Another thread learns of a job's end before the main thread has run the handler.
LATE = """
import os, signal, threading
from batchscope.host import interruption

interruption.install_snakemake_handler()

def report():
    os.kill(os.getpid(), signal.SIGINT)
    os.write(1, f"{interruption.is_interrupted()}\\n".encode())

thread = threading.Thread(target=report)
try:
    thread.start()
    thread.join()
finally:
    thread.join()
"""


def test_ctrl_c_is_noticed_before_its_handler_has_run():
    process = start(LATE)
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (130, "True\n")
    assert errors == "Interrupted: the same command continues.\n"


def test_a_snakemake_without_the_handler_reports_errors_at_once():
    """On a node of a cluster, no handler answers: an error once waited for a minute."""
    start, answers = time.monotonic(), []
    thread = threading.Thread(target=lambda: answers.append(interruption.is_interrupted()))
    thread.start()
    thread.join()
    assert answers == [False] and time.monotonic() - start < 30
