"""A data set of TFDS, and Hugging Face's datasets by a stand-in with the functions that are called."""

import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.data.sources import splits


class Rows:
    """What `datasets.load_dataset` gives: ten rows of three columns."""

    column_names = ["text", "length", "label"]
    features = {"label": types.SimpleNamespace(num_classes=2)}

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return {"text": f"row {index}", "length": index, "label": index % 2}


def batch_of(data, steps=1):
    batches = data.training_batches(tf.distribute.InputContext(), batch_size=6, seed=1, first_step=0, last_step=steps)
    return list(batches)


def read(data, **options):
    return splits.read(data, fields={}, owner="mine", held_out=("validation",), **{"data_dir": None, **options})


def test_tfds_is_shuffled_by_the_seed_of_the_epoch(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")

    class FourNumbers(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            kinds = {"numbers": tfds.features.Tensor(shape=(4,), dtype=np.float32)}
            kinds["sign"] = tfds.features.ClassLabel(num_classes=2)
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(kinds), supervised_keys=("numbers", "sign")
            )

        def _split_generators(self, downloads):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for index in range(20):
                yield index, {"numbers": np.full(4, index - 9.5, np.float32), "sign": int(index > 9)}

    doubled = tasks.from_tfds("four_numbers", prepare=lambda numbers, sign: (2 * numbers, sign))
    found = read(doubled, data_dir=str(tmp_path))
    assert found["train"].classes == 2 and found["train"].source == "TFDS four_numbers, train[:90%]"
    assert found["train"].examples_in_epoch(6) == 18 and found["validation"].contents.startswith("2 examples of tf.d")
    batches = batch_of(found["train"], 6)
    for numbers, signs in batches:
        assert numbers.shape == (6, 4) and (signs.numpy() == (numbers.numpy()[:, 0] > 0)).all()
    first, second = (np.concatenate([numbers[:, 0] for numbers, _ in part]) for part in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) and len(set(first)) == 18 and first.tolist() != second.tolist()
    assert first.tolist() != sorted(first)
    np.testing.assert_array_equal(batch_of(found["train"])[0][0], batches[0][0])


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


@pytest.mark.parametrize("package", ["tensorflow-datasets", "datasets"])
def test_a_missing_package_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    theirs = tasks.from_hugging_face("mnist", features="image") if package == "datasets" else tasks.from_tfds("mnist")
    with pytest.raises(ValueError, match=f"pip install {package}"):
        read(theirs)
