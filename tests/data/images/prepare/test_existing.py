"""TFRecords that are there already: indexed and described, never copied or changed."""

import array
import os

import numpy as np
import pytest

from tests.helpers.datasets.image_sets import CLASSES, encoded, files_of, picture, write_folder
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import prepare
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.tfrecord import RandomAccessReader

IMAGE = encoded()


def example(**features):
    return tfrecord.example({name.replace("__", "/"): value for name, value in features.items()})


def standard(label, number=0, **changed):
    """A record as the scripts of the TensorFlow models write it."""
    name = CLASSES[label - 1] if label > 0 else "background"
    features = {
        "image__encoded": encoded(picture(number)),
        "image__class__label": label,
        "image__class__synset": name.encode(),
        "image__object__bbox__xmin": array.array("f", [0.25]),
        "image__height": 12,
    }
    return example(**{**features, **changed})


def tfds(label, number=0):
    """A record as tensorflow_datasets writes it."""
    return example(image=encoded(picture(number)), label=label, file_name=b"n_1.JPEG")


def write(folder, files):
    """Writes a dictionary from names to lists of records; gives the folder as str."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in files.items():
        (folder / name).write_bytes(b"".join(map(tfrecord.framed, records)))
    return str(folder)


STANDARD = {
    "train-00000-of-00003": [standard(2), standard(1, 1), standard(2, 2)],
    "train-00001-of-00003": [],
    "train-00002-of-00003": [standard(3, 3)],
    "validation-00000-of-00001": [standard(1, 4), standard(3, 5)],
}
TFDS = {
    "imagenet2012-train.tfrecord-00000-of-00002": [tfds(2), tfds(0, 1)],
    "imagenet2012-train.tfrecord-00001-of-00002": [tfds(1, 2)],
    "imagenet2012-validation.tfrecord-00000-of-00001": [tfds(2, 3)],
    "imagenet2012-test.tfrecord-00000-of-00001": [tfds(-1, 4)],
}


def prepared(source, output, **options):
    return prepare.prepare(str(source), str(output), prepare.Options(**options))


def records_of(split):
    """The records by the index."""
    return RandomAccessReader(split).read(np.arange(split.examples)).tolist()


@pytest.mark.parametrize("files", [STANDARD, TFDS], ids=["standard", "tfds"])
def test_they_are_indexed_where_they_lie(tmp_path, files):
    folder = tmp_path / "source"
    write(folder, files)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    if files is TFDS:
        (folder / "label.labels.txt").write_text("\n".join(CLASSES) + "\n")
    content, already = prepared(tmp_path / "source", tmp_path / "out")
    assert not already
    manifest = image_manifest.load(str(tmp_path / "out"))
    assert manifest.classes == CLASSES
    keys = ("image/encoded", "image/class/label", 1) if files is STANDARD else ("image", "label", 0)
    assert (manifest.image_key, manifest.label_key, manifest.label_offset) == keys
    for name, split in manifest.splits.items():
        paths = sorted(str(folder / file) for file in files if name in file)
        assert list(split.files) == paths and all(map(os.path.isabs, paths))
        assert records_of(split) == [record for path in paths for record in files[os.path.basename(path)]]
    assert sorted(manifest.splits) == ["train", "validation"]
    assert {path: path.read_bytes() for path in before} == before
    assert sorted(os.listdir(tmp_path / "out")) == [
        ".progress",
        "manifest.json",
        "train.index.npy",
        "validation.index.npy",
    ]
    assert prepared(tmp_path / "source", tmp_path / "out", processes=2) == (content, True)
    assert prepared(tmp_path / "source", tmp_path / "again", processes=2) == (content, False)


def test_the_folder_of_the_records_may_hold_the_index_and_other_images_never_replace_them(tmp_path):
    source = write(tmp_path / "source", {**STANDARD, "train-00000-of-00001": [standard(1)]})
    images = write_folder(tmp_path / "images", files_of("train", 2))
    with pytest.raises(ValueError, match="files that this command did not make, such as .*train-00000-of-00001"):
        prepared(images, source)
    os.remove(f"{source}/train-00000-of-00001")
    prepared(source, source)
    assert image_manifest.load(source).splits["train"].examples == 4
    assert prepared(source, source)[1]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"train-00001-of-00003": None}, "has 2 train files such as train-00002-of-00003; expected one whole set"),
        ({"x-train.tfrecord-00000-of-00001": [tfds(1)]}, "has 4 train files such as x-train.*; expected one whole set"),
        ({f"train-{n:05d}-of-00003": None for n in range(3)}, "TFRecords for validation, but none for training"),
        ({"train-00000-of-00003": [example(jpeg=IMAGE, label=1)]}, "has the features jpeg, label; expected image/enc"),
        ({"train-00000-of-00003": [b"no example"]}, "record at byte 0 is no tf.train.Example"),
        ({"train-00002-of-00003": [standard(1), tfds(1)]}, r"at byte \d+ has no image/encoded or no image/cl"),
        (
            {"train-00002-of-00003": [standard(1, image__class__synset=b"n9")]},
            "Label 1 has the classes 'n01440764' and 'n9'",
        ),
        ({"validation-00000-of-00001": [standard(-1)]}, "records have the labels -1 to 3; expected 1 to 3"),
    ],
)
def test_what_does_not_make_sense_is_named(tmp_path, change, said):
    files = {name: records for name, records in {**STANDARD, **change}.items() if records is not None}
    source = write(tmp_path / "source", files)
    with pytest.raises(ValueError, match=said):
        prepared(source, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_truncated_file_and_options_without_meaning_are_named(tmp_path):
    source = write(tmp_path / "source", STANDARD)
    with pytest.raises(ValueError, match="--max_side is not for TFRecords"):
        prepared(source, tmp_path / "out", max_side=320)
    path = tmp_path / "source" / "train-00002-of-00003"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="train-00002-of-00003 is truncated: the record at byte 0"):
        prepared(source, tmp_path / "out")
