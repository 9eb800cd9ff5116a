"""Check files of user-defined models, and compute their digests, without running them.

A file is Python, or a model that Keras saved; batchscope.training.user_models runs it. Its digest
covers imported modules of the same folder, and files whose paths occur as texts, such as weights.
The files are parsed, never imported.
"""

from __future__ import annotations

import ast
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchscope import disk
from batchscope.errors import UserError
from batchscope.problems import Place, Problem, received, unmet
from batchscope.study import names, setting
from batchscope.study.networks import NETWORKS

# Modules that are imported before any model file. Local files of these names are never used.
_IMPORTED = {*sys.stdlib_module_names, "batchscope", "keras", "numpy", "tensorflow"}


EXPECTED = "build(input_shape, classes) or `model`, a Keras model,"
_SAVED = (".keras", ".h5", ".hdf5")
_HDF5 = b"\x89HDF\r\n\x1a\n"  # the first bytes of a file
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Unparsed(UserError):
    """A file with invalid Python, or without read permission: `why` is ` (Permission denied)`."""

    def __init__(self, file: Path, expected: str, why: str = "") -> None:
        super().__init__(f"{file}: received{why or ' broken Python'}; {expected} is expected.")
        self.file, self.expected, self.why = file, expected, why


def expanded(path: Any) -> Any:
    """Return a path with a user's home for `~`; return any other type unchanged."""
    return os.path.expanduser(path) if isinstance(path, str) else path


def token(name: str, path: str) -> str:
    return names.token(name, digest(path))


def digest(path: Path | str) -> str:
    """Return a digest of a model file, its local modules and the files that it names.

    Raises:
        UserError: If one of its modules is invalid Python or cannot be read.
    """
    folder = Path(path).parent
    files = sorted(file for file in local_modules(path).values() if file.is_file())
    digests = {file.relative_to(folder).as_posix(): disk.file_sha256(file) for file in files}
    digests |= {text: disk.file_sha256(file) for text, file in named_files(path).items()}
    return setting.digest([disk.file_sha256(Path(path)), digests])


def is_saved(path: Path | str) -> bool:
    return Path(path).suffix in _SAVED


def named_files(path: Path | str) -> dict[str, Path]:
    """Return the files whose paths occur as texts in a model file or in its local modules.

    Only paths with a suffix count, since a layer's name may be the name of a file. Paths are
    relative to the file's folder or to the working directory; `"/weights.h5"` may be appended to a
    folder's path.
    """
    modules = [file for file in local_modules(path).values() if file.is_file()]
    sources = [] if is_saved(path) else [Path(path), *modules]
    texts = {
        node.value
        for source in sources
        for node in ast.walk(_parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    files = {}
    for text in sorted(text for text in texts if Path(text).suffix):
        for file in (os.path.join(Path(path).parent, text.lstrip("/")), text):
            readable = os.path.isfile(file) and os.access(file, os.R_OK)
            if readable and Path(file) not in sources:
                files.setdefault(text, Path(file))
    return files


def local_modules(path: Path | str) -> dict[str, Path]:
    """Return the modules in a model file's folder that it imports, directly or indirectly.

    Only import statements are found, since nothing is run.

    Returns:
        Dotted name -> file, or the folder of a package without `__init__.py`.

    Raises:
        UserError: If one of them is invalid Python or cannot be read.
    """
    folder = Path(path).parent
    modules: dict[str, Path] = {}
    waiting = [] if is_saved(path) else [((), Path(path))]
    while waiting:
        package, file = waiting.pop()
        for name in _imports(_parse(file), package):
            parts = tuple(name.split("."))
            for module, source in _sources(folder, parts):
                key = ".".join(module)
                if key not in modules and source != Path(path):
                    modules[key] = source
                    if source.is_file():
                        inside = source.name == "__init__.py"
                        waiting.append((module if inside else module[:-1], source))
    return modules


def _sources(folder: Path, parts: tuple[str, ...]) -> list[tuple[tuple[str, ...], Path]]:
    """Return the existing modules of a dotted name, from its first part on."""
    modules: list[tuple[tuple[str, ...], Path]] = []
    for count in range(1, len(parts) + 1) if parts[0] not in _IMPORTED else ():
        place = folder.joinpath(*parts[:count])
        files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
        source = next(filter(os.path.isfile, files), place)
        if source == place and not os.path.isdir(place):
            break
        modules.append((parts[:count], source))
    while modules and os.path.isdir(modules[-1][1]):  # nothing is imported from it
        modules.pop()
    return modules


def _imports(tree: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the dotted names that a module may import; some are attributes of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: max(0, len(package) + 1 - node.level)] if node.level else ()
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except OSError as error:
        raise _Unparsed(file, "a file that can be read", f" ({error.strerror})") from None
    except (SyntaxError, ValueError) as error:
        at = f" (line {error.lineno}: {error.msg})" if isinstance(error, SyntaxError) else ""
        raise _Unparsed(file, f"a file of valid Python{at}") from None
    except (MemoryError, RecursionError):
        raise _Unparsed(file, "a file of valid Python, less deeply nested,") from None


def problem(place: Place, path: str) -> Problem | None:
    """Return the problem of a user's model file, or None."""
    why = unmet(Path(path), Path.is_file) if path.endswith((".py", *_SAVED)) else ""
    if why is None:
        why = unmet(Path(path), Path.read_bytes)
    if why is not None:
        expected = "an existing Python file, a .keras or .h5 file or a built-in model"
        return received(place, path, expected, NETWORKS, why)
    if is_saved(path):
        zipped = Path(path).suffix == ".keras"
        valid = zipfile.is_zipfile(path) if zipped else Path(path).read_bytes().startswith(_HDF5)
        return None if valid else received(place, path, "a model that Keras saved")
    try:
        tree = _parse(Path(path))
        local_modules(path)
    except _Unparsed as fault:
        other = fault.file != Path(path)
        which = f", which imports {fault.file.relative_to(Path(path).parent)}" if other else ""
        return received(place, path, fault.expected, why=which + fault.why)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            dots = "." * node.level
            got = f" with an import from '{dots}{node.module or ''}' (line {node.lineno})"
            expected = "an import without dots: modules are found in the file's folder,"
            return received(place, path, expected, why=got)
    builds = any(isinstance(node, _FUNCTIONS) and node.name == "build" for node in tree.body)
    if not builds and (line := _training_line(tree)):
        got = f" with a training when it is imported (line {line})"
        expected = "a file that only builds the model, with the training in a function or below "
        return received(place, path, f"{expected}`if __name__ == '__main__':`", why=got)
    if not _binds_model(tree):
        return received(place, path, f"a file that defines {EXPECTED}")
    return None


def _training_line(tree: ast.Module) -> int | None:
    """Return the line of the first call of `fit` that an import of the module makes."""
    for node in tree.body:
        guarded = isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        runs = not guarded and not isinstance(node, (*_FUNCTIONS, ast.ClassDef))
        for inner in ast.walk(node) if runs else ():
            called = inner.func if isinstance(inner, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ("fit", "train_on_batch"):
                return inner.lineno
    return None


def _binds_model(tree: ast.Module) -> bool:
    """Return whether a module may define `build` with two arguments, or `model`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "build":
            return _takes_two(node.args)
    for node in (node for node in tree.body if not isinstance(node, _FUNCTIONS)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            bound = {alias.asname or alias.name for alias in node.names}
        else:
            bound = {getattr(node, "name", None)} if isinstance(node, ast.ClassDef) else set()
            names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
            bound |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        if bound & {"build", "model", "*"}:
            return True
    return False


def _takes_two(arguments: ast.arguments) -> bool:
    """Return whether a function can be called with two positional arguments."""
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    keywords = any(default is None for default in arguments.kw_defaults)
    return least <= 2 and (most >= 2 or arguments.vararg is not None) and not keywords
