"""Writing and reading the manifest of prepared images."""

import hashlib
import json
import os

import numpy as np
import pytest

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.manifest import Manifest
from tfbigbatch.data.records.manifest import Split


def saved(tmp_path):
    """A manifest of two files in the folder, an empty one among them, and of one elsewhere; (folder, manifest)."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    sizes = {folder / "train-00000": 100, folder / "train-00001": 0, tmp_path / "elsewhere": 60}
    for path, size in sizes.items():
        path.write_bytes(b"x" * size)
    inside, empty, outside = map(str, sizes)
    splits = {
        "train": Split("train", (inside, empty), [3, 0], [0, 20, 50], [100, 0]),
        "validation": Split("validation", (outside,), [2], [0, 30], [60]),
    }
    manifest = Manifest(("cat", "dög"), "image/encoded", "image/class/label", 1, splits)
    image_manifest.save(str(folder), manifest, {"source": "cats"})
    return folder, manifest


def test_what_was_saved_is_loaded(tmp_path):
    folder, manifest = saved(tmp_path)
    loaded = image_manifest.load(str(folder))
    for name in ("classes", "image_key", "label_key", "label_offset"):
        assert getattr(loaded, name) == getattr(manifest, name)
    assert list(loaded.splits) == ["train", "validation"]
    for name, split in loaded.splits.items():
        assert (split.name, split.files) == (name, manifest.splits[name].files)
        for array in ("counts", "offsets", "bytes"):
            assert getattr(split, array).dtype == np.int64
            np.testing.assert_array_equal(getattr(split, array), getattr(manifest.splits[name], array))
    assert [split.examples for split in loaded.splits.values()] == [3, 2]
    content = json.loads((folder / "manifest.json").read_text())
    assert content["source"] == "cats"


def test_offsets_of_other_files_are_refused():
    for offsets in ([0, 100], [5, 20], [20, 0]):
        with pytest.raises(ValueError, match="the offsets are not those of its files"):
            Split("train", ("file",), [2], offsets, [100])


def test_a_folder_can_move_and_the_same_gives_the_same_bytes(tmp_path):
    folder, manifest = saved(tmp_path)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.*"))]
    folder.rename(tmp_path / "moved")
    loaded = image_manifest.load(str(tmp_path / "moved"))
    assert loaded.splits["train"].files[0] == str(tmp_path / "moved" / "train-00000")
    assert loaded.splits["validation"].files == manifest.splits["validation"].files
    image_manifest.save(str(tmp_path / "moved"), loaded, {"source": "cats"})
    again = [hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted((tmp_path / "moved").glob("*.*"))]
    assert again == digests


def edited(**changes):
    def edit(path):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


@pytest.mark.parametrize(
    "name, damage, said",
    [
        ("manifest.json", os.remove, "holds no prepared images.*prepare-imagenet --source="),
        ("manifest.json", lambda path: path.write_text("[]"), "manifest.json holds a list; expected a dictionary"),
        ("manifest.json", lambda path: path.write_text("{"), "manifest.json is not JSON"),
        ("manifest.json", edited(splits={}), "manifest.json is incomplete or damaged .TypeError..train is None"),
        (
            "train-00000",
            os.remove,
            "train-00000 cannot be read: No such file.*Run the command that prepared the folder again: ",
        ),
        ("train-00000", lambda path: path.write_bytes(b"x" * 99), "has 99 bytes; manifest.json says 100"),
        ("train.index.npy", os.remove, "train.index.npy cannot be read"),
        ("train.index.npy", lambda path: path.write_bytes(path.read_bytes()[:40]), "train.index.npy cannot be read"),
        ("train.index.npy", lambda path: np.save(path, [0, 20, 51]), "is not the index of the files"),
        ("train.index.npy", lambda path: np.save(path, [0, 20]), "is not the index of the files"),
    ],
)
def test_a_damaged_folder_is_told_what_to_do(tmp_path, name, damage, said):
    folder, _ = saved(tmp_path)
    damage(folder / name)
    with pytest.raises(ValueError, match=said):
        image_manifest.load(str(folder))
