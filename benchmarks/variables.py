"""Names and shapes of reference models' trainable variables, without building the models.

The names end as Keras' own do (kernel, bias, gamma, beta), so that exclusion patterns act as they would in training.
"""

import contextlib
import math

import numpy as np


def _dense(name, inputs, units):
    return [(f"{name}/kernel", (inputs, units)), (f"{name}/bias", (units,))]


def _normalization(name, width):
    return [(f"{name}/gamma", (width,)), (f"{name}/beta", (width,))]


def _convolution(name, size, inputs, filters):
    """A convolution without bias and its batch normalisation."""
    return [
        (f"{name}/conv2d/kernel", (size, size, inputs, filters)),
        *_normalization(f"{name}/batch_normalization", filters),
    ]


def _resnet50():
    """ResNet-50 v1.5, for 1,000 classes."""
    table = _convolution("stem", 7, 3, 64)
    inputs = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=1):
        for block in range(1, blocks + 1):
            name = f"stage_{stage}/block_{block}"
            if block == 1:
                table += _convolution(f"{name}/shortcut", 1, inputs, 4 * width)
            table += _convolution(f"{name}/reduce", 1, inputs, width)
            table += _convolution(f"{name}/spatial", 3, width, width)
            table += _convolution(f"{name}/expand", 1, width, 4 * width)
            inputs = 4 * width
    return table + _dense("logits", inputs, 1000)


def _bert(layers, width):
    """BERT's encoder and pooler, uncased: 30,522 tokens, 512 positions, 2 types."""
    rows = {"word": 30522, "position": 512, "type": 2}
    table = [(f"embeddings/{name}/embeddings", (count, width)) for name, count in rows.items()]
    table += _normalization("embeddings/layer_norm", width)
    for layer in range(layers):
        name = f"encoder/layer_{layer}"
        for part in ("query", "key", "value", "output"):
            table += _dense(f"{name}/attention/{part}", width, width)
        table += _normalization(f"{name}/attention/layer_norm", width)
        table += _dense(f"{name}/intermediate", width, 4 * width)
        table += _dense(f"{name}/output", 4 * width, width)
        table += _normalization(f"{name}/output/layer_norm", width)
    return table + _dense("pooler", width, width)


def _tiny():
    """One of each kind, for smoke runs."""
    return _convolution("stem", 3, 3, 8) + _dense("hidden", 8, 16) + _normalization("layer_norm", 16)


MODELS = {
    "tiny": _tiny,
    "resnet50": _resnet50,
    "bert_base": lambda: _bert(layers=12, width=768),
    "bert_large": lambda: _bert(layers=24, width=1024),
}


def shapes(model):
    """The (name, shape) pairs of the trainable variables of one of MODELS, in the order of its layers."""
    return MODELS[model]()


def count(table):
    """The number of parameters in `shapes`' pairs."""
    return sum(math.prod(shape) for _, shape in table)


def noise(shape, seed, scale=0.05):
    """Float32 values, the same on every machine."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)


def make(model, kind):
    """The variables of a model, for optimizers of 'tf_keras' or 'keras3'."""
    return [variable(kind, path, noise(shape, index)) for index, (path, shape) in enumerate(shapes(model))]


def gradients(model):
    """An array for each variable of a model."""
    return [noise(shape, 1000 + index, 0.01) for index, (_, shape) in enumerate(shapes(model))]


def variable(kind, path, value):
    """A variable with this path: tf.Variable for 'tf_keras', keras.Variable for 'keras3'."""
    if kind == "tf_keras":
        import tensorflow as tf

        return tf.Variable(value, name=path)
    import keras

    *layers, last = path.split("/")
    with contextlib.ExitStack() as scopes:
        for layer in layers:
            scopes.enter_context(keras.name_scope(layer))
        return keras.Variable(value, name=last)
