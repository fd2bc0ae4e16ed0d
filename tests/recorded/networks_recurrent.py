"""What the recurrent networks compute, recorded; another way to write them may not change it.

    python -m tests.recorded.networks_recurrent            # compares, and says what differs by how much
    python -m tests.recorded.networks_recurrent --write    # replaces the recorded numbers

Weight number i is drawn by NumPy's generator i, so that no weight need be stored.
"""

from __future__ import annotations

import os
import sys

import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks")
LENGTHS = np.array([6, 2, 4], np.int32)
LANGUAGE = {"vocabulary_size": 11, "window": 6, "hidden_units": 5, "embedding_units": 3, "layers": 2}
GNMT = {"vocabulary_size": 11, "hidden_units": 5, "embedding_units": 4, "dropout": 0.0}
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 3, "length_penalty": 0.6, "coverage_penalty": 0.1},
}


def drawn(shapes) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(0.0, 0.6, shape).astype("float32") for i, shape in enumerate(shapes)]


def whole(seed: int, least: int, most: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(least, most, shape).astype("int32")


def gradients_of(network, inputs, labels) -> np.ndarray:
    """The gradients of the summed cross entropy, each label's weighed by its place, in one vector."""
    import tensorflow as tf

    variables = [each.value for each in network.trainable_variables]
    with tf.GradientTape() as tape:
        logits = tf.nest.flatten(network(inputs, training=True))[0]
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_sum(nats * tf.reshape(tf.range(1.0, tf.size(nats) + 1), tf.shape(nats)) / 10.0)
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    return np.concatenate([tf.convert_to_tensor(each).numpy().ravel() for each in gradients])


def language_models() -> dict[str, np.ndarray]:
    """Two windows, the second from the states that the first gives, and the gradients of the second."""
    from tfbigbatch.models.lstm_language_model import lstm_language_model

    found = {}
    text = whole(0, 0, 11, 3, 13)
    for name, options in {"default": {}, "unrolled": {"unroll": True}, "one layer": {"layers": 1}}.items():
        network = lstm_language_model(**{**LANGUAGE, **options})
        network.set_weights(drawn(each.shape for each in network.get_weights()))
        states = [np.zeros((3, 5), "float32")] * (len(network.inputs) - 1)
        first, *states = map(np.asarray, network([text[:, :6], *states]))
        second, *after = map(np.asarray, network([text[:, 6:12], *states]))
        found |= {f"{name}: first": first, f"{name}: second": second, f"{name}: states": np.stack(after)}
        found[f"{name}: gradients"] = gradients_of(network, [text[:, 6:12], *states], text[:, 7:])
    return {name: np.asarray(value) for name, value in found.items()}


def translators() -> dict[str, np.ndarray]:
    """Logits, gradients and translations of shallow and deep networks."""
    from tfbigbatch.models.gnmt import gnmt, translate

    source = np.where(np.arange(6) < LENGTHS[:, None], whole(1, 3, 11, 3, 6), 0).astype("int32")
    target = whole(2, 0, 11, 3, 6)
    inputs = {"source_ids": source, "source_lengths": LENGTHS, "target_ids": target[:, :5]}
    found = {}
    for encoder_layers, decoder_layers in ((1, 1), (2, 3), (3, 2)):
        network = gnmt(**GNMT, encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        network.set_weights(drawn(each.shape for each in network.get_weights()))
        name = f"{encoder_layers} and {decoder_layers}"
        found[f"{name}: logits"] = network(inputs)
        found[f"{name}: gradients"] = gradients_of(network, inputs, target[:, 1:])
        for kind, search in SEARCHES.items():
            options = {"begin_token": 1, "end_token": 2, "max_length": 7, **search}
            translated = translate(network, source, LENGTHS, **options)
            found |= {f"{name}: {kind} {field}": value for field, value in translated._asdict().items()}
    return {name: np.asarray(value) for name, value in found.items()}


NETWORKS = {"lstm_language_model": language_models, "gnmt": translators}


def recorded(name: str) -> dict[str, np.ndarray]:
    with np.load(os.path.join(FOLDER, f"{name}.npz")) as file:
        return dict(file)


def main() -> None:
    for name, compute in NETWORKS.items():
        if "--write" in sys.argv:
            os.makedirs(FOLDER, exist_ok=True)
            np.savez_compressed(os.path.join(FOLDER, f"{name}.npz"), **compute())
            continue
        found = compute()
        for case, expected in recorded(name).items():
            print(f"{name}, {case}: {np.abs(found[case].astype('float64') - expected).max():.1e}")


if __name__ == "__main__":
    main()
