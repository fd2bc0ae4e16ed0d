"""Classification of images: those that prepare-imagenet prepared, and small ones in memory, the digits and MNIST."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.errors import InputError
from tfbigbatch.models import image_models
from tfbigbatch.tasks.base import CLASSES, MINIVAL, Task, fact

if TYPE_CHECKING:
    import keras

    from tfbigbatch.data.dataset import Dataset


class _Classification(Task):
    """A classifier, from integer labels and logits. A subclass may set `label_smoothing`."""

    label_smoothing = 0.0

    def loss(self) -> keras.losses.Loss:
        from tfbigbatch.tasks.losses import classification_loss

        return classification_loss(self.label_smoothing)

    def metrics(self) -> list[keras.metrics.Metric]:
        from tfbigbatch.tasks.losses import classification_metrics

        return classification_metrics()


class ImageClassification(_Classification):
    """Classification of images by one of `models.image_models`; the options of the data are those of `ImageRecords`.

    `data.minival`: the last of the training records, as many, are the held-out split 'minival'.
    """

    models = image_models.NAMES
    data_defaults = {
        "min_area": 0.08,
        "central_fraction": 0.875,
        "resizer": "tensorflow",
        "shuffle_window": 8192,
        "max_bad_fraction": 0.0001,
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
        self.label_smoothing = model["label_smoothing"]
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
                    "holds out a share where a source has none (--validation_fraction)."
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

    def network(self) -> keras.Model:
        """The Keras model, from uint8 images to logits."""
        return self.network_from(self._model, self.network_facts)

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> keras.Model:
        fields = {name: value for name, value in model.items() if name != "label_smoothing"}
        return image_models.build(classes=fact(facts, "classes"), **fields)

    def metrics(self) -> list[keras.metrics.Metric]:
        import keras

        return [*super().metrics(), keras.metrics.SparseTopKCategoricalAccuracy(5, name="top_5_accuracy")]


class SmallImageClassification(_Classification):
    """Images in memory, classified. A subclass names its images and its network.

    `data.minival`: the last of the training images, as many, are the held-out split 'minival'.
    """

    images: ClassVar[str]
    """The data set's module in `data.in_memory`, with SHAPE, CLASSES, BRIGHTEST and load(data_dir)."""
    classifier: ClassVar[str]
    """The function of `models.small_classifiers`."""
    data_defaults = {MINIVAL: 0}
    evaluates_on = ("test", MINIVAL)
    test: Dataset
    minival: Dataset | None = None

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        from tfbigbatch.data.images import fake

        images = importlib.import_module(f"tfbigbatch.data.in_memory.{self.images}")
        self._model = {**model, "shape": images.SHAPE, "classes": images.CLASSES, "brightest": images.BRIGHTEST}
        sizes = images.SHAPE, images.CLASSES, images.BRIGHTEST
        train, self.test = fake.train_and_test(*sizes, self.images) if use_fake_data else images.load(data_dir)
        self.train = train
        if data.get(MINIVAL):
            self.train, self.minival = train.split_off(fake.minival(data[MINIVAL]) if use_fake_data else data[MINIVAL])

    @classmethod
    def count_examples(cls, data: Mapping[str, Any], data_dir: str | None) -> int | None:
        return None if cls.training_examples is None else cls.training_examples - data.get(MINIVAL, 0)

    def network(self) -> keras.Model:
        from tfbigbatch.models import small_classifiers

        network: keras.Model = getattr(small_classifiers, self.classifier)(**self._model)
        return network


class RowClassification(SmallImageClassification):
    """Images read row by row by an LSTM (You et al. 2019, arXiv:1901.08256)."""

    classifier = "row_classifier"
    smoke_sizes = {"hidden_units": 4, "projection_units": 0}


class DigitsLSTM(RowClassification):
    """scikit-learn's digits by an LSTM: 1,437 images to train on, 360 to test."""

    images = "digits"
    model_defaults = {"hidden_units": 64, "projection_units": 0, "dropout": 0.0, "unroll": False}
    training_examples = 1_437


class MnistLSTM(RowClassification):
    """MNIST by an LSTM: 60,000 images to train on, 10,000 to test.

    The MNIST-LSTM of You et al. 2019 (arXiv:1901.08256): 128 hidden units, the rows projected to 128.
    """

    images = "mnist"
    model_defaults = {"hidden_units": 128, "projection_units": 128, "dropout": 0.0, "unroll": False}
    training_examples = 60_000


class MnistLeNet(SmallImageClassification):
    """MNIST by LeNet-5: 60,000 images to train on, 10,000 to test.

    The model on which the Adasum paper (Maleki et al. 2020, arXiv:2006.02924) tests its rule with 4 to 32 workers.
    """

    images, classifier = "mnist", "lenet"
    model_defaults = {"filters": 6, "fc_units": 120}
    smoke_sizes = {"filters": 3, "fc_units": 10}
    training_examples = 60_000


class MnistCNN(SmallImageClassification):
    """MNIST by a network of two convolutions and a dense layer of 1,024: 60,000 images to train on, 10,000 to test.

    The network that LAMB's authors train on all images at once (fastalgo/mnist_tpu).
    """

    images, classifier = "mnist", "mnist_cnn"
    model_defaults = {"filters": 32, "fc_units": 1024, "dropout": 0.4}
    smoke_sizes = {"filters": 2, "fc_units": 8}
    training_examples = 60_000
