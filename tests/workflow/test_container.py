"""Jobs in an Apptainer image: a study with a program that stands for apptainer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import project

APPTAINER = """\
#!/bin/sh
if test "$1" = --version; then echo apptainer version 1.3.4; exit 0; fi
printf '%s\\n' "$*" >> {calls}
while test "$1" != "$PWD/batchscope.sif" && test "$1" != batchscope.sif; do shift; done
shift; exec "$@"
"""


@pytest.mark.slow
def test_each_job_in_the_image(tmp_path):
    root, programs = project.copy(tmp_path / "project"), tmp_path / "bin"
    programs.mkdir()
    (programs / "apptainer").write_text(APPTAINER.format(calls=tmp_path / "calls"))
    (programs / "apptainer").chmod(0o755)
    experiment = {**project.TINY["experiments"]["batch_size"], "seeds": 1}
    project.write_config(root, {**project.TINY, "experiments": {"batch_size": experiment}})
    (root / "batchscope.sif").touch()
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "runs", "--cores", "2", "--sdm", "apptainer"],
        cwd=root,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum("batchscope.sif" in call for call in calls) == 3  # the data, two runs
    assert len([*root.glob("results/runs/*/record.json")]) == 2
