"""The Keras model that the trainer fits: gradient accumulation, and evaluation under a mask."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.instruments.step_gradients import StepGradients
from tfbigbatch.optimizers.accumulation import accumulate_gradients
from tfbigbatch.training.checkpoint_parts import WeightAverages
from tfbigbatch.training.checkpoints import CheckpointPart
from tfbigbatch.training.input_pipelines import InputWait

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
      input_wait: None, or what measures the time in which training steps wait for batches; set it before `fit`.
      step_gradients: None, or an `instruments.StepGradients` that receives the gradients of every step; set it before
        `fit`. The weights do not depend on it.
      averages: None, or the moving averages of the weights, which evaluations have in their place.
    """

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
        self.input_wait: InputWait | None = None
        self.averages: WeightAverages | None = None
        # Each replica returns metrics that are already reduced; Keras' default would sum them over workers.
        self.distribute_reduction_method = "first"

    def compiled_steps(self, accumulation_steps: int) -> CompiledSteps:
        """A traced function of an iterator that makes some steps, with so many micro-batches in each."""
        self.accumulation_steps = accumulation_steps
        return CompiledSteps(self)

    def evaluate_batches(self, batches: Iterable[Tensors], after_batch: Callable[[int], None]) -> dict[str, float]:
        """The metrics by name over batches, one at least; `after_batch` gets the number of those done."""
        results: dict[str, tf.Tensor] = {}
        with self.distribute_strategy.scope():
            self.reset_metrics()
            after_batch(0)
            for number, batch in enumerate(batches, start=1):
                results = self._test_batch(batch)
                after_batch(number)
            found = {name: float(value) for name, value in results.items()}
            # The training counts into the same metrics.
            self.reset_metrics()
        return found

    def predict_batches(self, batches: Iterable[Tensors], after_batch: Callable[[int], None]) -> Any:
        """The predictions of all examples as NumPy arrays, in the order of the batches."""
        found: list[list[np.ndarray]] = []
        structure: Any = None
        with self.distribute_strategy.scope():
            after_batch(0)
            for number, batch in enumerate(batches, start=1):
                structure = self._predict_batch(batch)
                local = map(self.distribute_strategy.experimental_local_results, tf.nest.flatten(structure))
                found.append([np.concatenate([np.asarray(each) for each in parts]) for parts in local])
                after_batch(number)
        return tf.nest.pack_sequence_as(structure, [np.concatenate(parts) for parts in zip(*found)])

    @functools.cached_property
    def _predict_batch(self) -> Callable[[Tensors], Any]:
        return tf.function(lambda batch: self.distribute_strategy.run(self.predict_step, args=(batch,)))

    @functools.cached_property
    def _test_batch(self) -> Callable[[Tensors], dict[str, tf.Tensor]]:
        """A traced function of a batch: evaluates it in each replica, and returns the metrics up to it."""
        step = tf.function(self.test_step, jit_compile=True) if self.jit_compile else self.test_step

        @tf.function
        def evaluated(batch: Tensors) -> dict[str, tf.Tensor]:
            return tf.nest.map_structure(self._of_first_replica, self.distribute_strategy.run(step, args=(batch,)))

        return evaluated

    def _next(self, iterator: Any) -> Tensors:
        return next(iterator) if self.input_wait is None else self.input_wait.next(iterator)

    def _of_first_replica(self, value: Any) -> tf.Tensor:
        return self.distribute_strategy.experimental_local_results(value)[0]

    def _results(self, training: bool) -> dict[str, tf.Tensor]:
        """The metrics that a step of training or of evaluation updates, by name."""
        if not training:
            metrics = self.compiled_metrics.metrics
        else:
            metrics = self.metrics if self.metrics_in_training else self.compiled_loss.metrics
        return {metric.name: metric.result() for metric in metrics}

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


class CompiledSteps:
    """A traced function of an iterator that makes n steps in each replica; one trace serves every n."""

    def __init__(self, model: TrainingModel) -> None:
        self._model = model
        strategy = model.distribute_strategy
        step = tf.function(model.train_step, jit_compile=True) if model.jit_compile else model.train_step
        self._results: dict[str, tf.Tensor] = {}

        def one(iterator: Any) -> None:
            strategy.run(lambda data: (step(data), None)[1], args=(model._next(iterator),))

        @tf.function(reduce_retracing=True)
        def steps(iterator: Any, count: tf.Tensor) -> dict[str, tf.Tensor]:
            for _ in tf.range(count):
                one(iterator)
            of_replicas = strategy.run(functools.partial(model._results, training=True))
            return tf.nest.map_structure(model._of_first_replica, of_replicas)

        self._steps = steps

    def trace(self, iterator: Any) -> int:
        """Traces the function; returns how often it was traced."""
        with self._model.distribute_strategy.scope():
            self._steps.get_concrete_function(iterator, tf.constant(1))
        return self._steps.experimental_get_tracing_count()

    def __call__(self, iterator: Any, count: int) -> None:
        with self._model.distribute_strategy.scope():
            self._results = self._steps(iterator, tf.constant(count))

    def means(self) -> dict[str, float]:
        """The means of the loss and the metrics since the window began, by name."""
        return {name: float(value) for name, value in self._results.items()}

    def wait(self) -> None:
        """Returns when the latest call is done: an accelerator returns before."""
        self.means()

    def begin_window(self) -> None:
        """Begins the means again."""
        self._model.reset_metrics()
