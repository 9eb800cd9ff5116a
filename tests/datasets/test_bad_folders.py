"""Folders and lists of images as people have them: every fault of one is told at once."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image
from test_photographs import png

from batchscope.catalogue import dataset_definitions
from batchscope.datasets import looks
from prepared_data import SPLIT, prepared, refused

UINT16 = "received pixels of uint16 (mode I;16);"


def images(folder, count=6, grey=10, mode="RGB", ending="png", **options):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        colour = (grey + number,) * 3 if mode == "RGB" else grey
        Image.new(mode, (9, 7), colour).save(folder / f"{number}.{ending}", **options)


def flat(folder, names=("cat", "dog"), **more):
    for number, name in enumerate(names):
        images(folder / name, grey=50 * number, **more)
    return folder


def nested(folder, **parts):
    for name, classes in parts.items():
        flat(folder / name, classes)
    return folder


def empty(folder):
    folder.mkdir()


def only_images(folder):
    images(folder)


def one_class(folder):
    flat(folder, ["cat"])


def outer_folder(folder):
    flat(folder / "flowers")


def empty_classes(folder):
    (flat(folder) / "bird").mkdir()
    (folder / "fish").mkdir()
    (folder / "fish" / ".DS_Store").write_text("hidden")
    (folder / "deep" / "inner").mkdir(parents=True)
    (folder / "labels.csv").write_text("beside the folders")
    (folder / "cat" / "notes.jpg").write_text("no image")


def no_readable_image(folder):
    for name, content in (("text", b"no image"), ("nothing", b"")):
        (flat(folder) / name).mkdir()
        (folder / name / "1.jpg").write_bytes(content)


def deep_images(folder):
    images(flat(folder) / "cat", 4, 40000, "I;16", "tif")
    (folder / "dog" / "5.png").write_text("")


def unequal_classes(folder):
    nested(folder, train=["cat", "dog"], val=["cat", "wolf"], test=["cat", "dog"])


def unlabelled_test(folder):
    images(nested(folder, train=["cat", "dog"], val=["cat", "dog"]) / "test")


def part_twice(folder):
    nested(folder, train=["cat", "dog"], val=["cat", "dog"], valid=["cat", "dog"])


@pytest.mark.parametrize(
    ("make", "more", "lines"),
    [
        (empty, {}, [": received {} with 0 folder(s) and 0 file(s);"]),
        (
            only_images,
            {},
            [
                ": received {} with 0 folder(s) and 6 file(s);",
                ": 0.png (in no class folder), 1.png (in no class folder), 2.png (in no class "
                "folder) and 3 more: received no image",
            ],
        ),
        (one_class, {}, [": received {} with 1 folder(s) and 0 file(s);"]),
        (
            outer_folder,
            {},
            [": received {} with 1 folder(s)", ": flowers: received folders alone;"],
        ),
        (
            empty_classes,
            {},
            [
                ": bird and fish: received no file;",
                ": deep: received folders alone;",
                ": labels.csv (in no class folder) and cat/notes.jpg (cannot identify",
            ],
        ),
        (
            no_readable_image,
            {},
            [
                ": nothing and text: received 0 readable images;",
                ": nothing/1.jpg (cannot identify image file) and text/1.jpg (cannot identify",
            ],
        ),
        (
            deep_images,
            {"per_class": 7},
            [
                f": cat/0.tif, cat/1.tif and cat/2.tif: {UINT16}",
                ": dog: received 5 readable images;",
                ": dog/5.png (cannot identify image file): received no image",
            ],
        ),
        (
            deep_images,
            {"scale": 1e-5},
            [
                ": cat/0.png, cat/1.png, cat/2.png and 8 more: received 8 bits per channel ",
                ": dog/5.png (cannot identify image file): received no image",
            ],
        ),
        (flat, {"per_class": 7}, [": cat and dog: received 6 readable images; 7 or more"]),
        (
            flat,
            {"split": {"train": 4, "validation": 2, "test": 1}},
            [".split: received train 4, validation 2, test 1, for 6 examples;"],
        ),
        (flat, {"split": None}, [".split.validation: received nothing;"]),
        (
            unequal_classes,
            {"split": None},
            [
                ": val/wolf: received a class that is none of train;",
                ": val/dog: received no folder (No such file or directory);",
            ],
        ),
        (
            unlabelled_test,
            {"split": None},
            [
                ": test/cat and test/dog: received no folder (No such file or directory);",
                ": test/0.png (in no class folder), test/1.png (in",
            ],
        ),
        (part_twice, {}, [": train, val and valid: received folders alone;"]),
    ],
)
def test_every_fault_of_a_folder_is_told_at_once(make, more, lines, tmp_path):
    """Before any image is decoded, and when they are: the same lines."""
    folder = tmp_path / "mine"
    make(folder)
    definition = {"source": "image_folder", "path": str(folder), "image_size": 8, "split": SPLIT}
    definition = dataset_definitions.resolve({**definition, **more})
    found = looks.problems("datasets.own", definition)
    assert looks.known(definition) is None or not lines[0].startswith(": received")
    assert refused(tmp_path, definition).splitlines() == found
    assert len(found) == len(lines)
    for line, expected in zip(found, lines, strict=True):
        assert line.startswith(f"datasets.own{expected.format(folder)}")


def test_a_folder_of_all_that_reads_well_or_is_skipped(tmp_path):
    """Modes and sizes that differ are images; a bomb, links and damaged files are no reason to end.

    What a system leaves in folders is not looked at.
    """
    folder = flat(tmp_path / "mine")
    Image.new("CMYK", (30, 4), (0, 0, 0, 255)).save(folder / "cat" / "cmyk.jpg")
    Image.new("RGBA", (5, 5), (250, 0, 0, 0)).save(folder / "cat" / "alpha.png")
    palette = Image.new("P", (5, 5), 1)
    palette.putpalette([0, 0, 0, 0, 250, 0])
    palette.save(folder / "cat" / "palette.png", transparency=1)
    frames = [Image.new("RGB", (6, 6), colour) for colour in ("blue", "red")]
    frames[0].save(folder / "cat" / "moves.gif", save_all=True, append_images=frames[1:])
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (folder / "dog" / name).write_text("a system's")
        (folder / name).write_text("a system's")
    (folder / "__MACOSX" / "cat").mkdir(parents=True)
    (folder / "dog" / "loop.png").symlink_to("loop.png")
    (folder / "dog" / "up").symlink_to("..")
    whole = (folder / "cat" / "cmyk.jpg").read_bytes()
    (folder / "dog" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "dog" / "bomb.png").write_bytes(png((10**5, 10**5), 8, bytes(99)))
    definition = {"source": "image_folder", "path": str(folder), "image_size": 4, "split": SPLIT}
    definition = dataset_definitions.resolve(definition)
    assert looks.problems("datasets.own", definition) == []
    data = prepared(tmp_path, definition)
    assert data.record["class_names"] == ["cat", "dog"]
    skipped = [each["file"] for each in data.record["skipped"]]
    assert skipped == ["dog/bomb.png", "dog/cut.jpg", "dog/loop.png"]
    assert sum(map(sum, data.record["class_counts"].values())) == 10 + 6
    every = np.concatenate([data.images(part) for part in ("train", "validation", "test")])
    for colour in ((250, 0, 0), (0, 250, 0), (0, 0, 255)):
        assert any((image == colour).all() for image in every)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_files_that_nobody_may_read_end_it(tmp_path):
    folder = flat(tmp_path / "mine")
    for name in ("cat/0.png", "dog/3.png"):
        (folder / name).chmod(0)
    definition = {"source": "image_folder", "path": str(folder), "image_size": 8, "split": SPLIT}
    (line,) = refused(tmp_path, definition).splitlines()
    assert line.startswith("datasets.own: cat/0.png and dog/3.png: cannot be read (Permission")


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Training", "dev", "testing")])
def test_folders_of_the_parts_are_the_split(names, tmp_path):
    for number, name in enumerate(names):
        flat(tmp_path / "mine" / name, count=6 - number)
    (tmp_path / "mine" / names[0] / "labels.txt").write_text("beside the class folders")
    definition = {"source": "image_folder", "path": str(tmp_path / "mine"), "image_size": 8}
    data = prepared(tmp_path, dataset_definitions.resolve(definition))
    assert data.record["counts"] == {"train": 12, "validation": 10, "test": 8}
    few = {**definition, "per_class": 5, "split": {"test": 0.5}}
    assert prepared(tmp_path, dataset_definitions.resolve(few)).record["counts"]["train"] == 10
    # A part without a folder is drawn from the training part.
    (tmp_path / "mine" / names[1]).rename(tmp_path / "away")
    (problem,) = dataset_definitions.read(definition).problems(("d",))
    assert problem.place == ("d", "split")
    drawn = dataset_definitions.resolve({**definition, "split": {"validation": 2}})
    assert list(dataset_definitions.read(drawn).problems(("d",))) == []
    assert prepared(tmp_path, drawn).record["counts"] == {"train": 8, "validation": 4, "test": 8}


def test_classes_that_are_named_as_parts_are_classes(tmp_path):
    data = flat(tmp_path / "mine", ["train", "test", "car"])
    definition = {"source": "image_folder", "path": str(data), "image_size": 8, "split": SPLIT}
    record = prepared(tmp_path, dataset_definitions.resolve(definition)).record
    assert record["class_names"] == ["car", "test", "train"]


def listed(folder, text, **more):
    images(folder / "photos", 12)
    (folder / "own.csv").write_text(text)
    source = {"source": "image_list", "path": str(folder / "own.csv"), "image_size": 8}
    return dataset_definitions.resolve({**source, "folder": str(folder / "photos"), **more})


ROWS = [(f"{number}.png", "cat" if number % 2 else "dog") for number in range(12)]


def table(*lines, names="file,label"):
    return "\n".join([names, *(",".join(map(str, line)) for line in lines)])


def test_a_list_of_images(tmp_path):
    stems = ((name.removesuffix(".png"), 9 + (label == "cat")) for name, label in ROWS)
    data = prepared(tmp_path, listed(tmp_path, table(*stems), split=SPLIT))
    assert data.record["class_names"] == ["9", "10"]
    for part in ("train", "validation", "test"):  # image `n` has the grey 10 + n
        assert (data.images(part)[:, 0, 0, 0] % 2 == data.labels(part)).all()
    parts = [(*row, "val" if number > 9 else "Train") for number, row in enumerate(ROWS)]
    text = table(*parts, names="image;class;split").replace(",", ";")
    more = {"file": "image", "label": "class", "split": {"test": 0.2}}
    data = prepared(tmp_path, listed(tmp_path, text, **more))
    assert data.record["counts"] == {"train": 8, "validation": 2, "test": 2}
    assert sorted(data.images("validation")[:, 0, 0, 0]) == [20, 21]
    numbers = table(*((name, 0.5 * row) for row, (name, _) in enumerate(ROWS)))
    data = prepared(tmp_path, listed(tmp_path, numbers, split=SPLIT))
    assert data.task == "regression" and data.record["counts"]["train"] == 8
    labels = data.labels("test") * data.record["target_deviations"] + data.record["target_means"]
    assert labels[:, 0] == pytest.approx((data.images("test")[:, 0, 0, 0] - 10.0) / 2)


@pytest.mark.parametrize(
    ("text", "more", "lines"),
    [
        (
            table(("a.png", "cat"), ("b.png", ""), *ROWS, ROWS[3]),
            {},
            [
                ": a.png and b.png: received no file of this name in {};",
                ": 3.png: received again;",
                ": line 3: received no label;",
            ],
        ),
        (table(*ROWS), {"label": "class"}, [": {}/own.csv: received class;"]),
        (
            table(*((name, 1) for name, _ in ROWS)),
            {},
            [": {}/own.csv: label (train): received one"],
        ),
        (
            table(*ROWS),
            {"task": "regression"},
            [": {}/own.csv: label (train): received <U3 labels"],
        ),
        (table(*ROWS), {"per_class": 7}, [": train dog and train cat: received 6 readable images"]),
        (
            table(*((*row, "holdout") for row in ROWS), names="file,label,split"),
            {},
            [
                ": line 2, line 3, line 4 and 9 more: received no part;",
                ": received no image to train on;",
            ],
        ),
        (table(*((*row, 1) for row in ROWS)), {}, [": {}/own.csv: cannot be read ("]),
        ("", {}, [": {}/own.csv: cannot be read ("]),
    ],
)
def test_every_fault_of_a_list_is_told_at_once(text, more, lines, tmp_path):
    definition = listed(tmp_path, text, split=SPLIT, **more)
    found = looks.problems("datasets.own", definition)
    assert refused(tmp_path, definition).splitlines() == found and len(found) == len(lines)
    for line, expected in zip(found, lines, strict=True):
        place = tmp_path / "photos" if "no file" in expected else tmp_path
        assert line.startswith(f"datasets.own{expected.format(place)}")
