"""MNIST: an LSTM on the rows, and convolutions with all images in a step."""

import abc
import gzip
import os

import jax
import jax.numpy as jnp
import numpy as np
import task

# Images that are evaluated at once: the gates of an LSTM for all of them, eight times, are more than a GPU holds.
AT_ONCE = 1000


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

    @abc.abstractmethod
    def logits(self, weights, images, key):
        """Of uint8 images [n, 28, 28]; with dropout where there is a key."""

    def batch(self, carried, examples, step, batch_size):
        return self.data["images"][examples], self.data["labels"][examples]

    def loss(self, weights, batch, key):
        images, labels = batch
        return task.cross_entropy(self.logits(weights, images, key), labels).mean(), ()

    def metric(self, weights, split):
        images, labels = self.data["test_images"], self.data["test_labels"]
        if split == "validation":
            images, labels = self.data["images"][self.held_out], self.data["labels"][self.held_out]

        def right(part):
            return (self.logits(weights, part[0], None).argmax(-1) == part[1]).mean()

        parts = max(1, len(labels) // AT_ONCE)
        split = images.reshape(parts, -1, 28, 28), labels.reshape(parts, -1)
        return 100.0 * jax.lax.map(right, split).mean()


class FullBatch(_MNIST):
    """Two convolutions of 5 x 5 and a dense layer of 1,024, of LAMB's authors; in bfloat16, as the study's."""

    mapped = False
    micro_batch = 4000
    shapes = {
        "conv1/kernel": (5, 5, 1, 32),
        "conv1/bias": (32,),
        "conv2/kernel": (5, 5, 32, 64),
        "conv2/bias": (64,),
        "fc/kernel": (3136, 1024),
        "fc/bias": (1024,),
        "logits/kernel": (1024, 10),
        "logits/bias": (10,),
    }

    def initial(self, path, draw, shape, bias):
        return np.zeros(shape) if path.endswith("bias") else task.glorot(draw, shape)

    def logits(self, weights, images, key):
        *weights, logits_kernel, logits_bias = weights
        values = jnp.asarray(images[..., None], jnp.bfloat16) / 255
        weights = [weight.astype(jnp.bfloat16) for weight in weights]
        for kernel, bias in (weights[0:2], weights[2:4]):
            values = jax.nn.relu(_convolved(values, kernel) + bias)
            count, height, width, channels = values.shape
            values = values.reshape(count, height // 2, 2, width // 2, 2, channels).max((2, 4))
        values = jax.nn.relu(values.reshape(len(values), -1) @ weights[4] + weights[5])
        return task.dropped(values, 0.4, key).astype(jnp.float32) @ logits_kernel + logits_bias


def _convolved(values, kernel):
    """A convolution with padding, as one product: cuDNN's algorithms are not tuned here, and some are slow."""
    height, width, inputs, outputs = kernel.shape
    _, rows, columns, _ = values.shape
    before = (height - 1) // 2, (width - 1) // 2
    padded = jnp.pad(values, ((0, 0), (before[0], height - 1 - before[0]), (before[1], width - 1 - before[1]), (0, 0)))
    shifted = [padded[:, y : y + rows, x : x + columns] for y in range(height) for x in range(width)]
    return jnp.concatenate(shifted, axis=-1) @ kernel.reshape(height * width * inputs, outputs)


class MNISTLSTM(_MNIST):
    """MNIST-LSTM of You et al. 2019: the rows of an image, projected to 128, and an LSTM of 128."""

    shapes = {
        "projection/kernel": (28, 128),
        "projection/bias": (128,),
        "lstm/lstm_cell/kernel": (128, 512),
        "lstm/lstm_cell/recurrent_kernel": (128, 512),
        "lstm/lstm_cell/bias": (512,),
        "logits/kernel": (128, 10),
        "logits/bias": (10,),
    }

    def initial(self, path, draw, shape, bias):
        if path == "lstm/lstm_cell/bias":
            # Keras' unit_forget_bias.
            return np.concatenate([np.zeros(128), np.ones(128), np.zeros(256)])
        if path.endswith("bias"):
            return np.zeros(shape)
        return task.orthogonal(draw, shape) if "recurrent" in path else task.glorot(draw, shape)

    def logits(self, weights, images, key):
        projection, projection_bias, *cell, kernel, bias = weights
        rows = images.astype(jnp.float32) / 255.0 @ projection + projection_bias
        zero = jnp.zeros((len(images), 128), jnp.float32)
        _, (last, _) = task.lstm(rows, *cell, (zero, zero))
        return task.dropped(last, 0.5, key) @ kernel + bias
