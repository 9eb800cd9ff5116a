"""Layout of a data folder, by names alone: class folders, or a folder for each part."""

from __future__ import annotations

import re
from pathlib import Path

# Part -> its usual names in folders, columns and arrays.
NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
PART_OF = {name: part for part, names in NAMES.items() for name in names}
# Files and folders that operating systems add, in lower case.
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")
# Endings of files that are not images.
NOTES = (".txt", ".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".md", ".pdf", ".html")


def numeric_order(name: str) -> list[tuple[int, int | str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def visible_entries(folder: Path) -> list[Path]:
    """Return the entries of a folder by name, without hidden files and files of the system."""
    entries = (
        entry
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and entry.name.casefold() not in _CLUTTER
    )
    # 1 and 01 are equal numbers, so the name decides.
    return sorted(entries, key=lambda entry: (numeric_order(entry.name), entry.name))


def folders(path: Path) -> list[Path]:
    return [entry for entry in visible_entries(path) if entry.is_dir()]


def parts(path: Path) -> dict[str, Path]:
    """Return the folder of each part if `train` and another part exist, else {}."""
    candidates = [folder for folder in folders(path) if folder.name.casefold() in PART_OF]
    part_folders = {PART_OF[folder.name.casefold()]: folder for folder in candidates}
    several = "train" in part_folders and len(part_folders) == len(candidates) > 1
    return {part: part_folders[part] for part in NAMES if part in part_folders} if several else {}


def parts_of_classes(path: Path) -> dict[str, Path]:
    """Return `parts` of a folder of images; {} if `train` has images itself, as a class has."""
    part_folders = parts(path)
    inside = visible_entries(part_folders["train"]) if part_folders else []
    images = (entry.is_file() and entry.suffix.lower() not in NOTES for entry in inside)
    return part_folders if any(map(Path.is_dir, inside)) and not any(images) else {}
