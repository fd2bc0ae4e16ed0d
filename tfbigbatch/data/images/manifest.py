"""The manifest of a prepared image dataset: its classes, and which features hold the image and the label."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records.manifest import Split

KIND = record_manifest.Kind(what="images", command="tfbigbatch prepare-imagenet --source=IMAGES --output_dir=PREPARED")
_TYPES: dict[str, Any] = {
    "classes": list,
    "image_key": str,
    "label_key": str,
    "label_offset": int,
    "max_side": int | None,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """The content of a prepared folder.

    Attributes:
      classes: the classes' names, by index.
      image_key: the feature that holds the encoded image (bytes).
      label_key: the feature that holds the label (int64).
      label_offset: the stored label of class 0.
      splits: 'train' and, where there is one, 'validation'.
      max_side: the longest shorter side that the images were stored with, in pixels; None for their own size.
    """

    classes: tuple[str, ...]
    image_key: str
    label_key: str
    label_offset: int
    splits: dict[str, Split]
    max_side: int | None = None


def load(folder: str | None) -> Manifest:
    """The Manifest of a prepared folder, checked against the files' sizes and the index.

    Raises:
      ValueError: as record_manifest.loading.
    """
    with record_manifest.loading(folder, KIND) as (_, content, splits):
        record_manifest.check_types({"train": Split}, splits)
        record_manifest.check_types(_TYPES, content)
        fields: dict[str, Any] = {name: content.get(name) for name in _TYPES}
        return Manifest(splits=splits, **{**fields, "classes": tuple(map(str, fields["classes"]))})


def save(folder: str, manifest: Manifest, about: Mapping[str, Any]) -> None:
    """Writes a prepared folder's manifest, with further fields `about`; see record_manifest.save."""
    fields = {name: getattr(manifest, name) for name in _TYPES}
    record_manifest.save(folder, KIND, manifest.splits, {**about, **fields})
