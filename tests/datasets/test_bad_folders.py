"""Folders of images as users have them: all problems are reported at once."""

import pytest
from PIL import Image

from batchscope.study import dataset_definitions
from prepared_data import SPLIT, all_parts, image_files, prepared, problems, refused

FLAT = {"cat": 6, "dog": 6}
IN_PARTS = {f"{part}/{name}": 3 for part in ("train", "val", "test") for name in FLAT}
LOOSE = "(in no class folder)"


def definition(path, **options):
    source = {"source": "image_folder", "path": str(path), "image_size": 8}
    return dataset_definitions.resolve({**source, "split": SPLIT, **options})


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
    (folder / names[1]).rename(tmp_path / "away")  # this part is then drawn from train
    assert problems(own)[0].startswith("datasets.own.split.validation: received nothing;")
    drawn = definition(folder, split={"validation": 2})
    assert problems(drawn) == []
    assert prepared(tmp_path, drawn).record["counts"] == {"train": 8, "validation": 4, "test": 8}
