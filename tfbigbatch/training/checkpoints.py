"""Checkpoints of a run: network, optimizer state, random generators, and whatever else the model keeps."""

import os
import shutil

import tensorflow as tf

from tfbigbatch.errors import DivergedError, InputError
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
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, scratch or directory, max_to_keep=keep, checkpoint_name="step"
        )

    def latest(self):
        """Path of the newest checkpoint, or None."""
        return tf.train.latest_checkpoint(self._directory)

    def restore(self):
        """Restores the newest checkpoint and returns its step, or None where there is none.

        Raises:
          ValueError: the checkpoint is of another model or optimizer, or is damaged.
        """
        path = self.latest()
        if path is None:
            self._check_for_lost_files()
            return None
        try:
            status = self._checkpoint.restore(path)
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except (AssertionError, ValueError) as error:
            raise InputError(
                f"checkpoint {path} is of another model or optimizer: {_first_line(error)} "
                "Use the experiment file that wrote it, or another --model_dir."
            ) from None
        except tf.errors.OpError as error:
            raise InputError(
                f"checkpoint {path} is damaged ({_first_line(error)}). Remove its line from "
                f"{os.path.join(self._directory, 'checkpoint')} to resume from the one before."
            ) from None
        self._after_restore()
        return updates_done(self._optimizer)

    def save(self, step):
        """Saves the state after update `step`; a state with NaN or infinity is not saved.

        Raises:
          RuntimeError: a variable is not finite; the checkpoints before stay.
          ValueError: the files cannot be written; the checkpoints before stay.
        """
        if not self._is_finite():
            raise DivergedError(f"the weights are not finite at step {step}.")
        self._before_save()
        try:
            self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            raise InputError(
                f"the checkpoint of step {step} cannot be written under {self._directory}: {_first_line(error)} "
                "The checkpoints before it are whole; free or extend the disk and run the same command again."
            ) from None
        self._barrier()

    def close(self):
        """Removes the scratch files of a worker that is not the chief."""
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _check_for_lost_files(self):
        # Starting afresh would drop the metrics of a run whose checkpoints can still be mended. A first save
        # that a kill cut short is nothing lost: it leaves no file 'checkpoint', and at most one index.
        left = sorted(os.listdir(self._directory)) if os.path.isdir(self._directory) else []
        if "checkpoint" in left or sum(name.endswith(".index") for name in left) > 1:
            raise InputError(
                f"{self._directory} holds {', '.join(left[:6])}, but no whole checkpoint that its file 'checkpoint' "
                "names as the newest. Put the missing files back, or remove the directory to start afresh."
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
