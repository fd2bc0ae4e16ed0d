"""The evaluation step of a Keras 3 model: metrics under a mask, and outputs to score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch.training.metric_sums import MetricSums, Tensors, examples_of
from tfbigbatch.training.step import outputs_of
from tfbigbatch.training.streams import StreamStates


class EvaluationStep:
    """Evaluates a compiled network batch by batch.

    Only metrics are computed, each a sum and a count under the mask: a loss would divide by the padded batch.

    Args:
      network: keras.Model, compiled.
      strategy: of the replicas.
      jit_compile: whether XLA compiles the step of each replica.
      streams: None, or what carries a recurrent state from batch to batch.
      real_examples: function of (labels, outputs, mask) of an evaluation batch that returns (labels, outputs, weights)
        without its padding, for metrics that are wrong under a mask; None to pass the mask as their weights.
      predictions: function of (network, features) for `outputs`; None for the network's outputs.
    """

    def __init__(
        self,
        network: Any,
        *,
        strategy: tf.distribute.Strategy,
        jit_compile: bool = False,
        streams: StreamStates | None = None,
        real_examples: Callable[[Tensors, Tensors, Tensors], tuple[Tensors, Tensors, Any]] | None = None,
        predictions: Callable[[Any, Tensors], Tensors] | None = None,
    ) -> None:
        self._network = network
        self._strategy = strategy
        self._streams = streams
        self._real_examples = real_examples
        self._predictions = predictions
        self._sums = MetricSums(network, strategy, streams is not None)
        self._clear = tf.function(lambda: strategy.run(self._sums.clear), autograph=False)
        total = lambda: strategy.experimental_local_results(strategy.run(self._total_in_replica))[0]
        self._total = tf.function(total, autograph=False)
        update = tf.autograph.experimental.do_not_convert(self._update)
        update = tf.function(update, jit_compile=True, autograph=False) if jit_compile else update
        # A traced function that is given itself would be traced around all replicas, and XLA takes one device.
        in_replica = lambda batch: update(batch)
        self._update_metrics = tf.function(lambda batch: strategy.run(in_replica, args=(batch,)), autograph=False)
        predict = tf.autograph.experimental.do_not_convert(self._predict)
        self._outputs = tf.function(lambda batch: strategy.run(predict, args=(batch,)), autograph=False)

    def metrics(self, batches: Iterable[Tensors], after_batch: Callable[[int], None]) -> dict[str, float]:
        """The metrics over batches, by name.

        Args:
          batches: the strategy's, (x, y, mask), one at least.
          after_batch: called before the first with 0, and after each with the number of those done.

        Raises:
          ValueError: the variables of a metric do not add up.
        """
        after_batch(0)
        for number, batch in enumerate(batches, start=1):
            if number == 1:
                values = tf.nest.map_structure(lambda each: self._strategy.experimental_local_results(each)[0], batch)
                spec = tf.nest.map_structure(tf.TensorSpec.from_tensor, values)
                # A metric of the real examples may refuse the mask as weights.
                self._sums.build(spec if self._real_examples is None else spec[:2])
                self._clear()
            self._update_metrics(batch)
            after_batch(number)
        return self._sums.results(self._total().numpy().astype(np.float64), losses=False, metrics=True)

    def outputs(self, batches: Iterable[Tensors], after_batch: Callable[[int], None]) -> Any:
        """The predictions of all examples as a nest of NumPy arrays, in the order of the batches; see `metrics`."""
        found: list[list[np.ndarray]] = []
        structure: Any = None
        after_batch(0)
        for number, batch in enumerate(batches, start=1):
            structure = self._outputs(batch)
            of_replicas = map(self._strategy.experimental_local_results, tf.nest.flatten(structure))
            found.append([np.concatenate([np.asarray(each) for each in parts]) for parts in of_replicas])
            after_batch(number)
        return tf.nest.pack_sequence_as(structure, [np.concatenate(parts) for parts in zip(*found)])

    # ---- In a replica -------------------------------------------------------------------------------

    def _total_in_replica(self) -> tf.Tensor:
        self._sums.end_step()
        return self._sums.total()

    def _update(self, batch: Tensors) -> None:
        x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = outputs_of(self._network, x, self._streams, training=False)
        if self._real_examples is None:
            self._sums.add_metrics(x, y, outputs, weights)
            return
        y, outputs, weights = self._real_examples(y, outputs, weights)

        def update() -> tf.Tensor:
            self._sums.add_metrics(x, y, outputs, weights)
            return tf.constant(True)

        # A replica may have none, and a mean over no examples would be NaN.
        tf.cond(examples_of(outputs) > 0, update, lambda: tf.constant(False))

    def _predict(self, batch: Tensors) -> Tensors:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        if self._predictions is not None:
            return self._predictions(self._network, x)
        return outputs_of(self._network, x, self._streams, training=False)
