"""Trains one experiment in one run directory: the order of a run.

    tfbigbatch train --config=digits/lstm_legw --model_dir=DIR

The same command on the same directory resumes the run; a finished run is reported as such.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import ml_collections

from tfbigbatch.cluster import tf_config
from tfbigbatch.config.files import callbacks_of, register_task_of
from tfbigbatch.config.quick import MADE_UP_STEPS
from tfbigbatch.run_directory import stored_run
from tfbigbatch.run_directory.directory import writing
from tfbigbatch.training.options import (
    Directory,
    Heartbeat,
    RunOptions,
    WatchPreemption,
    check,
    no_heartbeat,
)
from tfbigbatch.utils import startup
from tfbigbatch.utils.home import expanded

__all__ = ["run"]


def run(
    config: ml_collections.ConfigDict | None,
    *,
    model_dir: str,
    data_dir: str | None = None,
    extend: bool = False,
    init_from: str | None = None,
    mode: str = "train_and_eval",
    strategy_name: str = "auto",
    tpu: str | None = None,
    profile_steps: tuple[int, int] | None = None,
    use_fake_data: bool = False,
    stop_after: int | None = None,
    in_memory: bool = False,
    mlperf_log: str | None = None,
    callbacks: Sequence[Any] = (),
    heartbeat: Heartbeat = no_heartbeat,
    watch_preemption: WatchPreemption = contextlib.nullcontext,
) -> dict[str, Any]:
    """Trains, evaluates or both; resumes the run that `model_dir` holds.

    Args:
      config: of the experiment; see `new_config` and `load_config`. None for that of the run in `model_dir`.
      model_dir: the run directory; created where it does not exist.
      data_dir: folder of the task's data; None for the one that the run began with, or for none.
      extend: train a finished run for longer: `config` has another, longer duration.
      init_from: first weights of a new run, from a run, its `best`, a checkpoint or a file; see
        `run_directory.initial_weights`.
      mode: 'train', 'eval' (the newest checkpoint) or 'train_and_eval'.
      callbacks: Keras callbacks, beside those of the experiment's `get_callbacks`; see `training.user_callbacks`.
      strategy_name, tpu, profile_steps, use_fake_data, stop_after, in_memory, mlperf_log, heartbeat, watch_preemption:
        see `training.options.RunOptions`.

    Returns:
      Dictionary: status, step, total_steps, seconds, and the metrics of the last evaluation.

    Raises:
      ValueError: an argument, a field or a file cannot be used; nothing already written is harmed.
      RuntimeError: the run diverged, with no rollback left; the last good checkpoint is kept.
      Preempted: a signal or a preemption notice stopped the run; it was saved.
    """
    model_dir, data_dir = expanded(model_dir), expanded(data_dir)
    init_from, mlperf_log = expanded(init_from), expanded(mlperf_log)
    config = stored_run.config_of(model_dir) if config is None else config
    # In a process that has only the config, as that of a sweep's run.
    register_task_of(config, model_dir)
    options = RunOptions(
        config=config,
        model_dir=model_dir,
        data_dir=stored_run.data_dir_of(model_dir) if data_dir is None else data_dir,
        extend=extend,
        init_from=init_from,
        mode=mode,
        strategy_name=strategy_name,
        tpu=tpu,
        profile_steps=profile_steps,
        use_fake_data=use_fake_data,
        stop_after=stop_after,
        in_memory=in_memory,
        mlperf_log=mlperf_log,
        callbacks=callbacks,
        heartbeat=heartbeat,
        watch_preemption=watch_preemption,
    )
    with _writing(options):
        directory = check(options)
        if directory.is_finished and options.trains:
            return _say_finished(directory, config.evaluate_on)
        # After the checks; and a user's file may import it for its callbacks.
        startup.import_tensorflow()
        listed = callbacks_of(config, model_dir)
        options = dataclasses.replace(options, callbacks=[*listed, *callbacks])
        # Here, so that `tfbigbatch train --help` does without TensorFlow.
        from tfbigbatch.training import loop

        return loop.train(options, directory) if options.trains else loop.evaluate(options, directory)


def _writing(options: RunOptions) -> contextlib.AbstractContextManager[None]:
    """A context with the run directory's lock, in the process that writes there; an evaluation writes nothing."""
    if not options.trains or not tf_config.is_first(options.strategy_name, options.tpu):
        return contextlib.nullcontext()
    return writing(options.model_dir)


def _say_finished(directory: Directory, split: str) -> dict[str, Any]:
    """Says that the run ended before, and returns its status."""
    status, best = directory.status, stored_run.shown_best(directory.status, split)
    if directory.files.is_chief:
        print(
            f"{directory.files.path} holds a finished run ({status['step']:,} steps); nothing to do. "
            f"{stored_run.shown_metrics(status, split)}{f'  best: {best}' if best else ''}",
            flush=True,
        )
    return status


def run_on_made_up_data(config: ml_collections.ConfigDict, *, model_dir: str, **options: Any) -> dict[str, Any]:
    """Runs a config that `make_quick` made small: it trains, evaluates, saves, stops halfway, and resumes."""
    run(config, model_dir=model_dir, use_fake_data=True, stop_after=MADE_UP_STEPS // 2, **options)
    return run(config, model_dir=model_dir, use_fake_data=True, **options)
