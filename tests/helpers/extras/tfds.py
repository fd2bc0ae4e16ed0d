"""An experiment on a data set of TensorFlow Datasets."""

import numpy as np
import tensorflow_datasets

from tfbigbatch import tasks
from tfbigbatch.config import new_config


class Signs(tensorflow_datasets.core.GeneratorBasedBuilder):
    VERSION = tensorflow_datasets.core.Version("1.0.0")

    def _info(self):
        features = {
            "numbers": tensorflow_datasets.features.Tensor(shape=(4,), dtype=np.float32),
            "sign": tensorflow_datasets.features.ClassLabel(num_classes=2),
        }
        features = tensorflow_datasets.features.FeaturesDict(features)
        return tensorflow_datasets.core.DatasetInfo(
            builder=self, features=features, supervised_keys=("numbers", "sign")
        )

    def _split_generators(self, downloads):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for row in range(20):
            yield row, {"numbers": np.full(4, row - 9.5, np.float32), "sign": int(row > 9)}


def network(input_shape):
    import keras

    return keras.Sequential([keras.layers.Input(input_shape), keras.layers.Dense(2)])


def signs(split, seed, data_dir):
    part = {"train": "train[:90%]", "validation": "train[90%:]"}[split]
    reading = tensorflow_datasets.ReadConfig(shuffle_seed=seed)
    options = {"shuffle_files": split == "train", "read_config": reading, "as_supervised": True}
    examples = tensorflow_datasets.load("signs", split=part, data_dir=data_dir, **options)
    return examples.shuffle(100, seed=seed) if split == "train" else examples


tasks.define("signs", network=network, data=tasks.from_tf_data(signs))


def get_config():
    config = new_config("signs")
    config.batch_size, config.duration = 5, "2 epochs"
    return config
