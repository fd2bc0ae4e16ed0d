"""The LSTM language model once more, in NumPy float64, one token after the other."""

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def cross_entropies(weights, tokens):
    """The nats of each token after the first, of one unbroken sequence from zero state.

    Args:
      weights: embedding; kernel, recurrent kernel and bias of each layer; kernel and bias of the logits.
      tokens: int array of [N].

    Returns:
      float64 [N - 1].
    """
    embedding, *middle, kernel, bias = [np.asarray(weight, np.float64) for weight in weights]
    layers = [middle[i : i + 3] for i in range(0, len(middle), 3)]
    states = [[np.zeros(layer[1].shape[0])] * 2 for layer in layers]
    nats = []
    for token, following in zip(tokens[:-1], tokens[1:]):
        value = embedding[token]
        for state, (inner, recurrent, offset) in zip(states, layers):
            into, forget, candidate, out = np.split(value @ inner + state[0] @ recurrent + offset, 4)
            cell = sigmoid(forget) * state[1] + sigmoid(into) * np.tanh(candidate)
            value = sigmoid(out) * np.tanh(cell)
            state[:] = value, cell
        logits = value @ kernel + bias
        nats.append(np.logaddexp.reduce(logits) - logits[following])
    return np.array(nats)
