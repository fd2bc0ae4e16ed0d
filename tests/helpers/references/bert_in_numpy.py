"""BERT's forward pass in float64 NumPy, from arrays by Google's names (Devlin et al. 2018; Vaswani et al. 2017)."""

import numpy as np


def made_arrays(*, words=50, hidden=8, heads=2, layers=2, inner=12, positions=16, types=2, seed=0):
    """A checkpoint's arrays, at random."""
    del heads
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
