"""The same variables, gradients and learning rates for any optimizer, and what it makes of them."""

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.keras2 import LAMB, LARS

UPDATES = 12
LARS_RATE, LAMB_RATE = 1.0, 0.05
# Large enough that a layer moves by percents in an update, so that a wrong ratio shows.
EETA, WEIGHT_DECAY = 0.05, 0.1

_random = np.random.RandomState(0)
WEIGHTS = {
    "dense/kernel": _random.normal(size=(7, 5)).astype("float32"),
    "dense/scale": _random.normal(size=6).astype("float32"),
    "dense/bias": _random.normal(size=5).astype("float32"),
    "norm/gamma": np.zeros(4, "float32"),
}
GRADIENTS = [
    {name: _random.normal(size=weight.shape).astype("float32") for name, weight in WEIGHTS.items()}
    for _ in range(UPDATES)
]
# Together with no decay, the zero norm of an update.
GRADIENTS[0]["dense/bias"][:] = 0.0

# What is a matrix, and what is none, to the Muons.
MUON_RATE = 0.05
MUON_WEIGHTS = {
    name: _random.normal(size=shape).astype("float32")
    for name, shape in {
        "dense/kernel": (7, 5),
        "wide/kernel": (3, 9),
        "conv/kernel": (3, 3, 2, 4),
        "attention/query/kernel": (6, 2, 3),
        "attention/attention_output/kernel": (2, 3, 6),
        "logits/kernel": (4, 1000),
        "dense/bias": (5,),
    }.items()
}
MUON_GRADIENTS = [
    {name: _random.normal(size=weight.shape).astype("float32") for name, weight in MUON_WEIGHTS.items()}
    for _ in range(UPDATES)
]
# Rounding grows in the Newton-Schulz steps, in another order of products.
MUON_TOLERANCE = {"weights": MUON_WEIGHTS, "rtol": 1e-4, "atol": 1e-4}

# Patterns that every peer with patterns of its own reads alike; the tests of each peer name the others.
EXCLUSIONS = [
    {},
    {"exclude_from_weight_decay": ["bias", "gamma"]},
    {"exclude_from_weight_decay": ["bias"], "exclude_from_layer_adaptation": ["scale", "gam+a"]},
]


def decayed_from(rate):
    """A schedule that falls in a line to a tenth of `rate` over the updates."""
    return tf_keras.optimizers.schedules.PolynomialDecay(rate, UPDATES, 0.1 * rate)


def lars(**arguments):
    """Our LARS for the comparison with tf-models-official's and optax's form."""
    arguments = {"form": "tfm", "exclude_from_weight_decay": [], **arguments}
    return LARS(decayed_from(LARS_RATE), weight_decay=WEIGHT_DECAY, eeta=EETA, **arguments)


def lamb(**arguments):
    """Our LAMB with the same rate and decay."""
    arguments = {"exclude_from_weight_decay": [], **arguments}
    return LAMB(decayed_from(LAMB_RATE), weight_decay=WEIGHT_DECAY, **arguments)


def sparse(gradients):
    """The gradients, the matrix's as slices of its rows 0, 3 and 0 again."""

    def slices(matrix):
        return tf.IndexedSlices(tf.constant(matrix[:3]), tf.constant([0, 3, 0]), tf.constant(matrix.shape))

    return [{**each, "dense/kernel": slices(each["dense/kernel"])} for each in gradients]


def run(optimizer, gradients=GRADIENTS, weights=WEIGHTS):
    """The weights by name after a Keras optimizer, of any generation, has applied the gradients."""
    variables = {name: tf.Variable(weight, name=name) for name, weight in weights.items()}
    for each in gradients:
        pairs = [(each[name], variable) for name, variable in variables.items()]
        optimizer.apply_gradients([(tf.constant(g) if isinstance(g, np.ndarray) else g, v) for g, v in pairs])
    return {name: variable.numpy() for name, variable in variables.items()}


def assert_same(ours, theirs, weights=WEIGHTS, rtol=1e-5, atol=1e-6):
    for name, weight in weights.items():
        assert np.abs(ours[name] - weight).max() > 0.02, f"{name} hardly moved: the comparison would show nothing"
        np.testing.assert_allclose(ours[name], theirs[name], rtol=rtol, atol=atol, err_msg=name)


def assert_differ(ours, theirs, names):
    """The weights differ by more than rounding in `names` and nowhere else."""
    found = {name for name in ours if not np.allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-3)}
    assert found == set(names)
