"""Environments of frameworks: where they lie, when they count as installed, and their making."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import project
from batchscope import project_files
from batchscope.catalogue import framework_names
from batchscope.errors import UserError
from batchscope.host import framework_environments

EVERY = list(framework_names.FRAMEWORKS)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder for environments, and pins that a test may change."""
    monkeypatch.setenv(framework_environments.VARIABLE, str(tmp_path / "shared"))
    locks = tmp_path / "locks"
    locks.mkdir()
    for framework in EVERY:
        (locks / f"{framework}.lock").write_text("# nothing\n")
    monkeypatch.setattr(project_files, "LOCKS", locks)
    return tmp_path / "shared"


def test_an_environment_lies_below_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv(framework_environments.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert framework_environments.folder("jax") == Path(".frameworks/jax")
    assert framework_environments.python("jax") == tmp_path / ".frameworks/jax/bin/python"
    monkeypatch.setenv(framework_environments.VARIABLE, "/elsewhere")
    assert framework_environments.record("jax") == Path("/elsewhere/jax/installed.json")


def test_tensorflow_is_always_there():
    assert framework_environments.installed("tensorflow")


def accepted(command, **_):
    """Stands for `subprocess.run`: an environment is made, and pip installs."""
    if "venv" in command:
        (Path(command[-1]) / "bin").mkdir(parents=True)
        (Path(command[-1]) / "bin" / "python").touch()
    return subprocess.CompletedProcess(command, 0, "pip 1.0\n")


@pytest.mark.slow
def test_an_installation_from_empty_pins(place, monkeypatch):
    """No download: the environment has pip alone."""
    assert not framework_environments.installed("jax")
    framework_environments.install("jax", gpu=False)
    assert framework_environments.installed("jax")
    record = json.loads((place / "jax" / "installed.json").read_text())
    assert record["framework"] == "jax" and "pip" in record["packages"]
    prefix = subprocess.run(
        [framework_environments.python("jax"), "-c", "import sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert prefix.stdout.strip() == str(place / "jax")
    # Other pins are another environment, made anew over the old one.
    (place / "jax" / "left_over").touch()
    framework_environments.lock("jax").write_text("# something\n")
    assert not framework_environments.installed("jax")
    monkeypatch.setattr(subprocess, "run", accepted)  # venv and pip ran above
    framework_environments.install("jax", gpu=False)
    assert framework_environments.installed("jax") and not (place / "jax" / "left_over").exists()


def test_a_framework_that_takes_another_python(place, monkeypatch):
    assert [name for name, one in framework_names.FRAMEWORKS.items() if one.python] == ["mxnet"]
    other = replace(framework_names.FRAMEWORKS["mxnet"], python="3.8")
    monkeypatch.setitem(framework_names.FRAMEWORKS, "mxnet", other)
    with pytest.raises(UserError, match=r"MXNet: received Python 3\.\d+; Python 3\.8 is expected"):
        framework_environments.install("mxnet", gpu=False)
    assert not place.exists()


def test_a_record_alone_is_no_installation(place):
    record = framework_environments.record("jax")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"lock_sha256": framework_environments.lock_digest("jax")}))
    assert not framework_environments.installed("jax")
    framework_environments.python("jax").parent.mkdir()
    framework_environments.python("jax").touch()
    assert framework_environments.installed("jax")
    for text in ("[]", "{", '{"lock_sha256": "0"}'):
        record.write_text(text)
        assert not framework_environments.installed("jax")


def refused(command, **_):
    """Stands for `subprocess.run`: an environment is made, and pip finds nothing to put there."""
    if "venv" in command:
        (Path(command[-1]) / "bin").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "")
    named = Path(command[command.index("-r") + 1]).read_text()
    return subprocess.CompletedProcess(command, 1, f"ERROR: No matching distribution: {named}")


@pytest.mark.parametrize("pip", ["replaced", pytest.param("real", marks=pytest.mark.slow)])
def test_a_failed_installation_leaves_nothing(place, monkeypatch, pip):
    if pip == "replaced":
        monkeypatch.setattr(subprocess, "run", refused)
    framework_environments.lock("jax").write_text("--no-index\nno-such-package==1.0\n")
    with pytest.raises(UserError) as raised:
        framework_environments.install("jax", gpu=False)
    message = str(raised.value)
    assert message.startswith("JAX: cannot be installed from envs/jax.lock; ")
    assert "no-such-package==1.0" in message and "Traceback" not in message
    assert not (place / "jax").exists() and not framework_environments.installed("jax")


def test_nothing_but_an_environment_is_taken_away(place):
    (place / "pytorch").mkdir(parents=True)
    (place / "pytorch" / "setup.py").touch()
    with pytest.raises(UserError, match="a folder that holds something else"):
        framework_environments.install("pytorch", gpu=False)
    assert (place / "pytorch" / "setup.py").exists()


def test_an_unknown_framework(place):
    with pytest.raises(UserError, match="received 'theano'; one of pytorch, mxnet, jax"):
        framework_environments.install("theano", gpu=False)


def test_wheels_without_cuda_where_there_is_no_gpu():
    index = "https://download.pytorch.org/whl/cpu"
    for framework in EVERY:
        given = index in framework_environments.pip_command(framework, gpu=False)
        assert given == (framework == "pytorch")
        assert index not in framework_environments.pip_command(framework, gpu=True)
    assert "jax[cuda12]==0.10.2" in framework_environments.pip_command("jax", gpu=True)


@pytest.mark.parametrize("framework", EVERY)
def test_pins_are_exact_and_agree_with_the_projects(framework):
    lines = (project.ROOT / "envs" / f"{framework}.lock").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert len(pins) == len([line for line in lines if line and not line.startswith("#")])
    assert {"numpy", "psutil", "nvidia-ml-py", "pydantic", "pydantic-core"} <= set(pins)
    own = project.locked("requirements.lock")
    shared = {"psutil", "nvidia-ml-py", "pydantic", "pydantic-core"} | (
        {"numpy"} if framework != "mxnet" else set()
    )
    assert all(pins[name] == own[name] for name in shared)
    for requirement in framework_names.FRAMEWORKS[framework].gpu_requirements:
        name, version = re.fullmatch(r"([a-z]+)\[\w+\]==(.+)", requirement).groups()
        assert pins[name] == version


def test_the_door_refuses_another_place(place, tmp_path):
    words = ["workflow/run.py", "install_framework", "--framework", "jax", "--output", "x.json"]
    done = project.python(*words)
    assert done.returncode == 1
    assert done.stderr.startswith("--output: received x.json; ")


def test_a_sweep_of_what_is_not_installed_names_the_command(place, tmp_path):
    sweep = "mnist-c103dbf7+campbell_cnn+bs=32+opt=sgd+dev=cpu+th=1+fw=mxnet"
    words = ["throughput", "--sweep", sweep, "--output", str(tmp_path / "out.json")]
    done = project.python("workflow/run.py", *words, "--model-file")
    assert done.returncode == 1 and not (tmp_path / "out.json").exists()
    assert done.stderr.strip() == (
        "framework: received 'mxnet', which is not installed; snakemake --cores 1 install_mxnet "
        "is expected to be run first."
    )
