"""A process that starts the fork server, and that tests kill."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from project import ROOT


class Launcher:
    """A process that starts the fork server, as Snakemake does, and that can be killed."""

    def __init__(self, workflow: Path = ROOT / "workflow", **pipes: int) -> None:
        code = (
            "import sys; from pathlib import Path; from batchscope.host import fork_server;"
            f"fork_server.launch(Path({str(workflow)!r}));"
            "print(flush=True); sys.stdin.read()"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            **pipes,
        )
        self.process.stdout.readline()
        self.environment = {"BATCHSCOPE_SNAKEMAKE_PID": str(self.process.pid)}  # of its jobs
        self.server = psutil.Process(self.process.pid).children()[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
