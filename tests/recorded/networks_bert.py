"""What BERT's networks compute, recorded with tf-models-official's encoder; no other way to write them changes it.

    python -m tests.recorded.networks_bert            # compares, and says what differs by how much
    python -m tests.recorded.networks_bert --write    # replaces the recorded numbers

The variables have tf-models-official's names; that at place i of the sorted names is drawn by NumPy's generator i.
"""

from __future__ import annotations

import os
import sys

import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks", "bert.npz")
SIZES = {
    **{"vocabulary_size": 20, "layers": 2, "hidden_units": 8, "heads": 2, "inner_units": 12, "max_positions": 16},
    **{"dropout": 0.0, "attention_dropout": 0.0},
}
BUILDERS = {
    "pretrainer": {},
    "pretrainer without pairs": {"next_sentence": False},
    "classifier": {"classes": 3},
    "classifier of the mean": {"classes": 3, "pooling": "mean"},
    "chooser": {"choices": 2},
    "span_finder": {},
}
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


def features(name: str) -> dict[str, np.ndarray]:
    """Three sequences of ten tokens, padded from the end: two choices of each for the chooser."""
    shape = (3, 2, 10) if name == "chooser" else (3, 10)
    generator = np.random.default_rng(0)
    lengths = generator.integers(6, 11, shape[:-1])
    found = {
        "input_word_ids": generator.integers(0, SIZES["vocabulary_size"], shape),
        "input_mask": np.arange(10) < lengths[..., None],
        "input_type_ids": generator.integers(0, 2, shape),
    }
    if name.startswith("pretrainer"):
        found["masked_lm_positions"] = generator.integers(0, 6, (3, 4))
    return {key: value.astype("int32") for key, value in found.items()}


def outputs_and_gradients(name: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The outputs in one vector, and the gradients of their weighted squares by the variables' names."""
    import tensorflow as tf

    from tfbigbatch.models import bert

    network = getattr(bert, name.split()[0])(**SIZES, **BUILDERS[name])
    # A model of Keras 2 has no paths, and one of Keras 3 has the states of dropout among its variables.
    name_of = lambda variable: getattr(variable, "path", variable.name).split(":")[0]
    for place, variable in enumerate(sorted(network.weights, key=name_of)):
        drawn = np.random.default_rng(place).normal(0.0, 0.3, tuple(variable.shape))
        variable.assign(drawn + 1.0 if name_of(variable).endswith("gamma") else drawn)
    trained = [getattr(variable, "value", variable) for variable in network.trainable_variables]
    trained = trained if isinstance(trained[0], tf.Variable) else list(network.trainable_variables)
    with tf.GradientTape() as tape:
        outputs = network({key: tf.constant(value) for key, value in features(name).items()}, training=True)
        flat = tf.concat([tf.reshape(each, [-1]) for each in tf.nest.flatten(outputs)], 0)
        loss = tf.reduce_mean(flat**2 * tf.linspace(0.5, 1.0, tf.size(flat)))
    # tf-models-official's pooler has no gradient where nothing reads it.
    found = zip(network.trainable_variables, tape.gradient(loss, trained))
    gradients = {name_of(variable): tf.convert_to_tensor(each).numpy() for variable, each in found if each is not None}
    return flat.numpy(), dict(sorted(gradients.items()))


def computed(policy: str) -> dict[str, np.ndarray]:
    """The outputs of each network, and of those in float32 the gradients in one vector, by sorted names."""
    import keras

    found = {}
    keras.config.set_dtype_policy(policy)
    for name in BUILDERS if policy == "float32" else ["pretrainer"]:
        outputs, gradients = outputs_and_gradients(name)
        found[f"{policy}: {name}"] = outputs
        if policy == "float32":
            found[f"{policy}: {name}: names"] = np.array(list(gradients))
            found[f"{policy}: {name}: gradients"] = np.concatenate([each.ravel() for each in gradients.values()])
    return found


def recorded() -> dict[str, np.ndarray]:
    with np.load(PATH) as file:
        return dict(file)


def main() -> None:
    found = {key: value for policy in PRECISIONS for key, value in computed(policy).items()}
    if "--write" in sys.argv:
        np.savez_compressed(PATH, **found)
        return
    for case, expected in recorded().items():
        same = expected.dtype.kind == "U"
        print(case, (found[case] == expected).all() if same else f"{np.abs(found[case] - expected).max():.1e}")


if __name__ == "__main__":
    main()
