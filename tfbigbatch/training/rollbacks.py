"""Divergence recovery: restore the last good checkpoint, skip the bad batches, lower the learning rate."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from collections.abc import Sequence

import ml_collections

from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.directory import read_json
from tfbigbatch.utils import arguments
from tfbigbatch.utils.files import write_json


class RollBack(Exception):
    """The run diverged, and restarts from its last good checkpoint."""


@dataclasses.dataclass(frozen=True)
class _Rollback:
    """One rollback: the run diverged at `step` and was restored at step `back_to`."""

    step: int
    back_to: int
    rate_factor: float
    reason: str

    def __post_init__(self) -> None:
        whole = isinstance(self.step, int) and isinstance(self.back_to, int)
        if not (whole and 0 <= self.back_to <= self.step and 0.0 < self.rate_factor <= 1.0):
            raise TypeError


class Rollbacks:
    """The rollbacks of a run, stored in its file rollbacks.json.

    After each, the run restarts from the last good checkpoint; the batches of the window in which it diverged are
    skipped, so that every later step takes a later batch; and all learning rates are multiplied by `rate_factor`. The
    number of steps stays the same.

    Args:
      model_dir: the run directory.
      config: of the experiment; its field `divergence` has the policy.

    Raises:
      ValueError: the policy or the file cannot be used.
    """

    def __init__(self, model_dir: str, config: ml_collections.ConfigDict) -> None:
        policy = config.divergence
        self._path = os.path.join(model_dir, "rollbacks.json")
        self._allowed = arguments.integer("divergence.rollbacks", policy.rollbacks, least=0)
        self._factor = arguments.number("divergence.rate_factor", policy.rate_factor, above=0, most=1)
        try:
            self._done = [_Rollback(**entry) for entry in read_json(self._path) or []]
        except TypeError:
            raise InputError(f"{self._path} cannot be used: expected the list that the trainer wrote.") from None

    @property
    def skipped(self) -> int:
        """Batches skipped so far."""
        return sum(each.step - each.back_to for each in self._done)

    @property
    def rate_factor(self) -> float:
        """Factor of all learning rates; 1.0 before the first rollback."""
        return math.prod(each.rate_factor for each in self._done)

    def left(self) -> int:
        """The number of rollbacks that are still allowed."""
        return self._allowed - len(self._done)

    def add(self, step: int, back_to: int, reason: str, write: bool = True) -> None:
        """Adds one.

        Args:
          step: the step at which the divergence was detected.
          back_to: that of the last good checkpoint; 0 where there is none.
          reason: in words.
          write: whether this worker writes the file.
        """
        self._done.append(_Rollback(step, back_to, self._factor, reason))
        if write:
            write_json(self._path, [dataclasses.asdict(each) for each in self._done])

    def slowed(self, config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
        """The config with its learning rates multiplied by `rate_factor`."""
        if self.rate_factor == 1.0:
            return config
        config = copy.deepcopy(config)
        config.schedule.learning_rate *= self.rate_factor
        name = "schedule.learning_rate"
        config.phases = tuple(
            {**phase, name: phase[name] * self.rate_factor} if name in phase else dict(phase) for phase in config.phases
        )
        return config

    def lines(self) -> Sequence[str]:
        """One line for each, for the run's banner."""
        return [
            f"rollback   from step {each.step:,} to {each.back_to:,}, {each.step - each.back_to:,} batches left out, "
            f"rates x{each.rate_factor:g}: {each.reason}"
            for each in self._done
        ]
