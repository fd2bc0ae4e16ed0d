"""The `data` of a task of one's own from a tf.data function, a folder of images, TFDS or Hugging Face."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tfbigbatch.errors import InputError

Splits = Mapping[str, Any]
"""Datasets by the names of their splits."""
_TENTH_HELD_OUT = {"train": "train[:90%]", "validation": "train[90%:]"}


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


def from_tfds(
    name: str,
    *,
    splits: Mapping[str, str] | None = None,
    prepare: Callable[[Any, Any], Any] | None = None,
    shuffle_buffer: int = 10_000,
) -> Callable[..., Splits]:
    """Data of TensorFlow Datasets (pip install tensorflow-datasets), downloaded to --data_dir where it is missing.

    The order is that of `from_tf_data`: files and a buffer are shuffled by the seed of the epoch.

    Args:
      name: of the data set, as 'mnist'.
      splits: for each split, that of the data set; by default 90% and 10% of its 'train'.
      prepare: None, or a function of (features, label), in TensorFlow, that returns both; it gives all features the
        same shape.
      shuffle_buffer: examples of the buffer that shuffles; the field `data.shuffle_buffer`.
    """

    def data(data_dir: str | None = None, shuffle_buffer: int = shuffle_buffer) -> Splits:
        from tfbigbatch.data.sources.tf_data import TfDataExamples

        tfds = _package("tensorflow-datasets")
        builder = tfds.builder(name, data_dir=data_dir)
        builder.download_and_prepare()
        # (features, label), which `as_supervised` gives; TFDS names a feature of it, and its dictionary has no `get`.
        label, features = (builder.info.supervised_keys or ("", ""))[1], builder.info.features

        def make(split: str, theirs: str, seed: int) -> Any:
            shuffles = split == "train"
            files = tfds.ReadConfig(shuffle_seed=seed)
            dataset = builder.as_dataset(split=theirs, shuffle_files=shuffles, read_config=files, as_supervised=True)
            dataset = dataset.shuffle(shuffle_buffer, seed=seed) if shuffles else dataset
            return dataset.map(prepare, num_parallel_calls=2) if prepare else dataset

        return {
            split: TfDataExamples(
                functools.partial(make, split, theirs),
                f"TFDS {name}, {theirs}",
                examples=int(builder.info.splits[theirs].num_examples),
                classes=getattr(features[label], "num_classes", None) if label in features else None,
            )
            for split, theirs in (splits or _TENTH_HELD_OUT).items()
        }

    return data


def from_hugging_face(
    name: str,
    *,
    features: str | Sequence[str],
    label: str = "label",
    splits: Mapping[str, str] | None = None,
    prepare: Callable[[Any, Any], Any] | None = None,
    **options: Any,
) -> Callable[..., Splits]:
    """Data of Hugging Face's datasets (pip install datasets), by index: exact order and exact resume.

    Args:
      name: of the data set, or a path.
      features: the column of the features, or several, which become a dictionary.
      label: the column of the labels.
      splits: for each split, that of the data set; by default 90% and 10% of its 'train'.
      prepare: None, or a function of (features, label), in Python, that returns both as arrays of one shape.
      **options: of `datasets.load_dataset`.
    """

    def data() -> Splits:
        from tfbigbatch.data.sources.by_index import Indexable

        def example(row: Mapping[str, Any]) -> Any:
            given = row[features] if isinstance(features, str) else {name: row[name] for name in features}
            return prepare(given, row[label]) if prepare else (given, row[label])

        datasets = _package("datasets")
        columns, found = [features] if isinstance(features, str) else list(features), {}
        for split, theirs in (splits or _TENTH_HELD_OUT).items():
            rows = datasets.load_dataset(name, split=theirs, **options)
            missing = [column for column in (*columns, label) if column not in rows.column_names]
            if missing:
                raise InputError(
                    f"data set {name} has no column {', '.join(missing)}; it has {', '.join(rows.column_names)}."
                )
            found[split] = Indexable(_Rows(rows, example), f"Hugging Face {name}, {theirs}")
            found[split].classes = getattr(rows.features.get(label), "num_classes", None)
        return found

    return data


class _Rows:
    """The rows of a table, each made (features, label) when it is read."""

    def __init__(self, rows: Any, example: Callable[[Any], Any]) -> None:
        self._rows, self._example = rows, example

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Any:
        return self._example(self._rows[index])


def _package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name.replace("-", "_"))
    except ImportError as error:
        raise InputError(f"this data needs the package {name}: pip install {name} ({error})") from None
