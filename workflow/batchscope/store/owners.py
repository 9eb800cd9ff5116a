"""The configuration file of a study's tables: another file with this study name is refused.

The folder of the tables has a note with the path of the file. Each call of Snakemake writes the
note again, so that the latest note tells which study ran last.
"""

import contextlib
import os
from pathlib import Path

from batchscope.core import disk
from batchscope.core.errors import ConfigError, UserError
from batchscope.study import yaml_file

FILE = "owner.json"


def check(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Refuse a folder with the tables of another file that still names the study.

    Raises:
        ConfigError: If there is such a file.
        UserError: If the note is damaged.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return
    owner = Path(folder, str(disk.read_json(path).get("config")))
    if not owner.is_file() or owner.samefile(config_path):
        return
    with contextlib.suppress(UserError):  # a file that cannot be read may name the study
        if yaml_file.read(owner).get("study") != study:
            return
    other = os.path.relpath(owner.resolve())
    raise ConfigError(
        [
            f"study: received '{study}', as in {other}, with tables in {Path(folder)}; a name that "
            f"no other file has is expected. Change `study:` in {config_path}, or delete {other}."
        ]
    )


def claim(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Note that a folder's tables are made from a file; raise as `check` does."""
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
