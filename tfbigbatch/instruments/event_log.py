"""TensorBoard output of the instruments: one folder of events, and the layout of its custom-scalars page."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_metadata
from tensorboard.plugins.scalar import metadata as scalar_metadata

from tfbigbatch.utils.home import expanded

# Category to (title of a chart, regular expressions of its tags).
CHARTS = {
    "Gradient noise": (
        ("critical batch size, and its interval (examples)", [r"noise_scale/(critical_batch_size|low|high)"]),
        ("|G|^2", [r"noise_scale/squared_norm"]),
        ("tr(Sigma)", [r"noise_scale/trace"]),
    ),
    "Sharpness": (
        ("largest Hessian eigenvalues", [r"sharpness/eigenvalue_\d+"]),
        ("trace of the Hessian, and its standard error", [r"sharpness/trace(_error)?"]),
        ("rise of the loss at the radius", [r"sharpness/rise"]),
        ("loss and gradient norm on the probe", [r"sharpness/(loss|gradient_norm)"]),
    ),
    "Layers": (
        ("trust ratio", [r"layers/trust_ratio/.*"]),
        ("update to weight ratio", [r"layers/update_to_weight/.*"]),
        ("weight norm", [r"layers/weight_norm/.*"]),
        ("gradient norm", [r"layers/gradient_norm/.*"]),
        ("update norm", [r"layers/update_norm/.*"]),
    ),
}


class EventLog:
    """Writes scalars and histograms to one folder, with the layout of the custom-scalars page.

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

    def lay_out(self) -> None:
        """Writes the layout if nothing is written yet, for scalars in another folder of the same run."""
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._folder)
            self._write_layout()
            self._writer.flush()

    @contextlib.contextmanager
    def _writing(self, step: int) -> Iterator[None]:
        self.lay_out()
        # Keras' own TensorBoard callback may have left a recording condition active.
        with at_step(self._writer, step), tf.summary.record_if(True):
            yield
        # Measurements are rare; make them visible at once.
        self._writer.flush()

    def _write_layout(self) -> None:
        message = tf.compat.v1.SummaryMetadata.FromString(layout_metadata.create_summary_metadata().SerializeToString())
        with self._writer.as_default(step=0), tf.summary.record_if(True):
            tf.summary.write(layout_metadata.CONFIG_SUMMARY_TAG, layout().SerializeToString(), metadata=message)


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


def layout() -> Any:
    """The layout as a tensorboard.plugins.custom_scalar.layout_pb2.Layout."""
    return layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=category,
                chart=[
                    # TensorBoard matches an expression at the beginning of a tag.
                    layout_pb2.Chart(
                        title=title, multiline=layout_pb2.MultilineChartContent(tag=[f"{tag}$" for tag in tags])
                    )
                    for title, tags in charts
                ],
            )
            for category, charts in CHARTS.items()
        ]
    )
