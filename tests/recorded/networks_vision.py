"""Outputs, gradients and statistics of the image networks on fixed weights, recorded; a change of the code may not
change them.

    python -m tests.recorded.networks_vision [FILE ...]            # compares, and says what differs by how much
    python -m tests.recorded.networks_vision --write [FILE ...]    # replaces what is recorded
    KERAS_BACKEND=jax python -m tests.recorded.networks_vision --fit [NAME ...]    # prints the losses of `fit` as JSON

The first recording is of the networks in Keras 2, whose batch normalisation divided the variance by n - 1 in its moving
average; what is recorded divides by n, as in Keras 3.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

from tfbigbatch.models import alexnet, resnet, small_classifiers

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks")
BATCH = 4
# Of a gradient, so many values evenly spaced.
KEPT = 40

_MNIST = {"shape": (28, 28), "classes": 10, "brightest": 255}
_DIGITS = {"shape": (8, 6), "classes": 5, "brightest": 16}
_ALEXNET = {"image_size": 32, "classes": 5, "stem": "5x5", "width": 6, "groups": 1, "fc_units": 12, "dropout": 0.0}
_RESNET = {"image_size": 32, "classes": 5, "blocks": (2, 1), "width": 6, "stem": "3x3"}
# A network's function and fields by case, by file.
NETWORKS = {
    "small_classifiers": {
        "lstm": (small_classifiers.row_classifier, {**_DIGITS, "hidden_units": 7}),
        "lstm, projection": (small_classifiers.row_classifier, {**_DIGITS, "hidden_units": 7, "projection_units": 4}),
        "lstm, unrolled": (small_classifiers.row_classifier, {**_DIGITS, "hidden_units": 7, "unroll": True}),
        "lenet": (small_classifiers.lenet, {**_MNIST, "filters": 3, "fc_units": 20}),
        "mnist_cnn": (small_classifiers.mnist_cnn, {**_MNIST, "filters": 3, "fc_units": 8, "dropout": 0.0}),
    },
    "alexnet": {
        "local response": (alexnet.alexnet, _ALEXNET),
        "two groups": (alexnet.alexnet, {**_ALEXNET, "groups": 2}),
        "batch": (alexnet.alexnet, {**_ALEXNET, "norm": "batch"}),
        "5x5_stride2": (alexnet.alexnet, {**_ALEXNET, "stem": "5x5_stride2", "image_size": 40}),
        "11x11_stride4": (alexnet.alexnet, {**_ALEXNET, "stem": "11x11_stride4", "image_size": 67, "norm": "batch"}),
    },
    "resnet": {
        "basic": (resnet.resnet, _RESNET),
        "bottleneck": (resnet.resnet, {**_RESNET, "bottleneck": True}),
        "version 2": (resnet.resnet, {**_RESNET, "version": 2}),
        "version 2, bottleneck": (resnet.resnet, {**_RESNET, "version": 2, "bottleneck": True}),
        "7x7_pool, odd size": (resnet.resnet, {**_RESNET, "stem": "7x7_pool", "image_size": 33}),
        "3x3_stride2": (resnet.resnet, {**_RESNET, "stem": "3x3_stride2"}),
        "cifar": (resnet.cifar_resnet, {"depth": 8, "image_size": 16, "classes": 5, "width": 4}),
        "shared statistics": (resnet.resnet, {**_RESNET, "cross_replica_norm": True}),
    },
}
# Trained in `fit`: file, case, and fields that are changed.
FITTED = {
    "row classifier": ("small_classifiers", "lstm, projection", {}),
    "lenet": ("small_classifiers", "lenet", {}),
    "alexnet": ("alexnet", "two groups", {}),
    "alexnet_bn": ("alexnet", "batch", {}),
    "resnet": ("resnet", "basic", {}),
    "resnet, recomputed": ("resnet", "basic", {"recompute": True}),
}


def weights_of(model):
    """The fixed weights of a network, each drawn by its number among `model.weights`."""
    values = []
    for number, weight in enumerate(model.weights):
        random, shape, name = np.random.default_rng(number), tuple(weight.shape), weight.name.split("/")[-1]
        if "gamma" in name or "variance" in name:
            values.append(random.uniform(0.5, 1.5, shape))
        else:
            deviation = 0.1 if len(shape) == 1 else np.prod(shape[:-1]) ** -0.5
            values.append(random.normal(0, deviation, shape))
    return values


def with_fixed_weights(build, fields):
    """A network that has them."""
    model = build(**fields)
    model.set_weights(weights_of(model))
    return model


def images_for(fields, count=BATCH):
    """Images for a network of these fields: uint8 [count, rows, columns, ...]."""
    shape = fields["shape"] if "shape" in fields else (fields["image_size"], fields["image_size"], 3)
    images = np.random.default_rng(0).integers(0, fields.get("brightest", 255) + 1, (count, *shape))
    return images.astype(np.uint8)


def results(build, fields):
    """What a network computes on its fixed weights, as arrays by name."""
    import tensorflow as tf

    model, images = with_fixed_weights(build, fields), images_for(fields)
    found = {"outputs": model(images, training=False)}
    with tf.GradientTape() as tape:
        found["outputs in training"] = logits = model(images, training=True)
        loss = tf.reduce_mean(tf.square(logits - 1.0))
    gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
    values = [np.ravel(gradient) for gradient in gradients]
    found["gradients"] = np.concatenate([each[:: -(-len(each) // KEPT)] for each in values])
    if statistics := [np.asarray(each) for each in model.non_trainable_weights]:
        found["statistics"] = np.concatenate(statistics)
    return {name: np.asarray(value, np.float32) for name, value in found.items()}


def recorded(file):
    """The recorded arrays of a file, by case and name."""
    with np.load(os.path.join(FOLDER, f"{file}.npz")) as arrays:
        return dict(arrays)


def computed(file):
    """The arrays of the networks as they are, by case and name."""
    return {
        f"{case}: {name}": value
        for case, (build, fields) in NETWORKS[file].items()
        for name, value in results(build, fields).items()
    }


def losses_of_fit(names):
    """The losses of two epochs in Keras' own `fit`, on any backend, by the name in FITTED."""
    import keras

    found = {}
    for name in names:
        file, case, changed = FITTED[name]
        build, fields = NETWORKS[file][case]
        fields = {**fields, **changed}
        model = with_fixed_weights(build, fields)
        model.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        images = images_for(fields, 2 * BATCH)
        labels = np.arange(len(images)) % fields["classes"]
        history = model.fit(images, labels, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
        found[name] = history.history["loss"]
    return found


def main(arguments):
    if arguments[:1] == ["--fit"]:
        print(json.dumps(losses_of_fit(arguments[1:] or FITTED)))
        return False
    write = "--write" in arguments
    files = [each for each in arguments if each != "--write"] or list(NETWORKS)
    worst = 0.0
    for file in files:
        found = computed(file)
        if write:
            os.makedirs(FOLDER, exist_ok=True)
            np.savez_compressed(os.path.join(FOLDER, f"{file}.npz"), **found)
            continue
        for name, expected in recorded(file).items():
            differs = float(np.abs(found[name] - expected).max() / max(1.0, np.abs(expected).max()))
            print(f"{file}, {name}: differs by {differs:.1e}")
            worst = max(worst, differs)
    return worst > 1e-5


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
