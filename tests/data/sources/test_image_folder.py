"""A folder of images: what is read, what is not, and what is said of it."""

import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from tests.helpers.datasets.image_sets import encoded, write_folder
from tfbigbatch import tasks
from tfbigbatch.data.sources import image_folder

GREY = np.linspace(0, 255, 1200).reshape(30, 40).astype(np.uint8)
PICTURE = PIL.Image.fromarray(np.stack([GREY, GREY[::-1], 255 - GREY], -1))


def said(caplog):
    return [record.getMessage().partition(": ")[2] for record in caplog.records]


def test_every_format_and_ending_has_its_own_pixels(tmp_path, caplog):
    kinds = {"jpg": "JPEG", "jpeg": "JPEG", "jfif": "JPEG", "jpe": "JPEG", "png": "PNG", "webp": "WEBP"}
    pictures = {f"a/{ending}.{ending}": encoded(PICTURE, kind) for ending, kind in kinds.items()}
    pictures["b/inner/palette.GIF"] = encoded(PICTURE.convert("P"), "GIF")
    data = image_folder.splits(write_folder(tmp_path, pictures), 30)["train"]
    assert data.names == ["a", "b"] and len(data) == len(pictures) and not said(caplog)
    for index, name in enumerate(sorted(pictures)):
        [found] = data.fetch(tf.constant([index], tf.int64))[0].numpy()
        whole = np.asarray(PIL.Image.open(io.BytesIO(pictures[name])).convert("RGB"), np.float32)
        np.testing.assert_allclose(found, whole[:, 5:35], atol=16, err_msg=name)


def test_bad_images_end_it_before_the_first_step_all_named(tmp_path, caplog):
    jpeg, png = encoded(PICTURE), encoded(PICTURE, "PNG")
    bad = {
        "a/half.jpg": jpeg[: len(jpeg) // 2],
        "a/half.png": png[: len(png) // 2],
        "a/page.jpg": b"<html>not found</html>",
        "b/empty.png": b"",
        "b/palette.bmp": encoded(PICTURE.convert("P"), "BMP"),
    }
    folder = write_folder(tmp_path, {"a/right.png": png, "b/right.png": png, **bad})
    with pytest.raises(
        ValueError, match="5 of 7 images of .* cannot be used, more than max_bad_fraction=0.01"
    ) as refused:
        image_folder.splits(folder, 8)
    assert all(f"  {name}: " in str(refused.value) for name in bad)
    assert "b/palette.bmp: a BMP; expected" in str(refused.value)
    # Few are left out.
    assert len(tasks.from_image_folder(image_size=8)(folder, max_bad_fraction=0.75)["train"]) == 2
    assert "left out a/half.png: cannot be decoded" in said(caplog) and len(said(caplog)) == 5
    with pytest.raises(ValueError, match="max_bad_fraction=2; expected a fraction from 0 to 1"):
        image_folder.splits(folder, 8, max_bad_fraction=2)


def test_the_folders_are_splits_and_what_is_not_used_is_told(tmp_path, caplog):
    png = encoded(PICTURE, "PNG")
    files = {f"train/{name}/{number}.png": png for name in ("cat", "dog") for number in range(3)}
    others = {"val/dog/1.png": png, "train/dog/notes.txt": b"", "extra/a/1.png": png, "__MACOSX/cat/._1.png": b"\x00"}
    found = image_folder.splits(write_folder(tmp_path, {**files, **others}), 4)
    assert {name: split._labels.tolist() for name, split in found.items()} == {
        "train": [0, 0, 0, 1, 1, 1],
        "validation": [1],
    }
    assert sorted(line.split(": ")[1].partition(" (")[0].partition(";")[0] for line in said(caplog)) == [
        "hidden, or of a folder __MACOSX",
        "in no folder of train/, val/",
        "not an image by name",
    ]
