"""TFDS and Hugging Face's datasets by stand-ins with the functions that are called; a slow test reads the real TFDS."""

import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.data.sources import splits


class Features:
    """TFDS' dictionary of features, which has no `get`."""

    def __contains__(self, name):
        return name == "label"

    def __getitem__(self, name):
        return {"label": types.SimpleNamespace(num_classes=3)}[name]


class Builder:
    """What `tfds.builder` gives: ten examples of a class number."""

    def __init__(self):
        part = types.SimpleNamespace(num_examples=10)
        parts = {"train[:90%]": part, "train[90%:]": part}
        self.info = types.SimpleNamespace(features=Features(), supervised_keys=("image", "label"), splits=parts)
        self.seeds = []

    def download_and_prepare(self):
        pass

    def as_dataset(self, split, shuffle_files, read_config, as_supervised):
        assert as_supervised and split in self.info.splits and shuffle_files == (split == "train[:90%]")
        self.seeds.append(read_config.shuffle_seed)
        return tf.data.Dataset.range(10).map(lambda number: (tf.cast(number, tf.float32)[tf.newaxis], number % 3))


class Rows:
    """What `datasets.load_dataset` gives: ten rows of three columns."""

    column_names = ["text", "length", "label"]
    features = {"label": types.SimpleNamespace(num_classes=2)}

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"text": f"row {index}", "length": index, "label": index % 2}


def batch_of(data, steps=1):
    batches = data.training_batches(tf.distribute.InputContext(), batch_size=5, seed=1, first_step=0, last_step=steps)
    return list(batches)


def read(data, **options):
    return splits.read(data, fields={}, owner="mine", held_out=("validation",), **{"data_dir": None, **options})


def test_tfds_is_shuffled_by_the_seed_of_the_epoch(monkeypatch):
    builder = Builder()
    stand_in = types.SimpleNamespace(
        builder=lambda name, data_dir: builder,
        ReadConfig=lambda shuffle_seed: types.SimpleNamespace(shuffle_seed=shuffle_seed),
    )
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", stand_in)
    prepared = tasks.from_tfds("three", prepare=lambda features, label: (features * 2, label))
    found = read(prepared, data_dir="folder")
    assert found["train"].classes == 3 and found["train"].source == "TFDS three, train[:90%]"
    assert found["train"].examples_in_epoch(5) == 10
    first, second, third, _ = batch_of(found["train"], 4)
    seen = np.concatenate([first[0], second[0]]).ravel()
    assert sorted(seen) == list(range(0, 20, 2)) and seen.tolist() != sorted(seen)
    assert not np.array_equal(first[0], third[0]) and len(set(builder.seeds)) == 3
    assert batch_of(found["train"])[0][0].numpy().tolist() == first[0].numpy().tolist()


@pytest.mark.slow
def test_a_data_set_of_tfds_itself(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")

    class FourNumbers(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {
                "numbers": tfds.features.Tensor(shape=(4,), dtype=np.float32),
                "sign": tfds.features.ClassLabel(num_classes=2),
            }
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features), supervised_keys=("numbers", "sign")
            )

        def _split_generators(self, downloads):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for index in range(20):
                yield index, {"numbers": np.full(4, index - 9.5, np.float32), "sign": int(index > 9)}

    found = read(tasks.from_tfds("four_numbers"), data_dir=str(tmp_path))
    assert found["train"].classes == 2 and found["train"].examples_in_epoch(5) == 15
    assert found["validation"].contents.startswith("2 examples of tf.data")
    for numbers, signs in batch_of(found["train"], 3):
        assert numbers.shape == (5, 4) and (signs.numpy() == (numbers.numpy()[:, 0] > 0)).all()


def test_hugging_face_is_read_by_index(monkeypatch):
    asked = []
    stand_in = types.SimpleNamespace(load_dataset=lambda name, **given: asked.append((name, given)) or Rows())
    monkeypatch.setitem(sys.modules, "datasets", stand_in)
    found = read(tasks.from_hugging_face("rows", features=["text", "length"], revision="abc"))
    assert asked[0] == ("rows", {"split": "train[:90%]", "revision": "abc"}) and found["train"].classes == 2
    [(features, labels)] = batch_of(found["train"])
    numbers = features["length"].numpy()
    assert [text.decode() for text in features["text"].numpy()] == [f"row {number}" for number in numbers]
    assert (labels.numpy() == numbers % 2).all()
    with pytest.raises(ValueError, match="has no column words; it has text, length, label"):
        read(tasks.from_hugging_face("rows", features="words"))


@pytest.mark.parametrize(
    "data, package",
    [
        (tasks.from_tfds("mnist"), "tensorflow-datasets"),
        (tasks.from_hugging_face("mnist", features="image"), "datasets"),
    ],
)
def test_a_missing_package_is_named(data, package, monkeypatch):
    for module in ("tensorflow_datasets", "datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=f"pip install {package}"):
        read(data)
