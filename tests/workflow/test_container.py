"""Jobs in an Apptainer image, with a program in the place of apptainer."""

import os
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
def test_each_job_in_the_image(tmp_path, monkeypatch):
    root, programs = project.copy(tmp_path / "project"), tmp_path / "bin"
    programs.mkdir()
    (programs / "apptainer").write_text(APPTAINER.format(calls=tmp_path / "calls"))
    (programs / "apptainer").chmod(0o755)
    experiment = {**project.TINY["experiments"]["batch_size"], "vary": {"batch_size": [256]}}
    project.write_config(root, {**project.TINY, "experiments": {"batch_size": experiment}})
    (root / "batchscope.sif").touch()
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    monkeypatch.setenv("PATH", path)
    project.run(root, "runs", "--sdm", "apptainer")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum("batchscope.sif" in call for call in calls) == 2  # the data and a run
    assert len([*root.glob("results/runs/*/record.json")]) == 1
