"""Data sets on disk: read or download them, check, split and load them.

`prepare` writes one folder per data set. Its name contains the digest of the definition. `load`
maps the arrays into memory. Each module of `sources` has a definition and its reader.
"""

from typing import Any

_MODULES = {
    "prepare": "preparation",
    **dict.fromkeys(("Dataset", "Examples", "TaskInfo", "load", "input_and_size"), "prepared"),
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """Import a function when it is first used: planning imports the sources alone."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
