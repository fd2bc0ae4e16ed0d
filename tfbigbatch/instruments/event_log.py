"""Where the instruments write: one folder of TensorBoard events."""

import contextlib
import functools
import os

import numpy as np
import tensorflow as tf

from tfbigbatch.instruments.layout import layout


class EventLog:
    """Writes scalars, histograms and images to one folder, with the layout of the custom-scalars page.

    Nothing is written, and no folder made, before the first of them.

    Args:
      folder: of one run; TensorBoard is given it, or a folder above.
    """

    def __init__(self, folder):
        self._folder = os.fspath(folder)
        self._writer = None

    def scalars(self, step, values):
        """Writes a dictionary of tag to float."""
        with self._writing(step):
            write_scalars(values)

    def histograms(self, step, values):
        """Writes a dictionary of tag to tensor."""
        with self._writing(step):
            for tag, value in values.items():
                tf.summary.histogram(tag, value)

    def image(self, step, tag, png):
        """Writes a picture, the bytes of a PNG."""
        with self._writing(step):
            tf.summary.image(tag, tf.io.decode_png(png, channels=3)[tf.newaxis])

    def lay_out(self):
        """Writes the layout, where nothing is written yet, for scalars that go to another folder of the same run."""
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._folder)
            self._write_layout()
            self._writer.flush()

    @contextlib.contextmanager
    def _writing(self, step):
        self.lay_out()
        # Keras' own TensorBoard callback leaves a condition of its own in force.
        with at_step(self._writer, step), tf.summary.record_if(True):
            yield
        # A look is rare, and worth seeing at once.
        self._writer.flush()

    def _write_layout(self):
        from tensorboard.plugins.custom_scalar import metadata

        message = tf.compat.v1.SummaryMetadata.FromString(metadata.create_summary_metadata().SerializeToString())
        with self._writer.as_default(step=0), tf.summary.record_if(True):
            tf.summary.write(metadata.CONFIG_SUMMARY_TAG, layout().SerializeToString(), metadata=message)


def at_step(writer, step):
    """The context in which what is written goes to a tf.summary writer, at an update's number.

    TensorFlow keeps every Python number that it has made a tensor of, for good: 700 bytes each. Not so NumPy's.
    """
    return writer.as_default(step=np.int64(step))


def write_scalars(values):
    """Writes a dictionary of tag to float to the writer in force, at its step, as one event.

    Each by `tf.summary.scalar` would take half a millisecond, and a look at a network's layers has hundreds.
    """
    from tensorboard.plugins.scalar import metadata

    message = tf.compat.v1.SummaryMetadata.FromString(
        metadata.create_summary_metadata(display_name=None, description=None).SerializeToString()
    )
    summary = tf.compat.v1.Summary()
    for tag, value in values.items():
        summary.value.add(tag=tag, tensor=tf.make_tensor_proto(value, tf.float32), metadata=message)
    tf.summary.experimental.write_raw_pb(summary.SerializeToString())


def log_of(log):
    """The log that an instrument was given: an object as `EventLog`, the one of a folder, or None."""
    return _of_folder(os.path.abspath(log)) if isinstance(log, (str, os.PathLike)) else log


@functools.cache
def _of_folder(folder):
    # One writer a folder: TensorBoard follows its newest file only.
    return EventLog(folder)
