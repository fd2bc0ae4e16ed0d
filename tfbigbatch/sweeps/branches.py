"""Branches of a run: from one of its checkpoints, equally many examples at several batch sizes (arXiv:2505.23971)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import glob
import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_collections

from tfbigbatch.config import set_fields
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import checkpoint_files, stored_run
from tfbigbatch.run_directory.directory import RunDirectory, writing
from tfbigbatch.schedules import to_steps
from tfbigbatch.schedules.durations import parsed
from tfbigbatch.sweeps.sweep import Entry
from tfbigbatch.utils import arguments
from tfbigbatch.utils.files import writing_errors

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
    """The run of a run directory, with checkpoints along its training.

    Attributes:
      config: of the run.
      dataset_size: examples in an epoch.
      data_dir: folder of the task's data: the argument, or the one that the run remembers.

    Raises:
      ValueError: the directory holds no run or no checkpoint; or its batch changes during the run.
    """

    def __init__(self, model_dir: str, *, data_dir: str | None = None) -> None:
        # Imported late: the command prints its help without TensorFlow.
        from tfbigbatch.training import phases

        self.model_dir = model_dir
        self.config = stored_run.config_of(model_dir)
        self.data_dir = stored_run.data_dir_of(model_dir) if data_dir is None else data_dir
        if self.config.phases or self.config.ramp.name != "none":
            raise InputError(
                f"{model_dir}: a run with phases or a batch ramp. Expected one with a single batch size, the smallest "
                "of interest."
            )
        task_of = functools.partial(phases.task_of, data_dir=self.data_dir)
        self._phase = phases.phases_of(self.config, task_of, 1)[0]
        self.dataset_size = self._phase.examples_in_epoch
        folder = RunDirectory(model_dir).checkpoints
        self._paths = {checkpoint_files.step_of(path): path for path in checkpoint_files.paths(folder)}
        if not self._paths:
            raise InputError(f"{model_dir} holds no checkpoint.")

    @property
    def fingerprint(self) -> str:
        """A checksum of the stored config: the same where the folder was moved, or the package has new fields."""
        config = RunDirectory(self.model_dir).started()["config"]
        return f"{zlib.crc32(json.dumps(config, sort_keys=True).encode()):08x}"

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
        known, peak = sorted(self._paths), self._phase.scaled.learning_rate
        for step in steps:
            if step not in self._paths:
                shown = ", ".join(map(str, known))
                raise InputError(f"--steps={step}: {self.model_dir} has checkpoints at {shown} only.")
        found = []
        for step in steps or known:
            examples, rate = step * self.config.batch_size, float(self._phase.learning_rate(step))
            point = BranchPoint(step, examples, examples / self.dataset_size, rate, self._paths[step])
            # Streams can be cut for a larger batch with an epoch only.
            can_branch = not self._phase.task.carries_state or math.isclose(point.epoch, round(point.epoch))
            if can_branch and (steps or rate > 0.01 * peak):
                found.append(point)
        if not found:
            raise InputError(
                f"{self.model_dir}: no checkpoint to branch from; there are those of steps {known}, and streams branch "
                "at the end of an epoch only. Train it again with a shorter checkpoint_every and "
                "--config.keep_checkpoints=20."
            )
        if len(found) > most and not steps:
            found = [found[round(index * (len(found) - 1) / max(1, most - 1))] for index in range(most)]
        return found

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
    ) -> list[Entry]:
        """The branches from a point of `points`, one for each batch size.

        The learning rate begins at the run's own at that point, times what the rule gives for the batch, and falls to 0
        at the end of the branch, so that the noise of the last steps does not decide; in the paper it is constant.

        Args:
          batch_sizes: rising, from the run's own; multiples of it.
          examples: duration of a branch, as '1 epochs'.
          seeds: of the order of the examples and of dropout.
          rule: what the learning rate takes of a larger batch: 'sqrt', 'linear' or 'none'.

        Raises:
          ValueError: an argument cannot be used, or a branch has fewer than four steps.
        """
        own = self.config.batch_size
        sizes = arguments.integers("batch_sizes", batch_sizes, least=1)
        length = self.examples_of(examples)
        rising = sizes == sorted(set(sizes)) and len(sizes) > 1 and sizes[0] == own
        if not rising or any(size % own or length < _FEWEST_STEPS * size for size in sizes):
            raise InputError(
                f"--batch_sizes={','.join(map(str, sizes))}, --examples={examples!r}: expected the run's own batch, "
                f"{own}, and larger multiples of it, rising, as {own},{2 * own}, with {_FEWEST_STEPS} steps or more "
                f"each; {length:,} examples are {length // own:,} steps at {own}."
            )
        entries = []
        for size in sizes:
            config = self._branch(point, length)
            if size > own:
                config.ramp.update({"name": "growth", "growth": ((f"{point.step} steps", size),), "rule": rule})
            name, folder = f"branch of step {point.step:,} with batch {size:,}, run", f"step-{point.step}/batch-{size}"
            entries.append(Entry(name, config, tuple(seeds), folder))
        return entries

    def _branch(self, point: BranchPoint, length: int) -> ml_collections.ConfigDict:
        """The config of the branch at the run's own batch."""
        config = copy.deepcopy(self.config)
        # The moments and the weight decay of the run, at its own batch.
        with config.optimizer.unlocked(), config.optimizer.ignore_type():
            config.optimizer.update(self._phase.scaled.optimizer)
        return set_fields(
            config,
            {
                # Not the file's own seed, callbacks or target: a branch is measured at its end.
                "experiment": "",
                "stop_at_target": 0.0,
                "duration": f"{point.examples + length} examples",
                "evaluate_every": "0 steps",
                "checkpoint_every": "0 steps",
                "log_every": f"{max(1, length // 8)} examples",
                "keep_best": False,
                "divergence.rollbacks": 0,
                **{f"instruments.{name}.enabled": False for name in ("noise_scale", "sharpness", "layers")},
                "schedule.moments": "none",
                "schedule.weight_decay": "none",
                "schedule.batch_size": config.batch_size,
                "schedule.learning_rate": point.learning_rate,
                "schedule.warmup_epochs": 0.0,
                "schedule.warmup": "",
                "schedule.rule": "none",
                "schedule.decay": "linear",
                "schedule.end": 0.0,
                "schedule.start": f"{point.step} steps",
            },
        )


def run_branch(
    config: ml_collections.ConfigDict,
    *,
    model_dir: str,
    checkpoints: Mapping[int, str],
    run: Callable[..., dict[str, Any]],
    **options: Any,
) -> dict[str, Any]:
    """Runs a branch in `model_dir` from its checkpoint of another run, and removes its own checkpoints at the end.

    Args:
      config, model_dir, options: arguments of `run`, which is `tfbigbatch.train.run`.
      checkpoints: of the other run, by step.
    """
    folder = RunDirectory(model_dir).checkpoints
    if not checkpoint_files.paths(folder):
        with writing(model_dir), writing_errors(folder):
            os.makedirs(folder, exist_ok=True)
            # The index at the end: an interrupted copy is then no checkpoint.
            checkpoint = checkpoints[int(config.schedule.start.split()[0])]
            for file in sorted(glob.glob(f"{glob.escape(checkpoint)}.*")):
                shutil.copyfile(file, os.path.join(folder, os.path.basename(file)))
    result = run(config, model_dir=model_dir, **options)
    with writing(model_dir):
        shutil.rmtree(folder, ignore_errors=True)
    return result
