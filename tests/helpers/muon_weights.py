"""Weights, gradients and learning rates for twelve steps of Muon."""

import numpy as np

STEPS = 12
RATES = [0.05 + (0.01 - 0.05) * step / STEPS for step in range(STEPS)]
_random = np.random.RandomState(0)
# A nearly square matrix, a wide one, the kernels of an LSTM, an embedding, and a bias.
WEIGHTS = {
    name: _random.normal(size=shape)
    for name, shape in {
        "kernel": (5, 4),
        "wide_kernel": (3, 8),
        "recurrent_kernel": (2, 8),
        "embeddings": (6, 3),
        "bias": (4,),
    }.items()
}
GRADIENTS = [{name: _random.normal(size=weight.shape) for name, weight in WEIGHTS.items()} for _ in range(STEPS)]
