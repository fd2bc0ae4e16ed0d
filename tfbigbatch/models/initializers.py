"""An output layer's initial bias from how often each class occurs, in NumPy, for layers of either Keras."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError

SMOOTHING = 1.0


def log_frequencies(counts: Any, smoothing: float = SMOOTHING) -> np.ndarray:
    """The logits that predict each class by its frequency alone, float64 [classes]; see `frequency_bias`."""
    expected = "expected one row of numbers, 0 or more: how often each class occurs, by its index"
    try:
        found = np.asarray(counts).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"counts={counts!r:.60}: {expected} ({error}).") from None
    if found.ndim != 1 or not found.size:
        raise InputError(f"counts have the shape {list(found.shape)}: {expected}.")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if wrong.size:
        raise InputError(f"counts[{wrong[0]}]={found[wrong[0]]}: {expected}.")
    if not isinstance(smoothing, (int, float, np.number)) or not 0 <= smoothing < math.inf:
        raise InputError(f"smoothing={smoothing!r}: expected a finite number, 0 or more; the default is {SMOOTHING}.")
    if not smoothing and not found.all():
        raise InputError(
            f"smoothing={smoothing}: class {int(np.argmin(found))} never occurs, and its logarithm would be "
            f"-infinity. Expected a smoothing above 0; the default is {SMOOTHING}."
        )
    # In units of the largest: sums of huge counts stay finite.
    scale = max(found.max(), smoothing)
    smoothed = found / scale + smoothing / scale
    return np.log(smoothed) - math.log(smoothed.sum())


class FrequencyBias:
    """The initializer of `frequency_bias`, for Keras 3 and Keras 2, computed by NumPy."""

    def __init__(self, counts: Any, smoothing: float = SMOOTHING) -> None:
        self._values = log_frequencies(counts, smoothing)
        # As given: whole counts stay whole in a saved model.
        self._counts, self._smoothing = np.asarray(counts).tolist(), smoothing

    def __call__(self, shape: Any, dtype: Any = None) -> np.ndarray:
        """The values for a bias of this shape, [classes].

        Args:
          shape: of the bias.
          dtype: floating, by name or as TensorFlow's; None for float32.

        Raises:
          ValueError: the shape is not that of the counts.
        """
        if tuple(shape) != self._values.shape:
            raise InputError(
                f"frequency_bias: the bias has the shape {list(shape)}, and there are {len(self._values)} counts. "
                "Expected one count for each output of the layer."
            )
        return self._values.astype(getattr(dtype, "as_numpy_dtype", dtype) or np.float32)

    def get_config(self) -> dict[str, Any]:
        return {"counts": self._counts, "smoothing": self._smoothing}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> FrequencyBias:
        return cls(**config)


def frequency_bias(counts: Any, smoothing: float = SMOOTHING) -> FrequencyBias:
    """Initial bias of a softmax at the log of each class' frequency: b_i = log((c_i + s) / sum_j (c_j + s)).

    Softmax of these logits is the (smoothed) frequency of the classes, so that a model whose kernel contributes little
    begins at the entropy of the frequencies and not at log(classes). With biases of zero its first steps only learn how
    often each class occurs: of few large steps a good part. For the tokens of a vocabulary, and for the classes of an
    unbalanced classifier (Karpathy 2019, A Recipe for Training Neural Networks, "init well").

        keras.layers.Dense(10_000, bias_initializer=frequency_bias(counts))

    The layer may be of Keras 2 (tf_keras) or of Keras 3. A model that holds it saves and loads with its counts; a
    process that loads such a model imports tfbigbatch, before or after Keras.

    Args:
      counts: [classes], how often each class occurs in the training set; numbers of 0 or more, by the class' index.
      smoothing: s, added to each count: a class that never occurs has a logarithm too.

    Returns:
      An initializer for a bias of the shape [classes].

    Raises:
      ValueError: the counts are not one row of finite numbers, 0 or more; the smoothing is not finite, is negative, or
        is 0 where a count is 0.
    """
    return FrequencyBias(counts, smoothing)
