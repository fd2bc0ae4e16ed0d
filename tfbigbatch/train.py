"""The reference trainer: one experiment file, one run directory.

    python -m tfbigbatch.train --config=experiments/digits/lstm_legw.py --model_dir=DIR

The same command on the same directory resumes, and says so when the run is finished.
"""

import contextlib
import functools
import os
import sys
import time

from tfbigbatch import experiment
from tfbigbatch.errors import DivergedError, InputError, Preempted
from tfbigbatch.training.rollbacks import RollBack, Rollbacks

MODES = ("train", "eval", "train_and_eval")


def run(
    config,
    *,
    model_dir,
    data_dir=None,
    mode="train_and_eval",
    strategy_name="auto",
    tpu=None,
    profile_steps=None,
    use_fake_data=False,
    stop_after=None,
    mlperf_log=None,
    alive=lambda after: None,
    notices=lambda tell: contextlib.nullcontext(),
):
    """Trains, evaluates or both, as `config` says; resumes what `model_dir` holds.

    Args:
      config: ml_collections.ConfigDict, from an experiment file.
      model_dir: the run directory; made where it does not exist.
      data_dir: where the task's data lies; None for tasks that bring or fetch their own.
      mode: 'train', 'eval' (the newest checkpoint) or 'train_and_eval'.
      strategy_name, tpu: see `training.strategy.choose`.
      profile_steps: None, or (first, last) updates to profile.
      use_fake_data: made-up examples of the right shapes in place of the task's data.
      stop_after: None, or the update after which to return, with the run left to be resumed.
      mlperf_log: None, or the file for a log by MLPerf's rules; see `training.mlperf_log`.
      alive: called with words for what was done last, whenever something was; see `cluster.watchdog`.
      notices: function of what is to be told that the machine will be taken away, with words; gives a context in which
        it is. See `cluster.preemption_notice`.

    Returns:
      Dictionary: status, step, seconds, and the metrics of the last evaluation.

    Raises:
      ValueError: something that the user gave cannot be used; nothing already written is harmed.
      RuntimeError: the run diverged, more often than it may go back; the last good checkpoint stays.
      Preempted: SIGTERM, Ctrl-C or a notice came; the run was saved.
    """
    options = {name: value for name, value in locals().items() if name not in ("config", "model_dir")}
    rollbacks = Rollbacks(model_dir, config)
    while True:
        try:
            return _run(config, model_dir, rollbacks, **options)
        except RollBack:
            # As after a kill: all is made anew, and resumes from the last good checkpoint.
            continue


def _run(
    config,
    model_dir,
    rollbacks,
    *,
    data_dir,
    mode,
    strategy_name,
    tpu,
    profile_steps,
    use_fake_data,
    stop_after,
    mlperf_log,
    alive,
    notices,
):
    """`run`, up to where it ends or diverges."""
    import tensorflow as tf
    import tf_keras

    from tfbigbatch import tasks
    from tfbigbatch.runs import run_directory
    from tfbigbatch.runs.metric import Metric
    from tfbigbatch.runs.metrics_log import MetricsLog
    from tfbigbatch.runs.resume_rules import may_change
    from tfbigbatch.training import callbacks as run_callbacks
    from tfbigbatch.training import phases as run_phases
    from tfbigbatch.training.build import compiled_model
    from tfbigbatch.training.callbacks.base import updates_done
    from tfbigbatch.training.checkpoints import Checkpoints
    from tfbigbatch.training.config_checks import check_fields
    from tfbigbatch.training.evaluate import measured
    from tfbigbatch.training.instruments import RunInstruments, check_instruments
    from tfbigbatch.training.mlperf import rules
    from tfbigbatch.training.mlperf.log import MLPerfLog
    from tfbigbatch.training.segments import fit_segments
    from tfbigbatch.training.strategy import any_worker, barrier, choose, is_chief, is_multi_worker, is_tpu

    # ---- The machine --------------------------------------------------------------------------
    if mode not in MODES:
        raise InputError(f"--mode={mode} is unknown; expected one of {', '.join(MODES)}.")
    check_fields(config)
    if mlperf_log:
        rules.check(config)
        if mode != "train_and_eval":
            raise InputError(
                f"--mlperf_log: its rules ask for evaluations; expected --mode=train_and_eval, not {mode}."
            )
    strategy, chosen = choose(strategy_name, tpu, config.simulated_replicas)
    alive("the start of all workers")
    compiled = config.jit_compile and not is_tpu(strategy)
    if compiled and strategy.num_replicas_in_sync > 1:
        raise InputError(
            f"jit_compile=True: TensorFlow compiles a training step on one device only, and --strategy={strategy_name} "
            f"has {strategy.num_replicas_in_sync} replicas. Leave it False; optimizer.jit_compile works anywhere."
        )
    if tasks.get(config.task).has_scores and is_multi_worker(strategy):
        raise InputError(
            f"--strategy={strategy_name}: task {config.task} is scored by all outputs together, in one process. Train "
            "on one machine, with --strategy=mirrored or one_device and no TF_CONFIG."
        )
    chief = is_chief(strategy)
    tf_keras.backend.clear_session()
    # Dropout and initialisers then draw from generator variables, which our checkpoints hold.
    tf_keras.backend.experimental.enable_tf_random_generator()
    tf_keras.utils.set_random_seed(config.seed)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    policy = config.mixed_precision if config.mixed_precision == "float32" else f"mixed_{config.mixed_precision}"
    tf_keras.mixed_precision.set_global_policy(policy)

    # ---- The run directory: is it ours? -------------------------------------------------------
    directory = run_directory.RunDirectory(model_dir, chief)
    changed = directory.check(config.to_dict(), but=may_change(config, mode))
    before = directory.status()
    if before.get("status") == run_directory.DONE and mode != "eval":
        shown = _shown(before, config)
        _say(chief, f"{model_dir} holds a finished run ({before['step']:,} steps); nothing to do. {shown}")
        return before
    target = Metric.of_task(config.task)
    mlperf = None
    if mlperf_log and chief:
        mlperf = MLPerfLog(mlperf_log, target.name, rules.unit(config.task))
        mlperf.init()

    # ---- The task and its data; the batch arithmetic and the schedule -------------------------
    def task_of(phase):
        return tasks.get(phase.task)(
            model=phase.model.to_dict(), data=phase.data.to_dict(), data_dir=data_dir, use_fake_data=use_fake_data
        )

    slowed = rollbacks.slowed(config)
    phases = run_phases.phases_of(slowed, task_of, strategy.num_replicas_in_sync, rollbacks.skipped)
    if mlperf_log and len(phases) > 1:
        raise InputError(f"--mlperf_log: its rules know no phases, and the run has {len(phases)}. Log each as a run.")
    check_instruments(config, phases[0].task.carries_state, strategy.num_replicas_in_sync)
    task, plan, total_steps = phases[0].task, phases[0].plan, phases[-1].last_step
    directory.check_kept(task.run_files)
    for line in (
        f"task       {config.task}: {task.train.source}, {task.train.contents}",
        f"strategy   {chosen}",
        *run_phases.lines(phases),
        f"optimizer  {config.optimizer.get('name')}, {config.mixed_precision}",
        *([f"score      {target.name}, {task.score_signature}"] if task.score_signature else []),
        *rollbacks.lines(),
        *(f"changed    since the run began: {line}" for line in changed),
    ):
        _say(chief, line)

    # ---- Model and optimizer ------------------------------------------------------------------
    with strategy.scope():
        model = compiled_model(config, phases, jit_compile=compiled)

    def write(step, scalars):
        log.write("train", step, scalars)

    date = _date(config, plan, task, write) if config.date.enabled else None
    instruments = RunInstruments(config, model, task, write, model_dir)

    # ---- Resume: 1. weights, optimizer and generators  2. the step  3. the data's position  4. the metrics' rows
    scratch = None if chief else os.path.join(model_dir, f".worker-{strategy.cluster_resolver.task_id}")
    checkpoints = Checkpoints(
        model.network,
        model.optimizer,
        directory.checkpoints,
        keep=config.keep_checkpoints,
        scratch=scratch,
        barrier=lambda: barrier(strategy),
        asynchronous=config.asynchronous_saving,
        alive=alive,
        **_checkpointing(model, date, instruments),
    )
    first_step = checkpoints.restore()
    if mode == "eval" and first_step is None:
        raise InputError(f"--mode=eval: {model_dir} holds no checkpoint. Train first, or give another --model_dir.")
    for path, wrong in checkpoints.set_aside:
        _say(chief, f"warning    a newer checkpoint is damaged and was set aside as {path}: {wrong}")
    resumed, first_step = first_step is not None, first_step or 0
    if resumed:
        _say(chief, f"resume     from the checkpoint of step {first_step:,}")

    say_alive = run_callbacks.SayAlive(alive)
    asking = {"agree": functools.partial(any_worker, strategy), "every": plan.log_every}
    stop = run_callbacks.StopOnSignal(checkpoints, **(asking if is_multi_worker(strategy) else {}))

    def measure_of(phase, keep=None):
        return functools.partial(
            measured,
            model,
            phase.task,
            phase.held_out,
            phase.evaluation_set(strategy),
            phase.evaluation_steps,
            keep,
            callbacks=[say_alive, stop.in_evaluation],
        )

    # ---- Evaluate only ------------------------------------------------------------------------
    if mode == "eval":
        phase = run_phases.at_step(phases, first_step - 1)
        result = {"status": before.get("status"), "step": first_step, "metrics": measure_of(phase)()}
        _say(chief, f"step {first_step:,}: {_shown(result, config)}")
        return result

    # ---- Train --------------------------------------------------------------------------------
    devices = [device.name for device in tf.config.list_logical_devices()]
    directory.open(config.to_dict(), devices, {"signature": task.score_signature} if task.score_signature else None)
    directory.keep(task.run_files)
    log = MetricsLog(directory, resume_step=first_step)
    started, seconds_before = time.perf_counter(), before.get("seconds", 0.0) if resumed else 0.0

    def status(name, step, **more):
        seconds = seconds_before + time.perf_counter() - started
        content = {"step": step, "total_steps": total_steps, "seconds": round(seconds, 3), **more}
        log.flush()
        directory.write_status(name, **content)
        return {"status": name, **content}

    last_step = min(total_steps, stop_after or total_steps)
    if mlperf:
        mlperf.start(
            rules.settings(config, plan.scaled, task, phases[0].held_out, strategy.num_replicas_in_sync),
            step=first_step,
            steps_in_epoch=phases[0].examples_in_epoch / config.batch_size,
            evaluate_every=plan.evaluate_every,
        )

    def keep_translations(lines):
        directory.write_translations(config.evaluate_on, updates_done(model.optimizer), lines)

    def evaluation_of(phase):
        return run_callbacks.Evaluation(
            measure_of(phase, keep_translations),
            log,
            every=phase.plan.evaluate_every,
            last_step=phase.last_step,
            histograms=config.histograms,
            is_enough=(
                (lambda metrics: target.reaches(metrics[target.name], config.stop_at_target))
                if config.stop_at_target
                else None
            ),
            mlperf=mlperf,
        )

    progress = run_callbacks.Progress(total_steps, config.evaluate_on)
    profile = None
    if profile_steps and chief:
        profiles = os.path.join(model_dir, "train")
        profile = run_callbacks.Profile(profiles, *profile_steps, config.steps_per_execution)

    def callbacks_of(phase, evaluation):
        return [
            run_callbacks.StepMetrics(
                log,
                every=phase.plan.log_every,
                batch_size=phase.config.batch_size,
                dataset_size=phase.examples_in_epoch,
                tokens_per_example=phase.task.train.tokens_per_example,
                first_step=phase.first_step,
            ),
            *([date] if date else []),
            *instruments.callbacks,
            run_callbacks.Checks(phase.task.checks),
            run_callbacks.StopOnNonFinite(phase.plan.log_every),
            *([evaluation] if mode == "train_and_eval" else []),
            run_callbacks.SaveCheckpoints(
                checkpoints,
                every=phase.plan.checkpoint_every,
                last_step=phase.last_step,
                saved=lambda step: status(run_directory.RUNNING, step),
            ),
            *([progress.beside(evaluation)] if chief else []),
            *([profile] if profile else []),
            stop,
            say_alive,
        ]

    current = run_phases.at_step(phases, first_step - 1)
    evaluation = evaluation_of(current)
    owes_evaluation = mode == "train_and_eval" and evaluation.is_due(first_step) and not log.has("eval", first_step)
    if is_multi_worker(strategy):
        owes_evaluation = any_worker(strategy, owes_evaluation and chief)
    left = [phase for phase in phases if first_step < phase.last_step and phase.first_step < last_step]
    try:
        with stop, notices(stop.request):
            status(run_directory.RUNNING, first_step)
            if owes_evaluation:
                # The run was stopped in the middle of it.
                stop.step = first_step
                evaluation.make_up(model, first_step)
            if evaluation.reached:
                left, last_step = [], first_step
            for phase in left:
                if phase is not current:
                    evaluation = evaluation_of(phase)
                callbacks = callbacks_of(phase, evaluation)
                model.accumulate(phase.config.accumulation_steps)
                for start, length, epochs in fit_segments(
                    max(first_step, phase.first_step),
                    min(last_step, phase.last_step),
                    (phase.plan.evaluate_every, phase.plan.checkpoint_every),
                ):
                    training_set = phase.training_set(strategy, start, start + length * epochs)
                    model.fit(training_set, epochs=epochs, steps_per_epoch=length, callbacks=callbacks, verbose=0)
                    if evaluation.reached:
                        break
                if evaluation.reached:
                    last_step = updates_done(model.optimizer)
                    break
        checkpoints.wait()
    except DivergedError as error:
        status(run_directory.DIVERGED, updates_done(model.optimizer), reason=str(error))
        last_good = checkpoints.latest() or "none yet"
        if rollbacks.left():
            _say(chief, f"diverged   {error} Rolling back to the last good checkpoint: {last_good}.")
            rollbacks.add(updates_done(model.optimizer), checkpoints.latest_step() or 0, str(error), write=chief)
            raise RollBack from None
        raise DivergedError(
            f"the run diverged: {error} The last good checkpoint: {last_good}. Lower schedule.learning_rate, warm up "
            "longer (schedule.warmup_epochs), or clip the gradients (optimizer.global_clipnorm)."
        ) from None
    except Preempted:
        status(run_directory.PREEMPTED, updates_done(model.optimizer))
        raise
    finally:
        log.close()
        checkpoints.close()
        if mlperf:
            mlperf.stop(evaluation.reached)

    # ---- The end ------------------------------------------------------------------------------
    if last_step < total_steps and not evaluation.reached:
        return status(run_directory.RUNNING, last_step)
    instruments.finish()
    if mode == "train_and_eval" and not evaluation.latest:
        # Killed between the last checkpoint and here: the rows are written, the status is not.
        evaluation.measure()
    result = status(run_directory.DONE, last_step, metrics=evaluation.latest)
    reached = ", stopped at its target" if evaluation.reached else ""
    _say(chief, f"done       {last_step:,} steps in {result['seconds']:.1f} s{reached}. {_shown(result, config)}")
    if not use_fake_data:
        _say(chief, f"look       tensorboard --host=localhost --logdir={model_dir}")
    return result


def smoke(config, *, model_dir, **arguments):
    """Runs an experiment without its data: two loops of steps, an evaluation, a checkpoint and a resume between."""
    experiment.shrink(config)
    run(config, model_dir=model_dir, use_fake_data=True, stop_after=4, **arguments)
    return run(config, model_dir=model_dir, use_fake_data=True, **arguments)


def _date(config, plan, task, log):
    """The callback DATE, on a probe of the run's first training examples."""
    import tensorflow as tf

    from tfbigbatch import scaling

    fields = config.date.to_dict()
    micro_batch_size, micro_batches = fields.pop("micro_batch_size"), fields.pop("micro_batches")
    use_noise, _ = fields.pop("use_noise"), fields.pop("enabled")
    probe = task.train.training_batches(
        # Every worker measures the same probe.
        tf.distribute.InputContext(),
        batch_size=micro_batch_size,
        seed=config.seed,
        first_step=0,
        last_step=micro_batches,
    )
    return scaling.keras2.DATE(
        probe=probe, recipe=plan.tuned if use_noise else None, batch_size=config.batch_size, log=log, **fields
    )


def _checkpointing(model, date, instruments):
    """What a checkpoint holds beside network and optimizer: the model's carried state, DATE's, the instruments'."""
    arguments = model.checkpointing()
    more = {**arguments.get("more", {}), **({"date": date.state} if date else {}), **instruments.checkpointing()}
    return {**arguments, "more": more}


def _say(chief, line):
    if chief:
        print(line, flush=True)


def _shown(result, config):
    return "  ".join(f"{config.evaluate_on} {name} {value:.4f}" for name, value in result.get("metrics", {}).items())


def main() -> None:
    """`python -m tfbigbatch.train`, the same as `tfbigbatch train`."""
    from tfbigbatch.cli.main import run_command

    run_command("train", sys.argv[1:], "python -m tfbigbatch.train")


if __name__ == "__main__":
    main()
