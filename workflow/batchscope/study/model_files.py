"""Check files of user-defined models, and compute their digests, without running them.

A file is Python, or a model that Keras saved; batchscope.training.user_models runs it. Its digest
covers imported modules of the same folder, and files whose paths occur as texts, such as weights.
The files are parsed, never imported.
"""

from __future__ import annotations

import ast
import os
import sys
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


_SAVED = ".keras"


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
    return Path(path).suffix == _SAVED


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
        raise UserError(f"{file}: {error.strerror}.") from None
    except SyntaxError as error:
        raise UserError(f"{file}:{error.lineno}: {type(error).__name__}: {error.msg}.") from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise UserError(f"{file}: {type(error).__name__}: invalid Python.") from None


def problem(place: Place, path: str) -> Problem | None:
    """Return the problem of a user's model file that shows without running it, or None."""
    is_named = path.endswith((".py", _SAVED))
    if not is_named or (why := unmet(Path(path), Path.is_file)) is not None:
        expected = "an existing Python file, a .keras file or a built-in model"
        return received(place, path, expected, NETWORKS, why if is_named else "")
    try:
        digest(path)
    except UserError as error:
        return Problem(place, str(error))
    except OSError as error:
        return Problem(place, f"{path}: {error.strerror}.")
    return None
