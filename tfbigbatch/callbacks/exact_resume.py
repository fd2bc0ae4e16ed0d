"""Exact resume of anyone's `fit`: what a killed training had, and where in the data it was."""

from __future__ import annotations

import inspect
import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.callbacks import fit_data, reachable, training_step
from tfbigbatch.callbacks.base import Callback
from tfbigbatch.callbacks.counters import counters, restore_arrays, save_arrays
from tfbigbatch.callbacks.keras_fit import Fit
from tfbigbatch.callbacks.snapshots import Snapshots
from tfbigbatch.callbacks.streams import NumberedStream
from tfbigbatch.callbacks.training_state import TrainingState
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.checkpointing import canonical
from tfbigbatch.utils import arguments
from tfbigbatch.utils.home import expanded

_ARRAYS = "callbacks.npz"
_ITERATOR = "iterator"


class ExactResume(Callback):
    """Resumes a killed `fit` so that it ends in the bits of an undisturbed one, as far as the model is deterministic.

    It owns the order of the data: give `fit` what `data` returns, and run the same program again after a kill.

        resume = tfbigbatch.callbacks.ExactResume("runs/mine", every=100)
        model.fit(resume.data(x, y, batch_size=256, seed=1), epochs=10, callbacks=[resume])

    Weights, the optimizer's state, the random generators of layers, the metrics of the epoch, the history of earlier
    epochs and the position in the data are saved, and all other variables and optimizers that the model and the
    callbacks hold. As many epochs as were trained, or fewer, train nothing; with more `fit` continues. It saves after
    all other callbacks, wherever it stands in `fit`'s list. Within an epoch that is resumed, their `on_epoch_begin` is
    called for what they keep themselves; what it changes of the state that was saved is put back.

    Args:
      directory: folder of the snapshots, of this training alone; in a cluster one that all workers see.
      every: steps of an epoch between two saves, a multiple of the model's `steps_per_execution`; or 'epoch'. Each
        epoch's end is saved in any case, after its evaluation.
      callbacks: those of the same `fit` whose counters and arrays continue too, as EarlyStopping's patience and best
        weights.
      also: what `fit` changes and neither the model nor a callback holds: models, optimizers, variables, generators,
        lists of them.

    Raises:
      ValueError: an argument cannot be used; at the beginning of `fit`: Keras 3 runs on another backend than
        TensorFlow; the directory is of another training; all snapshots are damaged; after its first step: the step
        changes state that is not saved.
    """

    # Of one call of `fit`.
    _data: fit_data.FitData
    _fit: Fit
    _state: TrainingState

    def __init__(
        self,
        directory: str | os.PathLike[str],
        every: int | str = "epoch",
        callbacks: Sequence[Any] = (),
        also: Sequence[Any] = (),
    ):
        super().__init__()
        if not isinstance(directory, (str, os.PathLike)) or not str(directory):
            raise InputError(f"ExactResume: directory={directory!r}; expected the path of a folder.")
        if isinstance(every, str):
            arguments.one_of("every", every, ["epoch"], owner="ExactResume")
            self._every = None
        else:
            self._every = arguments.integer("every", every, least=1, owner="ExactResume")
        self._others = arguments.items("callbacks", callbacks, owner="ExactResume")
        for other in self._others:
            if not hasattr(other, "on_epoch_end") or isinstance(other, type):
                raise InputError(f"ExactResume: callbacks has {other!r}; expected Keras callbacks.")
        self._also = arguments.items("also", also, owner="ExactResume")
        for each in self._also:
            if isinstance(each, reachable.PLAIN):
                raise InputError(
                    f"ExactResume: also has {each!r}; expected models, layers, optimizers, variables, generators, or "
                    "lists of them."
                )
        self._snapshots = Snapshots(expanded(directory))

    def data(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_remainder: bool = False,
        steps_per_epoch: int | None = None,
    ) -> fit_data.FitData:
        """The training data for `fit`, read from where the training is.

        The order is a pure function of (seed, epoch). A `tf.data` pipeline keeps its own. One that ends is read again
        up to the step; where that gives another batch, as without seeds, an error says so. Of one without end, and of
        those that a function returns, the state of the iterator is saved, shuffle buffers included.

        Args:
          x: an array, or a dictionary or tuple of arrays; an object with len and `[index]` that gives (features,
            labels) or (features, labels, weight); a Keras PyDataset or Sequence, whose batches are read into memory
            once; a dataset of tfbigbatch, whose last examples of an epoch that are no whole batch are the next one's;
            a `tf.data.Dataset` of batches; or a function of the epoch, from 0, that returns one.
          y, sample_weight: arrays, where x is one.
          batch_size: over all replicas, as `fit`'s: 32 by default. Not for `tf.data`.
          shuffle: False for the order that x has.
          seed: of the order, 0 or more.
          drop_remainder: leaves out the last examples of an epoch's order that are no whole batch.
          steps_per_epoch: batches in an epoch of `tf.data`; needed where it does not know them.

        Returns:
          A `tf.data.Dataset` for one `fit` with this callback.

        Raises:
          ValueError: an argument cannot be used, or the data.
        """
        if isinstance(x, tf.data.Dataset) or inspect.isroutine(x):
            if any(each is not None for each in (y, sample_weight, batch_size)) or drop_remainder:
                raise InputError(
                    "ExactResume.data: tf.data gives batches of features, labels and weights "
                    "itself; leave y, sample_weight, batch_size and drop_remainder out."
                )
            self._data = fit_data.of_pipeline(x, steps_per_epoch, self._every)
        elif steps_per_epoch is not None:
            raise InputError("ExactResume.data: steps_per_epoch is for tf.data; leave it out.")
        else:
            self._data = fit_data.of_examples(
                x, y, sample_weight, batch_size=batch_size, shuffle=shuffle, seed=seed, drop_remainder=drop_remainder
            )
        return self._data

    # ---- Of Keras' fit ----------------------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        self._fit = Fit(self)
        callbacks = self._fit.hooks.callbacks
        if any(isinstance(each, ExactResume) and each is not self for each in callbacks):
            raise InputError("ExactResume: fit has two of it; give it one.")
        if callbacks[-1] is not self:
            # Called again there: what all others do at a hook belongs to the save.
            callbacks.append(self)
            return
        while callbacks.index(self) < len(callbacks) - 1:
            callbacks.remove(self)
        self._has_begun = self._is_checked = False
        try:
            self._check_fit()
            self._resume()
        except BaseException:
            # There is no end of training, which would leave the directory to other processes.
            self._snapshots.release()
            raise

    def _resume(self) -> None:
        """Reads the newest snapshot, where there is one, and tells Keras and the data where the training is."""
        if self._is_chief():
            self._snapshots.make_directory()
        # The manifest of the snapshot; empty where there is none.
        self._found = self._newest()
        self._epoch, self._step, saved = self._fit.initial_epoch, 0, None
        if self._found:
            self._refuse_others("training", self._found["training"], self._training())
            self._epoch, self._step = self._found["epoch"], self._found["step_in_epoch"]
            saved = os.path.join(self._folder(), _ITERATOR)
        self._data.stream.begin(self._position(), saved)
        if not self.model.built or self._step:
            tensors = self._data.stream.at(self._position())
            with self.model.distribute_strategy.scope():
                self._fit.build(tf.nest.pack_sequence_as(self._data.element_spec, tensors))
        self._state = self._state_now()
        if not self._found:
            return
        self._refuse_others("model, or has other state", self._found["layout"], self._state.layout)
        self._restore()
        epochs = self.params.get("epochs") or 0
        is_done = epochs <= max(self._epoch, self._found["done"])
        self._fit.begin_at((epochs, 0) if is_done else (self._epoch, self._step))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._has_begun:
            self._begin(epoch)
        self._epoch = epoch

    def _begin(self, epoch: int) -> None:
        """At the first epoch's beginning: Keras has reset metrics and history, and the other callbacks have begun."""
        self._has_begun = True
        self._fit.begin_at(None)
        if epoch != self._epoch:
            raise InputError(
                f"ExactResume: the training is in epoch {self._epoch}, and fit begins with {epoch}. Leave "
                "initial_epoch out: it is known."
            )
        if not self._found:
            self._save(is_in_epoch=True)
            return
        self._restore_history()
        if self._found["is_in_epoch"]:
            # The other callbacks began this epoch before the save, and have now begun it again.
            self._restore()
        if self._step:
            if not self._state.restore_metrics(self._folder()):
                self._warn("the metrics of the epoch that was interrupted are not those of the model: they begin again")
            self._fit.shift(self._step, self._data.stream.steps_per_epoch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        stream = self._data.stream
        self._step = min(batch + 1, stream.steps_per_epoch)
        if not stream.has_read(self._position()):
            raise InputError(
                "ExactResume: fit reads other data than what data() returned last. Give fit that, and call data() once."
            )
        stream.forget(self._position())
        if not self._is_checked:
            self._check_that_all_is_saved()
        # Where a callback ends the epoch here, its end is saved.
        is_within = self._step < stream.steps_per_epoch and not self.model.stop_training
        if is_within and self._every is not None and self._step % self._every == 0:
            self._save(is_in_epoch=True)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._fit.end_shift()
        # Also where a callback has ended the epoch before its last step: with more epochs, the next one follows.
        self._epoch, self._step = epoch + 1, 0
        self._save()

    def on_train_end(self, logs: Any = None) -> None:
        if not self._has_begun:
            self._restore_history()
            self._fit.begin_at(None)
        if self._is_chief():
            # The last state need not be a snapshot.
            self._snapshots.note(done=max(self.params.get("epochs") or 0, self._found.get("done", 0)))
            self._snapshots.release()
        del self._state

    # ---- State ------------------------------------------------------------------------------------

    def _state_now(self) -> TrainingState:
        """The state of what the model and the callbacks hold."""
        others = [each for each in self._fit.hooks.callbacks if each is not self]
        names = canonical([f"callbacks.{type(each).__name__}" for each in others])
        roots = {name: (each, True) for name, each in zip(names, others)}
        roots["also"] = (self._also, True)
        roots.update({name: (each, False) for name, each in self._fit.roots().items()})
        return TrainingState(self.model, roots=roots, left_out=self)

    def _save(self, *, is_in_epoch: bool = False) -> None:
        """Saves; `is_in_epoch` says that the callbacks have begun the epoch."""
        state, position = self._state, self._position()
        if not state.is_finite():
            self._warn(f"a weight is not finite at step {position:,}, which is not saved")
            return
        content = {
            "training": self._training(),
            "epoch": self._epoch,
            "step_in_epoch": self._step,
            "is_in_epoch": is_in_epoch,
            # The epochs of a training that a callback has stopped, or that has ended.
            "done": (self.params.get("epochs") or 0) if self.model.stop_training else 0,
            "history": self._history(),
            "layout": state.layout,
            "callbacks": [{"class": type(other).__name__, "counters": counters(other)} for other in self._others],
        }
        # All workers take part in a save; only the chief's files are kept.
        scratch = tempfile.TemporaryDirectory
        with self._snapshots.writing(position, content) if self._is_chief() else scratch() as folder:
            state.save(folder, with_metrics=self._step > 0)
            self._data.stream.save(position, os.path.join(folder, _ITERATOR))
            save_arrays(os.path.join(folder, _ARRAYS), self._others)

    def _restore(self) -> None:
        self._state.restore(self._folder())
        kept, classes = self._found["callbacks"], [type(other).__name__ for other in self._others]
        if [each["class"] for each in kept] != classes:
            there = ", ".join(each["class"] for each in kept) or "none"
            self._warn(f"callbacks are {', '.join(classes) or 'none'}, and were {there}: their counters begin again")
            return
        for other, each in zip(self._others, kept):
            vars(other).update(each["counters"])
        restore_arrays(os.path.join(self._folder(), _ARRAYS), self._others)

    def _history(self) -> dict[str, Any]:
        """What Keras' History has by now."""
        history = getattr(self.model, "history", None)
        values = {} if history is None else history.history
        plain = {name: [np.asarray(value).tolist() for value in found] for name, found in values.items()}
        return {"epoch": list(getattr(history, "epoch", ())), "history": plain}

    def _restore_history(self) -> None:
        if getattr(self.model, "history", None) is not None and self._found:
            vars(self.model.history).update(self._found["history"])

    def _newest(self) -> dict[str, Any]:
        """The manifest of the snapshot to resume from, the same on all workers; empty where there is none."""
        found = self._snapshots.newest(self._warn, renames=self._is_chief() and not self._is_cluster())
        if self._is_cluster():
            step = float(found.get("step", -1))
            strategy = self.model.distribute_strategy
            steps = strategy.run(lambda: tf.constant(step, tf.float64))
            if float(strategy.reduce("SUM", steps, axis=None)) != step * strategy.num_replicas_in_sync:
                raise InputError(
                    f"ExactResume: the workers see different snapshots in {self._snapshots.directory}; this "
                    f"one has {f'step {step:.0f}' if found else 'none'}. Give a directory that all share."
                )
        return found

    # ---- Checks -----------------------------------------------------------------------------------

    def _check_fit(self) -> None:
        """Raises ValueError where `fit` has other data than `data` gave, or does what cannot be resumed."""
        if not hasattr(self, "_data"):
            raise InputError(
                "ExactResume: fit has data of another order; write fit(ExactResume(...).data(x, "
                "y, batch_size=...), ...)."
            )
        steps, expected = self.params.get("steps"), self._data.stream.steps_per_epoch
        if steps != expected:
            raise InputError(
                f"ExactResume: fit has {steps} steps in an epoch, and what data() returned has {expected}. Give fit "
                "that dataset itself, without steps_per_epoch and class_weight (data() takes sample_weight)."
            )
        if getattr(self.model, "autotune_steps_per_execution", False):
            raise InputError("ExactResume: steps_per_execution='auto' changes in training; give a number.")
        at_once = self._fit.steps_at_once()
        if self._every is not None and self._every % at_once:
            raise InputError(
                f"ExactResume: every={self._every} with steps_per_execution={at_once}; expected a multiple, as Keras "
                "calls back only then."
            )
        strategy = self.model.distribute_strategy
        known = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)
        if strategy.num_replicas_in_sync > 1 and not isinstance(strategy, known):
            raise InputError(
                f"ExactResume: {type(strategy).__name__}; expected MirroredStrategy or MultiWorkerMirroredStrategy."
            )
        if self._is_cluster() and not isinstance(self._data.stream, NumberedStream):
            raise InputError(
                "ExactResume: a tf.data pipeline on several workers has an iterator on each, and a snapshot those of "
                "none. Give arrays, an object with len and indices, or a dataset of tfbigbatch."
            )
        for other in self._others:
            if not any(other is each for each in self._fit.hooks.callbacks):
                raise InputError(
                    f"ExactResume: {type(other).__name__} is not among the callbacks of fit; give it there too."
                )

    def _refuse_others(self, what: str, there: dict[str, Any], here: dict[str, Any]) -> None:
        """Raises ValueError where what was saved is not what is here, in its order."""
        names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
        found = [f"{name}: {there.get(name, 'none')} there, {here.get(name, 'none')} here" for name in names[:5]]
        if names or list(there) != list(here):
            raise InputError(
                f"ExactResume: {self._folder()} is of another {what}. {'; '.join(found) or 'The order differs'}. Put "
                "back what the training began with, or give another directory to begin anew."
            )

    def _check_that_all_is_saved(self) -> None:
        """After the first step: TensorFlow knows what it changed, and the objects hold what it made."""
        self._is_checked = True
        sentences = training_step.unsaved(self.model, self._state)
        if sentences:
            if not self._found and self._is_chief():
                # So that the mended program begins anew.
                self._snapshots.remove(self._position() - self._step)
            raise InputError(f"ExactResume: this state is not saved: {' '.join(sentences)}")

    def _training(self) -> dict[str, Any]:
        """What has to be the same where the training is resumed, in values of JSON."""
        return {
            "keras": self._fit.keras,
            "optimizer": type(self.model.optimizer).__name__,
            "replicas": self.model.distribute_strategy.num_replicas_in_sync,
            **{f"{name} of the data": value for name, value in self._data.description.items()},
        }

    # ---- Small things -----------------------------------------------------------------------------

    def _position(self) -> int:
        return self._epoch * self._data.stream.steps_per_epoch + self._step

    def _folder(self) -> str:
        return self._snapshots.path(self._found["step"])

    def _is_cluster(self) -> bool:
        return isinstance(self.model.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy)

    def _is_chief(self) -> bool:
        return not self._is_cluster() or bool(self.model.distribute_strategy.extended.should_checkpoint)

    def _warn(self, message: str) -> None:
        warnings.warn(f"ExactResume: {message}.", stacklevel=3)
