"""Photographs: archives and folders of images, skipped files, and all problems at once."""

import errno
import io
import zipfile

import numpy as np
import pytest
from PIL import ExifTags, Image

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.datasets import preparation
from batchscope.datasets.prepared import input_and_size_from_definition
from batchscope.datasets.sources import photographs
from batchscope.store import paths
from batchscope.study import dataset_definitions
from prepared_data import (
    HOSTILE,
    SHOWN,
    SPLIT,
    THIRDS,
    all_parts,
    fault,
    image_files,
    prepared,
    problems,
    refused,
)


def picture(grey):
    file = io.BytesIO()
    Image.new("RGB", (10, 6), (grey,) * 3).save(file, "JPEG")
    return file.getvalue()


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def cats(path, **options):
    source = {"source": "cats_vs_dogs", "path": str(path), "image_size": 4}
    return {**source, "split": THIRDS, **options}


def members(count=12):
    """Returns a little archive whose pictures are as bright as their number."""
    return {
        f"PetImages/{name}/{number}.jpg": picture(base + number)
        for base, name in ((0, "Cat"), (100, "Dog"))
        for number in range(count)
    }


def test_cats_take_the_first_readable_of_each_class_in_numeric_order(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "SKIPPED_LISTED", 1)  # all are counted
    damaged = {
        "PetImages/Cat/2.jpg": b"",
        "PetImages/Dog/1.jpg": picture(0)[:200],
        "PetImages/Dog/Thumbs.db": b"x",
        "readme[1].txt": b"x",
    }
    path = write_zip(tmp_path / "cats.zip", members() | damaged)
    data = prepared(tmp_path, cats(path, per_class=4))
    assert data.record["class_names"] == ["Cat", "Dog"] and data.input_shape == (4, 4, 3)
    assert data.record["class_counts"] == {"train": [2, 2], "validation": [1, 1], "test": [1, 1]}
    assert data.record["skipped_count"] == 2
    skipped = {"file": "Cat/2.jpg", "reason": "cannot identify image file"}
    assert data.record["skipped"] == [skipped]
    assert data.record["source_sha256"] == {"cats.zip": disk.file_sha256(path)}
    result = {0: set(), 1: set()}
    for split in paths.SPLITS:
        for image, label in zip(data.images(split), data.labels(split), strict=True):
            result[int(label)].add(int(image.max()))
    assert result == {0: {0, 1, 3, 4}, 1: {100, 102, 103, 104}}


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "Input/output error")])
def test_errors_of_the_machine_skip_no_image(error, tmp_path, monkeypatch):
    """The examples of a data set must not depend on the machine."""

    def refuse(archive, info, mode="r"):
        if mode == "w":
            return opened(archive, info, mode)
        raise error

    opened = zipfile.ZipFile.open
    monkeypatch.setattr(zipfile.ZipFile, "open", refuse)
    definition = cats(write_zip(tmp_path / "a.zip", members()))
    with pytest.raises((MemoryError, UserError), match=r"^$|own: Cat/0.jpg: cannot be read"):
        prepared(tmp_path, definition)


def test_faults_of_an_archive(tmp_path):
    path = write_zip(tmp_path / "a.zip", members(3))
    assert "received train 2, validation 1, test 1, for 3 examples" in fault(tmp_path, cats(path))
    message = fault(tmp_path, cats(path, per_class=9))
    assert message.startswith("datasets.own: Cat and Dog: received 3 readable images;")
    empty = write_zip(tmp_path / "b.zip", {"x.txt": b""})
    assert "own: Cat and Dog: received 0 readable images;" in fault(tmp_path, cats(empty))
    cut, text = tmp_path / "c.zip", tmp_path / "d.zip"
    cut.write_bytes(path.read_bytes()[:-9])
    text.write_bytes(b"no zip")
    for broken in (cut, text):
        assert f"{broken}: cannot be read (" in fault(tmp_path, cats(broken))


def test_images_are_turned_as_their_exif_says():
    upright = np.zeros((16, 16), np.uint8)
    upright[:8, :8], upright[:8, 8:], upright[8:, :8] = 240, 160, 80
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # the camera was turned by 90 degrees
    file = io.BytesIO()
    Image.fromarray(np.rot90(upright).copy()).save(file, "JPEG", exif=exif, quality=100)
    pixels = photographs.decode(file, 16, 1)[..., 0].astype(int)
    assert np.abs(pixels - upright).max() < 8


FLAT = {"cat": 6, "dog": 6}
IN_PARTS = {f"{part}/{name}": 3 for part in ("train", "val", "test") for name in FLAT}
LOOSE = "(in no class folder)"


def definition(path, **options):
    source = {"source": "image_folder", "path": str(path), "image_size": 8}
    return dataset_definitions.read({**source, "split": SPLIT, **options}).resolved()


@pytest.mark.parametrize(
    ("content", "options", "lines"),
    [
        ({".": 6}, {}, [": received HERE/mine with 0 folder(s) and 6 file(s);"]),
        (
            {**FLAT, "a": 0, "b/.DS_Store": b"", "c/d": 0, "x.csv": b""},
            {},
            [
                ": a, b and c: received 0 readable images; 1 or more are expected.",
                f": skipped files: x.csv {LOOSE} and c/d (not a file).",
            ],
        ),
        (FLAT, {"per_class": 7}, [": cat and dog: received 6 readable images; 7 or more"]),
        (
            {**IN_PARTS, "test/fox": 3, "valid.txt": b""},
            {},
            [": HERE/mine: received test/fox; a class of the training part is expected"],
        ),
        (
            {**{name: IN_PARTS[name] for name in ("train/cat", "train/dog", "val/cat")}, "test": 4},
            {},
            [
                ": val/dog, test/cat and test/dog: received 0 readable images;",
                f": skipped files: test/0.png {LOOSE}, test/1.png {LOOSE}, test/2.png {LOOSE} and ",
            ],
        ),
        (FLAT, {"split": None}, [".split.validation: received nothing;"]),
        (FLAT, {"split": {"validation": 3, "test": 3}}, [".split: received validation 3, test 3,"]),
    ],
)
def test_problems_of_a_folder_are_known_before_images_are_read(content, options, lines, tmp_path):
    (tmp_path / "mine").mkdir()
    own = definition(image_files(tmp_path / "mine", content), **options)
    result = problems(own)
    assert refused(tmp_path, own).splitlines() == result  # the same when images are decoded
    for line, expected in zip(result, lines, strict=True):
        assert line.startswith(f"datasets.own{expected.replace('HERE', str(tmp_path))}")


def test_unreadable_images_are_listed_if_a_class_has_no_other(tmp_path):
    folder = image_files(tmp_path / "mine", {"cat/0.jpg": b"text", "cat": ("I;16", 1), "dog": 6})
    lines = refused(tmp_path, definition(folder)).splitlines()
    assert lines == [
        "datasets.own: cat: received 0 readable images; 1 or more are expected.",
        "datasets.own: skipped files: cat/0.jpg (cannot identify image file) and cat/0.tif "
        "(more than 8 bits per channel, mode I;16).",
    ]


def test_links_and_damaged_files_are_skipped_and_files_of_the_system_ignored(tmp_path):
    folder = image_files(tmp_path / "mine", FLAT)
    Image.new("RGBA", (5, 30), (250, 0, 0, 0)).save(folder / "cat" / "alpha.png")
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (folder / "dog" / name).write_text("a system's")
        (folder / name).write_text("a system's")
    for name in (".git", "__MACOSX"):
        (folder / name).mkdir()
    (folder / "dog" / "loop.png").symlink_to("loop.png")
    (folder / "dog" / "up").symlink_to("..")
    complete = (folder / "cat" / "alpha.png").read_bytes()
    (folder / "dog" / "cut.png").write_bytes(complete[: len(complete) // 2])
    own = definition(folder)
    assert problems(own) == []
    data = prepared(tmp_path, own)
    assert data.record["class_names"] == ["cat", "dog"]
    skipped = [entry["file"] for entry in data.record["skipped"]]
    assert skipped == ["dog/loop.png", "dog/up", "dog/cut.png"]
    assert sum(map(sum, data.record["class_counts"].values())) == 7 + 6
    images, labels = all_parts(data)
    transparent = (images == (250, 0, 0)).all(axis=(1, 2, 3))
    assert labels[transparent].tolist() == [0]
    levels = images[~transparent].max(axis=(1, 2, 3))
    assert (levels >= 60).tolist() == (labels[~transparent] == 1).tolist()


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Training", "dev", "testing")])
def test_folders_of_the_parts_are_the_split(names, tmp_path):
    folder = tmp_path / "mine"
    content = {f"{name}/{pet}": 6 - at for at, name in enumerate(names) for pet in FLAT}
    image_files(folder, {**content, f"{names[0]}/labels.txt": b"beside the class folders"})
    own = definition(folder, split=None)
    data = prepared(tmp_path, own)
    assert data.record["counts"] == {"train": 12, "validation": 10, "test": 8}
    few = definition(folder, split={"test": 0.5}, per_class=5)
    assert prepared(tmp_path, few).record["counts"]["train"] == 10
    # Known before images are read.
    assert input_and_size_from_definition("own", few)[1] == 10
    (folder / names[1]).rename(tmp_path / "away")  # this part is then drawn from train
    assert problems(own)[0].startswith("datasets.own.split.validation: received nothing;")
    drawn = definition(folder, split={"validation": 2})
    assert input_and_size_from_definition("own", drawn)[1] == 8
    assert prepared(tmp_path, drawn).record["counts"] == {"train": 8, "validation": 4, "test": 8}


def test_control_characters_reach_neither_a_record_nor_the_terminal(tmp_path):
    content = {HOSTILE: 8, "b": 8, f"b/{HOSTILE}.png": b"no image"}
    folder = image_files(tmp_path / "own", content)
    record = prepared(tmp_path, definition(folder)).record
    assert record["class_names"] == [SHOWN, "b"]
    assert record["skipped"][0]["file"].endswith(f"{SHOWN}.png")
