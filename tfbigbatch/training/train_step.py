"""The Keras model that the trainer fits: a network, accumulation, and evaluation under a mask."""

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers.accumulation import accumulate_gradients


class TrainingModel(tf_keras.Model):
    """Fits `network`, the Keras model of a task.

    A training step may accumulate: it loops over micro-batches, then applies one update. An
    evaluation step updates the compiled metrics only, each a sum and a count under the mask;
    Keras' own loss would divide by the padded batch.

    Args:
      network: the Keras model.
      accumulation_steps: micro-batches in one update of a replica.
      metrics_in_training: whether training steps update the metrics too, and not the loss alone.
      batch_slices: functions that cut a micro-batch to a bucket's static shape, indexed by its feature 'bucket' [n],
        which is the same for all of a step; () for none. Each is a branch of the step.
      predictions: function from the network and features to what `predict` gives; None for the network's outputs.

    Attributes:
      step_gradients: None, or an `instruments.StepGradients` that is shown the gradients of every step; set it before
        `fit`. What is computed stays the same.
    """

    def __init__(self, network, accumulation_steps=1, metrics_in_training=True, batch_slices=(), predictions=None):
        super().__init__(name="training")
        self.network = network
        self.accumulation_steps = accumulation_steps
        self.metrics_in_training = metrics_in_training
        self._batch_slices = tuple(batch_slices)
        self._predictions = predictions
        self.step_gradients = None
        # Each replica returns metrics that are already reduced; Keras' default would sum them over workers.
        self.distribute_reduction_method = "first"

    def accumulate(self, accumulation_steps):
        """Changes the micro-batches of an update, from the next call of `fit` on."""
        if accumulation_steps != self.accumulation_steps:
            self.accumulation_steps = accumulation_steps
            # Keras keeps the traced step.
            self.train_function = self.train_tf_function = None

    def call(self, inputs, training=None):
        return self.network(inputs, training=training)

    def train_step(self, data):
        variables = self.trainable_variables
        optimizer = self.optimizer
        scales_loss = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

        def gradients_of(micro_batch):
            x, y, sample_weight = tf_keras.utils.unpack_x_y_sample_weight(micro_batch)
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(x, y, y_pred, sample_weight)
                scaled = optimizer.get_scaled_loss(loss) if scales_loss else loss
            if self.metrics_in_training:
                self.compiled_metrics.update_state(y, y_pred, sample_weight)
            # An embedding's gradient comes as rows, one for each token, and Keras clips by their norm before it
            # sums those of the same word: too large a norm, by up to the root of the tokens in a batch.
            gradients = tape.gradient(scaled, variables)
            gradients = [None if each is None else tf.convert_to_tensor(each) for each in gradients]
            if self.step_gradients is not None:
                unscaled = optimizer.get_unscaled_gradients(gradients) if scales_loss else gradients
                self.step_gradients.add_micro_batch(unscaled, tf.shape(tf.nest.flatten(x)[0])[0])
            return gradients

        def gradients_by_bucket(micro_batch):
            if not self._batch_slices:
                return gradients_of(micro_batch)
            bucket = micro_batch[0]["bucket"][0]
            return tf.switch_case(
                bucket, [lambda part=part: gradients_of(part(micro_batch)) for part in self._batch_slices]
            )

        if self.accumulation_steps == 1:
            gradients = gradients_by_bucket(data)
        else:
            gradients = accumulate_gradients(gradients_by_bucket, data, variables, self.accumulation_steps)
        if scales_loss:
            gradients = optimizer.get_unscaled_gradients(gradients)
        self._apply(optimizer, gradients, variables)
        measured = self.metrics if self.metrics_in_training else self.compiled_loss.metrics
        return {metric.name: metric.result() for metric in measured}

    def _apply(self, optimizer, gradients, variables):
        if self.step_gradients is None:
            optimizer.apply_gradients(zip(gradients, variables))
            return
        # What apply_gradients does at first: its sums over the replicas are needed here too.
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        summed = inner.aggregate_gradients(list(zip(gradients, variables)))
        self.step_gradients.add_update([gradient for gradient, _ in summed])
        optimizer.apply_gradients(summed, skip_gradients_aggregation=True)

    def test_step(self, data):
        x, y, mask = tf_keras.utils.unpack_x_y_sample_weight(data)
        self.compiled_metrics.update_state(y, self(x, training=False), sample_weight=mask)
        return {metric.name: metric.result() for metric in self.compiled_metrics.metrics}

    def predict_step(self, data):
        x, _, _ = tf_keras.utils.unpack_x_y_sample_weight(data)
        return self._predictions(self.network, x) if self._predictions else self(x, training=False)

    def checkpointing(self):
        """What `Checkpoints` needs beside the network and the optimizer's variables, as its arguments."""
        # Adasum's replicas each have moments of their own.
        own = getattr(self.optimizer, "checkpointing", None)
        return own() if own else {}
