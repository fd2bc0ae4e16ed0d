"""The training loss of the best prediction that ignores its input: of tokens, the entropy of their frequencies."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class ConstantLoss:
    """The training loss of a model that predicts each class by its frequency alone, whatever the input.

    Attributes:
      scalar: the training scalar in metrics.jsonl that it is compared with.
      counts: [classes], how often each class is to be predicted.
      label_smoothing: of that scalar.
      tokens: predictions in one unit of the scalar: 1 for a mean over tokens, else the mean tokens of an example.
    """

    scalar: str
    counts: np.ndarray
    label_smoothing: float = 0.0
    tokens: float = 1.0

    @property
    def entropy(self) -> float:
        """The loss in nats per token."""
        return smoothed_entropy(self.counts, self.label_smoothing)


def smoothed_entropy(counts: np.ndarray, label_smoothing: float = 0.0) -> float:
    """The least cross entropy, in nats, of one distribution for all labels: H(q), q = (1 - e) p + e / classes.

    With label smoothing e the mean target is q, and H(q) = -sum_i q_i log q_i is reached by predicting it. Without, q
    is the frequencies p: of the tokens of a text, the unigram entropy.

    Args:
      counts: [classes], how often each class occurs; not all 0.
      label_smoothing: e, in [0, 1).

    Raises:
      ValueError: the counts are not one row of numbers, 0 or more, with one above 0; or the smoothing is out of range.
    """
    found = np.asarray(counts, np.float64)
    if found.ndim != 1 or not np.all(np.isfinite(found) & (found >= 0)) or not found.sum() > 0:
        raise InputError(f"counts of shape {list(found.shape)}: expected one row of numbers, 0 or more, not all 0.")
    if not 0.0 <= label_smoothing < 1.0:
        raise InputError(f"label_smoothing={label_smoothing}: expected 0 <= label_smoothing < 1.")
    mean_target = (1.0 - label_smoothing) * found / found.sum() + label_smoothing / found.size
    occurring = mean_target[mean_target > 0]
    return float(-np.sum(occurring * np.log(occurring)))
