"""Run Snakemake in forks of a process that has imported it: the import takes half of a dry-run.

Each line of standard input is a request in JSON: folder, arguments, environment, and the file that
receives the output. The answer is a line with the exit status.

A second process has imported TensorFlow and the libraries of figures and reports. It forks the
process that becomes Snakemake's fork server, and the process of a request that has a program. It
has no module of batchscope: every copy of the project imports its own.
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
# Imported by Snakemake after it has read its arguments, and by the reader of a study.
SNAKEMAKE = ("jsonschema", "smart_open", "snakemake.storage")
MAX_BYTES = 1 << 17  # of a request: a program and its environment


def main() -> None:
    libraries, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        requests.close()
        fork_programs(libraries)
    libraries.close()
    for line in sys.stdin:
        request = json.loads(line)
        output = os.open(request["output"], os.O_WRONLY)
        run = run_program if "program" in request else run_snakemake
        print(run(request, output, requests), flush=True)
        os.close(output)


def run_snakemake(request: dict, output: int, requests: socket.socket) -> int:
    import_snakemake(requests)
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
def import_snakemake(requests: socket.socket) -> None:
    import snakemake.cli

    snakemake.cli.get_argument_parser()  # imports every plugin
    for library in SNAKEMAKE:
        importlib.import_module(library)
    collect_rarely()

    class Popen(subprocess.Popen):
        """Let the second process fork the fork server; start any other program."""

        def __init__(self, args, *more, **options):
            if args[1:2] != ["-c"] or "entry.serve" not in args[2]:
                super().__init__(args, *more, **options)
                return
            read, write = os.pipe()
            self.stdin = os.fdopen(write, "wb")  # the fork server lives until it closes
            (listener,) = options["pass_fds"]
            place = [os.getcwd(), {**os.environ}]
            request_program(requests, [args[2], args[3:], listener, *place], [read, 1, 2, listener])
            os.close(read)

    subprocess.Popen = Popen


def run_program(request: dict, output: int, requests: socket.socket) -> int:
    read, write = os.pipe()
    files = [os.open(os.devnull, os.O_RDONLY), output, os.open(request["errors"], os.O_WRONLY)]
    words = [request["program"], request["arguments"], write]
    words += [request["folder"], request["environment"]]
    request_program(requests, words, [*files, write])
    for file in (*files[::2], write):
        os.close(file)
    with os.fdopen(read, "rb") as end:
        status = end.read()  # empty if the program was killed
    return status[0] if status else -signal.SIGKILL


def request_program(requests: socket.socket, words: list, files: list[int]) -> None:
    socket.send_fds(requests, [json.dumps(words).encode()], files)


def collect_rarely() -> None:
    """Exclude imported modules from garbage collection in every fork, and collect rarely."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def fork_programs(libraries: socket.socket) -> NoReturn:
    """Fork a process for each request, until the first process ends."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for them
    while True:
        request, files, _, _ = socket.recv_fds(libraries, MAX_BYTES, 4)
        if not request:
            os._exit(0)
        import_libraries()
        if os.fork() == 0:
            run_in_session(*json.loads(request), files)
        for file in files:
            os.close(file)


@functools.cache
def import_libraries() -> None:
    sys.path.insert(0, str(CODE))
    from batchscope.host import tensorflow_start

    tensorflow_start.import_keras()
    for library in LIBRARIES:
        importlib.import_module(library)
    for module in [name for name in sys.modules if name.split(".")[0] == "batchscope"]:
        del sys.modules[module]
    sys.path.remove(str(CODE))
    collect_rarely()


def run_in_session(
    program: str,
    words: list[str],
    kept: int,
    folder: str,
    environment: dict[str, str],
    files: list[int],
) -> NoReturn:
    """Do what `python -c PROGRAM WORDS` does, in a new session.

    The fourth file stays open as the descriptor `kept`. If it is a pipe, it receives the status.
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
    is_pipe = stat.S_ISFIFO(os.fstat(kept).st_mode)  # a program closes its socket itself
    status = exit_status(program)
    if is_pipe:
        os.write(kept, bytes([status]))
    os._exit(status)


def exit_status(program: str) -> int:
    """Run a program; return its exit status. The text that it ends with is on standard error."""
    try:
        exec(program, {"__name__": "__main__"})
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
