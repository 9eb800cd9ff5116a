"""The models that a study may name: those that are built in, and the user's own Python files.

A file is checked without being run, and without Keras; batchscope.training.models runs it.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

from batchscope.catalogue import run_names
from batchscope.problems import Place, Problem, received, unmet

# batchscope.training.networks, which builds them, is above this.
BUILT_IN_MODELS = (
    "benchmark_cnn",
    "campbell_cnn",
    "chang_vgg",
    "keskar_f1",
    "keskar_f1_plain",
    "lheureux_cnn",
    "small_cnn",
    "tutorial_cnn",
)


def token(name: str, path: str) -> str:
    """Returns the token of a user's model: its name and a digest of its file's bytes."""
    sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return run_names.token(name, run_names.digest(sha256))


def problem(place: Place, path: str) -> Problem | None:
    """Returns what is wrong with a user's model file, or None.

    Args:
        place: Where the configuration names it.
        path: Its path.
    """
    why = unmet(Path(path), Path.is_file) if path.endswith(".py") else ""
    if why is None:
        why = unmet(Path(path), Path.read_bytes)
    if why is not None:
        expected = "an existing Python file or a built-in model"
        return received(place, path, expected, BUILT_IN_MODELS, why)
    try:
        tree = ast.parse(Path(path).read_bytes(), path)
    except (SyntaxError, ValueError) as error:
        at = f" (line {error.lineno}: {error.msg})" if isinstance(error, SyntaxError) else ""
        return received(place, path, f"a file of valid Python{at}")
    except (MemoryError, RecursionError):
        return received(place, path, "a file of valid Python, less deeply nested,")
    if not _binds_build(tree):
        return received(place, path, "a file that defines build(input_shape, classes)")
    return None


def _binds_build(tree: ast.Module) -> bool:
    """Whether a module may bind the name `build`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == "build":
            return True
        if isinstance(node, ast.ImportFrom | ast.Import):
            bound = {alias.asname or alias.name for alias in node.names}
            if bound & {"build", "*"}:
                return True
        if any(
            isinstance(part, ast.Name) and part.id == "build" and isinstance(part.ctx, ast.Store)
            for part in ast.walk(node)
        ):
            return True
    return False
