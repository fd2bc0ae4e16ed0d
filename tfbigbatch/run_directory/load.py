"""Loads the trained network of a run directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import keras
import ml_collections

from tfbigbatch import tasks
from tfbigbatch.config import execute
from tfbigbatch.config.fields import keras_policy, recorded_precision
from tfbigbatch.config.files import register_task_of
from tfbigbatch.errors import InputError, first_line
from tfbigbatch.models import own_model
from tfbigbatch.run_directory import checkpoint_files, weights
from tfbigbatch.run_directory.directory import RunDirectory, with_nan
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.utils.home import expanded

# The folder of the checkpoints that `checkpoint` names.
FOLDERS = {"newest": "checkpoints", "best": "best"}


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedRun:
    """A trained network, and what the run directory tells about it.

    Attributes:
      network: the Keras model with the weights of a checkpoint; what the trainer trains, without an optimizer.
      config: of the run, locked.
      step: of the checkpoint.
      metrics: of the evaluation at this step, by name, NaN where one was not finite; {} where there was none.
      directory: the run directory.
    """

    network: keras.Model
    config: ml_collections.ConfigDict
    step: int
    metrics: dict[str, float]
    directory: str


def load_run(
    directory: str | os.PathLike[str],
    checkpoint: str | int = "newest",
    *,
    data_dir: str | None = None,
    experiment_file: str | os.PathLike[str] | None = None,
) -> LoadedRun:
    """The trained network of a run directory, without its data: its task builds it, and it gets a checkpoint's weights.

    Nothing in the directory is executed. A task of your own is registered by its experiment file.

    Args:
      directory: of a run, as `train` wrote it.
      checkpoint: 'newest', 'best' (by the target metric), or the step of a checkpoint that is kept.
      data_dir: folder of the task's data, for a task of your own class without `network_facts`.
      experiment_file: that registers the task or model of the run, and is executed; None where this process has
        executed it, or where this user trained the run here, by a file that is still at its place.

    Returns:
      LoadedRun.

    Raises:
      ValueError: the directory holds no run or no such checkpoint, or the network cannot be built.
    """
    directory, data_dir = expanded(directory), expanded(data_dir)
    if experiment_file is not None:
        execute(os.fspath(experiment_file))
    config = run_config(directory)
    path = _checkpoint_path(directory, checkpoint)
    network = _network(directory, config, data_dir)
    restore(network, path)
    step = checkpoint_files.step_of(path)
    return LoadedRun(network, ml_collections.ConfigDict(config).lock(), step, _metrics(directory, step), directory)


def run_config(directory: str) -> dict[str, Any]:
    """The config of a run directory as a plain dictionary.

    Its `mixed_precision` is what the run computes in, where the run was given 'auto'.

    Raises:
      ValueError: the directory holds no run.
    """
    content = RunDirectory(directory).started()
    register_task_of(content["config"], directory)
    return {**content["config"], "mixed_precision": recorded_precision(content)}


def restore(network: keras.Model, path: str) -> None:
    """Reads a network's weights from a checkpoint: of a run with `use_ema` their moving averages, as it evaluates.

    Raises:
      ValueError: the checkpoint is damaged or of another network.
    """
    values, variables = weights.read(path), weights.by_path(network)
    wrong = [name for name in variables if name not in values or values[name].shape != variables[name].shape]
    if wrong or len(values) > len(variables):
        more = (
            f"{wrong[0]} of {list(variables[wrong[0]].shape)}" if wrong else f"no {min(set(values) - set(variables))}"
        )
        raise InputError(f"checkpoint {path} does not fit the network of the run's config: the network has {more}.")
    for name, variable in variables.items():
        variable.assign(values[name])


def _checkpoint_path(directory: str, checkpoint: str | int) -> str:
    """The path of the checkpoint, without the endings of its files."""
    if isinstance(checkpoint, bool) or not isinstance(checkpoint, int):
        if checkpoint not in FOLDERS:
            raise InputError(f"checkpoint={checkpoint!r}: expected 'newest', 'best', or a step.")
        folder = os.path.join(directory, FOLDERS[checkpoint])
        found = checkpoint_files.paths(folder)
        if not found:
            why = "The run was not evaluated yet, or has keep_best=False." if checkpoint == "best" else "Train first."
            raise InputError(f"{folder} holds no checkpoint. {why}")
        return found[0]
    steps = {
        checkpoint_files.step_of(path): path
        for name in reversed(FOLDERS.values())
        for path in checkpoint_files.paths(os.path.join(directory, name))
    }
    if checkpoint not in steps:
        raise InputError(
            f"checkpoint={checkpoint}: {directory} has no checkpoint of this step; it has "
            f"{', '.join(map(str, sorted(steps))) or 'none'}."
        )
    return steps[checkpoint]


def _network(directory: str, config: dict[str, Any], data_dir: str | None) -> keras.Model:
    """The network with random values, as the task of the config builds it."""
    before = keras.config.dtype_policy()
    path, facts = os.path.join(directory, "config.json"), (RunDirectory(directory).content() or {}).get("network_facts")
    try:
        keras.config.set_dtype_policy(keras_policy(config["mixed_precision"]))
        own_model.fresh_names()
        task_class, model = tasks.get(config["task"]), config["model"]
        if facts and data_dir is None:
            # Recomputation is a way to train, and no part of the model.
            return task_class.network_from({**model, **({"recompute": False} if "recompute" in model else {})}, facts)
        # Made-up examples have the shapes of the data where the data determines nothing of the network.
        task = task_class(model=model, data=config["data"], data_dir=data_dir, use_fake_data=data_dir is None)
        if data_dir is None and task.data_signature != "nothing":
            raise InputError(
                f"the network of task {config['task']} depends on its data ({task.data_signature} in made-up data), "
                f"and {path} has no network_facts. Give the folder of the run's data: data_dir=DIR."
            )
        return task.network()
    except InputError:
        raise
    # Fields of a damaged config, and a user's function, may raise anything.
    except Exception as error:
        raise InputError(f"{path}: no network can be built by its fields: {first_line(error)}") from None
    finally:
        keras.config.set_dtype_policy(before)


def _metrics(directory: str, step: int) -> dict[str, float]:
    """The metrics of the evaluation at a step, from metrics.jsonl."""
    rows = read_rows(RunDirectory(directory).metrics)
    found = [row for row in rows if row["split"] == "eval" and row["step"] == step]
    return with_nan({name: value for row in found[-1:] for name, value in row.items() if name not in ("step", "split")})
