"""MNIST: an LSTM on the rows, and convolutions with all images in a step."""

import gzip
import os

import jax
import numpy as np
import task

from tfbigbatch.models import small_classifiers

# Images that are evaluated at once: the gates of an LSTM for all of them, eight times, are more than a GPU holds.
AT_ONCE = 1000
IMAGES = {"shape": (28, 28), "classes": 10, "brightest": 255}


class _MNIST(task.Task):
    """The four idx files, and the accuracy of a network's logits."""

    held_out_count = 5000

    def __init__(self, folder):
        def read(name, header):
            with gzip.open(os.path.join(folder, f"{name}.gz")) as file:
                return np.frombuffer(file.read(), np.uint8, offset=header)

        self.data = {
            "images": read("train-images-idx3-ubyte", 16).reshape(-1, 28, 28),
            "labels": read("train-labels-idx1-ubyte", 8).astype(np.int32),
            "test_images": read("t10k-images-idx3-ubyte", 16).reshape(-1, 28, 28),
            "test_labels": read("t10k-labels-idx1-ubyte", 8).astype(np.int32),
        }
        self.examples = len(self.data["labels"])

    def batch(self, carried, examples, step, batch_size):
        return self.data["images"][examples], self.data["labels"][examples]

    def loss(self, weights, others, batch, key):
        images, labels = batch
        logits, others = self.call((weights, others), images, training=True)
        return task.cross_entropy(logits, labels).mean(), (others, ())

    def metric(self, state, split):
        images, labels = self.data["test_images"], self.data["test_labels"]
        if split == "validation":
            images, labels = self.data["images"][self.held_out], self.data["labels"][self.held_out]

        def right(part):
            logits, _ = self.call(state, part[0])
            return (logits.argmax(-1) == part[1]).mean()

        parts = max(1, len(labels) // AT_ONCE)
        split = images.reshape(parts, -1, 28, 28), labels.reshape(parts, -1)
        return 100.0 * jax.lax.map(right, split).mean()


class FullBatch(_MNIST):
    """Two convolutions of 5 x 5 and a dense layer of 1,024, of LAMB's authors; in bfloat16, as the sweep's."""

    mapped = False
    micro_batch = 4000
    precision = "mixed_bfloat16"

    def build(self):
        return small_classifiers.mnist_cnn(**IMAGES)


class MNISTLSTM(_MNIST):
    """MNIST-LSTM of You et al. 2019: the rows of an image, projected to 128, and an LSTM of 128."""

    def build(self):
        sizes = {"hidden_units": 128, "projection_units": 128, "dropout": 0.5}
        return small_classifiers.row_classifier(**IMAGES, **sizes, unroll=True)
