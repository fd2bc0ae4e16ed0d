"""The images that are found, and of which class."""

import os

import numpy as np
import pytest

from tests.helpers.datasets.image_sets import CLASSES, encoded, files_of, ilsvrc, tiny_imagenet, write_folder
from tfbigbatch.data.images.prepare.layouts import find
from tfbigbatch.utils.files import read_bytes


def labelled(source, split):
    """{base name: (class, content)} of a split."""
    images = source.splits[split]
    return {
        os.path.basename(name): (source.classes[label], read_bytes(images.path(index)))
        for index, (name, label) in enumerate(zip(images.names, images.labels))
    }


def expected(files, folder):
    return {
        os.path.basename(name): (name.split("/")[1], content)
        for name, content in files.items()
        if name.startswith(f"{folder}/") and content.startswith(b"\xff\xd8")
    }


@pytest.mark.parametrize("validation", ["validation", "val"])
def test_folders_of_classes(tmp_path, validation):
    junk = ("__MACOSX/train/._x.jpg", ".ipynb_checkpoints/x.jpg", "train/.DS_Store", "train/.hidden/x.jpg")
    files = {**files_of("train", 3), **files_of(validation, 2), **files_of("test", 1)}
    others = {"README.txt": b"x", "train/a.tif": b"x", "x/a.JPG": b"x", "train/stray.jpg": b"x"}
    found = find(write_folder(tmp_path, {**files, **others, **dict.fromkeys(junk, b"x")}), validation_fraction=0.1)
    assert found.classes == CLASSES
    assert found.layout == f"train/, {validation}/, test/ by class"
    for split, folder in (("train", "train"), ("validation", validation), ("test", "test")):
        assert labelled(found, split) == expected(files, folder)
    unused = {reason.partition(" (")[0]: names for reason, names in found.unused.items()}
    assert unused == {
        "hidden, or of a folder __MACOSX": sorted(junk),
        "not an image by name": ["README.txt", "train/a.tif"],
        f"in no folder of train/, {validation}/, test/": ["train/stray.jpg", "x/a.JPG"],
    }


def test_classes_without_a_folder_train(tmp_path):
    found = find(write_folder(tmp_path, {k[6:]: v for k, v in files_of("train", 10).items()}), validation_fraction=0.1)
    assert found.classes == CLASSES and [len(images.labels) for images in found.splits.values()] == [27, 3]


def test_tiny_imagenet(tmp_path):
    files = {**tiny_imagenet(), "test/images/test_0.JPEG": encoded()}
    found = find(write_folder(tmp_path, files))
    # Those with images, not those of wnids.txt.
    assert found.classes == CLASSES and found.unused["without classes"] == ["test/images/test_0.JPEG"]
    assert labelled(found, "train") == expected(files, "train")
    assert labelled(found, "validation") == {
        f"val_{number}.JPEG": (CLASSES[number % 3], files[f"val/images/val_{number}.JPEG"]) for number in range(6)
    }


@pytest.mark.parametrize("named", [False, True])
def test_imagenets_unpacked_tars_with_a_list_of_labels(tmp_path, named):
    files, labels = ilsvrc()
    source = write_folder(tmp_path / "ilsvrc", files)
    lines = [f"{file} {name}" for file, name in reversed(labels.items())] if named else labels.values()
    (tmp_path / "list.txt").write_text("".join(f"{line}\n" for line in lines))
    found = find(source, validation_labels=str(tmp_path / "list.txt"))
    assert labelled(found, "train") == expected(files, "train")
    assert labelled(found, "validation") == {name: (labels[name], files[f"val/{name}"]) for name in labels}


def test_the_same_images_of_each_class_are_held_out_every_time(tmp_path):
    source = write_folder(tmp_path, {**files_of("train", 20), "train/one/a.jpg": encoded(), "train/two/a.jpg": b""})
    first, again, other = (find(source, validation_fraction=0.25, seed=seed) for seed in (0, 0, 1))
    assert [np.bincount(images.labels).tolist() for images in first.splits.values()] == [[15, 15, 15, 1, 1], [5, 5, 5]]
    names = [set(found.splits["validation"].names) for found in (first, again, other)]
    assert names[0] == names[1] != names[2]
    assert not names[0] & set(first.splits["train"].names)
    # One at least.
    few = find(source, validation_fraction=0.01).splits["validation"]
    assert np.bincount(few.labels).tolist() == [1, 1, 1]
    alone = {f"train/{name}/a.jpg": encoded() for name in ("one", "two")}
    with pytest.raises(ValueError, match="Each class has one image, .* --validation_fraction=0 holds out none"):
        find(write_folder(tmp_path / "alone", alone), validation_fraction=0.5)


def lists(text):
    """Files of a set with a flat validation folder, and a list beside it."""
    flat = {f"val/{number}.jpg": encoded() for number in range(3)}
    return {**files_of("train", 2), **flat, "list.txt": text}


ONE = CLASSES[0].encode()


@pytest.mark.parametrize(
    "files, listed, said",
    [
        ({}, False, "no images of classes; expected two.*Understood are"),
        ({"train/one/a.jpg": b""}, False, "images of one class alone, 'one'"),
        # Without train/, val/ is a class like another.
        (files_of("val", 1), False, "images of one class alone, 'val'"),
        (lists(b"%s\n" % ONE), True, "has 1 lines of one class, but there are 3 validation images"),
        (lists(b"0.jpg %s\n1.jpg %s\n" % (ONE, ONE)), True, "image 2.jpg is of the class '' by .*list.txt"),
        (lists(b"%s\n%s\n490\n" % (ONE, ONE)), True, r"class '490' by .*ImageNet's numbers count otherwise"),
        (lists(b"\xff\n"), True, "list.txt is not UTF-8"),
        ({**files_of("train", 2), "list.txt": b"x"}, True, "has no validation images"),
        ({**files_of("train", 2), **files_of("val", 1), "val/n5/x.jpg": b""}, False, "class 'n5' by its folder"),
        (ilsvrc()[0], False, "is of the class 'ILSVRC.*--validation_labels=FILE"),
        ({"train.tar": b""}, False, "no images of classes.*Unpack a .tar first"),
    ],
)
def test_what_is_not_understood_is_told_why(tmp_path, files, listed, said):
    write_folder(tmp_path, {"x.txt": b"", **files})
    given = {"validation_labels": str(tmp_path / "list.txt")} if listed else {}
    with pytest.raises(ValueError, match=f"(?s){said}"):
        find(str(tmp_path), **given)


def test_links_to_files_and_folders_are_followed(tmp_path):
    source = write_folder(tmp_path / "set", files_of("train", 2))
    (tmp_path / "linked" / "train").mkdir(parents=True)
    for name in CLASSES:
        (tmp_path / "linked" / "train" / name).symlink_to(os.path.join(source, "train", name))
    os.symlink("nowhere", tmp_path / "set" / "train" / CLASSES[0] / "lost.jpg")
    found = find(str(tmp_path / "linked"))
    assert len(found.splits["train"].labels) == 7 and min(found.splits["train"].sizes) == -1
