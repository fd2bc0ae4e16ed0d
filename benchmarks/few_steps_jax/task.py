"""The interface of a task of the benchmark of few steps in JAX, and the layers that the tasks share.

Own networks, since the trainer's need TensorFlow: the layers, sizes, initial values and variables' names are those of
tfbigbatch.models. A task's weights are arrays in the order of `shapes`; all functions are of one run, and are mapped
over runs by `programs.py`.
"""

import abc
import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tfbigbatch.data.records import tfrecord


class Task(abc.ABC):
    """A network and its data, as `programs.py` trains it.

    Attributes:
      shapes: from each variable's path to its shape.
      examples: of training, as an epoch counts them.
      loss_metric: whether the metric is a loss, lower is better.
      mapped: whether runs are computed side by side (True) or one after the other, where one fills a GPU.
      micro_batch: examples of one pass; None for the whole batch.
      data: arrays, which a program takes as arguments: as constants they would be compiled into it.
      held_out_count: training examples that trials are chosen on, at most a tenth.
      carries_state: whether a step begins with the state of the one before, and a batch size with an epoch.
      own_validation: whether validation data are a set of their own, so that trials train on all training data.
    """

    shapes: dict[str, tuple[int, ...]]
    examples: int
    data: dict[str, Any]
    loss_metric = False
    mapped = True
    micro_batch: int | None = None
    carries_state = False
    own_validation = False
    held_out_count = 0

    def of(self, data):
        """The task with these arrays for its own: those of a program that is traced."""
        task = copy.copy(self)
        task.data = data
        return task

    def weights(self, seed, bias="frequency"):
        """The initial values of a seed, float32 arrays in the order of `shapes`.

        Args:
          seed: of the random numbers.
          bias: the initial output bias: 'frequency', 'zero' or 'uniform'.
        """
        draws = (np.random.default_rng([seed, number]) for number in range(len(self.shapes)))
        values = (self.initial(path, draw, shape, bias) for draw, (path, shape) in zip(draws, self.shapes.items()))
        return [np.asarray(value, np.float32) for value in values]

    @abc.abstractmethod
    def initial(self, path, draw, shape, bias):
        """The initial value of a variable, by a random generator of its own."""

    @abc.abstractmethod
    def loss(self, weights, batch, key):
        """(mean loss, carried state) of a batch in training; `key` is of its random numbers."""

    @abc.abstractmethod
    def metric(self, weights, split):
        """The metric on 'validation' (held-out training examples, or a set of its own) or 'test', or what gives it."""

    def score(self, found, split):
        """The metric of what `metric` found."""
        return float(found)

    def examples_in_epoch(self, batch_size):
        return self.examples

    def carried(self, batch_size):
        """The state before the first step."""
        return ()

    def order(self, count, seed, held_out):
        """int32 [count]: the examples of a run, each epoch in another order, without those held out.

        None for data in an order of their own.
        """
        draw = np.random.default_rng(seed)
        kept = np.setdiff1d(np.arange(self.examples), self.held_out if held_out else [])
        epochs = [draw.permutation(kept) for _ in range(-(-count // len(kept)))]
        return np.concatenate(epochs)[:count].astype(np.int32)

    @functools.cached_property
    def held_out(self):
        """The training examples that trials are chosen on."""
        return np.sort(
            np.random.default_rng(1).permutation(self.examples)[: min(self.held_out_count, self.examples // 10)]
        )

    @abc.abstractmethod
    def batch(self, carried, examples, step, batch_size):
        """A step's batch: of the examples' numbers [n], or of the step for data in an order of their own.

        Steps count from the first one of this batch size.
        """


def records(split):
    """The features of each record of a split, by name."""
    for file in split.files:
        with open(file, "rb") as stored:
            content = stored.read()
        position = 0
        while position < len(content):
            (size,) = tfrecord.LENGTH.unpack_from(content, position)
            end = position + tfrecord.HEADER_BYTES + size
            values = tfrecord.values(content[position + tfrecord.HEADER_BYTES : end])
            yield {name: found[0] if len(found) else None for name, found in values.items()}
            position = end + tfrecord.FOOTER_BYTES


def uniform(draw, shape, limit):
    return draw.uniform(-limit, limit, shape)


def glorot(draw, shape):
    field = int(np.prod(shape[:-2]))
    return uniform(draw, shape, np.sqrt(6.0 / (field * (shape[-2] + shape[-1]))))


def orthogonal(draw, shape):
    tall = draw.standard_normal((max(shape), min(shape)))
    q, r = np.linalg.qr(tall)
    q *= np.sign(np.diag(r))
    return q if shape[0] >= shape[1] else q.T


def dropped(values, rate, key):
    """With dropout where there is a key."""
    if key is None:
        return values
    return jnp.where(jax.random.bernoulli(key, 1.0 - rate, values.shape), values / (1.0 - rate), 0.0)


def cross_entropy(logits, labels):
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]


def lstm(inputs, kernel, recurrent, bias, state):
    """Keras' LSTM of inputs [n, T, width] from a state (output, cell): ([n, T, units], the last state)."""
    from_inputs = jnp.swapaxes(inputs @ kernel + bias, 0, 1)

    def step(state, gates):
        output, cell = state
        into, forget, candidate, out = jnp.split(gates + output @ recurrent, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
        output = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (output, cell), output

    # Several time steps in one turn of the loop: on a GPU a turn costs more than its products.
    state, outputs = jax.lax.scan(step, state, from_inputs, unroll=4)
    return jnp.swapaxes(outputs, 0, 1), state
