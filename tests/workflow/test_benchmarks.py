"""Benchmarks call what the library has, in the way that it is called now."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
# Script -> its smallest sizes. Left out: those that need a project or tables of their own, and
# `sharpness` and `timing_starts`, which take half a minute at their smallest.
SMALLEST = {
    "accumulation": "--batch-size 512 --pieces 256 --blocks 2",
    "coverage": "--studies 2",
    "landscape": "--points 3 --networks small_cnn",
    "training": "--batch-sizes 4 --blocks 2",
    "trajectory": "--batch-sizes 512 --epochs 1 --blocks 2",
    "update_norms": "--shapes 32x32x3 --batch-size 4 --blocks 2",
}


def imported(tree):
    """Returns what a script has of the library and of the other scripts, by its names there."""
    own = {path.stem for path in SCRIPTS}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in {"batchscope", *own}:
            module = importlib.import_module(node.module)
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                there = hasattr(module, alias.name) or importlib.util.find_spec(name)
                assert there, f"line {node.lineno}: {node.module} has no {alias.name}"
                value = getattr(module, alias.name, None) or importlib.import_module(name)
                found[alias.asname or alias.name] = value
    return found


def resolved(node, names):
    """Returns what an expression such as `step_loop.Batches` is, or None where it is no such."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and inspect.ismodule(module := resolved(node.value, names)):
        assert hasattr(module, node.attr), f"line {node.lineno}: {module.__name__}.{node.attr}"
        return getattr(module, node.attr)
    return None


def private(name, names):
    """Returns the methods of a private name of all classes beside what a script imports."""
    modules = [inspect.getmodule(value) or value for value in names.values()]
    classes = [one for module in modules for one in vars(module).values() if inspect.isclass(one)]
    return [vars(one)[name] for one in classes if name in vars(one)]


def faults(source):
    """Yields the calls of a script that the library would refuse."""
    tree = ast.parse(source)
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, names)
        if not isinstance(node, ast.Call):
            continue
        called, given = resolved(node.func, names), list(node.args)
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called is None and attribute.startswith("_") and not attribute.startswith("__"):
            if not (known := private(attribute, names)):
                yield f"line {node.lineno}: nothing has {attribute}"
                continue
            called, given = known[0], [None, *given]  # of an instance
        starred = any(isinstance(one, ast.Starred) for one in given)
        if not callable(called) or starred or any(one.arg is None for one in node.keywords):
            continue
        try:
            inspect.signature(called).bind(*given, **{one.arg: None for one in node.keywords})
        except TypeError as error:
            yield f"line {node.lineno}: {ast.unparse(node.func)}: {error}"


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_benchmark_calls_is_there(path):
    assert not [*faults(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("training._train_epochs()", "missing a required argument: 'epochs'"),
        ("training._fitted()", "nothing has _fitted"),
        ("trainer.Limits(seconds=1)", "unexpected keyword argument 'seconds'"),
    ],
)
def test_a_call_of_another_signature_is_found(line, fault):
    (found,) = faults(f"from batchscope.training import trainer\n{line}\n")
    assert fault in found


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_at_its_smallest_sizes(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *SMALLEST[name].split()])
    module = importlib.import_module(name)
    if name == "training":
        monkeypatch.setattr(module, "import_seconds", lambda: "not here")
    monkeypatch.setattr(module, "BLOCK_SECONDS", 0.01, raising=False)
    module.main()
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(table) > 1
