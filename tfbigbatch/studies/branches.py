"""Branches of a run: from one of its checkpoints, equally many examples at several batch sizes (arXiv:2505.23971)."""

from __future__ import annotations

import copy
import dataclasses
import glob
import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import ml_collections

from tfbigbatch import experiment, tasks
from tfbigbatch.errors import InputError
from tfbigbatch.runs import checkpoint_files, stored_run
from tfbigbatch.runs.run_directory import RunDirectory, writing
from tfbigbatch.scaling.batch_ramp import RAMP_RULES
from tfbigbatch.schedules import to_steps
from tfbigbatch.schedules.durations import parsed
from tfbigbatch.studies.rows import Entry
from tfbigbatch.tasks.base import Task
from tfbigbatch.utils import arguments
from tfbigbatch.utils.files import writing_errors

DECAYS = ("linear", "constant")
"""Schedules of the learning rate within a branch."""

# A branch of fewer steps says more about its schedule than about its batch.
_FEWEST_STEPS = 4


@dataclasses.dataclass(frozen=True)
class BranchPoint:
    """A checkpoint that branches begin from.

    Attributes:
      step: of the run.
      examples: seen before it.
      epoch: the same in epochs.
      learning_rate: of the run's next step.
      checkpoint: path, without the endings of its files.
    """

    step: int
    examples: int
    epoch: float
    learning_rate: float
    checkpoint: str


class BranchedRun:
    """A run with checkpoints along its training.

    Args:
      model_dir: the run directory.
      data_dir: folder of the task's data; None for the one that the run remembers.

    Attributes:
      config: of the run.
      dataset_size: examples in an epoch.
      data_dir: of its data.

    Raises:
      ValueError: the directory holds no run or no checkpoint; or its batch changes during the run.
    """

    def __init__(self, model_dir: str, *, data_dir: str | None = None) -> None:
        # Imported late: the command prints its help without TensorFlow.
        from tfbigbatch.training import phases

        self.model_dir = model_dir
        self.config = stored_run.config_of(model_dir)
        self.data_dir = stored_run.data_dir_of(model_dir) if data_dir is None else data_dir
        experiment.register_task_of(self.config, model_dir)
        if self.config.phases or self.config.ramp.name != "none":
            raise InputError(
                f"{model_dir}: a run with phases or a batch ramp. Expected one with a single batch size, the smallest "
                "of interest."
            )
        self._phase = phases.phases_of(self.config, self._task, 1)[0]
        self.dataset_size = self._phase.examples_in_epoch
        folder = RunDirectory(model_dir).checkpoints
        self._paths = {checkpoint_files.step_of(path): path for path in checkpoint_files.paths(folder)}
        if not self._paths:
            raise InputError(f"{model_dir} holds no checkpoint.")

    def _task(self, fields: ml_collections.ConfigDict) -> Task:
        model, data = fields.model.to_dict(), fields.data.to_dict()
        return tasks.get(fields.task)(model=model, data=data, data_dir=self.data_dir, use_fake_data=False)

    @property
    def fingerprint(self) -> str:
        """A checksum of the stored config: the same where the folder was moved, or the package has new fields."""
        stored = stored_run.content_of(self.model_dir)
        assert stored is not None  # As `config` was read.
        return f"{zlib.crc32(json.dumps(stored['config'], sort_keys=True).encode()):08x}"

    def examples_of(self, duration: str) -> int:
        """Examples of a duration; a step is one of the run's own batch.

        Raises:
          ValueError: it is no duration.
        """
        steps = to_steps(duration, name="examples", batch_size=1, dataset_size=self.dataset_size)
        return steps * (self.config.batch_size if parsed(duration)[1] == "step" else 1)

    def points(self, steps: Sequence[int] = (), most: int = 3) -> list[BranchPoint]:
        """The checkpoints to branch from, in order.

        Args:
          steps: of the checkpoints; () for up to `most` that are spread over the run, without those that have a
            hundredth of the peak learning rate or less.
          most: see `steps`.

        Raises:
          ValueError: there is no checkpoint at a step, or none can be branched from.
        """
        known = sorted(self._paths)
        for step in steps:
            if step not in self._paths:
                shown = ", ".join(map(str, known))
                raise InputError(f"--steps={step}: {self.model_dir} has checkpoints at {shown} only.")
        peak = self._phase.plan.scaled.learning_rate
        found = [point for point in map(self._point, steps or known) if steps or point.learning_rate > 0.01 * peak]
        if self._phase.task.carries_state:
            # Streams can be cut for a larger batch with an epoch only.
            found = [point for point in found if math.isclose(point.epoch, round(point.epoch))]
        if not found:
            raise InputError(
                f"{self.model_dir}: no checkpoint to branch from; there are those of steps {known}, and streams branch "
                "at the end of an epoch only. Train it again with a shorter checkpoint_every and "
                "--config.keep_checkpoints=20."
            )
        if len(found) > most and not steps:
            found = [found[round(index * (len(found) - 1) / max(1, most - 1))] for index in range(most)]
        return found

    def _point(self, step: int) -> BranchPoint:
        examples = step * self.config.batch_size
        rate = float(self._phase.plan.learning_rate(step))
        return BranchPoint(step, examples, examples / self.dataset_size, rate, self._paths[step])

    def batch_sizes(self, examples: int) -> list[int]:
        """Doublings of the run's batch for branches of as many examples, up to the eighth part of them."""
        sizes = [self.config.batch_size * 2**power for power in range(12)]
        return [size for size in sizes if size <= min(self.dataset_size, examples // (2 * _FEWEST_STEPS))]

    def branches(
        self,
        point: BranchPoint,
        batch_sizes: Sequence[int],
        *,
        examples: str,
        seeds: Sequence[int],
        rule: str = "sqrt",
        decay: str = "linear",
    ) -> list[Entry]:
        """The branches from a point, one for each batch size.

        The learning rate begins at the run's own at that point, times what the rule gives for the batch.

        Args:
          point: of `points`.
          batch_sizes: rising, from the run's own; multiples of it.
          examples: duration of a branch, as '1 epochs'.
          seeds: of the order of the examples and of dropout.
          rule: what the learning rate takes of a larger batch: 'sqrt', 'linear' or 'none'.
          decay: 'linear': to 0 at the end of the branch, so that the noise of the last steps does not decide;
            'constant': as in the paper.

        Raises:
          ValueError: an argument cannot be used, or a branch has fewer than four steps.
        """
        arguments.one_of("rule", rule, RAMP_RULES)
        arguments.one_of("decay", decay, DECAYS)
        own = self.config.batch_size
        sizes = arguments.integers("batch_sizes", batch_sizes, least=1)
        if sizes != sorted(set(sizes)) or len(sizes) < 2 or sizes[0] != own or any(size % own for size in sizes):
            raise InputError(
                f"--batch_sizes={','.join(map(str, sizes))}: expected the run's own, {own}, and larger multiples of "
                f"it, rising: {own},{2 * own},{4 * own}."
            )
        length = self.examples_of(examples)
        if length < _FEWEST_STEPS * sizes[-1]:
            raise InputError(
                f"--examples={examples!r}: {length:,} examples are {length // sizes[-1]} steps at batch {sizes[-1]:,}; "
                f"expected {_FEWEST_STEPS} or more. Give longer branches, or smaller batch sizes."
            )
        return [
            Entry(
                f"branch of step {point.step:,} with batch {size:,}, run",
                self._branch(point, size, length, rule, decay),
                tuple(seeds),
                f"step-{point.step}/batch-{size}",
            )
            for size in sizes
        ]

    def _branch(
        self, point: BranchPoint, batch_size: int, length: int, rule: str, decay: str
    ) -> ml_collections.ConfigDict:
        config = copy.deepcopy(self.config)
        # Not the file's own seed, callbacks or target: a branch is measured at its end.
        config.experiment, config.stop_at_target = "", 0.0
        config.duration = f"{point.examples + length} examples"
        config.evaluate_every = config.checkpoint_every = "0 steps"
        config.log_every, config.steps_per_execution = f"{max(1, length // 8)} examples", 1
        config.keep_best = config.date.enabled = False
        config.divergence.rollbacks = 0
        for name in ("noise_scale", "sharpness", "layers"):
            config.instruments[name].enabled = False
        # The moments and the weight decay of the run, at its own batch.
        with config.optimizer.unlocked(), config.optimizer.ignore_type():
            config.optimizer.update(self._phase.plan.scaled.optimizer)
        config.schedule.update(
            {
                "moments": "none",
                "weight_decay": "none",
                "batch_size": config.batch_size,
                "learning_rate": point.learning_rate,
                "warmup_epochs": 0.0,
                "warmup": "",
                "rule": "none",
                "decay": decay,
                "end": 0.0,
                "start": f"{point.step} steps",
            }
        )
        if batch_size > config.batch_size:
            growth = ((f"{point.step} steps", batch_size),)
            config.ramp.update({"name": "growth", "growth": growth, "rule": rule})
        return config


def run_branch(
    config: ml_collections.ConfigDict,
    *,
    model_dir: str,
    checkpoint: str,
    run: Callable[..., dict[str, Any]],
    **options: Any,
) -> dict[str, Any]:
    """Runs a branch from a checkpoint of another run, and removes its own checkpoints at the end.

    Args:
      config: of `BranchedRun.branches`.
      model_dir: of the branch.
      checkpoint: that it begins from.
      run: `tfbigbatch.train.run`.
      options: further arguments of `run`.

    Raises:
      ValueError: the checkpoint cannot be read or copied.
    """
    folder = RunDirectory(model_dir).checkpoints
    if not checkpoint_files.paths(folder):
        with writing(model_dir), writing_errors(folder):
            os.makedirs(folder, exist_ok=True)
            # The index at the end: an interrupted copy is then no checkpoint.
            for file in sorted(glob.glob(f"{glob.escape(checkpoint)}.*")):
                shutil.copyfile(file, os.path.join(folder, os.path.basename(file)))
    result = run(config, model_dir=model_dir, **options)
    with writing(model_dir):
        shutil.rmtree(folder, ignore_errors=True)
    return result
