"""Photographs: archives and folders of images, what is skipped, and what is refused."""

import errno
import io
import zipfile

import numpy as np
import pytest
from PIL import ExifTags, Image

from batchscope.core import disk
from batchscope.core.errors import UserError
from batchscope.datasets import photographs, preparation
from batchscope.store import paths
from prepared_data import THIRDS, fault, prepared


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
