"""The training step: several steps of a Keras 3 model in one call of a traced function, on any replicas."""

from __future__ import annotations

import contextlib
import itertools
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.random import seed_generator

from tfbigbatch.instruments.step_gradients import StepGradients
from tfbigbatch.optimizers import keras3
from tfbigbatch.optimizers.accumulation import accumulate_gradients
from tfbigbatch.training.metric_sums import MetricSums, Tensors, examples_of
from tfbigbatch.training.streams import StreamStates

# A call costs about a millisecond beside its steps; the loop's events, and a request to stop, wait for its end.
_SECONDS = 0.2
# Of a cluster: its workers exchange sums at the end of a call, so that all must make as many steps in it.
_OF_WORKERS = 10


class TrainingSteps:
    """Takes training steps of a compiled network, several in a call, and keeps the means of losses and metrics.

    A step splits a replica's batch into micro-batches, averages their gradients, and applies the optimizer once, which
    adds up those of the replicas. It is a function of weights, optimizer, statistics, batch and the number of the step
    alone: dropout draws from (seed, step, micro-batch, replica). Batch normalisation's statistics are the replicas'
    mean after each step.

    Args:
      network: keras.Model, compiled, with its optimizer built, in the scope of `strategy`.
      strategy: of the replicas.
      accumulation_steps: micro-batches of a replica in one step.
      seed: of dropout.
      jit_compile: whether XLA compiles the forward and the backward pass of each replica.
      metrics_in_training: whether steps update the metrics too, and not only the losses.
      batch_slices: functions that cut a micro-batch to a bucket's static shape; the feature 'bucket' [n] of the
        micro-batch is the index of its function, the same throughout a step. () for one shape.
      streams: None, or what carries a recurrent state from step to step; see `streams.StreamStates`.
      step_gradients: None, or an `instruments.StepGradients` that receives the gradients of every step. The weights do
        not depend on it; it adds up the replicas' gradients once more.
    """

    def __init__(
        self,
        network: Any,
        *,
        strategy: tf.distribute.Strategy,
        accumulation_steps: int = 1,
        seed: int = 0,
        jit_compile: bool = False,
        metrics_in_training: bool = True,
        batch_slices: Sequence[Callable[[Tensors], Tensors]] = (),
        streams: StreamStates | None = None,
        step_gradients: StepGradients | None = None,
    ) -> None:
        self._network = network
        self._strategy = strategy
        self._accumulation_steps = accumulation_steps
        self._metrics_in_training = metrics_in_training
        self._batch_slices = tuple(batch_slices)
        self._streams = streams
        self._step_gradients = step_gradients
        self._dropout = DropoutSeeds(network, seed)
        self._statistics = _statistics(network) if strategy.num_replicas_in_sync > 1 else []
        self._sums = MetricSums(network, strategy, streams is not None)
        # Sums of the calls that are not read yet, and of those before in the window.
        self._calls: list[tf.Tensor] = []
        self._window: Any = 0.0
        # XLA compiles no collective operation, nor the input: the rest of a step stays outside.
        self._compiled = tf.function(self._gradients, jit_compile=True, autograph=False) if jit_compile else None
        # AutoGraph would take 0.15 seconds to convert it, and more to find nothing to convert in what it calls.
        self._steps = tf.function(self._loop, reduce_retracing=True, autograph=False)

    def __call__(self, batches: Any, step: int, n: int) -> None:
        """Takes steps.

        Args:
          batches: iterator of the strategy's batches (x, y) or (x, y, sample_weight), of the same shapes at each call.
          step: number of the first step in the run, from 0.
          n: number of steps; one trace serves all.

        Raises:
          ValueError: the variables of a metric do not add up; or a batch does not divide into the micro-batches.
        """
        self.build(batches.element_spec)
        self._calls.append(self._steps(batches, tf.constant(step, tf.int64), tf.constant(n, tf.int64)))

    def means(self) -> dict[str, float]:
        """The losses and the metrics over the steps since the window began, by name; {} before the first step."""
        for totals in self._calls:
            self._window = self._window + totals.numpy().astype(np.float64)
        self._calls = []
        if not np.any(self._window):
            return {}
        return self._sums.results(self._window, losses=True, metrics=self._metrics_in_training)

    def wait(self) -> None:
        """Returns when the latest call is done: an accelerator returns before."""
        for totals in self._calls[-1:]:
            totals.numpy()

    def begin_window(self) -> None:
        """Begins the means again."""
        self._calls, self._window = [], 0.0

    def build(self, batch: Tensors) -> None:
        """Makes the variables of the losses and metrics, where they are not made yet; see `MetricSums.build`.

        Args:
          batch: nest of tf.TensorSpec, or of what a strategy has for those of its replicas.
        """
        # PerReplicaSpec has one for each.
        self._sums.build(tf.nest.map_structure(lambda each: getattr(each, "_value_specs", (each,))[0], batch))

    # ---- Over all replicas --------------------------------------------------------------------------

    def _loop(self, batches: Any, first: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        def take(step: tf.Tensor) -> tuple[tf.Tensor]:
            self._strategy.run(self.in_replica, args=(batches.get_next(), step))
            self._strategy.run(self._sums.end_step)
            return (step + 1,)

        self._strategy.run(self._sums.clear)
        tf.while_loop(lambda step: step < first + n, take, [first])
        return self._strategy.experimental_local_results(self._strategy.run(self._sums.total))[0]

    # ---- In a replica -------------------------------------------------------------------------------

    def in_replica(self, batch: Tensors, step: tf.Tensor) -> None:
        """Takes a step with a replica's batch; call it in the replica, after `build`.

        Args:
          batch: of this replica.
          step: its number in the run, from 0.
        """
        replica = tf.convert_to_tensor(tf.distribute.get_replica_context().replica_id_in_sync_group)
        gradients = (self._compiled or self._gradients)(batch, step, replica)
        optimizer, context = self._network.optimizer, tf.distribute.get_replica_context()
        # In one order on all workers, which wait for each other in each exchange.
        before = []
        if self._statistics:
            before = [self._average_statistics(context)]
        if self._step_gradients is not None:
            with tf.control_dependencies(before):
                before = context.all_reduce("SUM", [tf.identity(each) for each in _unscaled(optimizer, gradients)])
            self._step_gradients.add_update(before)
        with tf.control_dependencies(before):
            gradients = [tf.identity(gradient) for gradient in gradients]
        optimizer.apply(_finite_alike(optimizer, gradients), self._network.trainable_variables)

    def _average_statistics(self, context: tf.distribute.ReplicaContext) -> tf.Tensor:
        """Gives all replicas the mean of their statistics of batch normalisation, and returns it: one all-reduce."""
        own = tf.concat([tf.reshape(tf.cast(each.value, tf.float32), [-1]) for each in self._statistics], axis=0)
        mean = context.all_reduce("MEAN", own)
        sizes = [int(np.prod(variable.shape)) for variable in self._statistics]
        for variable, part in zip(self._statistics, tf.split(mean, sizes)):
            variable.assign(tf.cast(tf.reshape(part, variable.shape), variable.dtype))
        return mean

    def _gradients(self, batch: Tensors, step: tf.Tensor, replica: tf.Tensor) -> list[tf.Tensor]:
        """The mean gradient of a replica's micro-batches; updates the metrics."""
        k = self._accumulation_steps
        if k == 1:
            return self._of_micro_batch(batch, step, replica, tf.constant(0))
        numbers = tf.repeat(tf.range(k), (tf.nest.flatten(batch)[0].shape[0] or k) // k)
        return accumulate_gradients(
            lambda data: self._of_micro_batch(data[0], step, replica, data[1][0]),
            (batch, numbers),
            self._network.trainable_variables,
            k,
        )

    def _of_micro_batch(self, batch: Tensors, *place: tf.Tensor) -> list[tf.Tensor]:
        """Gradients of a micro-batch, in the shape of its bucket; each bucket is a branch of the traced step."""
        if not self._batch_slices:
            return self._of_batch(batch, *place)
        branches = [lambda cut=cut: self._of_batch(cut(batch), *place) for cut in self._batch_slices]
        return tf.switch_case(batch[0]["bucket"][0], branches)

    def _of_batch(self, batch: Tensors, step: tf.Tensor, replica: tf.Tensor, number: tf.Tensor) -> list[tf.Tensor]:
        """Gradients of the mean loss over the replicas, times the loss scale."""
        network = self._network
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        key = self._dropout.assign(step, number, replica)
        variables = [variable.value for variable in network.trainable_variables]
        with tf.GradientTape() as tape:
            outputs = outputs_of(network, x, self._streams, training=True, key=key)
            loss = network.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=True)
            scaled = network.optimizer.scale_loss(loss)
        self._sums.add_loss(loss, x)
        if self._metrics_in_training:
            self._sums.add_metrics(x, y, outputs, sample_weight)
        # An embedding's gradient comes as rows, one for each token: norms are of the sums of those of the same word.
        gradients = [
            tf.zeros_like(variable) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(tape.gradient(scaled, variables), variables)
        ]
        if self._step_gradients is not None:
            self._step_gradients.add_micro_batch(_unscaled(network.optimizer, gradients), examples_of(x))
        return gradients


class Pace:
    """Chooses as many steps as take about 0.2 seconds, from the speed of the call before; they do not change bits.

    Args:
      one: whether each call has one step, as for someone who wants to see every batch; the same on all workers.
      is_multi_worker: whether other processes take part in the steps.
    """

    def __init__(self, one: bool = False, is_multi_worker: bool = False) -> None:
        self._is_fixed = one or is_multi_worker
        self._most = _OF_WORKERS if is_multi_worker and not one else 1
        self._began = 0.0

    def steps(self, left: float) -> int:
        """The steps of the next call, which begins now.

        Args:
          left: steps to the next event, 1 or more.
        """
        self._began = time.perf_counter()
        return int(min(left, self._most))

    def made(self, steps: int) -> None:
        """Called at the end of a call of so many steps."""
        seconds = (time.perf_counter() - self._began) / steps
        if not self._is_fixed:
            # Growing slowly: the first calls have more to do than steps, and an accelerator returns before it is done.
            self._most = max(1, min(2 * self._most, int(_SECONDS / max(seconds, 1e-6))))


class DropoutSeeds:
    """The seeds of a network's random layers, each a function of (seed, step, micro-batch, replica).

    Keras 3 would draw the same masks in all replicas, and a checkpoint lacks the state that it draws from.

    Args:
      network: keras.Model.
      seed: of the run.
    """

    def __init__(self, network: Any, seed: int) -> None:
        self._seed = seed
        self._states = [each for each in network.non_trainable_variables if each.name == "seed_generator_state"]

    def assign(self, step: tf.Tensor, micro_batch: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
        """Sets all seeds for the next forward pass, and returns its key, integers [2]; call it in the replica."""
        key = tf.stack([tf.constant(self._seed, tf.int64), tf.cast(step, tf.int64)])
        for number in (micro_batch, replica):
            key = tf.random.fold_in(key, number)
        if self._states:
            drawn = tf.random.stateless_uniform(
                [len(self._states), 2], key, 0, 2**31 - 2**20, dtype=tf.int64, alg=tf.random.Algorithm.PHILOX
            )
            for state, value in zip(self._states, tf.unstack(drawn)):
                state.assign(value)
        return key


def outputs_of(network: Any, x: Tensors, streams: StreamStates | None, *, training: bool, key: Any = (0, 0)) -> Tensors:
    """The outputs of a network that loss and metrics take; draws of layers without a seed are functions of the key."""
    with _drawing_by(tf.cast(key, tf.int64)):
        return network(x, training=training) if streams is None else streams.outputs(network, x, training)


@contextlib.contextmanager
def _drawing_by(key: tf.Tensor) -> Iterator[None]:
    """A context in which `keras.random` without a seed draws by the key and the number of the draw.

    Keras would draw by a variable of the thread. Each replica has one, and TensorFlow makes no variables in a loop.
    """
    name, state = seed_generator.GLOBAL_SEED_GENERATOR, seed_generator.global_state
    before, numbers = state.get_global_attribute(name), itertools.count()
    generator = types.SimpleNamespace(next=lambda ordered: tf.random.fold_in(key, next(numbers)))
    state.set_global_attribute(name, generator)
    try:
        yield
    finally:
        state.set_global_attribute(name, before)


def _statistics(network: Any) -> list[Any]:
    """The variables that a forward pass may move: of batch normalisation, not of layers that are frozen."""
    # Private in Keras: in the public list frozen weights are among them.
    found = [variable for layer in network._flatten_layers() for variable in layer._non_trainable_variables]
    return [variable for variable in found if keras.backend.is_float_dtype(variable.dtype)]


def _unscaled(optimizer: Any, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    one = optimizer.scale_loss(tf.constant(1.0))
    return [gradient / tf.cast(one, gradient.dtype) for gradient in gradients]


def _finite_alike(optimizer: Any, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """Gradients that are NaN on all replicas where one has a value that is not finite, for Keras' own loss scaling.

    It asks each replica for its own, and takes the word of the first; our own adds them up before.
    """
    is_own = isinstance(optimizer, keras3.LossScaleOptimizer)
    if is_own or not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return gradients
    own = tf.add_n([tf.reduce_sum(tf.cast(gradient, tf.float32) * 0.0) for gradient in gradients])
    everyone = tf.distribute.get_replica_context().all_reduce("SUM", own)
    return [gradient + tf.cast(everyone, gradient.dtype) for gradient in gradients]
