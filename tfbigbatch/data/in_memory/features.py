"""Datasets in memory with several features per example, such as texts; batches are dictionaries."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Features(Arrays):
    """Examples in memory, with named features and perhaps named labels.

    Attributes:
      features: arrays of [examples, ...] by name; texts have 'input_word_ids'.
      labels: array of [examples], or such arrays by name. An example without label has -1, or NaN for float labels.
      classes: labels are in [0, classes); None for float labels.
      source: where the examples come from.

    Raises:
      ValueError: the lengths differ, there is no example, or a label is out of range.
    """

    features: dict[str, np.ndarray]
    labels: np.ndarray | dict[str, np.ndarray]

    def __post_init__(self) -> None:
        sizes = {name: len(array) for name, array in {**self.features, **self._named_labels()}.items()}
        if len(set(sizes.values())) != 1:
            raise InputError(f"{self.source}: arrays of {sizes} examples; expected one number of them.")
        if len(self) == 0:
            raise InputError(f"{self.source}: no examples.")
        for name, array in self._named_labels().items():
            self._check_range(name, array, least=-1)

    def __len__(self) -> int:
        return len(next(iter(self._named_labels().values())))

    @property
    def unlabelled(self) -> int:
        """Number of examples without label."""
        # NaN compares false too.
        return int(np.count_nonzero(~(next(iter(self._named_labels().values())) >= 0)))

    @property
    def tokens_per_example(self) -> int | None:
        ids = self.features.get("input_word_ids")
        return None if ids is None else int(np.prod(ids.shape[1:]))

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        """As the Protocol's; raises a ValueError if an example has no label."""
        if self.unlabelled:
            raise InputError(
                f"{self.source}: {self.unlabelled:,} of {len(self):,} examples have no label, so they cannot be "
                "trained on. Use the training set, or leave them out."
            )
        return super().training_batches(
            context, batch_size=batch_size, seed=seed, first_step=first_step, last_step=last_step
        )

    def _named_labels(self) -> dict[str, np.ndarray]:
        return self.labels if isinstance(self.labels, dict) else {"labels": self.labels}
