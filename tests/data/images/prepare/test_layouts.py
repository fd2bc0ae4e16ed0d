"""Which images are found where, and of which class."""

import os

import numpy as np
import pytest

from tests.helpers.datasets.image_sets import CLASSES, encoded, files_of, ilsvrc, tiny_imagenet, write_folder
from tfbigbatch.data.images.prepare.layouts import find


def labelled(source, split):
    """{base name: (class, content)} of a split."""
    images = source.splits[split]
    return {
        os.path.basename(name): (source.classes[label], images.files.read(index))
        for index, (name, label) in enumerate(zip(images.files.names, images.labels))
    }


def expected(files, folder):
    return {
        os.path.basename(name): (name.split("/")[1], content)
        for name, content in files.items()
        if name.startswith(f"{folder}/") and content.startswith(b"\xff\xd8")
    }


@pytest.mark.parametrize("validation", ["validation", "val", "test"])
@pytest.mark.parametrize("inner", ["", "set/1.0"])
def test_folders_of_classes(tmp_path, inner, validation):
    files = {
        **files_of("train", 3),
        **files_of(validation, 2),
        "README.txt": b"x",
        "train/.DS_Store": b"x",
        "x/a.JPG": b"x",
    }
    write_folder(tmp_path / "source" / inner, files)
    found = find(str(tmp_path / "source"))
    assert found.classes == CLASSES and not found.held_out
    assert labelled(found, "train") == expected(files, "train") and len(expected(files, "train")) == 9
    assert labelled(found, "validation") == expected(files, validation)
    assert [(reason[:12], [os.path.basename(name) for name in names]) for reason, names in found.unused.items()] == [
        ("hidden, or o", [".DS_Store"]),
        ("an image, bu", ["a.JPG"]),
    ]


def test_what_macos_and_editors_add_to_a_folder_is_no_class(tmp_path):
    junk = ("__MACOSX/set/train/._x.jpg", "set/.ipynb_checkpoints/x.jpg", "set/train/.hidden/x.jpg")
    files = {f"set/{name}": content for name, content in files_of("train", 2).items()}
    source = write_folder(
        tmp_path / "unzipped", {**files, **{name: encoded() for name in junk}, "set/train/a.tif": b"x"}
    )
    found = find(source, validation_share=0)
    assert found.classes == CLASSES and found.layout == "train/ by class"
    assert [names for reason, names in found.unused.items() if reason.startswith("hidden")] == [sorted(junk)]
    assert [names for reason, names in found.unused.items() if reason.startswith("not an")] == [["set/train/a.tif"]]


def test_tiny_imagenet(tmp_path):
    files = tiny_imagenet()
    found = find(write_folder(tmp_path / "tiny", files))
    # Those with images, not those of wnids.txt.
    assert found.classes == CLASSES
    assert labelled(found, "train") == expected(files, "train")
    assert labelled(found, "validation") == {
        f"val_{number}.JPEG": (CLASSES[number % 3], files[f"val/images/val_{number}.JPEG"]) for number in range(6)
    }


def test_imagenets_unpacked_tars_with_a_list_of_labels(tmp_path):
    files, labels = ilsvrc()
    source = write_folder(tmp_path / "ilsvrc", files)
    (tmp_path / "by_place.txt").write_text("".join(f"{name}\n" for name in labels.values()))
    (tmp_path / "by_name.txt").write_text("".join(f"{file} {name}\n" for file, name in reversed(labels.items())))
    for given in ("by_place.txt", "by_name.txt"):
        found = find(source, validation_labels=str(tmp_path / given))
        assert labelled(found, "train") == expected(files, "train")
        assert labelled(found, "validation") == {name: (labels[name], files[f"val/{name}"]) for name in labels}


def test_images_side_by_side_and_classes_without_train(tmp_path):
    flat = {f"{name}_{number}.JPEG": encoded() for name in CLASSES for number in range(2)}
    found = find(write_folder(tmp_path / "flat", flat), validation_share=0)
    assert found.classes == CLASSES and list(found.splits) == ["train"]
    assert np.bincount(found.splits["train"].labels).tolist() == [2, 2, 2]
    found = find(write_folder(tmp_path / "classes", {k[6:]: v for k, v in files_of("train", 10).items()}))
    assert found.classes == CLASSES and [len(images.labels) for images in found.splits.values()] == [27, 3]


def test_the_same_images_of_each_class_are_held_out_every_time(tmp_path):
    source = write_folder(tmp_path / "set", {**files_of("train", 20), "train/one/a.jpg": encoded()})
    first, again, other = (find(source, validation_share=0.25, seed=seed) for seed in (0, 0, 1))
    assert [np.bincount(images.labels).tolist() for images in first.splits.values()] == [[15, 15, 15, 1], [5, 5, 5]]
    names = [set(found.splits["validation"].files.names) for found in (first, again, other)]
    assert names[0] == names[1] != names[2]
    assert not names[0] & set(first.splits["train"].files.names)
    with pytest.raises(ValueError, match="Of 1 to 20 images a class none can be held out.*validation_share=0.01"):
        find(source, validation_share=0.01)


def test_by_default_something_is_held_out_of_the_smallest_classes(tmp_path):
    source = write_folder(tmp_path / "set", {**files_of("train", 3), "train/one/a.jpg": encoded()})
    found = find(source)
    assert [np.bincount(images.labels).tolist() for images in found.splits.values()] == [[2, 2, 2, 1], [1, 1, 1]]
    alone = {f"train/{name}/a.jpg": encoded() for name in ("one", "two")}
    with pytest.raises(ValueError, match="Of 1 to 1 images a class none can be held out.*or 0, for no validation"):
        find(write_folder(tmp_path / "alone", alone))


def test_test_images_without_classes_and_beside_others_are_not_used(tmp_path):
    files = {**files_of("train", 2), **files_of("val", 1), "test/images/test_0.jpg": encoded()}
    found = find(write_folder(tmp_path / "both", files))
    assert found.unused == {"in test/, beside other validation images": ["test/images/test_0.jpg"]}
    files = {**files_of("train", 2), "test/images/test_0.jpg": encoded()}
    found = find(write_folder(tmp_path / "alone", files), validation_share=0)
    assert list(found.splits) == ["train"]
    assert found.unused == {"in test/, which has no classes": ["test/images/test_0.jpg"]}


def lists(text):
    """Files of a set with a flat validation folder, and a list beside it."""
    flat = {f"val/{number}.jpg": encoded() for number in range(3)}
    return {**files_of("train", 2), **flat, "list.txt": text}


@pytest.mark.parametrize(
    "files, options, said",
    [
        ({}, {}, "found no images of classes.*Understood are"),
        ({"a.txt": b"x"}, {}, "found no images of classes"),
        ({"train/a/x.jpg": b"x"}, {}, "images of one class alone, 'a'; expected two classes or more"),
        ({"val/a/x.jpg": b"x", "val/b/x.jpg": b"x"}, {}, "has val, but no train/"),
        (lists(b""), {}, r"images in val/ have no classes: expected val/CLASS.*--validation_labels=FILE"),
        (lists(b"n01440764\nn01443537\n"), {"labels"}, "has 2 lines of one class, but there are 3 validation images"),
        (lists(b"n01440764\nn01443537\nn9\n"), {"labels"}, "gives 2.jpg the class 'n9', which no training.*Known: n0"),
        (lists(b"3\n2\n1\n"), {"labels"}, "numbered ground truth counts in an order of its own: give the synsets"),
        (lists(b"0.jpg n01440764\n2.jpg n01440764\n"), {"labels"}, "no line for 1 of 3 validation images, such as 1"),
        (lists(b"\xff"), {"labels"}, "list.txt is not UTF-8"),
        ({**files_of("train", 2), "list.txt": b"x"}, {"labels"}, "has no validation images"),
        ({**files_of("train", 2), **files_of("val", 1), "val/n5/x.jpg": b""}, {}, "1 classes without.*such as 'n5'"),
        (ilsvrc()[0], {}, "images in val/ have no classes"),
        ({"train.tar": b""}, {}, "no images of classes.*Unpack a .tar first"),
    ],
)
def test_what_is_not_understood_is_told_why(tmp_path, files, options, said):
    folder = tmp_path / "set"
    folder.mkdir()
    write_folder(folder, files)
    given = {"validation_labels": str(folder / "list.txt")} if "labels" in options else {}
    with pytest.raises(ValueError, match=f"(?s){said}"):
        find(str(folder), **given)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere does not exist. Understood are"):
        find(str(tmp_path / "nowhere"))
    (tmp_path / "images.tar").write_bytes(b"x")
    with pytest.raises(ValueError, match="images.tar is no folder. Understood are"):
        find(str(tmp_path / "images.tar"))
    source = write_folder(tmp_path / "set", {**files_of("train", 2), **files_of("val", 1)})
    with pytest.raises(ValueError, match="--validation_labels=nowhere cannot be read: No such file"):
        find(source, validation_labels="nowhere")


def test_links_to_files_and_folders_are_followed(tmp_path):
    source = write_folder(tmp_path / "set", files_of("train", 2))
    (tmp_path / "linked" / "train").mkdir(parents=True)
    for name in CLASSES:
        (tmp_path / "linked" / "train" / name).symlink_to(os.path.join(source, "train", name))
    os.symlink("nowhere", tmp_path / "set" / "train" / CLASSES[0] / "lost.jpg")
    found = find(str(tmp_path / "linked"), validation_share=0)
    assert len(found.splits["train"].labels) == 7 and min(found.splits["train"].files.sizes) == -1
