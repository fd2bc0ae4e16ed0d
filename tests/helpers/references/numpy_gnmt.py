"""GNMT v2 once more, in NumPy float64: one sentence at a time, without padding, one token after the other."""

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def lstm(weights, inputs):
    """The outputs of an LSTM over a list of vectors, from zero state."""
    kernel, recurrent, bias = weights
    output = cell = np.zeros(recurrent.shape[0])
    outputs = []
    for value in inputs:
        into, forget, candidate, out = np.split(value @ kernel + output @ recurrent + bias, 4)
        cell = sigmoid(forget) * cell + sigmoid(into) * np.tanh(candidate)
        output = sigmoid(out) * np.tanh(cell)
        outputs.append(output)
    return outputs


def attend(weights, query, memory):
    """(context, shares) of one query."""
    of_query, of_key, v, g, b = weights
    scores = np.array([g * v @ np.tanh(query @ of_query + value @ of_key + b) / np.linalg.norm(v) for value in memory])
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    return sum(share * value for share, value in zip(shares, memory)), shares


def weights_of(network):
    """The network's weights in float64, by their place."""

    def arrays(layer):
        return [weight.numpy().astype(np.float64) for weight in layer.weights]

    attention = network.decoder.attention
    return {
        "embedding": arrays(network.embedding)[0],
        "forward": arrays(network.encoder.forward),
        "backward": arrays(network.encoder.backward),
        "encoder": [arrays(layer) for layer in network.encoder.lstms],
        "decoder": [arrays(layer) for layer in network.decoder.lstms],
        "attention": [
            *arrays(attention.of_query),
            *arrays(attention.of_key),
            *(weight.numpy().astype(np.float64) for weight in (attention.v, attention.g, attention.b)),
        ],
        "classifier": arrays(network.classifier),
    }


def logits(weights, source, target):
    """float64 [len(target), vocabulary], and attention's shares [len(target), len(source)]."""
    inputs = [weights["embedding"][token] for token in source]
    ahead = lstm(weights["forward"], inputs)
    back = lstm(weights["backward"], inputs[::-1])[::-1]
    values = [np.concatenate(pair) for pair in zip(ahead, back)]
    for layer, mine in enumerate(weights["encoder"], 2):
        outputs = lstm(mine, values)
        values = [a + b for a, b in zip(outputs, values)] if layer >= 3 else outputs
    memory = values
    values = lstm(weights["decoder"][0], [weights["embedding"][token] for token in target])
    contexts, shares = zip(*(attend(weights["attention"], query, memory) for query in values))
    for layer, mine in enumerate(weights["decoder"][1:], 2):
        outputs = lstm(mine, [np.concatenate(pair) for pair in zip(values, contexts)])
        values = [a + b for a, b in zip(outputs, values)] if layer >= 3 else outputs
    kernel, bias = weights["classifier"]
    return np.array(values) @ kernel + bias, np.array(shares)
