"""A batch ramp in anyone's `fit`: checks that model and `fit` follow it, and logs the batch size."""

from __future__ import annotations

from typing import Any

from tfbigbatch.callbacks.base import Callback
from tfbigbatch.errors import InputError
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.scaling.batch_ramp import BatchRamp
from tfbigbatch.utils import arguments


class RampLog(Callback):
    """Checks that `fit` follows a batch ramp, and adds `batch_size` and `examples` to the logs of each epoch.

    `batch_size` is the number of examples in the last optimizer step, `examples` that of all micro-batches so far. Both
    continue in a run that is resumed from a checkpoint. Put it before `TensorBoard`, `CSVLogger` and whatever else
    reads the logs.

    At the beginning of `fit` it checks that the optimizer accumulates by the ramp, and that epochs x batches reach the
    ramp's last stage.

    Args:
      ramp: the `BatchRamp`.
      dataset_size: examples in an epoch.
      micro_batch_size: examples in a batch of `fit`, over all replicas.

    Raises:
      ValueError: an argument cannot be used; at the beginning of `fit`: Keras 3 runs on another backend than
        TensorFlow; the optimizer accumulates otherwise or cannot, or the ramp is longer than `fit`.
    """

    def __init__(self, ramp: BatchRamp, *, dataset_size: int, micro_batch_size: int) -> None:
        super().__init__()
        if not isinstance(ramp, BatchRamp):
            raise InputError(f"RampLog: ramp={ramp!r} is not a tfbigbatch.BatchRamp.")
        self._schedule = ramp.accumulation(dataset_size, micro_batch_size)
        self._micro_batch_size = arguments.integer("micro_batch_size", micro_batch_size, least=1, owner="RampLog")

    def on_train_begin(self, logs: Any = None) -> None:
        optimizer = innermost(self.model.optimizer)
        accumulation = getattr(optimizer, "accumulation_steps", "no such argument")
        if accumulation != self._schedule:
            raise InputError(
                f"RampLog: {type(optimizer).__name__} has accumulation_steps={accumulation!r}, the ramp "
                f"{self._schedule!r}. Give LARS, LAMB, Muon, Shampoo or tfbigbatch.AdamW of tfbigbatch "
                "accumulation_steps=ramp.accumulation(dataset_size, micro_batch_size) with the same numbers as here; "
                "LARS(..., exclude_from_weight_decay=[], exclude_from_layer_adaptation=['.*']) is momentum."
            )
        epochs, batches = self.params.get("epochs"), self.params.get("steps")
        if not epochs or not batches:
            return
        given = self._micro_batches() + epochs * batches
        last_stage = self._schedule.micro_batches_before(sum(self._schedule.steps[:-1]))
        # A run that continues may count its epochs from its own beginning or, with `initial_epoch`, from the first's.
        if given <= last_stage:
            raise InputError(
                f"RampLog: fit has {epochs:,} epochs of {batches:,} batches, {given:,} in all; the ramp's last batch "
                f"begins after {last_stage:,} batches of {self._micro_batch_size} examples. Train longer, give "
                "fit that batch size, or make the ramp's recipe of fewer epochs."
            )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            last_step = max(0, int(innermost(self.model.optimizer).iterations.numpy()) - 1)
            logs["batch_size"] = self._micro_batch_size * int(self._schedule(last_step))
            logs["examples"] = self._micro_batch_size * self._micro_batches()

    def _micro_batches(self) -> int:
        """Micro-batches so far, those of the step that is under way included."""
        optimizer = innermost(self.model.optimizer)
        before = self._schedule.micro_batches_before(int(optimizer.iterations.numpy()))
        return before + int(optimizer.micro_steps.numpy())
