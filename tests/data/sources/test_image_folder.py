"""A folder of images: what is read, what is not, and what is said of it."""

import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.data.sources import image_folder
from tfbigbatch.data.sources.image_folder import ImageFolder

GREY = np.linspace(0, 255, 1200).reshape(30, 40).astype(np.uint8)
PICTURE = PIL.Image.fromarray(np.stack([GREY, GREY[::-1], 255 - GREY], -1))


def encoded(picture=PICTURE, kind="PNG"):
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(folder)


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def test_every_format_and_ending_has_its_own_pixels(tmp_path, caplog):
    kinds = {"jpg": "JPEG", "jpeg": "JPEG", "jfif": "JPEG", "jpe": "JPEG", "png": "PNG", "webp": "WEBP", "bmp": "BMP"}
    pictures = {f"a/{ending}.{ending}": encoded(kind=kind) for ending, kind in kinds.items()}
    pictures["a/inner/palette.GIF"] = encoded(PICTURE.convert("P"), "GIF")
    pictures["a/grey.bmp"] = encoded(PIL.Image.fromarray(GREY), "BMP")
    pictures["a/alpha.bmp"] = encoded(PICTURE.convert("RGBA"), "BMP")
    data = ImageFolder(write(tmp_path, pictures), image_size=30)
    assert data.names == ["a"] and len(data) == len(pictures) and not said(caplog)
    for index, name in enumerate(sorted(pictures)):
        [found] = data.fetch(tf.constant([index], tf.int64))[0].numpy()
        whole = np.asarray(PIL.Image.open(io.BytesIO(pictures[name])).convert("RGB"), np.float32)
        np.testing.assert_allclose(found, whole[:, 5:35], atol=16, err_msg=name)


def test_bad_images_end_it_before_the_first_step_all_named(tmp_path):
    jpeg, png = encoded(kind="JPEG"), encoded()
    bad = {
        "a/half.jpg": jpeg[: len(jpeg) // 2],
        "a/no_end.jpg": jpeg[:-2],
        "a/half.png": png[: len(png) // 2],
        "a/page.jpg": b"<html>not found</html>",
        "b/empty.png": b"",
        "b/bits.bmp": encoded(PIL.Image.fromarray(GREY > 100), "BMP"),
        "b/palette.bmp": encoded(PICTURE.convert("P"), "BMP"),
    }
    folder = write(tmp_path, {"a/right.png": png, "b/right.png": png, **bad})
    with pytest.raises(ValueError, match="7 of 9 images of .* cannot be used, more than max_bad_share=0.01") as refused:
        ImageFolder(folder, image_size=8)
    assert all(f"  {name}: " in str(refused.value) for name in bad)
    assert "b/palette.bmp: a BMP with a palette" in str(refused.value)
    assert "a/half.png: cannot be decoded: " in str(refused.value) and "{{" not in str(refused.value)


def test_few_bad_images_are_left_out_and_told(tmp_path, caplog):
    folder = write(tmp_path, {**{f"a/{number}.png": encoded() for number in range(3)}, "b/bad.png": b"x"})
    data = tasks.from_image_folder(image_size=8)(folder, max_bad_share=0.25)["train"]
    # A class of bad images alone is none.
    assert len(data) == 3 and data.names == ["a"]
    assert [line.partition(": ")[2] for line in said(caplog)] == [
        "left out b/bad.png: cannot be decoded: Unknown image file format. One of JPEG, PNG, GIF, BMP, WebP required.",
        "4 read, 3 used; left out: 1 bad",
    ]
    with pytest.raises(ValueError, match="max_bad_share=2; expected a fraction from 0 to 1"):
        ImageFolder(folder, image_size=8, max_bad_share=2)


def test_what_is_no_image_of_a_class_is_told(tmp_path, caplog):
    png = encoded()
    files = {"cat/1.png": png, "dog/1.png": png, "dog/1.tif": b"", "dog/notes.txt": b"", "stray.png": png}
    files |= {"__MACOSX/cat/._1.png": b"\x00", "cat/._1.png": b"\x00", ".ipynb_checkpoints/1.png": png}
    folder = write(tmp_path, files)
    (tmp_path / "empty").mkdir()
    data = image_folder.splits(folder, 8)["train"]
    assert data.names == ["cat", "dog"] and data._labels.tolist() == [0, 1]
    first, second = said(caplog)
    assert first.endswith("folders without an image are no classes: empty")
    assert second.partition(": ")[2] == (
        "8 read, 2 used; left out: 2 no images by name (.jpeg, .jpg, .jfif, .jpe, .png, .gif, .bmp, .webp); "
        "1 in the folder of no class; 3 hidden, or of a folder __MACOSX"
    )


def test_a_folder_beside_the_splits_is_told(tmp_path, caplog):
    folders = ("train", "val", "validation", "extra", "__MACOSX")
    found = image_folder.splits(write(tmp_path, {f"{name}/a/1.png": encoded() for name in folders}), 8)
    assert list(found) == ["train", "validation"] and found["validation"].source.endswith("validation")
    assert said(caplog)[0].endswith("not read, beside its train, validation: the folders extra, val")
