"""The extra `tfds`: trains on a data set of TensorFlow Datasets."""

import os
import subprocess
import sys

TASK = """
import numpy as np
import tensorflow_datasets as tfds

from tfbigbatch import tasks
from tfbigbatch.config import new_config


class Signs(tfds.core.GeneratorBasedBuilder):
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
        for row in range(20):
            yield row, {"numbers": np.full(4, row - 9.5, np.float32), "sign": int(row > 9)}


def network(input_shape):
    import keras

    return keras.Sequential([keras.layers.Input(input_shape), keras.layers.Dense(2)])


def signs(split, seed, data_dir):
    part = {"train": "train[:90%]", "validation": "train[90%:]"}[split]
    options = {"shuffle_files": split == "train", "read_config": tfds.ReadConfig(shuffle_seed=seed)}
    examples = tfds.load("signs", split=part, data_dir=data_dir, as_supervised=True, **options)
    return examples.shuffle(100, seed=seed) if split == "train" else examples


tasks.define("signs", network=network, data=tasks.from_tf_data(signs))


def get_config():
    config = new_config("signs")
    config.batch_size, config.duration = 5, "2 epochs"
    return config
"""
with open("signs.py", "w", encoding="utf-8") as file:
    file.write(TASK)
os.mkdir("data")
command = [sys.executable, "-m", "tfbigbatch", "train", "--config=signs.py", "--data_dir=data", "--model_dir=run"]
subprocess.run(command, check=True)
