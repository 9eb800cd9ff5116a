"""Runs Snakemake in forks of one process that has it imported, which takes half of a dry-run.

Each line of standard input is a request, JSON: folder, arguments, environment, and the file that
the output goes to. The answer is a line with the exit status.

The process that local jobs fork from is a fork too, of one that has TensorFlow and the libraries
of figures and reports imported. Nothing of batchscope stays in that: every copy of the project has
its own. A request with a program has that run in another fork of it, with a file for its errors.
"""

import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import stat
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NoReturn

CODE = Path(__file__).resolve().parents[1] / "workflow"
LIBRARIES = ("jinja2", "matplotlib.figure", "pandas", "scipy.optimize")
# What Snakemake imports when it has read its arguments, and what reads a study.
LATER = ("jsonschema", "smart_open", "snakemake.storage")
MOST = 1 << 17  # bytes of a request: a program and its environment


def main() -> None:
    libraries, asks = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        asks.close()
        answer(libraries)
    libraries.close()
    for line in sys.stdin:
        request = json.loads(line)
        output = os.open(request["output"], os.O_WRONLY)
        run = run_program if "program" in request else run_snakemake
        print(run(request, output, asks), flush=True)
        os.close(output)


def run_snakemake(request: dict, output: int, asks: socket.socket) -> int:
    import_snakemake(asks)
    pid = os.fork()
    if pid == 0:
        for descriptor, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
            os.dup2(file, descriptor)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.path[0] = request["folder"]  # as for `python -m`
        sys.argv[1:] = request["arguments"]
        runpy.run_module("snakemake", run_name="__main__", alter_sys=True)  # ends in sys.exit
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@functools.cache
def import_snakemake(asks: socket.socket) -> None:
    import snakemake.cli

    snakemake.cli.get_argument_parser()  # imports every plugin, once for all that are forked
    for library in LATER:
        importlib.import_module(library)
    collect_rarely()
    subprocess.Popen = forking(asks)


def run_program(request: dict, output: int, asks: socket.socket) -> int:
    read, write = os.pipe()
    words = [request["program"], request["arguments"], write]
    place = [request["folder"], request["environment"]]
    files = [os.open(os.devnull, os.O_RDONLY), output, os.open(request["errors"], os.O_WRONLY)]
    socket.send_fds(asks, [json.dumps([*words, *place]).encode()], [*files, write])
    for file in (*files[::2], write):
        os.close(file)
    with os.fdopen(read, "rb") as ended:
        status = ended.read()  # nothing of one that was killed
    return status[0] if status else -signal.SIGKILL


def collect_rarely() -> None:
    """Leaves what is imported out of the collector's rounds, in every fork, and has few of them."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def forking(asks: socket.socket) -> type[subprocess.Popen]:
    """Returns `Popen` that forks the process which local jobs fork from, and starts any other."""

    class Popen(subprocess.Popen):
        def __init__(self, args, *more, **options):
            if args[1:2] != ["-c"] or "entry.serve" not in args[2]:
                super().__init__(args, *more, **options)
                return
            read, write = os.pipe()
            self.stdin = os.fdopen(write, "wb")  # that process lives until it closes
            _, _, program, *words = args
            (listener,) = options["pass_fds"]
            request = [program, words, listener, os.getcwd(), {**os.environ}]
            socket.send_fds(asks, [json.dumps(request).encode()], [read, 1, 2, listener])
            os.close(read)

    return Popen


def answer(libraries: socket.socket) -> NoReturn:
    """Forks a process for each request, until nobody is left to ask."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        request, files, _, _ = socket.recv_fds(libraries, MOST, 4)
        if not request:
            os._exit(0)
        import_libraries()
        if os.fork() == 0:
            become(*json.loads(request), files)
        for file in files:
            os.close(file)


@functools.cache
def import_libraries() -> None:
    sys.path.insert(0, str(CODE))
    from batchscope.host import tensorflow_start

    tensorflow_start.load()
    for library in LIBRARIES:
        importlib.import_module(library)
    for module in [name for name in sys.modules if name.split(".")[0] == "batchscope"]:
        del sys.modules[module]
    sys.path.remove(str(CODE))
    collect_rarely()


def become(
    program: str,
    words: list[str],
    kept: int,
    folder: str,
    environment: dict[str, str],
    files: list[int],
) -> NoReturn:
    """Runs what `python -c PROGRAM WORDS` would, in a session of its own.

    The fourth file is `kept` open. A pipe is given the status in the end.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for file, descriptor in zip(files, (0, 1, 2, kept), strict=True):
        os.dup2(file, descriptor)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:1] = ["", environment.get("PYTHONPATH", "")]
    sys.argv[:] = ["-c", *words]
    piped = stat.S_ISFIFO(os.fstat(kept).st_mode)  # a socket the program closes itself
    status = outcome(program)
    if piped:
        os.write(kept, bytes([status]))
    os._exit(status)


def outcome(program: str) -> int:
    """Runs a program; returns its exit status, with a text that it ends with on standard error."""
    try:
        exec(program, {"__name__": "__main__"})
        return 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
