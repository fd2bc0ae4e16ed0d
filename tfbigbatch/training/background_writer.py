"""Checkpoints that are written while training goes on: into memory first, and from there by a thread to the disk."""

import contextlib
import glob
import os
import threading

import tensorflow as tf

from tfbigbatch.runs import checkpoint_files

_PIECE = 16 << 20  # bytes


class BackgroundWriter:
    """Moves checkpoints from memory to their folder, one at a time.

    On the disk a checkpoint comes into being as when TensorFlow itself saves it there: the index, without which it is
    none, is the last of its files, and each appears whole. Memory holds one checkpoint at most.

    Args:
      directory: where the checkpoints stay; None for a worker whose files do not.
      keep: how many of the newest stay.

    Attributes:
      step: the update of the last checkpoint; None before the first.
    """

    step = None

    def __init__(self, directory, keep):
        self._directory = directory
        self._keep = keep
        # TensorFlow's file system in the process's memory: its saving and its checksums are those of any other.
        self._memory = f"ram://tfbigbatch/{os.getpid()}/{id(self)}"
        self._thread = None
        self._error = None

    def save(self, step, write):
        """Has a state written into memory, and begins to move it to the folder; waits for the last one before that.

        Args:
          step: the update that it is of.
          write: function of a path that saves the state there, such as tf.train.Checkpoint.write.

        Raises:
          OSError, tf.errors.OpError: it cannot be written, or the last one could not.
        """
        self.wait()
        name = f"{checkpoint_files.NAME}-{step}"
        write(f"{self._memory}/{name}")
        if self._directory is None:
            self._forget(name)
            return
        self.step = step
        self._thread = threading.Thread(target=self._move, args=(name,), daemon=True, name="checkpoint writer")
        self._thread.start()

    def wait(self):
        """Returns once the last checkpoint is whole.

        Raises:
          OSError, tf.errors.OpError: it could not be written.
        """
        if self._thread is not None:
            self._thread.join()
        self.check()

    def check(self):
        """Raises what went wrong with the last checkpoint, if that is known by now; does not wait."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _move(self, name):
        try:
            os.makedirs(self._directory, exist_ok=True)
            for cut_short in glob.glob(os.path.join(glob.escape(self._directory), f"{checkpoint_files.NAME}-*.part")):
                os.remove(cut_short)
            for file in sorted(self._held(name), key=lambda file: file.endswith(".index")):
                _copy(f"{self._memory}/{file}", os.path.join(self._directory, file))
            found = checkpoint_files.paths(self._directory)
            checkpoint_files.write_list(self._directory, found[: self._keep])
            for path in found[self._keep :]:
                checkpoint_files.remove(path)
        # Whatever it is, the thread that trains is to know.
        except Exception as error:
            self._error = error
        finally:
            self._forget(name)

    def _held(self, name):
        """The names of a checkpoint's files in memory."""
        return [file for file in tf.io.gfile.listdir(self._memory) if file.startswith(f"{name}.")]

    def _forget(self, name):
        with contextlib.suppress(tf.errors.OpError):
            for file in self._held(name):
                tf.io.gfile.remove(f"{self._memory}/{file}")


def _copy(held, path):
    part = f"{path}.part"
    with tf.io.gfile.GFile(held, "rb") as content, open(part, "wb") as file:
        while piece := content.read(_PIECE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
