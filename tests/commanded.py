"""A study whose runs a small script makes, and such runs by hand."""

import json
from pathlib import Path
from typing import Any

import pandas

from batchscope.core import disk
from batchscope.store import paths, records
from batchscope.study import plan, planner
from batchscope.study.registry import VERSIONS
from project import ROOT, python

# Takes its settings as `name=value`; what it does depends on `mode`. Its loss falls with the
# updates, sooner with small batches, as a table of tests.own_table does.
SCRIPT = """
import math, os, random, subprocess, sys, time
from pathlib import Path

given = dict(word.split("=", 1) for word in sys.argv[1:])
mode, out = given.get("mode", "ok"), Path(given["out"])
size, seed, rate = int(given["bs"]), int(given["seed"]), float(given.get("lr", 0.1))
random.seed(seed)
print(f"mode {mode}", flush=True)
wait = Path(os.environ.get("BATCHSCOPE_TEST_WAIT", "nowhere"))
while wait.exists() and wait.read_text() in ("", str(size)):
    time.sleep(0.05)
with open(out / "log.csv", "a") as file:
    if file.tell() == 0:
        print("step,val_loss,test_accuracy", file=file)
    for step in range(20, 401, 20):
        loss = 2 * math.exp(-step * rate / (1 + 40 / size)) + 0.05 + 0.001 * random.random()
        print(f"{step},{loss},{1 - loss / 4}", file=file)
    if mode in ("nan", "nan_exit"):
        print("420,nan,0.1", file=file)
if mode in ("exit", "nan_exit"):
    print("the script gave up")
    sys.exit(3)
if mode == "memory":
    raise MemoryError("cannot have that much")
if mode == "killed":
    os.kill(os.getpid(), 9)
if mode == "no_log":
    os.remove(out / "log.csv")
"""
WORDS = ["python", "script.py", "bs={batch_size}", "seed={seed}", "out={run_dir}"]
LOG = {"file": "{run_dir}/log.csv", "columns": {"updates": "step", "validation_loss": "val_loss"}}


def experiment(*words: str, **keys) -> dict:
    """An experiment whose command is given further words; a key that is None is left out."""
    given = {"command": [*WORDS, *words], "inputs": ["script.py"], "log": LOG, "seeds": 1}
    given |= {"vary": {"batch_size": [8, 32, 128]}, **keys}
    return {key: value for key, value in given.items() if value is not None}


def study(folder: Path, *words: str, **keys) -> dict:
    """A study of one such experiment, whose script lies in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "script.py").exists():
        (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    return {"study": "theirs", "experiments": {"a": experiment(*words, **keys)}}


def planned(folder: Path, *words: str, **keys) -> plan.PlannedExperiment:
    """Such an experiment, planned."""
    return planner.make(study(folder, *words, **keys), folder=folder).experiments["a"]


def make(results: Path, name: str, found: plan.PlannedExperiment) -> tuple[int, str]:
    """Makes a run as its job does; returns exit status and output."""
    folder = paths.run_folder(results, name)
    disk.write_json(folder / paths.COMMAND_NOTE, found.commands[name].model_dump())
    done = python(*words(results, name))
    return done.returncode, done.stdout + done.stderr


def write(results: Path, name: str, run: Any, rows: pandas.DataFrame, **record: Any) -> None:
    """Writes what a run leaves, its evaluations among it."""
    folder = paths.run_folder(results, name)
    folder.mkdir(parents=True)
    rows.to_csv(folder / paths.TRAJECTORY, index=False)
    known = {"status": "finished", "version": VERSIONS["run_command"], "contended_seconds": 2.0}
    known |= {"message": "", "memory_peak_mb": 50.0, "train_seconds": None, "threads": 1}
    known |= {"factors": run.factors, "alone": False, **record}
    known["sha256"] = records.file_sha256(folder, [paths.TRAJECTORY])
    disk.write_json(paths.run_record(folder), known)


def words(results: Path, name: str) -> list[object]:
    """The words of the job of a run."""
    return [ROOT / "workflow" / "run.py", "run_command", "--results", results, "--command", name]


def record(results: Path, name: str) -> dict:
    """The record of a run."""
    return json.loads(paths.run_record(paths.run_folder(results, name)).read_text())
