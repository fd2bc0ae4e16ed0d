"""Checkpoints of a run: weights by path, optimizer state, and the parts that other objects add."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch.cluster.watchdog import worker_loss
from tfbigbatch.errors import DivergedError, InputError, first_line
from tfbigbatch.run_directory import checkpoint_files, weights
from tfbigbatch.training.options import Heartbeat, no_heartbeat
from tfbigbatch.utils.files import atomic_write
from tfbigbatch.utils.tensorflow_paths import literal_path

# The name, in `CheckpointPart.more`, of variables [replicas, ...].
OF_REPLICAS = "of_replicas"


def _nothing() -> None:
    """For hooks that do nothing."""


@dataclasses.dataclass(frozen=True)
class CheckpointPart:
    """Further state in a checkpoint.

    Attributes:
      more: trackables by the name that they have in the checkpoint.
      before_save, after_save, after_restore: called on every worker, before `more` is written, after that, and after
        it is read.
    """

    more: Mapping[str, Any]
    before_save: Callable[[], None] = _nothing
    after_save: Callable[[], None] = _nothing
    after_restore: Callable[[], None] = _nothing


class Checkpoints:
    """Saves and restores the training state of a run.

    Args:
      network: keras.Model, compiled, with its optimizer built.
      directory: folder of the checkpoints.
      keep: number of newest checkpoints that are kept, at least 2.
      scratch: None, or the folder that a worker other than the chief writes to: in a cluster every worker takes part
        in a save, but only the chief's files are kept.
      barrier: called after each save; returns when the chief's files are whole.
      parts: further state.
      heartbeat: called before each save.
      writes: False to change nothing in the folder, as beside a process that trains.

    Attributes:
      directory: of the checkpoints.
      set_aside: list of (path, reason) of the damaged checkpoints that `restore` renamed, or passed over.
    """

    def __init__(
        self,
        network: keras.Model,
        directory: str,
        *,
        keep: int = 2,
        scratch: str | None = None,
        barrier: Callable[[], object] = _nothing,
        parts: Sequence[CheckpointPart] = (),
        heartbeat: Heartbeat = no_heartbeat,
        writes: bool = True,
    ) -> None:
        if keep < 2:
            raise InputError(f"keep_checkpoints={keep}: expected 2 or more, so that one stays if the newest is lost.")
        self._weights = {path: variable.value for path, variable in weights.by_path(network).items()}
        self.directory = directory
        self._parts = parts
        more = {name: trackable for part in parts for name, trackable in part.more.items()}
        self._checkpoint = tf.train.Checkpoint(
            **{weights.WEIGHTS: self._weights, "optimizer": network.optimizer, **more}
        )
        self._scratch = scratch
        self._barrier = barrier
        self._keep = keep
        self._heartbeat = heartbeat
        self._writes = writes
        self.set_aside: list[tuple[str, str]] = []

    def latest(self) -> str | None:
        """Path of the newest checkpoint, or None."""
        return next(iter(checkpoint_files.paths(self.directory)), None)

    def restore(self) -> int | None:
        """Restores the newest checkpoint that is whole and returns its step, or None where there is none.

        TensorFlow keeps a checksum with every tensor. Checkpoints that are newer and damaged are renamed, and
        listed in `set_aside`.

        Raises:
          ValueError: the checkpoint is of another model or optimizer, or all are damaged.
        """
        damaged = []
        for path in checkpoint_files.paths(self.directory):
            try:
                self._read(path)
                break
            # TensorFlow turns data that ends too soon into Python's own error.
            except (tf.errors.OpError, IndexError) as error:
                damaged.append((path, first_line(error)))
        else:
            self._check_for_lost_files(damaged)
            return None
        # Every worker has read the same files by now.
        self._barrier()
        if not self._writes:
            self.set_aside = damaged
        elif not self._scratch:
            self.set_aside = [(checkpoint_files.set_aside(path), wrong) for path, wrong in damaged]
        for part in self._parts:
            part.after_restore()
        return checkpoint_files.step_of(path)

    def _read(self, path: str) -> None:
        """Restores a checkpoint."""
        try:
            self._check_replicas(path)
            status = self._checkpoint.restore(literal_path(path))
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except InputError:
            raise
        except (AssertionError, ValueError) as error:
            raise InputError(
                f"checkpoint {path} is of another model or optimizer: {first_line(error)} "
                "Use the experiment file that wrote it, or another --model_dir."
            ) from None

    def _check_replicas(self, path: str) -> None:
        """Raises ValueError for a checkpoint of another number of replicas that each have state of their own."""
        shapes = tf.train.load_checkpoint(literal_path(path)).get_variable_to_shape_map()
        replicas = next((part.more[OF_REPLICAS][0].shape[0] for part in self._parts if OF_REPLICAS in part.more), 1)
        written = shapes.get(f"{OF_REPLICAS}/0/.ATTRIBUTES/VARIABLE_VALUE", [1])[0]
        if written != replicas:
            raise InputError(
                f"checkpoint {path} is of {written} replicas, each with state of its own (optimizer.local_steps, or "
                f"optimizer.adasum with moments), and this run has {replicas}. Resume it on {written}; or begin a new "
                "run with its weights: --init_from."
            )

    def save(self, step: int) -> None:
        """Saves the state after `step`; a state with NaN or infinity is not saved.

        Raises:
          RuntimeError: a variable is not finite; earlier checkpoints are kept.
          ValueError: the files cannot be written; earlier checkpoints are kept.
        """
        self.save_in(self.directory, step)
        if not self._scratch:
            for old in checkpoint_files.paths(self.directory)[self._keep :]:
                checkpoint_files.remove(old)

    def save_in(self, folder: str, step: int) -> None:
        """Saves the state after `step` into a folder, with the others there; see `save`."""
        # `restore` expects a count, which TensorFlow makes at its own first save.
        _ = self._checkpoint.save_counter
        name = f"{checkpoint_files.NAME}-{step}"
        floating = [variable for variable in self._weights.values() if variable.dtype.is_floating]
        if not all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in floating):
            raise DivergedError(f"the weights are not finite at step {step}.")
        self._heartbeat(f"the beginning of the checkpoint of step {step:,}")
        for part in self._parts:
            part.before_save()
        try:
            # In a cluster all take part in reading what each replica has: one that is lost is no full disk.
            with worker_loss():
                self._checkpoint.write(os.path.join(self._scratch or folder, name))
            if folder == self.directory and not self._scratch:
                newest = f'model_checkpoint_path: "{name}"\n'.encode()
                # TensorFlow's own file, which tells its newest; and that there were some, if their files are lost.
                atomic_write(os.path.join(folder, "checkpoint"), lambda file: file.write(newest))
        except (tf.errors.OpError, OSError) as error:
            raise InputError(
                f"the checkpoint of step {step} cannot be written under {folder}: {first_line(error)} "
                "The checkpoints before it are whole; free or extend the disk and run the same command again."
            ) from None
        finally:
            for part in self._parts:
                part.after_save()
            if self._scratch:
                shutil.rmtree(self._scratch, ignore_errors=True)
        self._barrier()

    def _check_for_lost_files(self, damaged: Sequence[tuple[str, str]]) -> None:
        # A fresh start would drop the metrics of a run whose checkpoints can still be repaired.
        if damaged:
            reasons = "\n  ".join(f"{path}: {wrong}" for path, wrong in damaged)
            raise InputError(
                f"every checkpoint in {self.directory} is damaged:\n  {reasons}\nPut whole files back, or remove the "
                "directory to start afresh."
            )
        left = checkpoint_files.left_over(self.directory)
        if left:
            raise InputError(
                f"{self.directory} holds {', '.join(left[:6])}, but no checkpoint with its index. Put the missing "
                "files back, or remove the directory to start afresh."
            )
