"""The outer step: what the weights of a round's start become, given how the replicas changed them together."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

# Learning rate and momentum of each, unless they are given.
_DEFAULTS = {"average": (1.0, 0.0), "nesterov": (0.7, 0.9), "adasum": (1.0, 0.0)}


@dataclasses.dataclass(frozen=True)
class Outer:
    """SGD with Nesterov momentum on minus the combined change, Douillard et al. 2023 (arXiv:2311.08105), algorithm 1.

    Attributes:
      name: 'average' or 'nesterov', of the mean change; 'adasum', of the changes combined by Adasum.
      learning_rate, momentum: 1 and 0 take over the combined change as it is.
    """

    name: str
    learning_rate: float
    momentum: float

    @classmethod
    def named(cls, name: str, learning_rate: float | None = None, momentum: float | None = None) -> Outer:
        """The outer step of a name, with the published numbers where none are given."""
        usual_rate, usual_momentum = _DEFAULTS[name]
        return cls(
            name,
            usual_rate if learning_rate is None else learning_rate,
            usual_momentum if momentum is None else momentum,
        )

    @property
    def is_plain_mean(self) -> bool:
        """True if the weights become the mean of the replicas', so that one replica's stay as they are."""
        return self.learning_rate == 1.0 and self.momentum == 0.0

    def step(
        self, start: tf.Tensor, change: tf.Tensor, velocity: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """(The new weights, the new velocity) of one layer.

        Args:
          start: the weights at the start of the round.
          change: the replicas' changes of them, combined.
          velocity: that of the step before; None without momentum.
        """
        if velocity is None:
            return start + self.learning_rate * change, None
        velocity = self.momentum * velocity + change
        return start + self.learning_rate * (self.momentum * velocity + change), velocity
