"""Frequencies of the tokens to predict: the field `output_bias`, where training begins, and the loss of them alone."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.models.initializers import frequency_bias

if TYPE_CHECKING:
    import keras

CHOICES = ("frequency", "zero", "uniform")
"""Values of `model.output_bias`: the log of each token's frequency (`frequency_bias`), zeros, or a uniform draw."""
DEFAULT = "frequency"


class OutputBias:
    """The initial values of a network's output bias. Only they differ: its gradients are those of any bias.

    Args:
      choice: one of CHOICES.
      texts: prepared data, whose `token_counts` are those of the tokens to predict, int64 [vocabulary].
      built: the choice that the network is built with; then the bias stays as it is.
      scale: 'uniform' draws from [-scale, scale].

    Raises:
      ValueError: the choice is unknown.
    """

    def __init__(self, choice: Any, texts: Any, *, built: str, scale: float) -> None:
        if choice not in CHOICES:
            raise InputError(f"model.output_bias={choice!r} is unknown. {nearest(choice, CHOICES)}")
        self._choice, self._texts, self._built, self._scale = choice, texts, built, scale

    def initialize(self, bias: keras.Variable) -> None:
        """Assigns the initial values to the bias, [vocabulary]."""
        # The command line reads CHOICES without Keras.
        import keras

        if self._choice == self._built:
            return
        if self._choice == "frequency":
            bias.assign(frequency_bias(self.counts))
        elif self._choice == "zero":
            bias.assign(np.zeros(bias.shape))
        else:
            draw = keras.initializers.RandomUniform(-self._scale, self._scale)
            bias.assign(draw(bias.shape, bias.dtype))

    @functools.cached_property
    def counts(self) -> Any:
        """The number of times that each token is to be predicted, int64 [vocabulary]."""
        return self._texts.token_counts

    @property
    def line(self) -> str:
        """The line of a run's banner."""
        if self._choice != "frequency":
            return f"output     initial bias: {self._choice}"
        return f"output     initial bias: log frequency of {int(self.counts.sum()):,} tokens"


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
        """The loss in nats per token: the least cross entropy of one distribution for all labels.

        With label smoothing e the mean target is q = (1 - e) p + e / classes, and H(q) is reached by predicting it.
        Without, q is the frequencies p: of the tokens of a text, the unigram entropy.
        """
        frequencies = self.counts / self.counts.sum()
        mean_target = (1.0 - self.label_smoothing) * frequencies + self.label_smoothing / frequencies.size
        occurring = mean_target[mean_target > 0]
        return float(-np.sum(occurring * np.log(occurring)))
