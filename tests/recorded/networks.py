"""What the networks compute on fixed weights, recorded; another way to write them may not change it.

KERAS_BACKEND=jax python -m tests.recorded.networks NAME ...    # prints the losses of `fit` as JSON
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np

from tfbigbatch.models import alexnet, bert, resnet, small_classifiers
from tfbigbatch.models.gnmt import gnmt
from tfbigbatch.models.lstm_language_model import lstm_language_model

# Of a gradient, so many values evenly spaced.
KEPT = 40

_MNIST = {"shape": (28, 28), "classes": 10, "brightest": 255}
_DIGITS = {"shape": (8, 6), "classes": 5, "brightest": 16, "hidden_units": 7}
_ALEXNET = {"image_size": 32, "classes": 5, "stem": "5x5", "width": 6, "groups": 1, "fc_units": 12, "dropout": 0.0}
_RESNET = {"image_size": 32, "classes": 5, "blocks": (2, 1), "width": 6, "stem": "3x3"}
_LANGUAGE = {"vocabulary_size": 11, "window": 6, "hidden_units": 5, "embedding_units": 3, "layers": 2}
_GNMT = {"vocabulary_size": 11, "hidden_units": 5, "embedding_units": 4, "dropout": 0.0}
BERT = {
    **{"vocabulary_size": 20, "layers": 2, "hidden_units": 8, "heads": 2, "inner_units": 12, "max_positions": 16},
    **{"dropout": 0.0, "attention_dropout": 0.0},
}
# A network's function and fields by name.
NETWORKS = {
    "row classifier": (small_classifiers.row_classifier, _DIGITS),
    "row classifier, projection": (small_classifiers.row_classifier, {**_DIGITS, "projection_units": 4}),
    "row classifier, unrolled": (small_classifiers.row_classifier, {**_DIGITS, "unroll": True}),
    "lenet": (small_classifiers.lenet, {**_MNIST, "filters": 3, "fc_units": 20}),
    "mnist_cnn": (small_classifiers.mnist_cnn, {**_MNIST, "filters": 3, "fc_units": 8, "dropout": 0.0}),
    "alexnet": (alexnet.alexnet, _ALEXNET),
    "alexnet, two groups": (alexnet.alexnet, {**_ALEXNET, "groups": 2}),
    "alexnet, batch": (alexnet.alexnet, {**_ALEXNET, "norm": "batch"}),
    "alexnet, 5x5_stride2": (alexnet.alexnet, {**_ALEXNET, "stem": "5x5_stride2", "image_size": 40}),
    "alexnet, 11x11_stride4": (alexnet.alexnet, {**_ALEXNET, "stem": "11x11_stride4", "image_size": 67}),
    "resnet": (resnet.resnet, _RESNET),
    "resnet, recomputed": (resnet.resnet, {**_RESNET, "recompute": True}),
    "resnet, bottleneck": (resnet.resnet, {**_RESNET, "bottleneck": True}),
    "resnet, version 2": (resnet.resnet, {**_RESNET, "version": 2}),
    "resnet, version 2, bottleneck": (resnet.resnet, {**_RESNET, "version": 2, "bottleneck": True}),
    "resnet, 7x7_pool, odd size": (resnet.resnet, {**_RESNET, "stem": "7x7_pool", "image_size": 33}),
    "resnet, 3x3_stride2": (resnet.resnet, {**_RESNET, "stem": "3x3_stride2"}),
    "resnet, cifar": (resnet.cifar_resnet, {"depth": 8, "image_size": 16, "classes": 5, "width": 4}),
    "resnet, shared statistics": (resnet.resnet, {**_RESNET, "cross_replica_norm": True}),
    "language model": (lstm_language_model, _LANGUAGE),
    "language model, unrolled": (lstm_language_model, {**_LANGUAGE, "unroll": True}),
    "gnmt of 1 and 1": (gnmt, {**_GNMT, "encoder_layers": 1, "decoder_layers": 1}),
    "gnmt of 2 and 3": (gnmt, {**_GNMT, "encoder_layers": 2, "decoder_layers": 3}),
    "gnmt of 3 and 2": (gnmt, {**_GNMT, "encoder_layers": 3, "decoder_layers": 2}),
    "bert pretrainer": (bert.pretrainer, BERT),
    "bert pretrainer, mixed_bfloat16": (bert.pretrainer, BERT),
    "bert pretrainer, mixed_float16": (bert.pretrainer, BERT),
    "bert pretrainer, without pairs": (bert.pretrainer, {**BERT, "next_sentence": False}),
    "bert classifier": (bert.classifier, {**BERT, "classes": 3}),
    "bert classifier of the mean": (bert.classifier, {**BERT, "classes": 3, "pooling": "mean"}),
    "bert chooser": (bert.chooser, {**BERT, "choices": 2}),
    "bert span_finder": (bert.span_finder, BERT),
}


def built(name):
    """A network with fixed weights, each drawn by its number among `model.weights`."""
    build, fields = NETWORKS[name]
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name.rpartition(" ")[2] if "mixed" in name else policy)
    model = build(**fields)
    keras.config.set_dtype_policy(policy)
    values = []
    for number, weight in enumerate(model.weights):
        random, shape = np.random.default_rng(number), tuple(weight.shape)
        if weight.name in ("gamma", "moving_variance"):
            values.append(random.uniform(0.5, 1.5, shape))
        else:
            values.append(random.normal(0, 0.1 if len(shape) == 1 else np.prod(shape[:-1]) ** -0.5, shape))
    model.set_weights(values)
    return model


def inputs_of(name, rows=4):
    """Inputs of a network, as arrays: integers within its fields, padded from the end."""
    build, fields = NETWORKS[name]
    random = np.random.default_rng(0)
    if build is lstm_language_model:
        states = [random.normal(size=(rows, 5)).astype("float32") for _ in range(4)]
        return [random.integers(0, 11, (rows, 6)).astype("int32"), *states]
    if build is gnmt:
        lengths = random.integers(1, 7, rows).astype("int32")
        source = np.where(np.arange(6) < lengths[:, None], random.integers(3, 11, (rows, 6)), 0).astype("int32")
        target = random.integers(0, 11, (rows, 5)).astype("int32")
        return {"source_ids": source, "source_lengths": lengths, "target_ids": target}
    if name.startswith("bert"):
        shape = (rows, 2, 10) if build is bert.chooser else (rows, 10)
        lengths = random.integers(6, 11, shape[:-1])
        found = {
            "input_word_ids": random.integers(0, fields["vocabulary_size"], shape),
            "input_mask": np.arange(10) < lengths[..., None],
            "input_type_ids": random.integers(0, 2, shape),
        }
        if build is bert.pretrainer:
            found["masked_lm_positions"] = random.integers(0, 6, (rows, 4))
        return {key: value.astype("int32") for key, value in found.items()}
    shape = fields["shape"] if "shape" in fields else (fields["image_size"], fields["image_size"], 3)
    return random.integers(0, fields.get("brightest", 255) + 1, (rows, *shape)).astype("uint8")


def computed(name):
    """What a network computes on its fixed weights, as float32 vectors by name."""
    import tensorflow as tf

    model, inputs = built(name), keras.tree.map_structure(tf.constant, inputs_of(name))
    joined = lambda tensors: tf.concat([tf.reshape(tf.cast(each, tf.float32), [-1]) for each in tensors], 0)
    found = {"outputs": joined(keras.tree.flatten(model(inputs, training=False)))}
    with tf.GradientTape() as tape:
        outputs = joined(keras.tree.flatten(model(inputs, training=True)))
        loss = tf.reduce_mean(outputs**2 * tf.linspace(0.5, 1.0, tf.size(outputs)))
    values = [each.value for each in model.trainable_variables]
    # Nothing reads the pooler of a BERT without pairs.
    gradients = tape.gradient(loss, values, unconnected_gradients="zero")
    gradients = [np.ravel(tf.convert_to_tensor(each)) for each in gradients]
    found |= {"outputs in training": outputs}
    found["gradients"] = np.concatenate([each[:: -(-len(each) // KEPT)] for each in gradients])
    if statistics := [np.ravel(each) for each in model.non_trainable_weights]:
        found["statistics"] = np.concatenate(statistics)
    return {f"{name}: {part}": np.asarray(value) for part, value in found.items()}


def losses_of_fit(name):
    """The losses of two epochs in Keras' own `fit`, on any backend."""
    model, images = built(name), inputs_of(name, 8)
    labels, loss = np.arange(8) % 5, keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if name == "bert pretrainer":
        labels = {"masked_lm": np.ones((8, 4), "int32"), "next_sentence": np.zeros(8, "int32")}
        loss = dict.fromkeys(labels, loss)
    model.compile(keras.optimizers.SGD(0.01), loss)
    return model.fit(images, labels, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]


if __name__ == "__main__":
    print(json.dumps({name: losses_of_fit(name) for name in sys.argv[1:]}))
