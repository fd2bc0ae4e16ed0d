"""TensorBoard output of the instruments: one folder of events."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.scalar import metadata as scalar_metadata

from tfbigbatch.utils.home import expanded


class EventLog:
    """Writes scalars and histograms to one folder.

    The folder is made by the first write.

    Args:
      folder: of one run; start TensorBoard with it or a parent folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = expanded(folder)
        self._writer: Any = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes a dictionary of tag to float."""
        with self._writing(step):
            write_scalars(values)

    def histograms(self, step: int, values: Mapping[str, tf.Tensor]) -> None:
        """Writes a dictionary of tag to tensor."""
        with self._writing(step):
            for tag, value in values.items():
                tf.summary.histogram(tag, value)

    @contextlib.contextmanager
    def _writing(self, step: int) -> Iterator[None]:
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._folder)
        # Keras' own TensorBoard callback may have left a recording condition active.
        with at_step(self._writer, step), tf.summary.record_if(True):
            yield
        # Measurements are rare; make them visible at once.
        self._writer.flush()


def at_step(writer: Any, step: int) -> contextlib.AbstractContextManager[None]:
    """A context that writes to a tf.summary writer at a step.

    As a NumPy number: TensorFlow caches every Python number that it converts to a tensor forever, 700 bytes each.
    """
    return writer.as_default(step=np.int64(step))


def write_scalars(values: Mapping[str, float]) -> None:
    """Writes tags and values to the default writer, at its step, as one event.

    `tf.summary.scalar` takes half a millisecond each, and a measurement of a network's layers has hundreds.
    """
    message = tf.compat.v1.SummaryMetadata.FromString(
        scalar_metadata.create_summary_metadata(display_name=None, description=None).SerializeToString()
    )
    summary = tf.compat.v1.Summary()
    for tag, value in values.items():
        summary.value.add(tag=tag, tensor=tf.make_tensor_proto(value, tf.float32), metadata=message)
    tf.summary.experimental.write_raw_pb(summary.SerializeToString())


def log_of(log: Any) -> Any:
    """The log of an instrument's argument: the EventLog of a folder; other objects and None unchanged."""
    return _of_folder(os.path.abspath(expanded(log))) if isinstance(log, (str, os.PathLike)) else log


@functools.cache
def _of_folder(folder: str) -> EventLog:
    # One writer per folder: TensorBoard follows its newest file only.
    return EventLog(folder)
