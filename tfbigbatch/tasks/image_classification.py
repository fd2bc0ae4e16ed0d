"""Image classification: ImageNet, tiny-imagenet, or any folder of JPEGs that prepare-imagenet prepared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.errors import InputError
from tfbigbatch.models import image_models
from tfbigbatch.tasks.base import CLASSES, MINIVAL, Task, fact

if TYPE_CHECKING:
    import tf_keras

    from tfbigbatch.data.dataset import Dataset


class ImageClassification(Task):
    """Classification of images by one of `models.image_models`; the options of the data are those of `ImageRecords`.

    `data.minival`: the last of the training records, as many, are the held-out split 'minival'.
    """

    models = image_models.NAMES
    data_defaults = {
        "min_area": 0.08,
        "central_share": 0.875,
        "resizer": "tensorflow",
        "shuffle_window": 8192,
        "max_bad_share": 0.0001,
        MINIVAL: 0,
    }
    evaluates_on = ("validation", MINIVAL)
    validation: Dataset
    minival: Dataset | None = None
    # Of every model: pixels of a side, the loss's label smoothing, and batch normalisation over all replicas.
    _SHARED = {"image_size": 224, "label_smoothing": 0.0, "cross_replica_norm": False}

    @classmethod
    def model_defaults_of(cls, name: str) -> dict[str, Any]:
        return {"name": name, **cls._SHARED, **image_models.defaults(name)}

    @classmethod
    def smoke_model(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        tiny = {"image_size": 64, "width": 6}
        if "fc_units" in model:
            return {**tiny, "fc_units": 8}
        # One block in each stage: fifty layers take a minute to trace.
        return {**tiny, "name": model["name"].replace("resnet50", "resnet14")}

    @classmethod
    def quick_model(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        # Tracing fifty layers takes longer than the run.
        name = re.sub("^resnet(50|101|152)(?=_|$)", "resnet14", model["name"])
        # AlexNet's stem and poolings leave nothing of less than 67 pixels.
        most = {"image_size": 67 if "fc_units" in model else 64, "width": 32, "fc_units": 256, "depth": 20}
        return {"name": name, **{field: min(model[field], size) for field, size in most.items() if field in model}}

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        self._model = dict(model)
        self._label_smoothing = self._model["label_smoothing"]
        options = dict(data)
        held_out = options.pop(MINIVAL)
        if use_fake_data:
            from tfbigbatch.data.images import fake

            pictures, self.validation = fake.pictures(self._model["image_size"])
            self.train, self._classes = pictures, int(pictures.labels.max()) + 1
            if held_out:
                self.train, self.minival = pictures.split_off(fake.minival(held_out))
        else:
            from tfbigbatch.data.images.dataset import ImageRecords

            manifest = image_manifest.load(data_dir)
            if "validation" not in manifest.splits:
                raise InputError(
                    f"--data_dir={data_dir} has no validation split. Prepare it with both; prepare-imagenet "
                    "holds out a share where a source has none (--validation_share)."
                )
            self._classes = len(manifest.classes)
            splits = manifests.with_minival(manifest.splits, held_out)
            read = {
                name: ImageRecords(split, manifest, image_size=self._model["image_size"], **options)
                for name, split in splits.items()
            }
            self.train, self.validation, self.minival = read["train"], read["validation"], read.get(MINIVAL)
            self.checks = tuple(records.bad.check for records in read.values())
            self.run_files = {CLASSES: (json.dumps(manifest.classes) + "\n").encode()}
        self.data_signature = f"{self._classes:,} classes"
        self.network_facts = {"classes": self._classes}

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        manifests.require(data_dir, image_manifest.KIND)

    def network(self) -> tf_keras.Model:
        """The Keras model, from uint8 images to logits."""
        return self.network_from(self._model, self.network_facts)

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> tf_keras.Model:
        fields = {name: value for name, value in model.items() if name != "label_smoothing"}
        return image_models.build(classes=fact(facts, "classes"), **fields)

    def loss(self) -> tf_keras.losses.Loss:
        from tfbigbatch.tasks.losses import classification_loss

        return classification_loss(self._label_smoothing)

    def metrics(self) -> list[tf_keras.metrics.Metric]:
        import tf_keras

        from tfbigbatch.tasks.losses import classification_metrics

        return [*classification_metrics(), tf_keras.metrics.SparseTopKCategoricalAccuracy(5, name="top_5_accuracy")]
