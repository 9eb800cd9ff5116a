"""Whose tables a study's folder holds: two files that name one study would overwrite them.

The folder keeps the path of the configuration file that its tables are made from. Each call of
Snakemake writes it again, so that the latest one tells which study ran last.
"""

import os
from pathlib import Path

from batchscope import disk
from batchscope.errors import ConfigError, UserError
from batchscope.study import yaml_file

FILE = "owner.json"


def check(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Refuses a folder whose tables are those of another file that names the study too.

    A file that was moved, or that names another study by now, keeps none.

    Raises:
        ConfigError: If they are.
        UserError: If the folder's record of it is damaged.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return
    owner = Path(folder, str(disk.read_json(path).get("config")))
    if not owner.is_file() or owner.samefile(config_path) or not _names(owner, study):
        return
    other = os.path.relpath(owner.resolve())
    raise ConfigError(
        [
            f"study: received '{study}', as in {other}, whose tables lie in {Path(folder)}; a name "
            f"that no other file has is expected. Change `study:` in {config_path}, or delete "
            f"{other}."
        ]
    )


def claim(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Records that a folder's tables are made from a file; raises as `check` does."""
    check(folder, study, config_path)
    # Relative, so that a project may move with its results.
    path = os.path.relpath(Path(config_path).resolve(), Path(folder).resolve())
    disk.write_json(Path(folder) / FILE, {"config": path})


def last(results: Path | str) -> tuple[str, str] | None:
    """Return configuration file and scale of the study that ran last; None before the first."""
    owners = list(Path(results).glob(f"studies/*/{FILE}"))
    if not owners:
        return None
    owner = max(owners, key=lambda path: path.stat().st_mtime)
    config_path = os.path.normpath(owner.parent / disk.read_json(owner, "config")["config"])
    return config_path, "reduced" if owner.parent.name.endswith("-reduced") else "full"


def _names(path: Path, study: str) -> bool:
    """Whether a configuration file names a study; one that cannot be read may."""
    try:
        return yaml_file.read(path).get("study") == study
    except UserError:
        return True
