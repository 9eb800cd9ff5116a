"""Check files of user-defined models, and compute their digests, without running them.

A file is Python, or a model that Keras saved. Its digest covers imported modules of the same folder
and files that its string literals name, such as weights. The files are parsed, never imported.
"""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.core.problems import received, why_unmet
from batchscope.study import model, names

# These modules are imported before any model file, so local files of their names are never used.
_FOREIGN_MODULES = {*sys.stdlib_module_names, "batchscope", "keras", "numpy", "tensorflow"}
_SAVED_SUFFIX = ".keras"


def token(name: str, path: str) -> str:
    """Return the name of a user-defined model in paths, without running its file.

    Raises:
        UserError: If it is no readable Python file or saved model, or imports invalid Python.
    """
    has_suffix = path.endswith((".py", _SAVED_SUFFIX))
    why = why_unmet(Path(path), Path.is_file) if has_suffix else ""
    if why is not None:
        expected = "an existing Python file or a .keras file"
        raise UserError(received((), path, expected, why=why).text)
    try:
        return names.token(name, digest(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}.") from None


def digest(path: Path | str) -> str:
    """Return a digest of a model file, its local modules and the files that it names.

    Raises:
        UserError: If one of its modules is invalid Python or cannot be read.
    """
    folder = Path(path).parent
    files = sorted(local_modules(path).values())
    digests = {file.relative_to(folder).as_posix(): disk.file_sha256(file) for file in files}
    digests |= {text: disk.file_sha256(file) for text, file in named_files(path).items()}
    return model.digest([disk.file_sha256(Path(path)), digests])


def is_saved(path: Path | str) -> bool:
    return Path(path).suffix == _SAVED_SUFFIX


def named_files(path: Path | str) -> dict[str, Path]:
    """Return the files that string literals in a model file or in its local modules name.

    Only paths with a suffix count, since a layer's name may be the name of a file. Paths are
    relative to the file's folder or to the working directory; `"/weights.h5"` may be appended to a
    folder's path.
    """
    sources = [] if is_saved(path) else [Path(path), *local_modules(path).values()]
    nodes = (node for source in sources for node in ast.walk(_parse(source)))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    files = {}
    for text in sorted(text for text in texts if isinstance(text, str) and Path(text).suffix):
        for file in (os.path.join(Path(path).parent, text.lstrip("/")), text):
            readable = os.path.isfile(file) and os.access(file, os.R_OK)
            if readable and Path(file) not in sources:
                files.setdefault(text, Path(file))
    return files


def local_modules(path: Path | str) -> dict[str, Path]:
    """Return the modules in a model file's folder that it imports, by dotted name.

    Only import statements are found, in the file and in the modules, since nothing is run.

    Raises:
        UserError: If one of them is invalid Python or cannot be read.
    """
    modules: dict[str, Path] = {}
    # Files to search for imports, each with the parts of its package's name.
    waiting = [] if is_saved(path) else [(Path(path), ())]
    while waiting:
        file, package = waiting.pop()
        for parts in _imports(_parse(file), package):
            for count in range(1, 1 + len(parts)) if parts[0] not in _FOREIGN_MODULES else ():
                name, stem = parts[:count], Path(path).parent.joinpath(*parts[:count])
                # Path of a package or of a module -> the package of its own relative imports.
                sources = {stem / "__init__.py": name, stem.with_suffix(".py"): name[:-1]}
                source = next(filter(os.path.isfile, sources), Path(path))
                if ".".join(name) not in modules and source != Path(path):
                    modules[".".join(name)] = source
                    waiting.append((source, sources[source]))
    return modules


def _imports(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the parts of dotted names that a module may import; some end with an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: max(0, len(package) + 1 - node.level)] if node.level else ()
            module = node.module.split(".") if node.module else ()
            yield from ((*parents, *module, alias.name) for alias in node.names)


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}.") from None
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        place = f"{file}:{error.lineno}" if isinstance(error, SyntaxError) else file
        reason = getattr(error, "msg", "invalid Python")
        raise UserError(f"{place}: {type(error).__name__}: {reason}.") from None
