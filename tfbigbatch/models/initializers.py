"""An output layer's initial bias from how often each class occurs, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfbigbatch.errors import InputError


def frequency_bias(counts: Any) -> np.ndarray:
    """Initial bias of a softmax at the log of each class' frequency: b_i = log((c_i + 1) / sum_j (c_j + 1)).

    Softmax of these logits is the (smoothed) frequency of the classes, so that a model whose kernel contributes little
    begins at the entropy of the frequencies and not at log(classes). With biases of zero its first steps only learn how
    often each class occurs: of few large steps a good part. For the tokens of a vocabulary, and for the classes of an
    unbalanced classifier (Karpathy 2019, A Recipe for Training Neural Networks, "init well").

        bias = keras.initializers.Constant(frequency_bias(counts))
        keras.layers.Dense(10_000, bias_initializer=bias)

    Args:
      counts: [classes], how often each class occurs in the training set; numbers of 0 or more, by the class' index.

    Returns:
      float64 [classes].

    Raises:
      ValueError: the counts are not one row of finite numbers, 0 or more.
    """
    found = np.asarray(counts, np.float64)
    if found.ndim != 1 or not found.size or not np.all((found >= 0) & (found < np.inf)):
        raise InputError(
            f"counts={counts!r:.60}: expected one row of numbers, 0 or more: how often each class occurs, by its index."
        )
    return np.log(found + 1) - np.log(np.sum(found + 1))
