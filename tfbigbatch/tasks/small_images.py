"""Classification of small images that fit in memory: scikit-learn's digits and MNIST, by an LSTM or CNNs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.tasks.base import MINIVAL, Task

if TYPE_CHECKING:
    import tf_keras

    from tfbigbatch.data.dataset import Dataset


class SmallImageClassification(Task):
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

    def network(self) -> tf_keras.Model:
        from tfbigbatch.models import small_classifiers

        network: tf_keras.Model = getattr(small_classifiers, self.classifier)(**self._model)
        return network

    def loss(self) -> tf_keras.losses.Loss:
        from tfbigbatch.tasks.losses import classification_loss

        return classification_loss()

    def metrics(self) -> list[tf_keras.metrics.Metric]:
        from tfbigbatch.tasks.losses import classification_metrics

        return classification_metrics()


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
