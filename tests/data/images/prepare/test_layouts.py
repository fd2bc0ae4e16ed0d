"""Which images are found where, and of which class."""

import gzip
import os

import numpy as np
import pytest

from tests.helpers.datasets.image_sets import (
    CLASSES,
    encoded,
    files_of,
    ilsvrc,
    picture,
    tar_of,
    tiny_imagenet,
    write_folder,
)
from tfbigbatch.data.images.prepare import layouts


def find(path, tmp_path, **options):
    return layouts.find(str(path), str(tmp_path / "unpacked.tar"), **options)


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
@pytest.mark.parametrize("how", ["folder", "tar", "tar.gz", "folder within"])
def test_folders_of_classes_and_archives_of_them(tmp_path, how, validation):
    files = {
        **files_of("train", 3),
        **files_of(validation, 2),
        "README.txt": b"x",
        "train/.DS_Store": b"x",
        "x/a.JPG": b"x",
    }
    path = tmp_path / how
    if how == "folder":
        write_folder(path, files)
    elif how == "folder within":
        write_folder(path / "set" / "1.0", files)
    else:
        content = tar_of({f"./set/{name}": content for name, content in files.items()})
        path.write_bytes(gzip.compress(content) if how == "tar.gz" else content)
    found = find(path, tmp_path)
    assert found.classes == CLASSES and not found.held_out
    assert labelled(found, "train") == expected(files, "train") and len(expected(files, "train")) == 9
    assert labelled(found, "validation") == expected(files, validation)
    assert [(reason[:12], [name[-9:] for name in names]) for reason, names in found.unused.items()] == [
        ("hidden, or o", [".DS_Store"]),
        ("an image, bu", ["x/a.JPG"]),
    ]


def test_what_macos_and_editors_add_to_a_folder_is_no_class(tmp_path):
    junk = ("__MACOSX/set/train/._x.jpg", "set/.ipynb_checkpoints/x.jpg", "set/train/.hidden/x.jpg")
    files = {f"set/{name}": content for name, content in files_of("train", 2).items()}
    source = write_folder(
        tmp_path / "unzipped", {**files, **{name: encoded() for name in junk}, "set/train/a.tif": b"x"}
    )
    found = find(source, tmp_path, validation_share=0)
    assert found.classes == CLASSES and found.layout == "train/ by class"
    assert [names for reason, names in found.unused.items() if reason.startswith("hidden")] == [sorted(junk)]
    assert [names for reason, names in found.unused.items() if reason.startswith("not an")] == [["set/train/a.tif"]]


def test_folders_that_are_too_deep_are_told(tmp_path):
    deep = {f"train/{name}/1/2/3/4/5/x.jpg": encoded() for name in CLASSES}
    source = write_folder(tmp_path / "set", {**files_of("train", 2), **deep})
    found = find(source, tmp_path, validation_share=0)
    assert len(found.splits["train"].labels) == 6
    assert [len(names) for reason, names in found.unused.items() if reason.startswith("not an")] == [3]


def test_tiny_imagenet_as_a_folder_and_as_an_archive(tmp_path):
    files = tiny_imagenet()
    (tmp_path / "tiny.tar.gz").write_bytes(tar_of({f"tiny/{k}": v for k, v in files.items()}, "w:gz"))
    for source in (write_folder(tmp_path / "tiny", files), tmp_path / "tiny.tar.gz"):
        found = find(source, tmp_path)
        # Those with images, not those of wnids.txt.
        assert found.classes == CLASSES and found.texts == ("tench, Tinca tinca", "goldfish", "")
        assert labelled(found, "train") == expected(files, "train")
        assert labelled(found, "validation") == {
            f"val_{number}.JPEG": (CLASSES[number % 3], files[f"val/images/val_{number}.JPEG"]) for number in range(6)
        }


def test_imagenets_own_tars_are_read_without_unpacking(tmp_path):
    source = write_folder(tmp_path / "ilsvrc", {**ilsvrc(), "synset_words.txt": b"n01440764 tench, Tinca tinca\n"})
    before = sorted(os.listdir(source))
    found = find(source, tmp_path, validation_labels=f"{source}/labels.txt")
    assert found.classes == CLASSES and found.texts[0] == "tench, Tinca tinca"
    assert labelled(found, "train") == {
        f"{name}_{number}.JPEG": (name, encoded(picture(1000 * place + number)))
        for place, name in enumerate(CLASSES)
        for number in range(3)
    }
    assert labelled(found, "validation") == {
        f"ILSVRC2012_val_{number:08d}.JPEG": (CLASSES[number % 3], encoded(picture(5000 + number)))
        for number in range(1, 7)
    }
    assert sorted(os.listdir(source)) == before and not (tmp_path / "unpacked.tar").exists()
    by_name = "".join(f"ILSVRC2012_val_{n:08d}.JPEG {CLASSES[n % 3]}\n" for n in (3, 1, 2, 6, 5, 4))
    (tmp_path / "by_name.txt").write_text(by_name)
    again = find(source, tmp_path, validation_labels=str(tmp_path / "by_name.txt"))
    assert labelled(again, "validation") == labelled(found, "validation")


def test_the_training_tar_alone_holds_out_its_validation_images(tmp_path):
    write_folder(tmp_path, ilsvrc(each=10))
    found = find(tmp_path / "ILSVRC2012_img_train.tar", tmp_path)
    assert found.held_out
    assert [np.bincount(images.labels).tolist() for images in found.splits.values()] == [[9, 9, 9], [1, 1, 1]]


def test_images_side_by_side_and_classes_without_train(tmp_path):
    flat = {f"{name}_{number}.JPEG": encoded() for name in CLASSES for number in range(2)}
    found = find(write_folder(tmp_path / "flat", flat), tmp_path, validation_share=0)
    assert found.classes == CLASSES and list(found.splits) == ["train"]
    assert np.bincount(found.splits["train"].labels).tolist() == [2, 2, 2]
    found = find(write_folder(tmp_path / "classes", {k[6:]: v for k, v in files_of("train", 10).items()}), tmp_path)
    assert found.classes == CLASSES and [len(images.labels) for images in found.splits.values()] == [27, 3]


def test_the_same_images_of_each_class_are_held_out_every_time(tmp_path):
    source = write_folder(tmp_path / "set", {**files_of("train", 20), "train/one/a.jpg": encoded()})
    first, again, other = (find(source, tmp_path, validation_share=0.25, seed=seed) for seed in (0, 0, 1))
    assert [np.bincount(images.labels).tolist() for images in first.splits.values()] == [[15, 15, 15, 1], [5, 5, 5]]
    names = [set(found.splits["validation"].files.names) for found in (first, again, other)]
    assert names[0] == names[1] != names[2]
    assert not names[0] & set(first.splits["train"].files.names)
    with pytest.raises(ValueError, match="validation_share=0.01 of 1 to 20 images a class holds out none"):
        find(source, tmp_path, validation_share=0.01)


def test_by_default_something_is_held_out_of_the_smallest_classes(tmp_path):
    source = write_folder(tmp_path / "set", {**files_of("train", 3), "train/one/a.jpg": encoded()})
    found = find(source, tmp_path)
    assert [np.bincount(images.labels).tolist() for images in found.splits.values()] == [[2, 2, 2, 1], [1, 1, 1]]
    alone = {f"train/{name}/a.jpg": encoded() for name in ("one", "two")}
    with pytest.raises(ValueError, match="one image of each class.*--validation_share=0"):
        find(write_folder(tmp_path / "alone", alone), tmp_path)


def test_test_images_without_classes_and_beside_others_are_not_used(tmp_path):
    files = {**files_of("train", 2), **files_of("val", 1), "test/images/test_0.jpg": encoded()}
    found = find(write_folder(tmp_path / "both", files), tmp_path)
    assert found.unused == {"in test/, beside other validation images": ["test/images/test_0.jpg"]}
    files = {**files_of("train", 2), "test/images/test_0.jpg": encoded()}
    found = find(write_folder(tmp_path / "alone", files), tmp_path, validation_share=0)
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
        ({"x_train.tar": b"no tar"}, {}, "x_train.tar is not a complete tar"),
        ({"x_train.tar": tar_of({"a.tar": b"no"})}, {}, "x_train.tar, a.tar, is not a complete tar"),
        ({"x_train.tar": tar_of({"a/x.jpg": b"x" * 9999})[:5000]}, {}, "x_train.tar is not a complete tar"),
        ({"x_train.tar": b"", "y_train.tar": b""}, {}, "has several ..train.tar"),
        ({k: v for k, v in ilsvrc().items() if "labels" not in k}, {}, "classes of the 6 validation images are not"),
    ],
)
def test_what_is_not_understood_is_told_why(tmp_path, files, options, said):
    folder = tmp_path / "set"
    folder.mkdir()
    write_folder(folder, files)
    given = {"validation_labels": str(folder / "list.txt")} if "labels" in options else {}
    with pytest.raises(ValueError, match=f"(?s){said}"):
        find(folder, tmp_path, **given)


def test_missing_and_truncated_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere does not exist. Understood are"):
        find(tmp_path / "nowhere", tmp_path)
    (tmp_path / "cut.tar.gz").write_bytes(tar_of(files_of("train", 2), "w:gz")[:-100])
    with pytest.raises(ValueError, match="cut.tar.gz is truncated or corrupt"):
        find(tmp_path / "cut.tar.gz", tmp_path)
    source = write_folder(tmp_path / "set", files_of("train", 2))
    for flag in ("words", "validation_labels"):
        with pytest.raises(ValueError, match=f"--{flag}=nowhere (cannot be read: No such file|, but)|no validation"):
            find(source, tmp_path, **{flag: "nowhere"})


def test_links_in_a_tar_are_not_silently_lost(tmp_path):
    import tarfile

    path = tmp_path / "set.tar"
    path.write_bytes(tar_of(files_of("train", 2)))
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("train/n01440764/link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "n01440764_0.jpg"
        tar.addfile(link)
    found = find(path, tmp_path, validation_share=0)
    assert found.unused == {"neither a file nor a folder in the tar": ["train/n01440764/link.jpg"]}


def test_links_to_files_and_folders_are_followed(tmp_path):
    source = write_folder(tmp_path / "set", files_of("train", 2))
    (tmp_path / "linked" / "train").mkdir(parents=True)
    for name in CLASSES:
        (tmp_path / "linked" / "train" / name).symlink_to(os.path.join(source, "train", name))
    os.symlink("nowhere", tmp_path / "set" / "train" / CLASSES[0] / "lost.jpg")
    found = find(tmp_path / "linked", tmp_path, validation_share=0)
    assert len(found.splits["train"].labels) == 7 and min(found.splits["train"].files.sizes) == -1
