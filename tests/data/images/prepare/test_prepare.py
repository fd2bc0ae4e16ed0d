"""Preparing sets of images, from the source to what is loaded again."""

import os

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from tests.helpers.datasets.compared import digests
from tests.helpers.datasets.image_sets import BAD, CLASSES, encoded, files_of, picture, write_folder
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import layouts, prepare
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.shards import PROGRESS


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Images that make several shards."""
    monkeypatch.setattr(prepare, "_IMAGES_EACH", 6)
    return write_folder(tmp_path / "source", {**files_of("train", 10), **files_of("val", 4)})


def prepared(source, output, **options):
    return prepare.prepare(source, str(output), prepare.Options(**options))


def examples(split):
    """The features of each record of a Split, found by its offset; each has one value."""
    parts = zip(split.files, np.split(split.offsets, np.cumsum(split.counts)[:-1]))
    found = [values for path, offsets in parts for _, values in tfrecord.values_at(path, offsets)]
    return [{name: value for name, [value] in features.items()} for features in found]


def test_every_image_is_in_one_record_with_its_class(source, tmp_path):
    content, already = prepared(source, tmp_path / "out")
    assert not already and content["left_out"] == content["fixed"] == []
    manifest = image_manifest.load(str(tmp_path / "out"))
    assert (manifest.classes, manifest.label_offset) == (CLASSES, 1)
    assert (manifest.image_key, manifest.label_key) == ("image/encoded", "image/class/label")
    for folder, split in (("train", manifest.splits["train"]), ("val", manifest.splits["validation"])):
        found = {}
        for features in examples(split):
            name, synset = features["image/filename"].decode(), features["image/class/synset"].decode()
            with open(os.path.join(source, folder, synset, name), "rb") as file:
                assert features["image/encoded"] == file.read()
            assert CLASSES[features["image/class/label"] - 1] == synset
            assert (features["image/height"], features["image/width"], features["image/channels"]) == (12, 20, 3)
            assert (features["image/format"], features["image/colorspace"]) == (b"JPEG", b"RGB")
            found[synset, name] = features
        assert len(found) == split.examples == len(files_of(folder, 10 if folder == "train" else 4))


def test_the_result_is_the_same_bytes_however_many_processes_and_wherever_the_source_is(source, tmp_path):
    prepared(source, tmp_path / "one", processes=1)
    (tmp_path / "elsewhere").mkdir()
    os.rename(source, tmp_path / "elsewhere" / "source")
    source = str(tmp_path / "elsewhere" / "source")
    prepared(source, tmp_path / "three", processes=3)
    assert digests(tmp_path / "one") == digests(tmp_path / "three")
    prepared(source, tmp_path / "seed", seed=1)
    assert digests(tmp_path / "seed").keys() == digests(tmp_path / "one").keys()
    assert digests(tmp_path / "seed") != digests(tmp_path / "one")


BROKEN = {
    f"train/{CLASSES[0]}/empty.jpg": b"",
    f"train/{CLASSES[0]}/header.jpg": BAD,
    f"train/{CLASSES[1]}/cut.JPEG": encoded()[:-40],
    f"val/{CLASSES[1]}/page.jpeg": b"<html>",
}
ODD = {
    f"train/{CLASSES[0]}/cmyk.jpg": encoded(picture().convert("CMYK")),
    f"train/{CLASSES[1]}/png.JPEG": encoded(kind="PNG"),
    f"val/{CLASSES[2]}/gif.gif": encoded(kind="GIF"),
    f"val/{CLASSES[2]}/gray.jpg": encoded(picture().convert("L")),
}


def test_bad_images_are_named_with_their_reasons_and_odd_ones_put_right(source, tmp_path):
    write_folder(source, {**BROKEN, **ODD})
    content, _ = prepared(source, tmp_path / "out", max_bad_fraction=0.1)
    assert [image["name"] for image in content["left_out"]] == sorted(BROKEN)
    reasons = {os.path.basename(image["name"]): image["reason"] for image in content["left_out"] + content["fixed"]}
    assert reasons["empty.jpg"] == "empty: 0 bytes" and "truncated" in reasons["cut.JPEG"]
    assert reasons["cmyk.jpg"] == "CMYK converted to RGB" and "PNG in disguise" in reasons["png.JPEG"]
    assert [os.path.basename(image["name"]) for image in content["fixed"]] == ["cmyk.jpg", "png.JPEG", "gif.gif"]
    manifest = image_manifest.load(str(tmp_path / "out"))
    assert [split.examples for split in manifest.splits.values()] == [32, 14]
    found = {e["image/filename"]: e for split in manifest.splits.values() for e in examples(split)}
    assert found[b"gray.jpg"]["image/channels"] == 1 and found[b"gray.jpg"]["image/colorspace"] == b"Grayscale"
    assert tf.io.decode_jpeg(found[b"cmyk.jpg"]["image/encoded"]).shape == (12, 20, 3)


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="--quality=101: expected 1 to 100"):
        prepare.Options(max_side=320, quality=101)


@pytest.mark.parametrize("images, size, shards", [(12_811, 11_000_000, 1101), (25000, 2000, 8), (10, -1, 1)])
def test_shards_are_about_as_large_as_planned_and_small_sets_have_several(images, size, shards):
    part = layouts.Images("", "", ["x"] * images, np.full(images, size), np.zeros(images))
    source = layouts.Source("", (), {"train": part}, {})
    assert len(prepare.plan(source, "", prepare.Options())) == shards


def test_larger_images_are_stored_smaller_and_the_folder_says_so(source, tmp_path):
    write_folder(source, {f"train/{CLASSES[0]}/large.jpg": encoded(picture(size=(90, 60)), quality=97)})
    options = {"max_side": 30, "quality": 75}
    content, _ = prepared(source, tmp_path / "one", **options)
    assert (content["max_side"], content["resized"]) == (30, 1)
    assert {"max_side": 30, "quality": 75}.items() <= content["options"].items()
    manifest = image_manifest.load(str(tmp_path / "one"))
    assert manifest.max_side == 30
    found = {features["image/filename"]: features for features in examples(manifest.splits["train"])}
    large = found.pop(b"large.jpg")
    assert (large["image/height"], large["image/width"]) == (30, 45)
    assert tf.io.decode_jpeg(large["image/encoded"]).shape == (30, 45, 3)


def test_a_full_disk_is_told_and_leaves_no_half_shard(tmp_path, small_disk):
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    large = encoded(PIL.Image.fromarray(noise), quality=100)
    source = write_folder(tmp_path / "set", {f"train/{c}/{n}.jpg": large for c in CLASSES for n in range(2)})
    with pytest.raises(ValueError, match="train-00000-of-00001 cannot be written: No space left"):
        prepared(source, small_disk / "out", validation_fraction=0)
    assert os.listdir(small_disk / "out") == [PROGRESS]


def test_a_prepared_folder_within_its_source_is_refused(source):
    with pytest.raises(ValueError, match="lies in --source="):
        prepared(source, os.path.join(source, "out"))
