"""Advice for any compiled Keras model and its dataset."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.instruments import time_constants
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.probe.model import tensor_variable, untouched
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.tuning import measuring
from tfbigbatch.tuning.advice import Advice
from tfbigbatch.utils import arguments

# Micro-batches that a measurement is made from.
_MICRO_BATCHES = 8
# Of a dataset at most this is read.
_MOST_EXAMPLES, _MOST_BYTES = 16_384, 2**30


def advise(
    model: Any,
    dataset: Any,
    *,
    batch_size: int,
    epochs: float | None = None,
    learning_rate: float | None = None,
    warmup_epochs: float = 0.0,
    seconds: float = 60.0,
) -> Advice:
    """Measures a compiled model for a while, and says which batch size is worth using and with which recipe.

    Trains it at the tuned batch size while `instruments.GradientNoiseScale` measures, then times its training step at
    powers of two of that batch. At the end weights and optimizer are as before. Begin with the weights that training
    begins with, or with those of a checkpoint for the noise scale at that point. Warns as `tfbigbatch.check` does, of
    the advised steps.

    Args:
      model: keras.Model (on TensorFlow), compiled with a loss and an optimizer.
      dataset: (x, y) or (x, y, sample_weight) of arrays, or a batched tf.data.Dataset of them, from which the
        first 16,384 examples are read.
      batch_size: the batch that the recipe was tuned at, in examples.
      epochs: length of the tuned run; None leaves out what depends on it.
      learning_rate: the tuned peak; None for the optimizer's, if that is a number.
      warmup_epochs: of the tuned recipe.
      seconds: about how long the measurements may take, without the time that the first step is traced.

    Returns:
      Advice: `print` it, or see its `batch_size`, `suggestion` and `rows`.

    Raises:
      ValueError: an argument cannot be used, or nothing can be measured.
    """
    began = time.perf_counter()
    batch_size = arguments.integer("batch_size", batch_size, least=2, owner="advise")
    seconds = arguments.number("seconds", seconds, above=0.0, owner="advise")
    if not isinstance(model, keras.Model) or not getattr(model, "optimizer", None):
        raise InputError(f"advise: model is a {type(model).__name__}; expected a compiled keras.Model of Keras 3.")
    keras_version.require_tensorflow(model, "advise")
    data, count, dataset_size = read(dataset)
    if count < 4 * batch_size:
        raise InputError(
            f"not measurable: {count:,} examples are too few for a tuned batch of {batch_size:,} and larger ones; "
            "expected four batches or more."
        )
    tuned = Recipe(batch_size, _learning_rate(model, learning_rate), warmup_epochs, epochs=epochs)

    def batches(size: int, seed: int = 0) -> tf.data.Dataset:
        """Batches without an end, in a new order of the examples for each epoch."""
        return data.shuffle(count, seed).repeat().batch(size, drop_remainder=True).prefetch(2)

    def train(steps: int, scale: Any, is_over: Callable[[float], bool]) -> None:
        def on_batch_end(batch: int, logs: Any = None) -> None:
            # Keras' mean of the losses so far.
            if is_over(float(logs["loss"])):
                model.stop_training = True

        watch = keras.callbacks.LambdaCallback(on_train_batch_end=on_batch_end)
        data = batches(batch_size).take(steps)
        model.fit(data, epochs=1, shuffle=False, verbose=0, callbacks=[scale, watch])

    def step_at(size: int, number: int) -> measuring.Step:
        read = batches(size).take(number).cache().repeat()
        iterator = iter(model.distribute_strategy.experimental_distribute_dataset(read))
        # Read once, so that the input is not timed.
        for _ in range(number):
            next(iterator)
        model.make_train_function(force=True)
        function, counter = model.train_function, tensor_variable(innermost(model.optimizer).iterations)

        def step() -> None:
            function(iterator)
            counter.numpy()

        return step

    probes = iter(batches(_MICRO_BATCHES * max(1, batch_size // _MICRO_BATCHES), seed=1))
    with model.distribute_strategy.scope():
        try:
            with untouched(_built(model, next(iter(batches(1)))[0])):
                advice = measuring.measured(
                    model.name,
                    model,
                    tuned,
                    dataset_size,
                    gradients={"probe": lambda step: next(probes), "micro_batches": _MICRO_BATCHES},
                    train=train,
                    step_at=step_at,
                    largest=count,
                    seconds=seconds,
                    began=began,
                    say=lambda line: None,
                )
        finally:
            # It was traced for one batch size; fit traces it again.
            model.train_function = None
    if advice.suggestion.steps is not None:
        time_constants.check(model, advice.suggestion.steps)
    return advice


def _learning_rate(model: Any, given: float | None) -> float:
    if given is not None:
        return arguments.number("learning_rate", given, above=0.0, owner="advise")
    optimizer = innermost(model.optimizer)
    config = optimizer.get_config().get("learning_rate")
    if isinstance(config, (dict, type(None))) or callable(config):
        raise InputError(
            f"advise: {type(optimizer).__name__} has a learning-rate schedule; give learning_rate, its peak, and "
            "warmup_epochs."
        )
    return float(config)


def _built(model: Any, inputs: Any) -> list[tf.Variable]:
    """The variables of the model and its optimizer, both built."""
    if not model.built:
        model(inputs)
    optimizer = model.optimizer
    (optimizer if hasattr(optimizer, "build") else innermost(optimizer)).build(model.trainable_variables)
    return [tensor_variable(variable) for variable in [*model.weights, *innermost(optimizer).variables]]


def read(dataset: Any) -> tuple[tf.data.Dataset, int, int]:
    """(single examples in memory, their number, examples in an epoch) of a user's dataset, see `advise`.

    Raises:
      ValueError: it is something else, has no labels or no examples, or its size is unknown.
    """
    is_dataset = isinstance(dataset, tf.data.Dataset)
    element = dataset.element_spec if is_dataset else dataset
    first = None
    if isinstance(element, tuple) and len(element) in (2, 3) and all(each is not None for each in element):
        try:
            data = dataset.unbatch() if is_dataset else tf.data.Dataset.from_tensor_slices(dataset)
            first = next(iter(data), None)
        except ValueError:
            pass
    if first is None:
        raise InputError(
            f"advise: dataset is a {type(dataset).__name__} without examples and labels; expected (x, y) or (x, y, "
            "sample_weight) of arrays of one length, or a batched tf.data.Dataset of them, as for fit."
        )
    dataset_size = int(dataset.cardinality() if is_dataset else data.cardinality())
    if dataset_size < 0:
        raise InputError(
            "advise: the tf.data.Dataset does not say how many batches it has: expected one of an epoch, such as "
            "dataset.apply(tf.data.experimental.assert_cardinality(batches))."
        )
    if is_dataset:
        dataset_size *= int(tf.nest.flatten(next(iter(dataset)))[0].shape[0])
    size = sum(np.asarray(each).nbytes for each in tf.nest.flatten(first))
    data = data.take(min(_MOST_EXAMPLES, max(1, _MOST_BYTES // size))).cache()
    return data, int(data.reduce(0, lambda count, _: count + 1)), dataset_size
