"""The networks and the search once more in float64 NumPy: one sequence, one token after the other."""

import numpy as np

# ---- BERT (Devlin et al. 2018; Vaswani et al. 2017), from arrays by Google's names -----------------


def made_arrays(*, words=50, hidden=8, layers=2, inner=12, positions=16, types=2, seed=0):
    """A checkpoint's arrays, at random."""
    random = np.random.RandomState(seed)

    def normal(*shape):
        return random.normal(0.0, 0.5, shape).astype(np.float32)

    arrays = {
        "bert/embeddings/word_embeddings": normal(words, hidden),
        "bert/embeddings/position_embeddings": normal(positions, hidden),
        "bert/embeddings/token_type_embeddings": normal(types, hidden),
        "bert/pooler/dense/kernel": normal(hidden, hidden),
        "bert/pooler/dense/bias": normal(hidden),
        "cls/predictions/transform/dense/kernel": normal(hidden, hidden),
        "cls/predictions/transform/dense/bias": normal(hidden),
        "cls/predictions/output_bias": normal(words),
        "cls/seq_relationship/output_weights": normal(2, hidden),
        "cls/seq_relationship/output_bias": normal(2),
    }
    norms = ["bert/embeddings/LayerNorm", "cls/predictions/transform/LayerNorm"]
    for layer in range(layers):
        here = f"bert/encoder/layer_{layer}"
        for name, inputs, outputs in (
            ("attention/self/query", hidden, hidden),
            ("attention/self/key", hidden, hidden),
            ("attention/self/value", hidden, hidden),
            ("attention/output/dense", hidden, hidden),
            ("intermediate/dense", hidden, inner),
            ("output/dense", inner, hidden),
        ):
            arrays[f"{here}/{name}/kernel"] = normal(inputs, outputs)
            arrays[f"{here}/{name}/bias"] = normal(outputs)
        norms += [f"{here}/attention/output/LayerNorm", f"{here}/output/LayerNorm"]
    for name in norms:
        arrays[f"{name}/gamma"], arrays[f"{name}/beta"] = 1 + normal(hidden), normal(hidden)
    return arrays


def forward(arrays, word_ids, mask, type_ids, masked_positions, heads):
    """(logits of the masked words, logits of the next sentence)."""
    arrays = {name: value.astype(np.float64) for name, value in arrays.items()}

    def dense(name, values):
        return values @ arrays[f"{name}/kernel"] + arrays[f"{name}/bias"]

    def norm(name, values):
        centred = values - values.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * arrays[f"{name}/gamma"] + arrays[f"{name}/beta"]

    words = arrays["bert/embeddings/word_embeddings"]
    length = word_ids.shape[1]
    values = words[word_ids] + arrays["bert/embeddings/position_embeddings"][:length]
    values = norm("bert/embeddings/LayerNorm", values + arrays["bert/embeddings/token_type_embeddings"][type_ids])
    layer = 0
    while f"bert/encoder/layer_{layer}/output/dense/kernel" in arrays:
        here = f"bert/encoder/layer_{layer}"
        query, key, value = (
            dense(f"{here}/attention/self/{name}", values).reshape(*values.shape[:2], heads, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
        scores = np.exp(scores - scores.max(-1, keepdims=True)) * mask[:, None, None, :]
        attended = (scores / scores.sum(-1, keepdims=True)) @ value
        attended = attended.transpose(0, 2, 1, 3).reshape(values.shape)
        values = norm(f"{here}/attention/output/LayerNorm", values + dense(f"{here}/attention/output/dense", attended))
        inner = dense(f"{here}/output/dense", gelu(dense(f"{here}/intermediate/dense", values)))
        values = norm(f"{here}/output/LayerNorm", values + inner)
        layer += 1
    masked = np.take_along_axis(values, masked_positions[:, :, None], axis=1)
    masked = norm("cls/predictions/transform/LayerNorm", gelu(dense("cls/predictions/transform/dense", masked)))
    pooled = np.tanh(dense("bert/pooler/dense", values[:, 0]))
    follows = pooled @ arrays["cls/seq_relationship/output_weights"].T + arrays["cls/seq_relationship/output_bias"]
    return masked @ words.T + arrays["cls/predictions/output_bias"], follows


def gelu(values):
    return values * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)))


# ---- The LSTM language model -----------------------------------------------------------------------


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


def cross_entropies(weights, tokens):
    """The nats of each token after the first, of one unbroken sequence from zero state.

    Args:
      weights: embedding; kernel, recurrent kernel and bias of each layer; kernel and bias of the logits.
      tokens: int array of [N].

    Returns:
      float64 [N - 1].
    """
    embedding, *middle, kernel, bias = [np.asarray(weight, np.float64) for weight in weights]
    values = embedding[tokens[:-1]]
    for first in range(0, len(middle), 3):
        values = lstm(middle[first : first + 3], values)
    logits = np.array(values) @ kernel + bias
    return np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(logits)), tokens[1:]]


# ---- GNMT v2, without padding ----------------------------------------------------------------------


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


# ---- Beam search, and the search of everything -----------------------------------------------------

# A model is two functions: `first(sentence)` gives a state; `follow(sentence, state, token)` the log-probabilities of
# the next token, attention's shares over the source tokens, and the next state.


def score(log_probability, coverage, mask, length, length_penalty, coverage_penalty):
    penalty = sum(np.log(min(seen, 1.0)) for seen in coverage[mask])
    return log_probability / ((5 + length) / 6) ** length_penalty + coverage_penalty * penalty


def search(model, sentence, *, start, end, beam, longest, length_penalty, coverage_penalty):
    """(score, tokens) of the best; it never stops early, but greedy search, the beam of 1, which takes no penalties."""
    if beam == 1:
        length_penalty = coverage_penalty = 0.0
    mask, width = model.mask[sentence], model.mask.shape[1]
    alive, finished = [(0.0, (), model.first(sentence), np.zeros(width))], []
    for length in range(1, longest + 1):
        continuations = []
        for likelihood, tokens, state, coverage in alive:
            log_fractions, shares, after = model.follow(sentence, state, tokens[-1] if tokens else start)
            for token, more in enumerate(log_fractions):
                continuations.append((likelihood + more, (*tokens, token), after, coverage + shares))
        continuations.sort(key=lambda each: -each[0])
        looked_at = continuations[: 2 * beam if beam > 1 else 1]
        for likelihood, tokens, _, coverage in looked_at:
            if tokens[-1] == end:
                worth = score(likelihood, coverage, mask, length, length_penalty, coverage_penalty)
                finished.append((worth, tokens))
        alive = [each for each in looked_at if each[1][-1] != end][:beam]
    finished.sort(key=lambda each: -each[0])
    unfinished = [
        (score(likelihood, coverage, mask, longest, length_penalty, coverage_penalty), tokens)
        for likelihood, tokens, _, coverage in alive
    ]
    return (finished + sorted(unfinished, key=lambda each: -each[0]))[0]
