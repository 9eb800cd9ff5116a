"""The process that starts the warm process, and that tests kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from project import ROOT


class Launcher:
    """A process that starts the warm process, as Snakemake does, and that can be killed."""

    def __init__(self, idle: float = 0.2) -> None:
        code = (
            "import os, sys; from pathlib import Path;"
            "from batchscope.host import warm_process as warm;"
            f"warm.launch(Path({str(ROOT / 'workflow')!r}), {idle});"
            "print(os.environ[warm.VARIABLE], flush=True); sys.stdin.read()"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.folder = Path(self.process.stdout.readline().strip())
        self.warm = psutil.Process(self.process.pid).children()[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
