"""Checkpoints of a run: network, optimizer state, random generators, and whatever else the model keeps."""

import contextlib
import shutil

import tensorflow as tf

from tfbigbatch.errors import DivergedError, InputError
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.training.background_writer import BackgroundWriter
from tfbigbatch.training.callbacks.base import updates_done


class Checkpoints:
    """Saves and restores a run's training state.

    Args:
      network: the Keras model.
      optimizer: its optimizer, built.
      directory: where the checkpoints lie.
      keep: how many of the newest stay, at least 2.
      scratch: None, or where a worker that is not the chief writes: in a cluster every worker
        takes part in a save, but only the chief's files stay.
      barrier: called after each save; no worker goes on before the chief's files are whole.
      more: dictionary of further trackables to save.
      before_save, after_restore: called, on every worker, before `more` is written and after it is read.
      asynchronous: whether the files are written by a thread, from a copy in memory, while training goes on.
      alive: called with words before each save, as `cluster.watchdog.Watchdog.heartbeat`.

    Attributes:
      set_aside: list of (path, what is wrong with it), of the damaged checkpoints that `restore` renamed.
    """

    def __init__(
        self,
        network,
        optimizer,
        directory,
        *,
        keep=2,
        scratch=None,
        barrier=lambda: None,
        more=None,
        before_save=lambda: None,
        after_restore=lambda: None,
        asynchronous=False,
        alive=lambda after: None,
    ):
        if keep < 2:
            raise InputError(f"keep_checkpoints={keep}: expected 2 or more, so that one stays if the newest is lost.")
        self._network = network
        self._optimizer = optimizer
        self._directory = directory
        # tf_keras leaves the random generators of its layers (dropout's) out of checkpoints.
        self._checkpoint = tf.train.Checkpoint(
            network=network, optimizer=optimizer, generators=_random_generators(network), **(more or {})
        )
        self._before_save = before_save
        self._after_restore = after_restore
        self._scratch = scratch
        self._barrier = barrier
        self._keep = keep
        self._alive = alive
        self._manager = None
        self._writer = BackgroundWriter(None if scratch else directory, keep) if asynchronous else None
        self.set_aside = []

    def latest(self):
        """Path of the newest checkpoint, or None; waits for one that is being written."""
        self.wait()
        return next(iter(checkpoint_files.paths(self._directory)), None)

    def latest_step(self):
        """The update after which the newest checkpoint was saved, or None."""
        path = self.latest()
        return None if path is None else checkpoint_files.step_of(path)

    def restore(self):
        """Restores the newest checkpoint that is whole and returns its step, or None where there is none.

        TensorFlow keeps a checksum with every tensor. Checkpoints that are newer and damaged are renamed, and
        listed in `set_aside` as (new path, what is wrong).

        Raises:
          ValueError: the checkpoint is of another model or optimizer, or all are damaged.
        """
        found = checkpoint_files.paths(self._directory)
        damaged = []
        for path in found:
            wrong = self._restored(path)
            if not wrong:
                break
            damaged.append((path, wrong))
        else:
            self._check_for_lost_files(damaged)
            return None
        # Every worker has read the same files by now.
        self._barrier()
        whole = found[len(damaged) :]
        if not self._scratch:
            self.set_aside = [(checkpoint_files.set_aside(path), wrong) for path, wrong in damaged]
            checkpoint_files.write_list(self._directory, whole)
        self._after_restore()
        return updates_done(self._optimizer)

    def _restored(self, path):
        """Restores a checkpoint; returns what is wrong with its files, if anything is."""
        try:
            status = self._checkpoint.restore(path)
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except (AssertionError, ValueError) as error:
            raise InputError(
                f"checkpoint {path} is of another model or optimizer: {_first_line(error)} "
                "Use the experiment file that wrote it, or another --model_dir."
            ) from None
        # TensorFlow turns data that ends too soon into Python's own error.
        except (tf.errors.OpError, IndexError) as error:
            return _first_line(error)
        return None

    def save(self, step):
        """Saves the state after update `step`; a state with NaN or infinity is not saved.

        Where saving is asynchronous, `wait` returns once the files are whole; the next save waits too.

        Raises:
          RuntimeError: a variable is not finite; the checkpoints before stay.
          ValueError: the files, or those of the save before, cannot be written; the checkpoints before stay.
        """
        if not self._is_finite():
            raise DivergedError(f"the weights are not finite at step {step}.")
        self._alive(f"the beginning of the checkpoint of step {step:,}")
        self._before_save()
        self.wait()
        with self._telling(step):
            if self._writer is None:
                self._managing().save(checkpoint_number=step)
            else:
                # As the manager does: a checkpoint of either kind has the same content.
                self._checkpoint.save_counter.assign_add(1)
                self._writer.save(step, self._checkpoint.write)
        self._barrier()

    def wait(self):
        """Returns once every checkpoint is whole.

        Raises:
          ValueError: one could not be written.
        """
        if self._writer is not None:
            with self._telling(self._writer.step):
                self._writer.wait()

    def check(self):
        """Raises ValueError where the last asynchronous save is known to have failed; does not wait."""
        if self._writer is not None:
            with self._telling(self._writer.step):
                self._writer.check()

    @contextlib.contextmanager
    def _telling(self, step):
        """Turns a failure to write the checkpoint of a step into an error for the user."""
        try:
            yield
        except (tf.errors.OpError, OSError) as error:
            raise InputError(
                f"the checkpoint of step {step} cannot be written under {self._directory}: {_first_line(error)} "
                "The checkpoints before it are whole; free or extend the disk and run the same command again."
            ) from None

    def _managing(self):
        # At the first save: by then `restore` has put the list of checkpoints right, which the manager goes by.
        if self._manager is None:
            self._manager = tf.train.CheckpointManager(
                self._checkpoint,
                self._scratch or self._directory,
                max_to_keep=self._keep,
                checkpoint_name=checkpoint_files.NAME,
            )
        return self._manager

    def close(self):
        """Waits for what is being written, whatever becomes of it; removes the files of a worker that is no chief."""
        with contextlib.suppress(InputError):
            self.wait()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _check_for_lost_files(self, damaged):
        # Starting afresh would drop the metrics of a run whose checkpoints can still be mended.
        if damaged:
            reasons = "\n  ".join(f"{path}: {wrong}" for path, wrong in damaged)
            raise InputError(
                f"every checkpoint in {self._directory} is damaged:\n  {reasons}\nPut whole files back, or remove the "
                "directory to start afresh."
            )
        left = checkpoint_files.left_over(self._directory)
        if left:
            raise InputError(
                f"{self._directory} holds {', '.join(left[:6])}, but no checkpoint with its index. Put the missing "
                "files back, or remove the directory to start afresh."
            )

    def _is_finite(self):
        floating = [variable for variable in self._network.variables if variable.dtype.is_floating]
        return all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in floating)


def _random_generators(network):
    """The tf.random.Generators that the network's layers draw from, in the order of its modules."""
    generators = []
    for module in network.submodules:
        source = getattr(module, "_random_generator", None)
        if source is not None:
            source._maybe_init()
            if source._generator is not None:
                generators.append(source._generator)
    return generators


def _first_line(error):
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return message.strip().splitlines()[0]
