"""Results of another machine or cluster, copied beside this project, become part of its own.

What is missing here is copied, each run or record atomically; nothing that is here changes. Passed
over is what another version made, what belongs to another training of the same name, and times of
a machine that has the name of this one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscope import disk
from batchscope.catalogue import command_names
from batchscope.catalogue.measures import MEASURES
from batchscope.catalogue.timings import TIMINGS
from batchscope.errors import UserError
from batchscope.host import locks
from batchscope.store import paths, records

DATA, RUN, MEASURE, TIMING = "data set", "run", "measure", "timing"


@dataclass
class Merged:
    """What was copied, and what was passed over."""

    copied: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((DATA, RUN, MEASURE, TIMING), 0)
    )
    passed_over: list[tuple[Path, str]] = field(default_factory=list)  # path and reason


def merge(source: Path, results: Path) -> Merged:
    """Copies into `results` what it lacks of another folder of results.

    Raises:
        UserError: If that is none, or this one; or where a data set of the same name has other
            arrays, so that no run of it could be compared.
    """
    kinds = [name for name in ("data", "runs", "timing") if (source / name).is_dir()]
    if not kinds or os.path.realpath(source) == os.path.realpath(results):
        raise UserError(
            f"{source}: received {'this project’s own results' if kinds else 'no results'}; a copy "
            "of another machine's folder `results` is expected."
        )
    found = Merged()
    # In this order: what is made of something must be newer.
    for folder in sorted(source.glob(f"data/*/{paths.RECORD}")):
        _merge_data(folder.parent, results, found)
    for path in sorted(source.glob("initial/*")):
        if not (target := results / "initial" / path.name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            disk.copy(path, target)
    for record in sorted(source.glob(f"runs/*/{paths.RECORD}")):
        _merge_run(record.parent, results, found)
    for record in sorted(source.glob("runs/*/*/**/*.json")):
        _merge_measure(record, source, results, found)
    for folder in sorted(source.glob("timing/*")):
        _merge_timings(folder, results, found)
    return found


def _merge_data(folder: Path, results: Path, found: Merged) -> None:
    target = paths.dataset_folder(results, folder.name)
    theirs = disk.read_json(folder / paths.RECORD).get("sha256")
    if (record := paths.dataset_record(results, folder.name)).exists():
        if disk.read_json(record).get("sha256") != theirs:
            raise UserError(
                f"{folder}: received other arrays than {target}; the same ones are expected of a "
                "data set of the same name. Another version of a library prepared one of both."
            )
        return
    _copy_folder(folder, target, theirs or {})
    found.copied[DATA] += 1


def _merge_run(folder: Path, results: Path, found: Merged) -> None:
    """Copies a run without its measures, where it is not here."""
    target, record = paths.run_folder(results, folder.name), disk.read_json(folder / paths.RECORD)
    step = "run_command" if command_names.is_command(folder.name) else "train"
    if paths.run_record(target).exists():
        return
    if other := records.other_version(step, record):
        found.passed_over.append((folder, f"made by version {other}"))
    elif any(map(_held, target.glob("*.lock"))):
        found.passed_over.append((folder, "is being trained here"))
    else:
        digests = {f"{name}.npz": sha for name, sha in (record.get("weights") or {}).items()}
        _copy_folder(folder, target, digests, measures=False)
        found.copied[RUN] += 1


def _held(lock: Path) -> bool:
    """Whether a process holds a lock, which a killed one leaves behind."""
    if (descriptor := locks.take(lock)) is None:
        return True
    os.close(descriptor)
    return False


def _merge_measure(record: Path, source: Path, results: Path, found: Merged) -> None:
    """Copies a measure of a run, or of two, that are the same here."""
    _, run, folder, *others = record.relative_to(source).parts
    if (measure := folder.removesuffix("_to")) not in MEASURES or ".kept" in str(record.parent):
        return  # a file that a command left, or a measure that was killed
    target = results / record.relative_to(source)
    if target.exists():
        return
    if other := records.other_version(measure, disk.read_json(record)):
        found.passed_over.append((record, f"made by version {other}"))
    elif not all(_same(name, source, results) for name in (run, *others[:-1])):
        found.passed_over.append((record, "of another training of the same name"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        for suffix in (*MEASURES[measure].also_writes, record.suffix):  # the record last
            disk.copy(record.with_suffix(suffix), target.with_suffix(suffix))
        found.copied[MEASURE] += 1


def _same(run: str, source: Path, results: Path) -> bool:
    """Whether a run here has the weights that it has there."""
    ours, theirs = (paths.run_record(paths.run_folder(each, run)) for each in (results, source))
    if not (ours.exists() and theirs.exists()):
        return False
    return disk.read_json(ours).get("weights") == disk.read_json(theirs).get("weights")


def _merge_timings(folder: Path, results: Path, found: Merged) -> None:
    """Copies what is missing of a machine's timings, unless another one has its name here."""
    target = results / "timing" / folder.name
    ours, theirs = (
        {_machine(path) for path in each.glob("*/*/*.json")} for each in (target, folder)
    )
    if ours and not theirs <= ours:
        found.passed_over.append((folder, "of another machine of that name"))
        return
    for record in sorted(folder.glob("*/*/*.json")):
        timing, copy = record.parent.name, target / record.relative_to(folder)
        if copy.exists() or timing not in TIMINGS:
            continue
        if other := records.other_version(timing, disk.read_json(record)):
            found.passed_over.append((record, f"made by version {other}"))
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        for suffix in TIMINGS[timing].also_writes:  # folders
            _copy_tree(record.with_name(record.stem + suffix), copy.with_name(copy.stem + suffix))
        disk.copy(record, copy)
        found.copied[TIMING] += 1


def _copy_tree(source: Path, target: Path) -> None:
    with disk.atomic_folder(target) as new:
        shutil.copytree(source, new, dirs_exist_ok=True, symlinks=True)


def _machine(record: Path) -> str:
    """Returns what a timing's machine is, as text; without what differs from boot to boot."""
    machine: dict[str, Any] = disk.read_json(record).get("machine") or {}
    return str([machine.get(name) for name in ("cpu", "logical_cores", "gpu", "memory_gb")])


def _copy_folder(
    source: Path, target: Path, digests: dict[str, str], measures: bool = True
) -> None:
    """Copies a folder atomically, its record last; raises `UserError` of a file that is damaged.

    Args:
        digests: File -> its SHA-256, as its record has it.
        measures: Whether the folders in it that measures write are copied too.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with disk.atomic_folder(target) as new:
        for path in _files(source, measures):
            copy = new / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            disk.copy(path, copy)
        for name, sha256 in digests.items():
            if (path := source / name).exists():
                disk.check_sha256(path, sha256)


def _files(folder: Path, measures: bool) -> Iterator[Path]:
    """Yields the files of a folder: its record after what it is of, before what is made of it."""
    names = {name + end for name in MEASURES for end in ("", "_to")}
    record, later = folder / paths.RECORD, []
    for path in sorted(folder.rglob("*")):
        first = path.relative_to(folder).parts[0]
        if not path.is_file() or path.is_symlink() or path == record:
            continue
        if first in (*names, "epochs"):
            later += [path] if measures or first == "epochs" else []
        else:
            yield path
    yield record
    yield from later
