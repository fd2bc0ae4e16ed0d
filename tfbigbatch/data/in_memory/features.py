"""Examples of several arrays in memory, such as texts: the batches of `Arrays`, of dictionaries."""

import dataclasses

import numpy as np

from tfbigbatch.data.in_memory.arrays import Arrays
from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Features(Arrays):
    """Examples in memory, with several features and perhaps several labels each.

    Attributes:
      features: dictionary from names to arrays of [examples, ...]; of texts, 'input_word_ids' is one of them.
      labels: array of [examples], or a dictionary of such arrays. An example without a label has -1, or NaN
        where labels are floats.
      classes: labels are in [0, classes); None where they are floats.
      source: where they come from, for errors and the run's banner.

    Raises:
      ValueError: the arrays are not of one length or empty, or a label is out of range.
    """

    features: dict
    labels: np.ndarray | dict
    classes: int | None
    source: str

    def __post_init__(self):
        sizes = {name: len(array) for name, array in {**self.features, **self._named_labels()}.items()}
        if len(set(sizes.values())) != 1:
            raise InputError(f"{self.source}: arrays of {sizes} examples; expected one number of them.")
        if len(self) == 0:
            raise InputError(f"{self.source}: no examples.")
        for name, array in self._named_labels().items():
            self._check_range(name, array)

    def __len__(self):
        return len(next(iter(self._named_labels().values())))

    @property
    def unlabelled(self):
        """How many examples have no label."""
        # NaN is not 0 or more either.
        return int(np.count_nonzero(~(next(iter(self._named_labels().values())) >= 0)))

    @property
    def tokens_per_example(self):
        """Tokens in one example, padding included; None where it is not a text."""
        ids = self.features.get("input_word_ids")
        return None if ids is None else int(np.prod(ids.shape[1:]))

    def training_batches(self, context, *, batch_size, seed, first_step, last_step):
        """As that of `Arrays`, of dictionaries.

        Raises:
          ValueError: an example has no label.
        """
        if self.unlabelled:
            raise InputError(
                f"{self.source}: {self.unlabelled:,} of {len(self):,} examples have no label, so they cannot be "
                "trained on. Use the training set, or leave them out."
            )
        return super().training_batches(
            context, batch_size=batch_size, seed=seed, first_step=first_step, last_step=last_step
        )

    def _named_labels(self):
        return self.labels if isinstance(self.labels, dict) else {"labels": self.labels}

    def _check_range(self, name, array):
        if self.classes is None:
            return
        wrong = np.flatnonzero((array < -1) | (array >= self.classes))
        if wrong.size:
            first = int(wrong[0])
            raise InputError(
                f"{self.source}: {name} {int(array[first])} of example {first} is out of range; expected 0 to "
                f"{self.classes - 1}, or -1 where there is no label ({wrong.size} such labels)."
            )
