import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import made_images
from tests.helpers.datasets.compared import train
from tfbigbatch.data.images.dataset import ImageRecords

COUNTS = (30, 7, 64, 26)
SIZE = sum(COUNTS)
BATCH = 16


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    return made_images.write_split(tmp_path_factory.mktemp("images"), COUNTS)


def images_of(split, **options):
    if options.get("resizer") == "opencv":
        pytest.importorskip("cv2")
    options = {"image_size": 32, "shuffle_window": 50, "threads": 2, **options}
    return ImageRecords(split, made_images.manifest_of(train=split), **options)


def numbers_in(batches):
    """The examples of batches: their brightness is their number, but for the JPEG's rounding."""
    return np.rint(np.concatenate([images.mean(axis=(1, 2, 3)) for images, _, _ in batches])).astype(int)


def equal(one, two):
    assert len(one) == len(two)
    for mine, other in zip(one, two):
        np.testing.assert_equal(mine, other)


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    """Images whose columns differ, so that a crop or a flip shows."""
    picture = np.tile(np.linspace(0, 255, 48).astype(np.uint8)[None, :, None], [40, 1, 3])
    content = made_images.record(tf.io.encode_jpeg(picture).numpy(), 1)
    return made_images.write_split(
        tmp_path_factory.mktemp("bands"), COUNTS, replaced=dict.fromkeys(range(SIZE), content)
    )


def test_crops_differ_from_image_to_image_and_a_resumed_run_sees_the_same_bits(bands):
    whole = train(images_of(bands), 0, 16)
    equal(train(images_of(bands), 13, 16), whole[13:])
    images = np.concatenate([images for images, _, _ in whole])
    # Some differ in height alone, which the bands do not show.
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) > 0.85 * len(images)
    # About half are flipped: the brighter side is on the left.
    flipped = images[:, :, 0].mean(axis=(1, 2)) > images[:, :, -1].mean(axis=(1, 2))
    assert 0.35 < flipped.mean() < 0.65
    assert not np.array_equal(train(images_of(bands), 0, 1, seed=1)[0][0], images[:BATCH])


BAD = {
    3: b"no protocol buffer",
    31: made_images.record(b"no JPEG", 1),
    64: made_images.record(made_images.jpeg_of(64)[:200], 1),
    90: made_images.record(made_images.jpeg_of(90), 0),
    100: made_images.record(made_images.jpeg_of(100), made_images.CLASSES + 1),
}


@pytest.fixture
def damaged(tmp_path):
    """A split with a bad record of each kind, and one whose checksum is wrong."""
    split = made_images.write_split(tmp_path, COUNTS, replaced=BAD)
    with open(split.files[3], "r+b") as file:
        file.seek(int(split.offsets[120]) + 30)
        file.write(b"????")
    return split


@pytest.mark.parametrize("resizer", ["tensorflow", pytest.param("opencv", marks=pytest.mark.slow)])
def test_a_bad_record_weighs_nothing_and_costs_no_other(damaged, caplog, resizer):
    images = images_of(damaged, max_bad_fraction=0.1, resizer=resizer)
    batches = train(images, 0, 16)
    weights = np.concatenate([weights for _, _, weights in batches])
    numbers, labels = numbers_in(batches), np.concatenate([labels for _, labels, _ in batches])
    np.testing.assert_array_equal(labels[weights == 1], numbers[weights == 1] % made_images.CLASSES)
    bad = {*BAD, 120}
    for epoch in range(2):
        of_epoch = slice(epoch * SIZE, (epoch + 1) * SIZE)
        assert (weights[of_epoch] == 0).sum() == len(bad)
        assert sorted(numbers[of_epoch][weights[of_epoch] == 1]) == sorted(set(range(SIZE)) - bad)
    assert images.bad.count == len(bad)
    images.bad.check()
    for number in bad:
        file, offset = images.bad.locate(number)
        assert sum(f"byte {offset} of {file} " in message for message in caplog.messages) == 1
    equal(train(images_of(damaged, resizer=resizer), 5, 9), batches[5:9])


def test_evaluation_masks_a_bad_record_and_too_many_are_refused(damaged):
    images = images_of(damaged, max_bad_fraction=0.02)
    batches = images.evaluation_batches(tf.distribute.InputContext(1, 0, 1), batch_size=50)
    assert sum(mask.numpy().sum() for _, _, mask in batches) == SIZE - 6
    assert images.bad.count == 6
    with pytest.raises(ValueError, match=r"6 of the 127 records of train .* first is at byte \d+ of .*train-0"):
        images.bad.check()
