"""The batch arithmetic of a run: checked, and printed at its start."""

import dataclasses

from tfbigbatch.errors import InputError


@dataclasses.dataclass(frozen=True)
class BatchArithmetic:
    """global batch = per-replica batch x accumulation x replicas.

    Attributes:
      batch_size: examples in one update (the global batch).
      accumulation_steps: micro-batches in one update of a replica.
      replicas: in sync, over all workers.
      dataset_size: training examples in one epoch.
    """

    batch_size: int
    accumulation_steps: int
    replicas: int
    dataset_size: int

    def __post_init__(self):
        if self.batch_size < 1 or self.accumulation_steps < 1:
            raise InputError(
                f"batch_size={self.batch_size}, accumulation_steps={self.accumulation_steps}: both are at least 1."
            )
        parts = self.accumulation_steps * self.replicas
        if self.batch_size % parts:
            nearest = max(1, round(self.batch_size / parts)) * parts
            raise InputError(
                f"batch_size={self.batch_size} does not divide by {self.accumulation_steps} accumulation steps x "
                f"{self.replicas} replicas = {parts}. The nearest that does: {nearest}."
            )
        if self.batch_size > self.dataset_size:
            raise InputError(
                f"batch_size={self.batch_size} is larger than the training set of {self.dataset_size} examples. "
                "Use a batch_size of at most that."
            )

    @property
    def micro_batch_size(self):
        """Examples in one forward and backward pass of a replica."""
        return self.batch_size // (self.accumulation_steps * self.replicas)

    def lines(self, total_steps):
        """The arithmetic in words, for the banner."""
        epochs = total_steps * self.batch_size / self.dataset_size
        return [
            f"batch      {self.batch_size:,} global = {self.micro_batch_size:,} per replica x "
            f"{self.accumulation_steps} accumulation x {self.replicas} replica{'s' if self.replicas > 1 else ''}",
            f"length     {total_steps:,} steps = {epochs:.4g} epochs of {self.dataset_size:,} examples "
            f"({self.dataset_size / self.batch_size:.4g} steps each); {total_steps * self.batch_size:,} examples seen",
        ]
