"""The published sizes of BERT; importing this module does not import TensorFlow."""

from __future__ import annotations

from typing import Any

from tfbigbatch.errors import InputError, nearest

# Layers and hidden units. Attention has a head for each 64 hidden units; inner layers are four times as wide.
BERT_SIZES = {
    "bert_tiny": (2, 128),
    "bert_mini": (4, 256),
    "bert_small": (4, 512),
    "bert_medium": (8, 512),
    "bert_base": (12, 768),
    "bert_large": (24, 1024),
}
_UNITS_OF_A_HEAD = 64
# Of the normal distribution that BERT's kernels and embeddings are drawn from.
BERT_INITIAL_DEVIATION = 0.02


def bert_defaults(name: str) -> dict[str, Any]:
    """The fields of a size that an experiment may set, with their defaults.

    Raises:
      ValueError: the name is unknown.
    """
    if name not in BERT_SIZES:
        raise InputError(f"BERT {name!r} is unknown. {nearest(name, BERT_SIZES)}")
    layers, hidden_units = BERT_SIZES[name]
    return {
        "layers": layers,
        "hidden_units": hidden_units,
        "heads": hidden_units // _UNITS_OF_A_HEAD,
        "inner_units": 4 * hidden_units,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "max_positions": 512,
        "token_types": 2,
    }
