"""A training run from top to bottom: its parts, its loop, and how it ends.

How to read this: `_train` is the run, in sections. All state that changes between two steps stands in its locals
(`step`, `evaluated`, `ended`), in the network and its optimizer, or in a part with a name (`rows`, `best`, `status`).
After each call of the compiled steps come the events, always in the same order; `Phase.is_due` tells which.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

from tfbigbatch.config.fields import seconds_between_saves
from tfbigbatch.errors import DivergedError, Preempted
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.directory import DIVERGED, DONE, PREEMPTED, RUNNING
from tfbigbatch.run_directory.stored_run import shown_best, shown_metrics
from tfbigbatch.training import local_steps, setup
from tfbigbatch.training import options as run_options
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training.best import BestCheckpoint
from tfbigbatch.training.log_rows import TrainingRows, learning_rate_at
from tfbigbatch.training.options import Directory, RunOptions
from tfbigbatch.training.paused import RUNS, PausedRun
from tfbigbatch.training.progress import Profile, Progress
from tfbigbatch.training.rollbacks import RollBack, Rollbacks
from tfbigbatch.training.setup import Machine, RunModel, RunPlan, Start
from tfbigbatch.training.status import RunStatus, Status
from tfbigbatch.training.step import Pace
from tfbigbatch.training.stop import Stop
from tfbigbatch.training.user_callbacks import UserCallbacks, in_this_process
from tfbigbatch.utils.signals import StopRequest

# How often the workers of a cluster agree on stopping while they evaluate.
_EVALUATED_BATCHES = 10


def train(options: RunOptions, directory: Directory) -> Status:
    """Trains to the last step, and returns the status that it leaves.

    Args:
      options: of the run.
      directory: the run directory as `options.check` found it.

    Raises:
      ValueError: the data, a field or the run directory cannot be used.
      DivergedError: the run diverged, with no rollback left.
      Preempted: a stop was requested; the run was saved.
    """
    rollbacks = Rollbacks(options.model_dir, options.config)
    while True:
        with contextlib.ExitStack() as signals, contextlib.suppress(RollBack):
            return _train(options, directory, rollbacks, signals)
        # As after a kill: everything is built again, and resumes from the last good checkpoint.
        directory = run_options.check(options)


def evaluate(options: RunOptions, directory: Directory) -> Status:
    """Evaluates the newest checkpoint and changes nothing on disk."""
    machine, plan, model, start = _parts(options, directory, Rollbacks(options.model_dir, options.config))
    phase = plan.phase_at(start.step - 1)
    metrics = model.evaluator(options, machine, phase)(lambda batch: options.heartbeat(f"evaluated batch {batch:,}"))
    result = {"status": directory.status.get("status"), "step": start.step, "metrics": metrics}
    machine.say(f"step {start.step:,}: {shown_metrics(result, options.config.evaluate_on)}")
    return result


def _parts(
    options: RunOptions, directory: Directory, rollbacks: Rollbacks, begin_handling: Callable[[], None] | None = None
) -> tuple[Machine, RunPlan, RunModel, Start]:
    """The parts of a run, in the order of its banner; `begin_handling` is of the signals that request a stop."""
    machine = setup.prepare_machine(options, directory)
    # In one process a signal ends the preparation at once; the workers of a cluster wait for each other and stop
    # together.
    if begin_handling and machine.is_multi_worker:
        begin_handling()
    task_of = RUNS.task_of if options.in_memory else run_phases.task_of
    plan = setup.make_plan(options, machine, directory, rollbacks, task_of)
    model = setup.build_model(options, machine, directory, plan)
    # Resume: 1. weights and optimizer  2. the step  3. the data's position  4. the rows of metrics.
    start = setup.resume(options, machine, directory, model)
    return machine, plan, model, start


def _train(options: RunOptions, directory: Directory, rollbacks: Rollbacks, signals: contextlib.ExitStack) -> Status:
    config, files = options.config, directory.files
    evaluates = options.mode == "train_and_eval"

    # ---- 1. Machine, plan, model, resume --------------------------------------------------------
    stop_request = StopRequest()
    paused = RUNS.take(options) if options.in_memory else None
    machine, plan, model, start = (
        paused.parts
        if paused
        else _parts(options, directory, rollbacks, lambda: signals.enter_context(stop_request.handling()))
    )
    network, log, checkpoints = model.network, model.log, start.checkpoints
    instruments = model.run_instruments.instruments

    # ---- 2. What watches the steps --------------------------------------------------------------
    user = UserCallbacks(
        in_this_process(options.callbacks, machine.is_chief),
        network=model.network,
        files=files,
        agree=machine.agree if options.callbacks else bool,
        total_steps=plan.total_steps,
    )
    best = BestCheckpoint(checkpoints, files, plan.target, machine.agree)
    setup.open_directory(options, machine, directory, plan, model, start)
    best.resume(start.step)
    seconds = directory.status.get("seconds", 0.0)
    status = RunStatus(files, log, best, total_steps=plan.total_steps, seconds=seconds)
    stop = Stop(stop_request, checkpoints.save, machine.agree if machine.is_multi_worker else None)
    progress = Progress(start.step, plan.total_steps, config.evaluate_on, shows=machine.is_chief)
    profile = Profile(os.path.join(files.path, "train"), options.profile_steps, records=machine.is_chief)
    step, ended, evaluated = start.step, "", {}
    phase = plan.phase_at(step - 1)
    evaluator = paused.evaluator if paused else model.evaluator(options, machine, phase)

    def evaluate_and_log() -> None:
        """Evaluates the weights of the moment; the run ends where that reaches its target."""
        nonlocal evaluated, ended
        if plan.mlperf:
            plan.mlperf.evaluation_begins(step)

        def after_batch(batch: int) -> None:
            options.heartbeat(f"evaluated batch {batch:,}")
            stop.check(step, agrees=batch % _EVALUATED_BATCHES == 0)

        evaluated = evaluator(after_batch, functools.partial(files.write_translations, config.evaluate_on, step))
        if plan.is_enough(evaluated):
            ended = "stopped at its target"
        if plan.mlperf:
            plan.mlperf.evaluation_ends(step, evaluated, bool(ended) or step >= plan.total_steps)
        log.write("eval", step, evaluated)
        progress.evaluated = evaluated

    def epoch_ends() -> None:
        """Ends an epoch of the user's callbacks, one of which may end the run."""
        nonlocal ended
        user.epoch_ends(step, evaluated)
        if user.stopped_by and not ended:
            ended = f"stopped by {user.stopped_by}"

    try:
        with stop_request.handling(), options.watch_preemption(stop_request.request):
            status.write(RUNNING, step)
            stop.check(step, saves=False)
            user.begin(step)

            # ---- 3. An evaluation that a stop left undone ---------------------------------------
            if machine.agree(evaluates and machine.is_chief and setup.owes_evaluation(phase, log, step)):
                evaluate_and_log()
                if config.keep_best:
                    best.consider(step, evaluated)
                epoch_ends()
            for instrument in instruments:
                instrument.begin(network)

            # ---- 4. The phases: data, batch, accumulation ----------------------------------------
            for phase in plan.phases:
                if ended or phase.last_step <= step or phase.first_step >= plan.last_step:
                    continue
                evaluator = model.evaluator(options, machine, phase) if phase is not evaluator.phase else evaluator
                end = min(plan.last_step, phase.last_step)
                batches = iter(phase.training_set(machine.strategy, step, end))
                steps = paused.steps if paused else model.steps(options, machine, phase)
                rows = TrainingRows(log, phase, step)
                pace = Pace(machine.agree(user.wants_batches), machine.is_multi_worker)
                saved = time.monotonic()
                while step < end and not ended:
                    # ---- 5. Read and step -------------------------------------------------------
                    profile.at_step(step)
                    user.before_steps(step)
                    left = min((instrument.steps_left for instrument in instruments), default=end)
                    n = pace.steps(min(phase.steps_to_next_event(step), end - step, profile.steps_left(step), left))
                    steps(batches, step, n)
                    step += n
                    pace.made(n)
                    user.after_step(step, steps.means)
                    options.heartbeat(f"step {step:,}")

                    # ---- 6. Events, always in this order ------------------------------------------
                    is_due = {event: phase.is_due(event, step) for event in run_phases.EVENTS}
                    interval_ends = is_due["evaluate"] or is_due["save"] or step == end
                    is_row, means = is_due["log"] or interval_ends, {}
                    if is_row:
                        means = steps.means()
                        progress.row = rows.write(step, means, learning_rate_at(network.optimizer, step - 1))
                        user.add_row(step, means)
                        steps.begin_window()
                    for instrument in instruments:
                        instrument.after_steps(n)
                    for check in phase.task.checks:
                        check()
                    if is_row:
                        rows.check_finite(step, means)
                    if step == plan.total_steps:
                        local_steps.synchronize(network.optimizer)
                    if evaluates and is_due["evaluate"]:
                        evaluate_and_log()
                    if interval_ends and (is_due["evaluate"] or not evaluates):
                        epoch_ends()
                    # A pause at the end of a row is saved there: the rows are then those of a run without it.
                    pauses = step == plan.last_step and is_due["log"]
                    late = is_row and _is_late(seconds_between_saves(config), saved, machine)
                    if is_due["save"] or ended or pauses or late:
                        checkpoints.save(step)
                        saved = time.monotonic()
                        status.write(RUNNING, step)
                    if evaluates and is_due["evaluate"] and config.keep_best and best.consider(step, evaluated):
                        status.write(RUNNING, step)
                    if is_row:
                        status.write_seldom(step)
                        progress.after_row(step)
                    if interval_ends:
                        options.heartbeat(f"evaluation or checkpoint after step {step:,}")
                    stop.check(step, agrees=is_row)
                if options.in_memory and step < plan.total_steps and not ended:
                    RUNS.keep(options, PausedRun(machine, plan, model, start, evaluator, steps), step)

        # ---- 7. The end ------------------------------------------------------------------------
        if evaluates and not evaluated and step == plan.total_steps:
            # Killed between the last checkpoint and here: the rows are written, the status is not.
            evaluated = evaluator(lambda batch: options.heartbeat(f"evaluated batch {batch:,}"))
        return _finish(options, machine, plan, status, best, step, ended, evaluated, user.stopped_by)
    except DivergedError as error:
        status.write(DIVERGED, step, reason=str(error))
        _roll_back(error, step, machine, start, rollbacks)
    except Preempted:
        status.write(PREEMPTED, step)
        raise
    finally:
        profile.close()
        user.end()
        log.close()
        if plan.mlperf:
            plan.mlperf.stop(ended == "stopped at its target")


def _is_late(seconds: float | None, saved: float, machine: Machine) -> bool:
    """True if the latest save is `seconds` ago or more on any worker; a kill costs that time at most."""
    return seconds is not None and machine.agree(time.monotonic() - saved >= seconds)


def _roll_back(error: DivergedError, step: int, machine: Machine, start: Start, rollbacks: Rollbacks) -> NoReturn:
    """Rolls the run back where its config allows another rollback, and ends it otherwise."""
    newest = start.checkpoints.latest()
    last_good = newest or "none yet"
    if rollbacks.left():
        machine.say(f"diverged   {error} Rolling back to the last good checkpoint: {last_good}.")
        back_to = checkpoint_files.step_of(newest) if newest else 0
        rollbacks.add(step, back_to, str(error), write=machine.is_chief)
        raise RollBack from None
    raise DivergedError(
        f"the run diverged: {error} The last good checkpoint: {last_good}. Lower schedule.learning_rate, warm up "
        "longer (schedule.warmup_epochs), or clip the gradients (optimizer.global_clipnorm)."
    ) from None


def _finish(
    options: RunOptions,
    machine: Machine,
    plan: RunPlan,
    status: RunStatus,
    best: BestCheckpoint,
    step: int,
    ended: str,
    evaluated: dict[str, float],
    stopped_by: str | None,
) -> Status:
    """Writes the final status and prints the result; of a run that stops early, what it is left at."""
    if step < plan.total_steps and not ended:
        return status.write(RUNNING, step)
    split = options.config.evaluate_on
    fields: dict[str, Any] = {"stopped_by": stopped_by} if stopped_by else {}
    result = status.write(DONE, step, metrics=evaluated, **fields)
    early = f", {ended}" if ended else ""
    machine.say(f"done       {step:,} steps in {result['seconds']:.1f} s{early}. {shown_metrics(result, split)}")
    if best.best:
        machine.say(f"best       {shown_best(result, split)}: {best.path()}")
    if not options.use_fake_data:
        machine.say(f"look       tensorboard --host=localhost --logdir={options.model_dir}")
    return result
