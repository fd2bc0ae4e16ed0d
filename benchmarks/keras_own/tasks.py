"""Three small networks, each with its data."""

import collections
import csv
import dataclasses
import glob
import math
import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfbigbatch.run_directory.metric import Metric

HEAD = "head"
_CLASSES = 20
_WORDS, _LENGTH, _WIDTH, _HEADS = 4000, 24, 32, 2


@dataclasses.dataclass(frozen=True)
class Task:
    """A network and its data.

    Attributes:
      title: for the tables.
      epochs: at every batch size.
      metric: of the held-out data.
      network: function that makes it; the output layer is named HEAD.
      loss: as `compile` takes it.
      train, validation, test: pairs of arrays, the inputs and the targets.
      unit: of the metric in the tables: 0.01 for percent.
    """

    title: str
    epochs: int
    metric: Metric
    network: Callable[[], Any]
    loss: Any
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    unit: float = 1.0

    def steps(self, batch_size):
        """Of a run."""
        return self.epochs * math.ceil(len(self.train[0]) / batch_size)


def dense(train=8192, epochs=10):
    """Two dense layers on Friedman's first regression problem: the noise is 4% of the target's variance."""
    from sklearn.datasets import make_friedman1

    inputs, targets = make_friedman1(train + 6144, noise=1.0, random_state=0)
    targets = (targets - targets[:train].mean()) / targets[:train].std()
    splits = _split(inputs.astype("float32") * 2 - 1, targets.astype("float32")[:, None], train, 2048)
    # The mean squared error is the variance left: the targets have a variance of 1.
    metric = Metric("percent_unexplained", higher_is_better=False)
    return Task("Dense layers on Friedman's first problem", epochs, metric, _dense_network, "mse", *splits, unit=0.01)


def _dense_network():
    layers = keras.layers
    hidden = [layers.Dense(128, "relu"), layers.Dense(128, "relu")]
    return keras.Sequential([layers.Input((10,)), *hidden, layers.Dense(1, name=HEAD)])


def convnet(folder):
    """A convnet on 20 classes of tiny-imagenet at 16 pixels; tiny-imagenet's validation pictures are the test data."""
    names = sorted(os.listdir(os.path.join(folder, "train")))[:_CLASSES]
    with open(os.path.join(folder, "val", "val_annotations.txt"), encoding="utf-8") as file:
        annotated = [line.split("\t")[:2] for line in file]
    training = [
        (path, name) for name in names for path in glob.glob(os.path.join(folder, "train", name, "images", "*"))
    ]
    testing = [(os.path.join(folder, "val", "images", path), name) for path, name in annotated if name in names]
    pictures, labels = _pictures(training, names)
    order = np.random.RandomState(0).permutation(len(labels))
    splits = _split(pictures[order], labels[order], 9216, 784)[:2]
    test = _pictures(testing, names)
    metric = Metric("accuracy")
    return Task("A convnet on tiny-imagenet", 4, metric, _convnet_network, _cross_entropy(), *splits, test)


def _pictures(found, names):
    """([pictures, 16, 16, 3] from -1 to 1, labels) of pairs of a path and a class's name."""
    import tensorflow as tf

    found = sorted(found)
    read = [tf.io.decode_jpeg(tf.io.read_file(path), channels=3) for path, _ in found]
    pictures = np.array([tf.image.resize(picture, (16, 16), "area").numpy() for picture in read])
    return pictures / 127.5 - 1, np.array([names.index(name) for _, name in found])


def _convnet_network():
    layers = keras.layers
    network = keras.Sequential([layers.Input((16, 16, 3))])
    for channels in (16, 32, 64):
        network.add(layers.Conv2D(channels, 3, padding="same", use_bias=False))
        # Keras' default, 0.99, would keep half of the first statistics over 72 steps.
        network.add(layers.BatchNormalization(momentum=0.9))
        network.add(layers.ReLU())
        network.add(layers.MaxPooling2D())
    for layer in (layers.Flatten(), layers.Dense(64, "relu"), layers.Dense(_CLASSES, name=HEAD)):
        network.add(layer)
    return network


def transformer(folder, training=8192):
    """A Transformer on phrases of SST-2's training set; the sentences of the development set are the test data."""
    phrases, labels = _sentences(os.path.join(folder, "train.tsv"))
    order = np.random.RandomState(0).permutation(len(phrases))[: training + 2048]
    phrases, labels = [phrases[number] for number in order], labels[order]
    counts = collections.Counter(word for phrase in phrases[:training] for word in phrase)
    # 0 is padding, 1 any other word.
    ids = {word: number for number, (word, _) in enumerate(counts.most_common(_WORDS - 2), 2)}
    splits = _split(_tokens(phrases, ids), labels, training, 2048)[:2]
    sentences, answers = _sentences(os.path.join(folder, "dev.tsv"))
    test = _tokens(sentences, ids), answers
    metric = Metric("accuracy")
    return Task("A Transformer on SST-2", 3, metric, _transformer_network, _cross_entropy(), *splits, test)


def _sentences(path):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["sentence"].split() for row in rows], np.array([int(row["label"]) for row in rows])


def _tokens(sentences, ids):
    rows = np.zeros((len(sentences), _LENGTH), "int32")
    for row, words in zip(rows, sentences):
        found = [ids.get(word, 1) for word in words[:_LENGTH]]
        row[: len(found)] = found
    return rows


def _transformer_network():
    layers = keras.layers
    words = layers.Input((_LENGTH,), dtype="int32")
    mask = keras.ops.not_equal(words, 0)
    places = layers.Embedding(_LENGTH, _WIDTH, name="embedding_of_places")(keras.ops.arange(_LENGTH))
    states = layers.Embedding(_WORDS, _WIDTH, name="embedding_of_words")(words) + places
    for _ in range(2):
        normal = layers.LayerNormalization()(states)
        states += layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS)(normal, normal, attention_mask=mask[:, None, :])
        hidden = layers.Dense(2 * _WIDTH, "gelu")(layers.LayerNormalization()(states))
        states += layers.Dense(_WIDTH)(hidden)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(states), mask=mask)
    return keras.Model(words, layers.Dense(2, name=HEAD)(pooled))


def _cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _split(inputs, targets, train, validation):
    """Training, validation and the rest, in the order of the arrays."""
    ends = [0, train, train + validation, len(inputs)]
    return [(inputs[start:end], targets[start:end]) for start, end in zip(ends, ends[1:])]
