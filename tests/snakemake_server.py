"""Runs Snakemake in forks of one process that has it imported, which takes half of a dry-run.

Each line of standard input is a request, JSON: folder, arguments, environment, and the file that
the output goes to. The answer is a line with the exit status.
"""

from __future__ import annotations

import json
import os
import runpy
import sys

import snakemake.cli


def main() -> None:
    snakemake.cli.get_argument_parser()  # imports every plugin, once for all that are forked
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            output = os.open(request["output"], os.O_WRONLY)
            for descriptor, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
                os.dup2(file, descriptor)
            os.environ.clear()
            os.environ.update(request["environment"])
            os.chdir(request["folder"])
            sys.path[0] = request["folder"]  # as for `python -m`
            sys.argv[1:] = request["arguments"]
            runpy.run_module("snakemake", run_name="__main__", alter_sys=True)  # ends in sys.exit
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
