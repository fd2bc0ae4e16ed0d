"""A data set of TensorFlow Datasets, and a small convolutional network trained on it by Muon in Keras' fit.

    python examples/tfds_digits.py

Runs on every backend of Keras 3, in about ten seconds on one core; TFDS itself needs TensorFlow. The data set is made
here, of scikit-learn's digits, so that nothing is downloaded.
"""

import tempfile

import keras
import numpy as np
import sklearn.datasets
import tensorflow_datasets as tfds

import tfbigbatch

BATCH, EPOCHS = 128, 8


def make_small_digits(data_dir):
    """1,797 handwritten digits of 8 x 8 pixels, a fifth of them for tests, in the files of TFDS."""
    digits, order = sklearn.datasets.load_digits(), np.random.RandomState(0).permutation(1797)
    images, labels = (digits.images * 15).astype("uint8")[..., None], digits.target
    examples = [(int(index), {"image": images[index], "label": labels[index]}) for index in order]
    features = {"image": tfds.features.Image(shape=(8, 8, 1)), "label": tfds.features.ClassLabel(num_classes=10)}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="small_digits",
        version="1.0.0",
        features=tfds.features.FeaturesDict(features),
        split_datasets={"train": examples[360:], "test": examples[:360]},
        data_dir=data_dir,
    )


def main(data_dir):
    keras.utils.set_random_seed(0)
    tfds.disable_progress_bar()
    # One of the catalogue, such as mnist, is loaded in the same way, and downloaded once.
    make_small_digits(data_dir)
    splits, info = tfds.load("small_digits", data_dir=data_dir, with_info=True)
    train, test = (splits[name].map(lambda each: (each["image"], each["label"])) for name in ("train", "test"))
    train = train.cache().shuffle(10_000, seed=0).batch(BATCH, drop_remainder=True).prefetch(2)
    layers = keras.layers
    network = keras.Sequential(
        [
            layers.Input(info.features["image"].shape),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(info.features["label"].num_classes),
        ]
    )
    recipe = tfbigbatch.Recipe(batch_size=32, learning_rate=0.01, warmup_epochs=0.5, epochs=EPOCHS, decay="linear")
    schedule = recipe.at(BATCH, "sqrt").schedule(info.splits["train"].num_examples)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(tfbigbatch.Muon(schedule, weight_decay=0.01), loss, metrics=["accuracy"])
    history = network.fit(train, epochs=EPOCHS, verbose=0).history
    _, accuracy = network.evaluate(test.batch(BATCH), verbose=0)
    print(f"loss {history['loss'][0]:.3f} to {history['loss'][-1]:.3f}, {accuracy:.1%} of the held-out digits")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
