"""The config, the folder of the data and the start of a run, for the commands that continue it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.run_directory import RunDirectory


def content_of(directory: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The content of a run directory's config.json; None where there is no run yet.

    Raises:
      ValueError: the file is not of a run.
    """
    return RunDirectory(os.fspath(directory)).content()


def config_of(directory: str | os.PathLike[str]) -> ml_collections.ConfigDict:
    """The config that a run was started with, locked.

    Raises:
      ValueError: the directory holds no run.
    """
    content = content_of(directory)
    if content is None:
        raise InputError(
            f"--model_dir={directory} holds no run, as it has no config.json. Name an experiment with --config, or the "
            "directory of a run."
        )
    experiment.register_task_of(content["config"], os.fspath(directory))
    return ml_collections.ConfigDict(_with_tuples(content["config"])).lock()


def data_dir_of(directory: str | os.PathLike[str]) -> str | None:
    """The folder of the data that a run was started with; None where it had none."""
    found = (content_of(directory) or {}).get("data_dir")
    return found if isinstance(found, str) else None


def config_for(
    directory: str,
    assignments: Sequence[str],
    given: ml_collections.ConfigDict | None = None,
) -> tuple[ml_collections.ConfigDict, list[str]]:
    """The stored config of a run with some fields set, for a command that continues or evaluates the run.

    Args:
      directory: of the run.
      assignments: texts 'field=value'; see `experiment.override`.
      given: None, or the config of the experiment that the command names: its file is the run's from here on, and its
        fields are compared only.

    Returns:
      (config, lines on the fields that `given` has otherwise).

    Raises:
      ValueError: there is no run, `given` is of another task, or a field cannot be set.
    """
    config = config_of(directory)
    lines = list(experiment.override(config, assignments))
    if given is not None:
        if given.task != config.task:
            raise InputError(
                f"--model_dir={directory} holds a run of task {config.task}, and --config is of task {given.task}. "
                "Leave --config out, or choose another --model_dir."
            )
        different = experiment.differences(_with_tuples(config.to_dict()), _with_tuples(given.to_dict()))
        if different:
            lines.append(f"config     that of the run; the experiment file has {'; '.join(different)}")
        with config.unlocked():
            config.experiment = given.experiment
    return config, lines


def checkpoint_at(path: str) -> str:
    """The absolute path, without its endings, of the checkpoint that `--init_from` names.

    Args:
      path: a run directory, for its newest checkpoint; a folder of checkpoints, such as the folder `best` of a run; or
        a checkpoint.

    Raises:
      ValueError: there is no such checkpoint.
    """
    full = os.path.abspath(path.removesuffix(".index"))
    if os.path.isfile(f"{full}.index"):
        return full
    for folder in (os.path.join(full, "checkpoints"), full):
        found = checkpoint_files.paths(folder)
        if found:
            return found[0]
    raise InputError(
        f"--init_from={path}: no checkpoint is there. Expected a run directory, its folder best, or the path of a "
        "checkpoint (RUN/checkpoints/step-300). Of a Keras model make one: tf.train.Checkpoint(network=model)"
        ".write('start/step-0')."
    )


def origin(given: str | None, content: Mapping[str, Any] | None, directory: str) -> dict[str, str] | None:
    """The origin of a run's first weights: 'path' as given, and the 'checkpoint' found there; None for random ones.

    Args:
      given: the value of `--init_from`, or None.
      content: of config.json, which keeps the result; None for a new run.
      directory: of the run, for errors.

    Raises:
      ValueError: there is no such checkpoint, or the run began otherwise.
    """
    path = given and os.path.abspath(given)
    if content is None:
        return {"path": path, "checkpoint": checkpoint_at(path)} if path else None
    recorded: dict[str, str] | None = content.get("init_from")
    before = recorded["path"] if recorded else "random weights"
    if path and path != before:
        raise InputError(
            f"--init_from={given}: the run in {directory} began from {before}. Leave the flag out to resume it, or "
            "choose another --model_dir."
        )
    return recorded


def _with_tuples(value: Any) -> Any:
    """JSON has lists for the tuples of a config."""
    if isinstance(value, dict):
        return {name: _with_tuples(inner) for name, inner in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, (list, tuple)) else value


def shown_metrics(result: Mapping[str, Any], split: str) -> str:
    """The metrics of a status in words: 'test accuracy 0.9812'."""
    return "  ".join(f"{split} {name} {value:.4f}" for name, value in result.get("metrics", {}).items())


def shown_best(result: Mapping[str, Any], split: str) -> str:
    """The best evaluation of a status in words: 'test accuracy 0.9812 at step 360'; empty where none is kept."""
    best = result.get("best")
    return f"{split} {best['metric']} {best['value']:.4f} at step {best['step']:,}" if best else ""
