"""Note which configuration file owns a study's tables, and refuse another file with its name.

The note is in the folder of the tables. Each call of Snakemake writes it again, so that the latest
note belongs to the study that ran last.
"""

import contextlib
import os
from pathlib import Path

from batchscope.core import disk
from batchscope.core.errors import ConfigError, UserError
from batchscope.study import yaml_file

FILE = "owner.json"


def check_owner(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Check that the tables in a folder do not belong to another file with this study name.

    Raises:
        ConfigError: If they do, and the other file still has this name.
        UserError: If the note is damaged.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return
    owner = Path(folder, str(disk.read_json(path).get("config")))
    if not owner.is_file() or owner.samefile(config_path):
        return
    with contextlib.suppress(UserError):  # An unreadable file may have the study name.
        if yaml_file.read(owner).get("study") != study:
            return
    other = os.path.relpath(owner.resolve())
    raise ConfigError(
        [
            f"study: received '{study}', as in {other}, with tables in {Path(folder)}; a name that "
            f"no other file has is expected. Change `study:` in {config_path}, or delete {other}."
        ]
    )


def note_owner(folder: Path | str, study: str, config_path: Path | str) -> None:
    """Write the note that a file owns a folder's tables; raise errors as `check_owner` does."""
    check_owner(folder, study, config_path)
    # The path is relative, so that a project can move with its results.
    path = os.path.relpath(Path(config_path).resolve(), Path(folder).resolve())
    disk.write_json(Path(folder) / FILE, {"config": path})


def last_config(results: Path | str) -> tuple[str, str] | None:
    """Return configuration file and scale of the study that ran last; None before the first run."""
    owners = list(Path(results).glob(f"studies/*/{FILE}"))
    if not owners:
        return None
    owner = max(owners, key=lambda path: path.stat().st_mtime)
    config_path = os.path.normpath(owner.parent / disk.read_json(owner, "config")["config"])
    return config_path, "reduced" if owner.parent.name.endswith("-reduced") else "full"
