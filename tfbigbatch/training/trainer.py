"""A training run: its parts, its loop, and how it ends."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf
import tf_keras

from tfbigbatch import experiment
from tfbigbatch.errors import DivergedError, Preempted
from tfbigbatch.experiment.files import record
from tfbigbatch.runs import goodput
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import DIVERGED, DONE, PREEMPTED, RUNNING
from tfbigbatch.runs.stored_run import extended, shown_best, shown_metrics
from tfbigbatch.training import local_steps, mlperf
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training import strategy as strategies
from tfbigbatch.training.callbacks import own, watch
from tfbigbatch.training.callbacks.base import steps_done
from tfbigbatch.training.callbacks.logs import Evaluation, Progress, StepMetrics
from tfbigbatch.training.callbacks.saving import KeepBest, SaveCheckpoints
from tfbigbatch.training.evaluate import FreshStatistics, evaluate
from tfbigbatch.training.input_pipelines import Continued, InputWait
from tfbigbatch.training.options import Directory, RunOptions
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.plan import fit_segments
from tfbigbatch.training.rollbacks import RollBack, Rollbacks
from tfbigbatch.training.setup import Machine, RunModel, RunPlan, Start
from tfbigbatch.utils.signals import StopRequest

Status = dict[str, Any]
"""The content of status.json: status, step, total_steps, seconds, and at the end the metrics."""


@dataclasses.dataclass
class Trainer:
    """A run with all that it consists of, ready to train or to evaluate.

    `directory` is of `training.options`, the other parts are what the functions of `training.setup` return, in their
    order; `stop_request` may have come before.
    """

    options: RunOptions
    machine: Machine
    directory: Directory
    plan: RunPlan
    model: RunModel
    start: Start
    rollbacks: Rollbacks
    stop_request: StopRequest

    def __post_init__(self) -> None:
        self._config = self.options.config
        self._network = self.model.keras
        self._heartbeat = watch.Heartbeat(self.options.heartbeat)
        self._stop = watch.StopOnSignal(
            self.start.checkpoints,
            self.stop_request,
            agree=self.machine.agree if self.machine.is_multi_worker else None,
            every=self.plan.phases[0].plan.log_every,
        )
        self._evaluates = self.options.mode == "train_and_eval"
        self._last_step = self.plan.last_step
        self._started = time.perf_counter()
        self._saved_seconds = self.start.seconds
        self._progress = Progress(self.plan.total_steps, self._config.evaluate_on)
        self._best = KeepBest(
            self.start.checkpoints,
            self.directory.files.best,
            self.plan.target,
            agree=self.machine.agree,
            is_chief=self.machine.is_chief,
            kept=functools.partial(self._write_status, RUNNING),
        )
        self._own = self._own_callbacks()
        self._timings = self._network.timings = self.options.timings
        self._goodput = self.start.goodput
        self.start.checkpoints.timed = functools.partial(self._goodput.timed, "save")
        # A TPU's own host may run the loop, where a variable of this process is not.
        if not strategies.is_tpu(self.machine.strategy):
            input_wait = self._network.input_wait = InputWait()
            self._goodput.waited = lambda: input_wait.seconds

    def evaluate(self) -> Status:
        """Evaluates the restored checkpoint and changes nothing on disk."""
        phase = run_phases.at_step(self.plan.phases, self.start.step - 1)
        metrics = self._evaluator(phase)()
        result = {"status": self.directory.status.get("status"), "step": self.start.step, "metrics": metrics}
        self.machine.say(f"step {self.start.step:,}: {shown_metrics(result, self._config.evaluate_on)}")
        return result

    def train(self) -> Status:
        """Trains to the last step, and returns the status that it leaves.

        Raises:
          RollBack: the run diverged and is to start again from its last good checkpoint.
          DivergedError: the run diverged, with no rollback left.
          Preempted: a stop was requested; the run was saved.
        """
        phase = run_phases.at_step(self.plan.phases, self.start.step - 1)
        self._evaluation = self._evaluation_of(phase)
        self._open()
        owed = self.machine.agree(
            self._evaluates and self.machine.is_chief and self._evaluation.is_owed(self.start.step)
        )
        try:
            with self.stop_request.handling(), self.options.watch_preemption(self.stop_request.request):
                self._write_status(RUNNING, self.start.step)
                self._stop.stop_before_first_step(self.start.step)
                if owed:
                    self._timings.mark("input")
                    self._stop.step = self.start.step
                    self._evaluation.make_up(self._network, self.start.step)
                    if self._config.keep_best:
                        self._best.consider(self.start.step, self._evaluation.latest)
                    self._timings.mark("evaluation")
                if self._own:
                    self._own.evaluation = self._evaluation if self._evaluates else None
                    self._own.begin(self.start.step)
                self._fit(phase)
        except DivergedError as error:
            self._diverged(error)
        except Preempted:
            self._write_status(PREEMPTED, steps_done(self._network.optimizer))
            raise
        finally:
            self._progress.close()
            if self._own:
                self._own.end()
            self.model.log.close()
            self.start.checkpoints.close()
            if self.plan.mlperf:
                self.plan.mlperf.stop(self._evaluation.reached)
        return self._finish()

    def _open(self) -> None:
        """Creates what is missing of the run directory, and starts the logs at the resumed step."""
        signature = self.plan.task.score_signature
        devices = [device.name for device in tf.config.list_logical_devices()]
        files = self.directory.files
        more = {"data_dir": self.options.data_dir and os.path.abspath(self.options.data_dir)}
        described: dict[str, Any] = {"signature": signature} if signature else {}
        if self.plan.task.network_facts:
            # With them a run directory is enough to build the network.
            described["network_facts"] = dict(self.plan.task.network_facts)
        if self._config.mixed_precision == experiment.AUTO:
            described["mixed_precision"] = self.machine.precision.name
        files.open(self._config.to_dict(), devices, {**described, **more, "init_from": self.directory.init_from})
        if self.directory.content is not None:
            self._update_config(self.directory.content, more)
        files.keep({**self.plan.task.run_files, **experiment.copy_of(self._config)})
        if self.machine.is_chief and not self.options.use_fake_data:
            record(self._config, self.options.model_dir)
        if self.directory.init_from and self.start.is_new:
            # The run then needs the other one no more.
            self.start.checkpoints.save(0)
        self.model.log.resume(self.start.step)
        self._best.resume(self.start.step, read_rows(files.metrics))
        self._started = time.perf_counter()
        if self.plan.mlperf:
            first = self.plan.phases[0]
            self.plan.mlperf.start(
                mlperf.settings(self._config, first.plan.scaled, first.task, first.held_out, self.machine.replicas),
                step=self.start.step,
                steps_in_epoch=first.examples_in_epoch / self._config.batch_size,
                evaluate_every=int(first.plan.evaluate_every),
                evaluates=self._evaluation.is_owed(self.start.step),
            )

    def _update_config(self, content: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        """Writes into config.json what may change on resume: a longer duration, and the folder of the data."""
        if self.directory.extension:
            content = extended(content, self.directory.extension, self._config.duration)
        if more["data_dir"]:
            content = {**content, **more}
        if content != self.directory.content:
            self.directory.files.update(content)

    def _fit(self, current: Phase) -> None:
        """The training loop: one or more calls of Keras' `fit` for each phase that is left.

        Args:
          current: the phase that `self._evaluation` belongs to.
        """
        shared = self._shared_callbacks()
        for phase in self.plan.phases:
            if self._stopped or phase.first_step >= self._last_step:
                break
            if phase.last_step <= self.start.step:
                continue
            if phase is not current:
                self._evaluation = self._evaluation_of(phase)
            self._network.accumulate(phase.config.accumulation_steps)
            callbacks = self._callbacks(phase, shared)
            first_step, last_step = max(self.start.step, phase.first_step), min(self._last_step, phase.last_step)
            intervals = (phase.plan.evaluate_every, phase.plan.checkpoint_every)
            with self._goodput.timed("input"):
                batches = Continued(phase.training_set(self.machine.strategy, first_step, last_step))
            for _, length, epochs in fit_segments(first_step, last_step, intervals, phase.offset):
                self._network.fit(batches, epochs=epochs, steps_per_epoch=length, callbacks=callbacks, verbose=0)
                if self._stopped:
                    break
        if self._stopped:
            self._last_step = steps_done(self._network.optimizer)

    @property
    def _stopped(self) -> str:
        """The reason why the run ends before its last step, for the final line; empty where it does not."""
        if self._evaluation.reached:
            return "stopped at its target"
        return f"stopped by {self._own.stopped_by}" if self._own and self._own.stopped_by else ""

    def _diverged(self, error: DivergedError) -> NoReturn:
        """Rolls the run back where its config allows another rollback, and ends it otherwise."""
        self._progress.close()
        step, checkpoints = steps_done(self._network.optimizer), self.start.checkpoints
        self._write_status(DIVERGED, step, reason=str(error))
        last_good = checkpoints.latest() or "none yet"
        if self.rollbacks.left():
            self.machine.say(f"diverged   {error} Rolling back to the last good checkpoint: {last_good}.")
            self.rollbacks.add(step, checkpoints.latest_step() or 0, str(error), write=self.machine.is_chief)
            raise RollBack from None
        raise DivergedError(
            f"the run diverged: {error} The last good checkpoint: {last_good}. Lower schedule.learning_rate, warm up "
            "longer (schedule.warmup_epochs), or clip the gradients (optimizer.global_clipnorm)."
        ) from None

    def _finish(self) -> Status:
        """Writes the final status and prints the result; of a run that stops early, what it is left at."""
        evaluation, step = self._evaluation, self._last_step
        if step < self.plan.total_steps and not self._stopped:
            return self._write_status(RUNNING, step)
        if self._evaluates and not evaluation.latest:
            # Killed between the last checkpoint and here: the rows are written, the status is not.
            evaluation.measure()
        stopped = {"stopped_by": self._own.stopped_by} if self._own and self._own.stopped_by else {}
        result = self._write_status(DONE, step, metrics=evaluation.latest, **stopped)
        shown = shown_metrics(result, self._config.evaluate_on)
        early = f", {self._stopped}" if self._stopped else ""
        self.machine.say(f"done       {step:,} steps in {result['seconds']:.1f} s{early}. {shown}")
        if self._best.best:
            self.machine.say(f"best       {shown_best(result, self._config.evaluate_on)}: {self._best.path()}")
        if not self.options.use_fake_data:
            self.machine.say(f"look       tensorboard --host=localhost --logdir={self.options.model_dir}")
        return result

    # ---- Evaluation and callbacks -----------------------------------------------------------------

    def _evaluator(self, phase: Phase, **options: Any) -> Callable[[], dict[str, float]]:
        """`evaluate` with the held-out split of a phase, whose input pipeline is built once."""
        fresh = None
        if self._config.evaluate_with_fresh_statistics:
            fresh = FreshStatistics(self._network, phase, self.machine.strategy, self.options.heartbeat)
        evaluated = functools.partial(
            evaluate,
            self._network,
            phase.task,
            phase.held_out,
            phase.evaluation_set(self.machine.strategy),
            phase.evaluation_steps,
            prepare=fresh.recompute if fresh else None,
            callbacks=[self._heartbeat, self._stop.in_evaluation],
            **options,
        )

        def timed() -> dict[str, float]:
            with self._goodput.timed("evaluate"):
                return evaluated()

        return timed

    def _evaluation_of(self, phase: Phase) -> Evaluation:
        return Evaluation(
            self._evaluator(phase, on_texts=self._write_translations),
            self.model.log,
            every=phase.plan.evaluate_every,
            last_step=phase.last_step if phase.is_last else 0,
            offset=phase.offset,
            is_enough=self.plan.is_enough,
            mlperf=self.plan.mlperf,
        )

    def _write_translations(self, lines: Sequence[str]) -> None:
        self.directory.files.write_translations(self._config.evaluate_on, steps_done(self._network.optimizer), lines)

    def _own_callbacks(self) -> own.OwnCallbacks | None:
        """The user's callbacks; None without any. All workers have it, so that they agree on stopping."""
        if not self.options.callbacks or not self.options.trains:
            return None
        return own.OwnCallbacks(
            own.in_this_process(own.checked(self.options.callbacks), self.machine.is_chief),
            network=self._network.network,
            optimizer=self._network.optimizer,
            directory=self.options.model_dir,
            writes=self.machine.is_chief,
            total_steps=self.plan.total_steps,
            agree=self.machine.agree if self.machine.is_multi_worker else None,
        )

    def _shared_callbacks(self) -> list[tf_keras.callbacks.Callback]:
        """The chief's callbacks that live through all phases: the progress bar and the profile."""
        if not self.machine.is_chief:
            return []
        found: list[tf_keras.callbacks.Callback] = [self._progress]
        if self.options.profile_steps:
            folder = os.path.join(self.options.model_dir, "train")
            found.append(watch.Profile(folder, *self.options.profile_steps, self._config.steps_per_execution))
        return found

    def _callbacks(
        self, phase: Phase, shared: Sequence[tf_keras.callbacks.Callback]
    ) -> list[tf_keras.callbacks.Callback]:
        """The callbacks of a phase, in the order that they are called in."""
        in_ramp = phase.config.ramp.name != "none"
        write = functools.partial(self._write_status, RUNNING)
        self._best.evaluation = self._evaluation
        step_metrics = StepMetrics(
            self.model.log,
            every=phase.plan.log_every,
            batch_size=phase.config.batch_size,
            dataset_size=phase.examples_in_epoch,
            tokens_per_example=phase.task.train.tokens_per_example,
            first_step=-phase.offset if in_ramp else phase.first_step,
            examples=in_ramp,
        )
        self._progress.evaluation, self._progress.step_metrics = self._evaluation, step_metrics
        if self._own:
            self._own.evaluation = self._evaluation if self._evaluates else None
            self._own.log_every = phase.plan.log_every
        return [
            *([] if self._timings.is_complete else [watch.FirstStep(self._timings, self._goodput.started)]),
            step_metrics,
            *([self.model.date] if self.model.date else []),
            *self.model.instruments.callbacks,
            watch.Checks(phase.task.checks),
            watch.StopOnNonFinite(phase.plan.log_every),
            *local_steps.callbacks(self._network.optimizer, self.plan.total_steps),
            *([self._evaluation] if self._evaluates else []),
            *([self._own] if self._own else []),
            SaveCheckpoints(
                self.start.checkpoints,
                every=phase.plan.checkpoint_every,
                last_step=phase.last_step,
                saved=self._saved,
                offset=phase.offset,
                seconds=experiment.seconds_between_saves(phase.config),
                log_every=phase.plan.log_every,
                agree=self.machine.agree,
            ),
            *([self._best] if self._evaluates and self._config.keep_best else []),
            *([watch.WriteStatus(write, every=phase.plan.log_every)] if self.machine.is_chief else []),
            *shared,
            self._stop,
            self._heartbeat,
        ]

    # ---- Status -----------------------------------------------------------------------------------

    def _saved(self, step: int) -> None:
        """Writes the status after a checkpoint; a resumed run counts its seconds from there."""
        self._saved_seconds = self.start.seconds + time.perf_counter() - self._started
        self._write_status(RUNNING, step)

    def _write_status(self, name: str, step: int, **fields: Any) -> Status:
        seconds = self.start.seconds + time.perf_counter() - self._started
        if name in (DONE, PREEMPTED):
            self._saved_seconds = seconds
        content = {
            "step": step,
            "total_steps": self.plan.total_steps,
            "seconds": round(seconds, 3),
            "saved_seconds": round(self._saved_seconds, 3),
            **fields,
        }
        if self._timings.is_complete:
            content["start"] = self._timings.content()
        content[goodput.NAME] = self._goodput.content(step)
        shown = {f"{goodput.NAME}/{part}": content[goodput.NAME][part] for part in ("fraction", *goodput.PARTS)}
        self.model.log.write_events("train", step, shown)
        if self._best.best:
            content["best"] = {"metric": self.plan.target.name, **dataclasses.asdict(self._best.best)}
        self.model.log.flush()
        self.directory.files.write_status(name, **content)
        return {"status": name, **content}
