"""What lies in a folder of data, by names alone: class folders, or a folder of each part."""

from __future__ import annotations

import re
from pathlib import Path

# Part -> what people call it, as folders, columns and arrays have it.
NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
PART_OF = {name: part for part, names in NAMES.items() for name in names}
# What systems leave in folders, beside hidden files.
_CLUTTER = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")
# Endings of files that are no images.
NOTES = (".txt", ".csv", ".tsv", ".json", ".xml", ".yaml", ".yml", ".md", ".pdf", ".html")


def numeric_order(name: str) -> list[tuple[int, int | str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def shown(folder: Path) -> list[Path]:
    """Returns what a folder holds in the order of names, without what is hidden or a system's."""
    found = (
        entry
        for entry in folder.iterdir()
        if not entry.name.startswith(".") and entry.name.casefold() not in _CLUTTER
    )
    # 1 and 01 are one number: a folder has them in the order of their making.
    return sorted(found, key=lambda entry: (numeric_order(entry.name), entry.name))


def folders(path: Path) -> list[Path]:
    return [entry for entry in shown(path) if entry.is_dir()]


def parts(path: Path) -> dict[str, Path]:
    """Returns part -> its folder where there are `train` and another one; else nothing."""
    named = [each for each in folders(path) if each.name.casefold() in PART_OF]
    found = {PART_OF[each.name.casefold()]: each for each in named}
    several = "train" in found and len(found) == len(named) > 1
    return {part: found[part] for part in NAMES if part in found} if several else {}


def parts_of_classes(path: Path) -> dict[str, Path]:
    """Returns `parts` of a folder of images; nothing where `train` itself has images: a class."""
    found = parts(path)
    inside = shown(found["train"]) if found else []
    images = (each.is_file() and each.suffix.lower() not in NOTES for each in inside)
    return found if any(map(Path.is_dir, inside)) and not any(images) else {}
