"""The interface of a task of the benchmark of few steps in JAX.

Its network is the package's own, on Keras' JAX backend: `stateless_call` is a pure function of arrays, which
`programs.py` maps over runs.
"""

import abc
import copy
import functools
import threading
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from tfbigbatch.data.records import tfrecord

# Keras' seeds and its precision are of the process, and programs are compiled in several threads.
_BUILDING = threading.Lock()


class Task(abc.ABC):
    """A network and its data, as `programs.py` trains it.

    Attributes:
      examples: of training, as an epoch counts them.
      loss_metric: whether the metric is a loss, lower is better.
      mapped: whether runs are computed side by side (True) or one after the other, where one fills a GPU.
      micro_batch: examples of one pass; None for the whole batch.
      data: arrays, which a program takes as arguments: as constants they would be compiled into it.
      held_out_count: training examples that trials are chosen on, at most a tenth.
      carries_state: whether a step begins with the state of the one before, and a batch size with an epoch.
      own_validation: whether validation data are a set of their own, so that trials train on all training data.
      precision: Keras' policy of the network.
      output_bias: how the path of the bias of the words' logits ends; None in a network without words.
      frequencies: the log of each word's frequency, [vocabulary].
    """

    examples: int
    data: dict[str, Any]
    loss_metric = False
    mapped = True
    micro_batch: int | None = None
    carries_state = False
    own_validation = False
    held_out_count = 0
    precision = "float32"
    output_bias: str | None = None
    frequencies: Any = None

    def of(self, data):
        """The task with these arrays for its own: those of a program that is traced."""
        task = copy.copy(self)
        task.data = data
        return task

    @abc.abstractmethod
    def build(self):
        """The network, a keras.Model, with random values."""

    @functools.cached_property
    def network(self):
        """The network whose function is computed; its values are not used."""
        return self._built(0)

    def variables(self, seed, bias="frequency"):
        """The initial values of a seed: of the trainable variables, and of the others, which are dropout's seeds.

        Args:
          seed: of the random numbers.
          bias: the initial output bias: 'frequency', 'zero' or 'uniform'.

        Returns:
          Two lists of arrays, in the order of `network.trainable_variables` and `network.non_trainable_variables`.
        """
        network = self._built(seed)
        weights, others = (
            [keras.ops.convert_to_numpy(variable) for variable in variables]
            for variables in (network.trainable_variables, network.non_trainable_variables)
        )
        if self.output_bias is not None and bias != "uniform":
            paths = [variable.path for variable in network.trainable_variables]
            [at] = [number for number, path in enumerate(paths) if path.endswith(self.output_bias)]
            weights[at] = self.frequencies if bias == "frequency" else np.zeros_like(weights[at])
        return weights, others

    def _built(self, seed):
        with _BUILDING:
            before = keras.config.dtype_policy()
            keras.utils.set_random_seed(seed)
            keras.config.set_dtype_policy(self.precision)
            try:
                return self.build()
            finally:
                keras.config.set_dtype_policy(before)

    def call(self, state, inputs, training=False):
        """(outputs of the network, its other variables afterwards).

        Args:
          state: (weights, others), as `variables` gives them.
          inputs: of the network.
          training: whether dropout is active.
        """
        return self.network.stateless_call(*state, inputs, training=training)

    @abc.abstractmethod
    def loss(self, weights, others, batch, key):
        """(mean loss, (others, carried state)) of a batch in training; `key` is of the task's own random numbers."""

    @abc.abstractmethod
    def metric(self, state, split):
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


def cross_entropy(logits, labels):
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
