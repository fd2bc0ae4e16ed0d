"""The Keras model that the trainer fits: gradient accumulation, and evaluation under a mask."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.instruments.step_gradients import StepGradients
from tfbigbatch.optimizers.accumulation import accumulate_gradients
from tfbigbatch.training.checkpoint_parts import WeightAverages
from tfbigbatch.training.checkpoints import CheckpointPart
from tfbigbatch.training.input_pipelines import InputWait
from tfbigbatch.utils.startup import StartTimings

Tensors = Any
"""A tensor, or a nest of tensors."""


class TrainingModel(tf_keras.Model):
    """Fits `network`, the Keras model of a task.

    A training step may accumulate: it loops over micro-batches, then applies one optimizer step. An
    evaluation step updates the compiled metrics only, each a sum and a count under the mask;
    Keras' own loss would divide by the padded batch.

    Args:
      network: the Keras model.
      accumulation_steps: micro-batches of a replica in one step.
      metrics_in_training: whether training steps update the metrics too, and not only the loss.
      batch_slices: functions that cut a micro-batch to a bucket's static shape; the feature 'bucket' [n] of the
        micro-batch is the index of its function, the same throughout a step. () for one shape.
      predictions: function of (network, features) for `predict`; None for the network's outputs.
      real_examples: function of (labels, outputs, mask) of an evaluation batch that returns (labels, outputs, weights)
        without its padding, for metrics that are wrong under a mask; None to pass the mask as their weights.

    Attributes:
      timings: None, or those of the run's start: the first call of `fit` traces, and adds its seconds.
      input_wait: None, or what measures the time in which training steps wait for batches; set it before `fit`.
      step_gradients: None, or an `instruments.StepGradients` that receives the gradients of every step; set it before
        `fit`. The weights do not depend on it.
      averages: None, or the moving averages of the weights, which evaluations have in their place.
    """

    # Of tf_keras.Model, which has no types: functions of an iterator, or None.
    train_function: Any
    train_tf_function: Any
    test_function: Any

    def __init__(
        self,
        network: tf_keras.Model,
        accumulation_steps: int = 1,
        metrics_in_training: bool = True,
        batch_slices: Sequence[Callable[[Tensors], Tensors]] = (),
        predictions: Callable[[tf_keras.Model, Tensors], Tensors] | None = None,
        real_examples: Callable[[Tensors, Tensors, Tensors], tuple[Tensors, Tensors, Any]] | None = None,
    ) -> None:
        super().__init__(name="training")
        self.network = network
        self.accumulation_steps = accumulation_steps
        self.metrics_in_training = metrics_in_training
        self._batch_slices = tuple(batch_slices)
        self._predictions = predictions
        self._real_examples = real_examples
        self.step_gradients: StepGradients | None = None
        self.timings: StartTimings | None = None
        self.input_wait: InputWait | None = None
        self.averages: WeightAverages | None = None
        # Each replica returns metrics that are already reduced; Keras' default would sum them over workers.
        self.distribute_reduction_method = "first"

    def accumulate(self, accumulation_steps: int) -> None:
        """Changes the micro-batches of a step, from the next call of `fit` on."""
        if accumulation_steps != self.accumulation_steps:
            self.accumulation_steps = accumulation_steps
            # Keras keeps the traced step.
            self.train_function = self.train_tf_function = None

    def make_train_function(self, force: bool = False) -> Any:
        """Keras' function of an iterator that makes `steps_per_execution` steps; its loop is traced once."""
        if self.train_function is None or force:
            super().make_train_function(force)
            if self._loops():
                results = functools.partial(self._results, training=True)
                self.train_function = self.train_tf_function = self._loop(self._train, results, self._next)
            elif self.input_wait is not None and self.train_tf_function is not None:
                self.train_function = self.train_tf_function = self._single_step()
            if self.timings is not None and not self.timings.is_complete and self.train_tf_function is not None:
                self.train_function = self._timed(self.train_tf_function, self.timings)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Keras' function of an iterator that evaluates `steps_per_execution` batches; its loop is traced once."""
        if self.test_function is None or force:
            super().make_test_function(force)
            if self._loops():
                self.test_function = self._loop(self._test, functools.partial(self._results, training=False), next)
        return self.test_function

    def evaluate_kept(
        self, batches: Iterable[Tensors], callbacks: Sequence[tf_keras.callbacks.Callback] = ()
    ) -> dict[str, float]:
        """The metrics by name, as Keras' `evaluate` of a dataset of these batches; it saves the iterator.

        Args:
          batches: as the dataset's iterator returns them under the strategy, one at least.
          callbacks: of Keras' `evaluate`; those of a batch get no logs.
        """
        results: dict[str, tf.Tensor] = {}
        with self.distribute_strategy.scope():
            for callback in callbacks:
                callback.set_model(self)
                callback.on_test_begin()
            self.reset_metrics()
            for number, batch in enumerate(batches):
                for callback in callbacks:
                    callback.on_test_batch_begin(number)
                results = self._test_batch(batch)
                for callback in callbacks:
                    callback.on_test_batch_end(number)
            found = {name: float(value) for name, value in results.items()}
            for callback in callbacks:
                callback.on_test_end(found)
        return found

    @functools.cached_property
    def _test_batch(self) -> Callable[[Tensors], dict[str, tf.Tensor]]:
        """A traced function of a batch: evaluates it in each replica, and returns the metrics up to it."""
        step = tf.function(self.test_step, jit_compile=True) if self.jit_compile else self.test_step

        @tf.function
        def evaluated(batch: Tensors) -> dict[str, tf.Tensor]:
            return tf.nest.map_structure(self._of_first_replica, self.distribute_strategy.run(step, args=(batch,)))

        return evaluated

    def _loops(self) -> bool:
        """Whether Keras makes several steps in a call of a traced function, in this process."""
        steps = 1 if self._steps_per_execution is None else int(self._steps_per_execution.numpy())
        return steps > 1 and not (self.run_eagerly or self._cluster_coordinator)

    def _loop(
        self,
        step: Callable[[Tensors], None],
        results: Callable[[], dict[str, tf.Tensor]],
        next_batch: Callable[[Any], Tensors],
    ) -> Callable[[Any], dict[str, tf.Tensor]]:
        """A traced function of an iterator: several steps in each replica, then the metrics.

        Keras reads the metrics within the loop. TensorFlow does not know their shapes then, and traces a step to find
        them, before it traces it for the loop.
        """
        step = tf.function(step, jit_compile=True, reduce_retracing=True) if self.jit_compile else step

        @tf.function(reduce_retracing=True)
        def steps(iterator: Any) -> dict[str, tf.Tensor]:
            for _ in tf.range(self._steps_per_execution):
                self.distribute_strategy.run(step, args=(next_batch(iterator),))
            of_replicas = self.distribute_strategy.run(results)
            return tf.nest.map_structure(self._of_first_replica, of_replicas)

        return steps

    def _single_step(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        """A traced function of an iterator: one step in each replica, as Keras makes it, with the batch of `_next`."""

        def in_replica(data: Tensors) -> dict[str, tf.Tensor]:
            results = self.train_step(data)
            self._train_counter.assign_add(1)
            return results

        step = tf.function(in_replica, jit_compile=True, reduce_retracing=True) if self.jit_compile else in_replica

        @tf.function(reduce_retracing=True)
        def single_step(iterator: Any) -> dict[str, tf.Tensor]:
            of_replicas = self.distribute_strategy.run(step, args=(self._next(iterator),))
            return tf.nest.map_structure(self._of_first_replica, of_replicas)

        return single_step

    def _next(self, iterator: Any) -> Tensors:
        return next(iterator) if self.input_wait is None else self.input_wait.next(iterator)

    def _of_first_replica(self, value: Any) -> tf.Tensor:
        return self.distribute_strategy.experimental_local_results(value)[0]

    def _train(self, data: Tensors) -> None:
        self.train_step(data)
        self._train_counter.assign_add(1)

    def _test(self, data: Tensors) -> None:
        self.test_step(data)
        self._test_counter.assign_add(1)

    def _results(self, training: bool) -> dict[str, tf.Tensor]:
        """The metrics that a step of training or of evaluation updates, by name."""
        if not training:
            metrics = self.compiled_metrics.metrics
        else:
            metrics = self.metrics if self.metrics_in_training else self.compiled_loss.metrics
        return {metric.name: metric.result() for metric in metrics}

    @staticmethod
    def _timed(function: Any, timings: StartTimings) -> Callable[[Any], dict[str, tf.Tensor]]:
        """A function that is traced before its first call, so that both have their seconds in `timings`."""

        def call(iterator: Any) -> dict[str, tf.Tensor]:
            if not timings.traces:
                timings.mark("input")
                function.get_concrete_function(iterator)
                timings.traces = function.experimental_get_tracing_count()
                timings.mark("tracing")
            return function(iterator)

        return call

    def call(self, inputs: Tensors, training: bool | None = None) -> Tensors:
        return self.network(inputs, training=training)

    def train_step(self, data: Tensors) -> dict[str, tf.Tensor]:
        variables = self.trainable_variables
        if self.accumulation_steps == 1:
            gradients = self._gradients(data)
        else:
            gradients = accumulate_gradients(self._gradients, data, variables, self.accumulation_steps)
        self._apply(self._unscaled(gradients), variables)
        return self._results(training=True)

    def _gradients(self, micro_batch: Tensors) -> list[tf.Tensor | None]:
        """Gradients of a micro-batch, in the shape of its bucket; each bucket is a branch of the traced step."""
        if not self._batch_slices:
            return self._gradients_of(micro_batch)
        branches = [functools.partial(self._gradients_of_slice, each, micro_batch) for each in self._batch_slices]
        return tf.switch_case(micro_batch[0]["bucket"][0], branches)

    def _gradients_of_slice(
        self, batch_slice: Callable[[Tensors], Tensors], micro_batch: Tensors
    ) -> list[tf.Tensor | None]:
        return self._gradients_of(batch_slice(micro_batch))

    def _gradients_of(self, micro_batch: Tensors) -> list[tf.Tensor | None]:
        """Gradients of the mean loss, times the loss scale; updates the metrics and `step_gradients`."""
        x, y, sample_weight = tf_keras.utils.unpack_x_y_sample_weight(micro_batch)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight)
            scaled = self.optimizer.get_scaled_loss(loss) if self._scales_loss else loss
        if self.metrics_in_training:
            self.compiled_metrics.update_state(y, y_pred, sample_weight)
        # An embedding's gradient comes as rows, one for each token, and Keras clips by their norm before it
        # sums those of the same word: too large a norm, by up to the root of the tokens in a batch.
        gradients = tape.gradient(scaled, self.trainable_variables)
        gradients = [None if each is None else tf.convert_to_tensor(each) for each in gradients]
        if self.step_gradients is not None:
            self.step_gradients.add_micro_batch(self._unscaled(gradients), tf.shape(tf.nest.flatten(x)[0])[0])
        return gradients

    def _apply(self, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
        if self.step_gradients is None:
            self.optimizer.apply_gradients(zip(gradients, variables))
            return
        # As apply_gradients does first: the sums over the replicas are needed here too.
        optimizer = self.optimizer.inner_optimizer if self._scales_loss else self.optimizer
        summed = optimizer.aggregate_gradients(list(zip(gradients, variables)))
        self.step_gradients.add_update([gradient for gradient, _ in summed])
        self.optimizer.apply_gradients(summed, skip_gradients_aggregation=True)

    @property
    def _scales_loss(self) -> bool:
        return isinstance(self.optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

    def _unscaled(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
        return self.optimizer.get_unscaled_gradients(gradients) if self._scales_loss else gradients

    def test_step(self, data: Tensors) -> dict[str, tf.Tensor]:
        x, y, mask = tf_keras.utils.unpack_x_y_sample_weight(data)
        outputs = self(x, training=False)
        if self._real_examples is None:
            self.compiled_metrics.update_state(y, outputs, sample_weight=mask)
        else:
            self._update_metrics(*self._real_examples(y, outputs, mask))
        return self._results(training=False)

    def _update_metrics(self, labels: Tensors, outputs: Tensors, weights: Any) -> None:
        """Updates the metrics with the examples of a batch, of which a replica may have none."""
        if not self.compiled_metrics.built:
            self.compiled_metrics.build(outputs, labels)
        # A mean over no examples would be NaN.
        if tf.shape(tf.nest.flatten(outputs)[0])[0] > 0:
            self.compiled_metrics.update_state(labels, outputs, sample_weight=weights)

    def predict_step(self, data: Tensors) -> Tensors:
        x, _, _ = tf_keras.utils.unpack_x_y_sample_weight(data)
        return self._predictions(self.network, x) if self._predictions else self(x, training=False)

    def checkpoint_parts(self) -> list[CheckpointPart]:
        """State in a checkpoint besides the network and the optimizer's variables."""
        optimizer = self.optimizer.inner_optimizer if self._scales_loss else self.optimizer
        # Of an optimizer with state of each replica, such as Adasum's moments; empty where all have the same.
        state = optimizer.checkpointing() if hasattr(optimizer, "checkpointing") else {}
        parts = [CheckpointPart(**state)] if state else []
        return [*parts, self.averages.checkpoint_part()] if self.averages else parts

    def evaluated_weights(self) -> contextlib.AbstractContextManager[None]:
        """A context in which the network has the weights that are evaluated: the moving averages, where there are."""
        return self.averages.in_place_of_weights() if self.averages else contextlib.nullcontext()
