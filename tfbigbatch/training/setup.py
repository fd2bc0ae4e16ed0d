"""The parts of a run, built in the order of its banner: machine, plan, model, resume."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.config.fields import AUTO
from tfbigbatch.config.files import copy_of, record
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import checkpoint_files, initial_weights
from tfbigbatch.run_directory.directory import DIVERGED
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.run_directory.stored_run import extended
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import local_steps, mlperf
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training import precision as precisions
from tfbigbatch.training import strategy as strategies
from tfbigbatch.training.averages import WeightAverages, optimizer_parts, weight_averages
from tfbigbatch.training.build import compiled_network
from tfbigbatch.training.checkpoints import CheckpointPart, Checkpoints
from tfbigbatch.training.evaluate import Evaluator
from tfbigbatch.training.fresh_statistics import FreshStatistics, warning_lines
from tfbigbatch.training.instruments import RunInstruments, check_instruments
from tfbigbatch.training.log_rows import MetricsLog
from tfbigbatch.training.mlperf import MLPerfLog
from tfbigbatch.training.options import Directory, RunOptions
from tfbigbatch.training.phases import Phase
from tfbigbatch.training.precision import Precision
from tfbigbatch.training.rollbacks import Rollbacks
from tfbigbatch.training.step import TrainingSteps
from tfbigbatch.training.streams import StreamStates

# ---- 1. The machine ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Machine:
    """The devices of a run, and the role of this process among its workers.

    Attributes:
      strategy: of all replicas.
      description: what was chosen and why, for the banner.
      is_chief: True if this process writes the run directory.
      jit_compile: True if XLA compiles the forward and the backward pass.
      precision: of the layers.
    """

    strategy: tf.distribute.Strategy
    description: str
    is_chief: bool
    jit_compile: bool
    precision: Precision

    @property
    def replicas(self) -> int:
        """Replicas in sync, over all workers."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def is_multi_worker(self) -> bool:
        """True if several processes train together."""
        return strategies.is_multi_worker(self.strategy)

    def agree(self, wanted: bool) -> bool:
        """True if `wanted` is true on any worker; every worker calls it."""
        return strategies.any_worker(self.strategy, wanted) if self.is_multi_worker else wanted

    def say(self, *lines: str) -> None:
        """Prints lines, in one process of a cluster."""
        for line in lines if self.is_chief else ():
            print(line, flush=True)


def prepare_machine(options: RunOptions, directory: Directory) -> Machine:
    """Chooses the strategy, and sets Keras up.

    Raises:
      ValueError: an option or a field cannot be used, or not on these devices.
    """
    config = options.config
    strategy, description = strategies.choose(options.strategy_name, options.tpu, config.simulated_replicas)
    options.heartbeat("the start of all workers")
    jit_compile = config.jit_compile and not strategies.is_tpu(strategy)
    if tasks.get(config.task).has_scores and strategies.is_multi_worker(strategy):
        raise InputError(
            f"--strategy={options.strategy_name}: task {config.task} is scored by all outputs together, in one "
            "process. Train on one machine, with --strategy=mirrored or one_device and no TF_CONFIG."
        )
    precision = precisions.run_precision(config.mixed_precision, strategy, directory.content)
    precisions.set_up_keras(config.seed, precision.name)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    return Machine(strategy, description, directory.files.is_chief, jit_compile, precision)


# ---- 2. The task, its data and the plan -------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """The phases of a run, its target and its length.

    Attributes:
      phases: in their order, one at least.
      target: the metric that tells the quality of the run.
      stop_at_target: its value at which the run ends; 0.0 for none.
      last_step: the step after which this process stops, at most `total_steps`.
      mlperf: MLPerf's log, or None.
    """

    phases: Sequence[Phase]
    target: Metric
    stop_at_target: float
    last_step: int
    mlperf: MLPerfLog | None

    @property
    def task(self) -> Task:
        """The task on the data of the first phase."""
        return self.phases[0].task

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.phases[-1].last_step

    def phase_at(self, step: int) -> Phase:
        """The phase of a step; the last one for a step past its end."""
        return next((phase for phase in self.phases if step < phase.last_step), self.phases[-1])

    def is_enough(self, metrics: dict[str, float]) -> bool:
        """True if an evaluation reached the target that ends the run."""
        return bool(self.stop_at_target) and self.target.reaches(metrics[self.target.name], self.stop_at_target)


def make_plan(
    options: RunOptions, machine: Machine, directory: Directory, rollbacks: Rollbacks, task_of: Callable[..., Task]
) -> RunPlan:
    """Reads the data, works out the batch arithmetic and the schedule, and prints the banner.

    `task_of` is `phases.task_of`, or takes its place.

    Raises:
      ValueError: the data cannot be used, or the config with it.
    """
    config = options.config
    target = Metric.of_task(config.task)
    log = None
    if options.mlperf_log and machine.is_chief:
        log = MLPerfLog(options.mlperf_log, config.task, target.name)
    phases = run_phases.phases_of(
        rollbacks.slowed(config),
        functools.partial(task_of, data_dir=options.data_dir, use_fake_data=options.use_fake_data),
        machine.replicas,
        rollbacks.skipped,
    )
    if options.mlperf_log and len(phases) > 1:
        raise InputError(f"--mlperf_log: its rules know no phases, and the run has {len(phases)}. Log each as a run.")
    task, total_steps = phases[0].task, phases[-1].last_step
    check_instruments(config, task.carries_state, machine.replicas)
    local_steps.check(config, phases)
    directory.files.check_kept(task.run_files)
    machine.say(
        f"task       {config.task}: {task.train.source}, {task.train.contents}",
        f"strategy   {machine.description}",
        *run_phases.lines(phases),
        *(run_phases.extension_lines(phases[0], directory.extension) if directory.extension else []),
        f"optimizer  {config.optimizer.get('name')}, {machine.precision}",
        *local_steps.lines(config, machine.replicas),
        *task.banner_lines(),
        *([f"score      {target.name}, {task.score_signature}"] if task.score_signature else []),
        *rollbacks.lines(),
        *(f"changed    since the run began: {line}" for line in directory.changed),
    )
    last_step = min(total_steps, options.stop_after or total_steps)
    return RunPlan(phases, target, config.stop_at_target, last_step, log)


# ---- 3. Model and optimizer -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RunModel:
    """The network and what belongs to it.

    Attributes:
      network: keras.Model, compiled, with its optimizer built.
      averages: the moving averages of its weights, or None.
      streams, evaluation_streams: carry a recurrent state through training and through an evaluation, or None.
      log: of the run's metrics.
      run_instruments: those that the config enables.
    """

    network: keras.Model
    averages: WeightAverages | None
    streams: StreamStates | None
    evaluation_streams: StreamStates | None
    log: MetricsLog
    run_instruments: RunInstruments

    def steps(self, options: RunOptions, machine: Machine, phase: Phase) -> TrainingSteps:
        """The compiled training steps of a phase."""
        return TrainingSteps(
            self.network,
            strategy=machine.strategy,
            accumulation_steps=phase.config.accumulation_steps,
            seed=options.config.seed,
            jit_compile=machine.jit_compile,
            metrics_in_training=phase.task.metrics_in_training,
            batch_slices=phase.task.batch_slices,
            streams=self.streams,
            step_gradients=self.run_instruments.step_gradients,
        )

    def evaluator(self, options: RunOptions, machine: Machine, phase: Phase) -> Evaluator:
        """The evaluation of a phase."""
        fresh = None
        if options.config.evaluate_with_fresh_statistics:
            fresh = FreshStatistics(self.network, machine.strategy, options.heartbeat)
        return Evaluator(
            self.network,
            phase,
            machine.strategy,
            jit_compile=machine.jit_compile or strategies.is_tpu(machine.strategy),
            averages=self.averages,
            streams=self.evaluation_streams,
            fresh_statistics=fresh,
        )

    def checkpoint_parts(self) -> list[CheckpointPart]:
        """State in a checkpoint besides the weights and the optimizer's variables."""
        parts = [self.run_instruments.checkpoint_part()]
        parts += optimizer_parts(self.network.optimizer)
        for part in (self.averages, self.streams):
            parts += [part.checkpoint_part()] if part else []
        return parts


def build_model(options: RunOptions, machine: Machine, directory: Directory, plan: RunPlan) -> RunModel:
    """Builds network, optimizer and instruments.

    Raises:
      ValueError: a field of the model or the optimizer cannot be used.
    """
    config, task = options.config, plan.task
    log = MetricsLog(directory.files)
    write = functools.partial(log.write, "train")
    with machine.strategy.scope():
        network = compiled_network(config, plan.phases)
        if directory.init_from and not checkpoint_files.paths(directory.files.checkpoints):
            machine.say(*initial_weights.load_into(network, directory.init_from["checkpoint"]))
        averages = weight_averages(network)
        streams = evaluation_streams = None
        if averages:
            averages.restart()
        if task.carries_state:
            # Of a batch ramp the last: the streams of a smaller batch are the first ones of each replica.
            largest = max(phase.config.batch_size for phase in plan.phases)
            streams = StreamStates(network, largest)
            evaluation_streams = StreamStates(network, plan.phases[0].evaluation_batch_size)
        instruments = RunInstruments(config, network, task, write, options.model_dir)
    task.check_metrics(is_static=machine.jit_compile or strategies.is_tpu(machine.strategy))
    if not options.use_fake_data:
        machine.say(*warning_lines(network, plan.phases, config.evaluate_with_fresh_statistics))
    return RunModel(network, averages, streams, evaluation_streams, log, instruments)


# ---- 4. Resume --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Start:
    """The start of a run: its step, and what counts from there.

    Attributes:
      checkpoints: saves and restores it.
      step: steps done before; 0 for a new run.
      is_new: True if there was no checkpoint.
    """

    checkpoints: Checkpoints
    step: int
    is_new: bool


def resume(options: RunOptions, machine: Machine, directory: Directory, model: RunModel) -> Start:
    """Restores the newest whole checkpoint: weights, optimizer, random generators and the step.

    The position in the data and the rows of metrics follow from the step; see `loop`.

    Raises:
      ValueError: no checkpoint can be used.
    """
    worker = None if machine.is_chief else f".worker-{machine.strategy.cluster_resolver.task_id}"
    checkpoints = Checkpoints(
        model.network,
        directory.files.checkpoints,
        keep=options.config.keep_checkpoints,
        scratch=worker and os.path.join(options.model_dir, worker),
        # Each waits for the answers of all.
        barrier=lambda: machine.agree(False),
        parts=model.checkpoint_parts(),
        heartbeat=options.heartbeat,
        writes=options.trains,
    )
    step = checkpoints.restore()
    for path, wrong in checkpoints.set_aside:
        how = "set aside as" if options.trains else "passed over:"
        machine.say(f"warning    a newer checkpoint is damaged and was {how} {path}: {wrong}")
    if step is not None:
        machine.say(f"resume     from the checkpoint of step {step:,}")
    status = directory.status
    reached = max([status.get("step", 0), *(row["step"] for row in read_rows(directory.files.metrics))])
    # A rollback says itself what it leaves out.
    if options.trains and directory.content is not None and status.get("status") != DIVERGED:
        lost, every = reached - (step or 0), options.config.checkpoint_every
        if step is None:
            machine.say("restart    from step 0: the run had no checkpoint yet")
        if lost > 0:
            machine.say(
                f"lost       {lost:,} steps are made again; a shorter checkpoint_every than {every!r} loses less"
            )
    return Start(checkpoints, step or 0, is_new=step is None)


# ---- 5. The run directory --------------------------------------------------------------------


def open_directory(
    options: RunOptions, machine: Machine, directory: Directory, plan: RunPlan, model: RunModel, start: Start
) -> None:
    """Creates what is missing of the run directory, and starts the logs at the resumed step."""
    config, files, task = options.config, directory.files, plan.task
    devices = [device.name for device in tf.config.list_logical_devices()]
    more = {"data_dir": options.data_dir and os.path.abspath(options.data_dir)}
    described: dict[str, Any] = {"signature": task.score_signature} if task.score_signature else {}
    if task.network_facts:
        # With them a run directory is enough to build the network.
        described["network_facts"] = dict(task.network_facts)
    if config.mixed_precision == AUTO:
        described["mixed_precision"] = machine.precision.name
    files.open(config.to_dict(), devices, {**described, **more, "init_from": directory.init_from})
    content = directory.content
    if content is not None:
        # What may change on resume: a longer duration, and the folder of the data.
        content = extended(content, directory.extension, config.duration) if directory.extension else content
        content = {**content, **more} if more["data_dir"] else content
        if content != directory.content:
            files.update(content)
    files.keep({**task.run_files, **copy_of(config)})
    if machine.is_chief and not options.use_fake_data:
        record(config, options.model_dir)
    if directory.init_from and start.is_new:
        # The run then needs the other one no more.
        start.checkpoints.save(0)
    model.log.resume(start.step)
    if plan.mlperf:
        first = plan.phases[0]
        plan.mlperf.start(
            mlperf.settings(config, first.scaled, first.task, first.held_out, machine.replicas),
            step=start.step,
            steps_in_epoch=first.examples_in_epoch / config.batch_size,
            evaluate_every=first.every["evaluate"] // config.batch_size,
            evaluates=owes_evaluation(plan.phase_at(start.step - 1), model.log, start.step),
        )


def owes_evaluation(phase: Phase, log: MetricsLog, step: int) -> bool:
    """True if `step` should have been evaluated and was not: the run was stopped during the evaluation."""
    return step > 0 and phase.is_due("evaluate", step) and not log.has("eval", step)
