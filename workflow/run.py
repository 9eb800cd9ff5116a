"""The command line: `python workflow/run.py --help`; every job of the workflow is one call of it.

The logged line of a job can be pasted into a shell to repeat the job by hand. If the fork server
runs a job's step, nothing but `batchscope.host.fork_server` is imported here.
"""

from __future__ import annotations

import sys

from batchscope.host import fork_server


def main(arguments: list[str]) -> None:
    from batchscope.cli import entry

    entry.main(arguments)


if __name__ == "__main__":
    sys.exit(fork_server.run(sys.argv[1:], main))
