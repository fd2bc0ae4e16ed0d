"""What the instruments share: when they look, and where what they see goes."""

import math

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.event_log import log_of


class Instrument:
    """Mixed into a callback of one Keras by a face; an instrument provides `_look(step)`, and calls `_tell`.

    Counts in optimizer updates, over several calls of `fit` and resumes. With `steps_per_execution`
    above 1, or micro-batches of the optimizer's own, a look comes at the first end of an execution
    at or after its update.

    Args:
      when: updates between looks; or a list of the updates to look after.
      log: None; a folder for TensorBoard; or an object as `EventLog`.

    Attributes:
      history: list of dictionaries, a look each: step, and name to float.
    """

    # tf_keras then hands over tensors, which nobody here waits for.
    _supports_tf_logs = True
    # The first part of the tags.
    group = ""

    def __init__(self, *, when, log):
        super().__init__()
        self.history = []
        self._when = checked_when(when, type(self).__name__)
        self._log = log_of(log)

    def on_train_begin(self, logs=None):
        # Loss scaling and Adasum wrap the optimizer that counts.
        self._optimizer = innermost(self.model.optimizer)
        self._batch = -1
        step = self._updates_done()
        self._due = next_measurement(self._when, step)
        self._batches_left = self._batches_until_due(step)

    def on_epoch_begin(self, epoch, logs=None):
        self._batch = -1

    def measure(self, model, step=0):
        """Looks at a compiled model as it is, outside of `fit`: at the weights of a checkpoint, for example.

        Args:
          model: of this callback's Keras.
          step: what stands in the history and the log as the update.

        Returns:
          The look's dictionary, as in `history`; empty where there was nothing to tell.

        Raises:
          ValueError: what it measures is an update, which only `fit` makes.
        """
        if not self._can_look(step):
            raise InputError(
                f"{type(self).__name__}.measure: it measures what an update does to the weights, and there is none "
                "outside of fit. Give it to fit as a callback."
            )
        looks = len(self.history)
        self.set_model(model)
        self._look(step)
        return self.history[-1] if len(self.history) > looks else {}

    def on_train_batch_end(self, batch, logs=None):
        # No batch makes more than one update: until then nobody needs to wait for the device and ask.
        self._batches_left -= batch - self._batch
        self._batch = batch
        if self._batches_left > 0:
            return
        step = self._updates_done()
        if step >= self._due and self._can_look(step):
            self._look(step)
            self._due = next_measurement(self._when, step)
        self._batches_left = self._batches_until_due(step)

    def _batches_until_due(self, step):
        """After how many batches to ask again."""
        return self._due - step

    def _can_look(self, step):
        return True

    def _look(self, step):
        raise NotImplementedError

    def _updates_done(self):
        return int(self._optimizer.iterations.numpy())

    def _tell(self, step, values, histograms=None):
        """Keeps and writes what was seen; what is not finite has no place in a chart."""
        self.history.append({"step": step, **values})
        if self._writes():
            finite = {f"{self.group}/{name}": float(v) for name, v in values.items() if math.isfinite(v)}
            self._log.scalars(step, finite)
            if histograms:
                self._log.histograms(step, {f"{self.group}/{name}": value for name, value in histograms.items()})

    def _writes(self):
        # Every worker sees the same; one writes it.
        return self._log is not None and self.model.distribute_strategy.extended.should_save_summary


def checked_when(when, name):
    """`when` as an int of 1 or more, or a sorted list of them.

    Raises:
      ValueError: it is neither.
    """
    steps = [when] if isinstance(when, int) else list(when)
    if not steps or any(isinstance(step, bool) or not isinstance(step, int) or step < 1 for step in steps):
        raise InputError(
            f"{name}: when={when!r}; expected the number of updates between looks, 1 or more, or a list of the "
            "updates to look after."
        )
    return when if isinstance(when, int) else sorted(steps)


def next_measurement(when, step):
    """The first update after `step` to look after; infinity for none."""
    if isinstance(when, int):
        return (step // when + 1) * when
    return min((each for each in when if each > step), default=math.inf)


def innermost(optimizer):
    """The optimizer within those that wrap it."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer
