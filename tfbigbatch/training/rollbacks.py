"""What a run does after it diverged, where its config asks for more than an error: back, past that data, slower."""

import copy
import dataclasses
import os

from tfbigbatch.errors import InputError
from tfbigbatch.runs.run_directory import read_json
from tfbigbatch.utils.files import write_json


class RollBack(Exception):
    """The run diverged, and begins again from its last good checkpoint."""


@dataclasses.dataclass(frozen=True)
class _Rollback:
    """One of them: the run diverged at update `step` and went back to update `back_to`."""

    step: int
    back_to: int
    rate_factor: float
    reason: str


class Rollbacks:
    """The rollbacks of a run, in its file rollbacks.json; a resumed run reads them there.

    After each, the run goes on from the last good checkpoint; the batches of the window in which it diverged are left
    out, so that each later update takes a batch from further on; and all rates are multiplied by `rate_factor`. The
    number of updates stays.

    Args:
      model_dir: the run directory.
      config: of the experiment; its field `divergence` has the policy.

    Attributes:
      skipped: batches left out up to now.
      rate_factor: of all rates, 1.0 before the first rollback.

    Raises:
      ValueError: the policy or the file cannot be used.
    """

    def __init__(self, model_dir, config):
        policy = config.divergence
        if policy.rollbacks < 0 or not 0.0 < policy.rate_factor <= 1.0:
            raise InputError(
                f"divergence.rollbacks={policy.rollbacks}, divergence.rate_factor={policy.rate_factor}: expected 0 or "
                "more, and a factor above 0, at most 1."
            )
        self._path = os.path.join(model_dir, "rollbacks.json")
        self._allowed = policy.rollbacks
        self._factor = policy.rate_factor
        try:
            self._done = [_Rollback(**entry) for entry in read_json(self._path) or []]
            for each in self._done:
                whole = isinstance(each.step, int) and isinstance(each.back_to, int)
                if not (whole and 0 <= each.back_to <= each.step and 0.0 < each.rate_factor <= 1.0):
                    raise TypeError
        except TypeError:
            raise InputError(f"{self._path} cannot be used: expected the list that the trainer wrote.") from None

    @property
    def skipped(self):
        return sum(each.step - each.back_to for each in self._done)

    @property
    def rate_factor(self):
        factor = 1.0
        for each in self._done:
            factor *= each.rate_factor
        return factor

    def left(self):
        """How many more are allowed."""
        return self._allowed - len(self._done)

    def add(self, step, back_to, reason, write=True):
        """Adds one.

        Args:
          step: the update at which the run was seen to have diverged.
          back_to: that of the last good checkpoint; 0 where there is none.
          reason: in words.
          write: whether this is the worker that writes the file.
        """
        self._done.append(_Rollback(step, back_to, self._factor, reason))
        if write:
            write_json(self._path, [dataclasses.asdict(each) for each in self._done])

    def slowed(self, config):
        """The config with its rates multiplied by `rate_factor`; as it is before the first rollback."""
        if self.rate_factor == 1.0:
            return config
        config = copy.deepcopy(config)
        config.schedule.learning_rate *= self.rate_factor
        rate = "schedule.learning_rate"
        config.phases = tuple(
            {**phase, rate: phase[rate] * self.rate_factor} if rate in phase else dict(phase) for phase in config.phases
        )
        return config

    def lines(self):
        """For the run's banner."""
        return [
            f"rollback   from step {each.step:,} to {each.back_to:,}, {each.step - each.back_to:,} batches left out, "
            f"rates x{each.rate_factor:g}: {each.reason}"
            for each in self._done
        ]
