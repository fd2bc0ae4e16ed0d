"""A map that isolates failures, and the log of bad records: a damaged record is dropped without losing its batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError


class BadRecords:
    """The records of a split that could not be read or decoded: each is logged once and counted.

    Args:
      split: Split of a prepared folder.
      max_fraction: the largest fraction of its records that may be bad, in [0, 1].

    Attributes:
      numbers: of the bad records so far, in the split.
    """

    def __init__(self, split: Split, *, max_fraction: float) -> None:
        if not 0.0 <= max_fraction <= 1.0:
            raise InputError(f"max_bad_fraction={max_fraction}: expected a fraction, from 0.0 to 1.0.")
        self._split, self._max_fraction = split, max_fraction
        self._ends = np.cumsum(split.counts)
        self.numbers: set[int] = set()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """The number of bad records so far, each counted once."""
        return len(self.numbers)

    def locate(self, number: int) -> tuple[str, int]:
        """(file, offset in bytes) of a record, by its number in the split."""
        file = int(np.searchsorted(self._ends, number, side="right"))
        return self._split.files[file], int(self._split.offsets[number])

    def add(self, numbers: Iterable[int]) -> None:
        """Notes bad records by their numbers in the split; called from any thread of the pipeline."""
        with self._lock:
            new = [int(number) for number in numbers if int(number) not in self.numbers]
            self.numbers.update(new)
        for number in new:
            file, offset = self.locate(number)
            logging.warning("skipped: the record at byte %d of %s cannot be read or decoded", offset, file)

    def reporter(self) -> Callable[[tf.Tensor], Any]:
        """A function of the numbers of bad records, int64 [n], for the pipeline that is built: call both there.

        A pipeline on another host than Python's, as that of a TPU slice, cannot call Python: it prints them there, and
        they do not count.
        """
        if _remote_host() is None:
            return lambda numbers: tf.numpy_function(self.add, [numbers], [])
        name = self._split.name
        return lambda numbers: tf.print("skipped: records of", name, "that cannot be read or decoded:", numbers)

    def check(self) -> None:
        """Raises where too many are bad.

        Raises:
          ValueError: more than `max_fraction` of the split's records are bad.
        """
        count = self.count
        if count > self._max_fraction * self._split.examples:
            file, offset = self.locate(min(self.numbers))
            raise InputError(
                f"{count:,} of the {self._split.examples:,} records of {self._split.name} cannot be read or "
                f"decoded, more than the fraction max_bad_fraction={self._max_fraction} allows; the first is at byte "
                f"{offset} of {file}. Prepare the dataset again, or raise max_bad_fraction."
            )


def _remote_host() -> str | None:
    """The device that eager operations are placed on, where it is of another process than this one; else None."""
    # A tensor of a graph, as in a function of a dataset, has no device yet.
    with tf.init_scope():
        here = tf.zeros([]).device
        # TPUs have no part in it: their pipelines are on the CPU of a host.
        with tf.device(None):
            local = tf.zeros([]).device
    first, second = (tf.DeviceSpec.from_string(device) for device in (here, local))
    return None if (first.job, first.task) == (second.job, second.task) else here


def check_is_local(source: str) -> None:
    """Raises where the pipeline that is built is on another host, which cannot read `source` by Python.

    Raises:
      ValueError: it is.
    """
    here = _remote_host()
    if here is not None:
        raise InputError(
            f"{source} is read by Python, which {here} cannot call. Train where Python runs: on a TPU VM with "
            "--tpu=local, or with one process for each host."
        )


def map_records(
    function: Callable[..., Any], elements: tuple[tf.Tensor, ...], report: Callable[[tf.Tensor], Any]
) -> Any:
    """`function` of some records, where an empty one stands in for each that it fails on.

    TensorFlow catches an error within a graph nowhere but in a dataset, whose failed elements `ignore_errors` leaves
    out: so the call is the only element of a dataset, and the zeros behind it are what is got where that fails. All
    records are tried at once, and one by one only where that fails: the price of safety is paid once for all.

    Args:
      function: from `elements`, or one of each with a first dimension of 1, to a nest of tensors of the same first
        dimension; an empty string stands for no record.
      elements: records, string [n], n known, empty where there is none or it could not be read; their numbers in the
        split, int64 [n], negative where there is none; and further tensors of [n, ...].
      report: called where any are bad, with their numbers.

    Returns:
      The nest of tensors.
    """
    records, numbers, *others = elements

    def attempt(*elements: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """(results, True), or zeros and False where the function fails."""
        tried = tf.data.Dataset.from_tensors(elements).map(lambda *elements: (function(*elements), True))
        blank = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), tried.element_spec[0])
        either = tried.ignore_errors().concatenate(tf.data.Dataset.from_tensors((blank, False)))
        return either.take(1).get_single_element()

    def without_the_bad() -> tuple[Any, tf.Tensor]:
        fine = tf.map_fn(lambda one: attempt(*(each[None] for each in one))[1], elements, fn_output_signature=tf.bool)
        return function(tf.where(fine, records, ""), numbers, *others), unreadable | ~fine

    unreadable = tf.strings.length(records) == 0
    results, fine = attempt(*elements)
    results, bad = tf.cond(fine, lambda: (results, unreadable), without_the_bad)
    found = tf.boolean_mask(numbers, bad & (numbers >= 0))
    tf.cond(tf.size(found) > 0, lambda: (report(found), True)[1], lambda: False)
    return results
