"""Splits of data sets that other packages give: TensorFlow Datasets and Hugging Face's datasets."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import tensorflow as tf

from tfbigbatch.data.sources.indexable import Indexable
from tfbigbatch.data.sources.tf_data import TfDataExamples
from tfbigbatch.errors import InputError


def of_tfds(
    name: str, splits: Mapping[str, str], *, data_dir: str | None, shuffle_buffer: int, prepare: Any
) -> dict[str, TfDataExamples]:
    """The splits of a data set of TensorFlow Datasets, which downloads it where it is missing.

    Args:
      name: of the data set, as 'mnist'.
      splits: for each split, that of the data set: {'train': 'train[:90%]', 'validation': 'train[90%:]'}.
      data_dir: where it is, or is downloaded to; None for the package's own folder.
      shuffle_buffer: examples of the buffer that shuffles the training split.
      prepare: None, or a function of (features, label) that returns both.

    Raises:
      ValueError: the package is missing, or the data set has no such split.
    """
    tfds = _package("tensorflow_datasets", "tensorflow-datasets")
    builder = tfds.builder(name, data_dir=data_dir)
    builder.download_and_prepare()
    # (features, label), which `as_supervised` gives; TFDS names a feature of it, and its dictionary has no `get`.
    label = (builder.info.supervised_keys or ("", ""))[1]
    classes = getattr(builder.info.features[label], "num_classes", None) if label in builder.info.features else None

    def make(split: str, of_package: str, seed: int) -> tf.data.Dataset:
        files = tfds.ReadConfig(shuffle_seed=seed)
        shuffles = split == "train"
        dataset = builder.as_dataset(split=of_package, shuffle_files=shuffles, read_config=files, as_supervised=True)
        dataset = dataset.shuffle(shuffle_buffer, seed=seed) if shuffles else dataset
        return dataset.map(prepare, num_parallel_calls=2) if prepare else dataset

    return {
        split: TfDataExamples(
            functools.partial(make, split, of_package),
            f"TFDS {name}, {of_package}",
            examples=int(builder.info.splits[of_package].num_examples),
            classes=classes,
        )
        for split, of_package in splits.items()
    }


def of_hugging_face(
    name: str, splits: Mapping[str, str], *, features: str | Sequence[str], label: str, prepare: Any, options: Any
) -> dict[str, Indexable]:
    """The splits of a data set of Hugging Face's `datasets`, which downloads it where it is missing.

    Args:
      name: of the data set, or its path.
      splits: for each split, that of the data set.
      features: the column of the features, or several, which become a dictionary.
      label: the column of the labels.
      prepare: None, or a function of (features, label) that returns both.
      options: further arguments of `datasets.load_dataset`.

    Raises:
      ValueError: the package is missing, or the data set has no such column.
    """
    datasets = _package("datasets", "datasets")
    found = {}
    for split, of_package in splits.items():
        rows = datasets.load_dataset(name, split=of_package, **options)
        columns = [features] if isinstance(features, str) else list(features)
        missing = [column for column in (*columns, label) if column not in rows.column_names]
        if missing:
            raise InputError(
                f"data set {name} has no column {', '.join(missing)}; it has {', '.join(rows.column_names)}."
            )
        found[split] = Indexable(_Rows(rows, features, label, prepare), f"Hugging Face {name}, {of_package}")
        found[split].classes = getattr(rows.features.get(label), "num_classes", None)
    return found


class _Rows:
    """(features, label) of the rows of a table."""

    def __init__(self, rows: Any, features: str | Sequence[str], label: str, prepare: Any) -> None:
        self._rows, self._features, self._label, self._prepare = rows, features, label, prepare

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        row = self._rows[index]
        one = isinstance(self._features, str)
        features = row[self._features] if one else {name: row[name] for name in self._features}
        return self._prepare(features, row[self._label]) if self._prepare else (features, row[self._label])


def _package(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise InputError(f"this data needs the package {package}: pip install {package}") from None
        raise InputError(f"this data needs the package {package}, which needs another: {error}.") from None
    except ImportError as error:
        raise InputError(f"the package {package} cannot be imported: {error}.") from None
