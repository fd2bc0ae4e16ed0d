"""What the callbacks share: counting in optimizer updates over several calls of `fit` and resumes."""

import tf_keras


class StepCallback(tf_keras.callbacks.Callback):
    """Knows `self.step`, the optimizer updates done so far, over several calls of `fit` and resumes."""

    # Keras then hands over tensors, and only a callback that reads them waits for the device.
    _supports_tf_logs = True

    step = 0

    def on_train_begin(self, logs=None):
        self._epoch_start = self.step = updates_done(self.model.optimizer)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_start = self.step

    def on_train_batch_end(self, batch, logs=None):
        before, self.step = self.step, self._epoch_start + batch + 1
        self.on_steps(before, self.step, logs)

    def on_steps(self, before, step, logs):
        """Called after the updates (before, step], one or steps_per_execution of them."""


def crosses(before, step, every):
    """True where a multiple of `every` lies in (before, step]."""
    return every > 0 and step // every > before // every


def updates_done(optimizer):
    """The number of updates that an optimizer has made, whatever the strategy."""
    return int(optimizer.iterations.numpy())
