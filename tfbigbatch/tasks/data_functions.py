"""The `data` of a task of one's own from a tf.data function or a folder of images."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfbigbatch.errors import InputError

Splits = Mapping[str, Any]
"""Datasets by the names of their splits."""


def from_tf_data(
    factory: Callable[..., Any],
    *,
    splits: Sequence[str] = ("train", "validation"),
    examples: Mapping[str, int] | None = None,
    classes: int | None = None,
) -> Callable[..., Splits]:
    """Data of a function that makes `tf.data` pipelines.

    The order on resume is exact as far as the function is a pure function of its seed: each epoch calls it with a new
    one, and a resumed run reads up to its step. The examples beyond an epoch's last whole batch are left out of it.

    Args:
      factory: function of (split, seed), a name and an int, that returns a tf.data.Dataset of single examples,
        (features, labels) or (features, labels, weights). It shuffles the split 'train' by the seed, and neither
        batches nor repeats. It may take `data_dir`; its arguments with defaults are fields of the config's `data`.
      splits: names of the splits.
      examples: examples of each split; by default the dataset tells, or is read once to count them.
      classes: number of classes, for a network function that takes it.

    Raises:
      ValueError: the function does not take a split and a seed.
    """
    parameters = list(inspect.signature(factory).parameters.values())
    if len(parameters) < 2 or any(each.kind is each.KEYWORD_ONLY for each in parameters[:2]):
        raise InputError(f"from_tf_data: {factory!r} takes no (split, seed); expected a function of both.")

    def data(**fields: Any) -> Splits:
        from tfbigbatch.data.sources.tf_data import TfDataExamples

        return {
            split: TfDataExamples(
                functools.partial(factory, split, **fields),
                f"{getattr(factory, '__name__', 'tf.data')}({split!r})",
                examples=(examples or {}).get(split),
                classes=classes,
            )
            for split in splits
        }

    # `define` reads the fields from it.
    data.__signature__ = inspect.Signature(parameters[2:])  # type: ignore[attr-defined]
    return data


def from_image_folder(*, image_size: int = 64, max_bad_fraction: float = 0.01) -> Callable[..., Splits]:
    """Data of a folder of images, --data_dir, with a folder for each class.

    The classes' folders are in the folders 'train' and 'validation' (and 'test'), or, without these, in --data_dir
    itself; a part of the images is then held out. The features are float32 [image_size, image_size, 3] in [0, 255].
    Images are JPEG, PNG, GIF or WebP; each is decoded once before the first step, and what is not used is logged.

    Args:
      image_size: pixels of a side; the field `data.image_size`.
      max_bad_fraction: the largest fraction of a split's images that may be damaged and left out; the field
        `data.max_bad_fraction`. More end the run before its first step, with their names.
    """

    def data(data_dir: str, image_size: int = image_size, max_bad_fraction: float = max_bad_fraction) -> Splits:
        from tfbigbatch.data.sources import image_folder

        return image_folder.splits(data_dir, image_size, max_bad_fraction)

    return data
