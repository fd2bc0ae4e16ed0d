"""The stored config of a run, and what may be continued of it: its start, its fields, its duration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

from tfbigbatch.config import override
from tfbigbatch.config.files import register_task_of
from tfbigbatch.config.overrides import differences
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.directory import DONE, RunDirectory


def config_of(directory: str | os.PathLike[str]) -> ml_collections.ConfigDict:
    """The config that a run was started with, locked.

    Raises:
      ValueError: the directory holds no run.
    """
    content = RunDirectory(os.fspath(directory)).started()
    register_task_of(content["config"], os.fspath(directory))
    return ml_collections.ConfigDict(_with_tuples(content["config"])).lock()


def data_dir_of(directory: str | os.PathLike[str]) -> str | None:
    """The folder of the data that a run was started with; None where it had none."""
    found = (RunDirectory(os.fspath(directory)).content() or {}).get("data_dir")
    return found if isinstance(found, str) else None


def config_for(
    directory: str,
    assignments: Sequence[str],
    given: ml_collections.ConfigDict | None = None,
) -> tuple[ml_collections.ConfigDict, list[str]]:
    """The stored config of a run with some fields set, for a command that continues or evaluates the run.

    Args:
      directory: of the run.
      assignments: texts 'field=value'; see `override`.
      given: None, or the config of the experiment that the command names: its file is the run's from here on, and its
        fields are compared only.

    Returns:
      (config, lines on the fields that `given` has otherwise).

    Raises:
      ValueError: there is no run, `given` is of another task, or a field cannot be set.
    """
    config = config_of(directory)
    lines = list(override(config, assignments))
    if given is not None:
        if given.task != config.task:
            raise InputError(
                f"--model_dir={directory} holds a run of task {config.task}, and --config is of task {given.task}. "
                "Leave --config out, or choose another --model_dir."
            )
        different = differences(_with_tuples(config.to_dict()), _with_tuples(given.to_dict()))
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
        "checkpoint (RUN/checkpoints/step-300)."
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


def may_change(
    config: ml_collections.ConfigDict, mode: str = "train_and_eval", extends: bool = False
) -> tuple[str, ...]:
    """Names of the config fields that may change on resume, dotted; those of a phase may there too.

    The global batch may not change, but its division into micro-batches and replicas may: the results of a step stay
    the same, except for rounding. With Adasum it may not: Adasum adds the gradients of the parts in another way; nor
    with local steps, where each replica trains by itself. With batch normalisation another division gives other
    statistics, as another number of replicas does.

    Args:
      config: of the experiment.
      mode: of the trainer.
      extends: True if a finished run is trained for longer.
    """
    # Recomputation is memory for time, with the same gradients.
    names = ["keep_checkpoints", "keep_best", "model.recompute", *(["duration"] if extends else [])]
    if not (config.optimizer.get("adasum") or config.optimizer.get("local_steps")):
        names += ["accumulation_steps", "simulated_replicas"]
    # Keras' own AdamW has its state under other names.
    if config.optimizer.get("name") != "adamw":
        names.append("optimizer.shard_updates")
    # A finished run may be evaluated on the split that its recipe was not chosen on.
    if mode == "eval":
        names += ["evaluate_on", "evaluation_batch_size", "evaluate_with_fresh_statistics"]
    return tuple(names)


def requested_extension(
    content: Mapping[str, Any] | None, status: Mapping[str, Any], config: Mapping[str, Any], directory: str
) -> dict[str, Any] | None:
    """The extension that `--extend` asks for, of a finished run; None where it was begun before, and is resumed.

    Args:
      content: of config.json.
      status: of status.json.
      config: with the longer duration.
      directory: of the run, for errors.

    Returns:
      Dictionary, as in `extensions` of config.json: the config's 'duration' before; the 'step' at which the run ended;
      'total_steps' of that duration, more than 'step' where the run ended at its target.

    Raises:
      ValueError: there is no finished run that could be extended.
    """
    if content is None:
        raise InputError(f"--extend: --model_dir={directory} holds no run. Leave --extend out to start one.")
    if config["phases"] or config.get("ramp", {}).get("name", "none") != "none":
        raise InputError(
            "--extend: the run has phases, or a batch ramp planned over its duration. Train the rest in a run of its "
            "own."
        )
    before = content["config"].get("duration", "")
    if before == config["duration"]:
        if content.get("extensions"):
            return None
        raise InputError(
            f"--extend: the run in {directory} has the duration {before!r} already. Give a longer one: "
            "--config.duration='20 epochs'."
        )
    if not is_finished(content, status):
        raise InputError(
            f"--extend: the run in {directory} is not finished; it is at step {status.get('step', 0):,}. Run its "
            "command again, without --extend and with its own duration, until it is done; then extend it."
        )
    step = status["step"]
    return {"duration": before, "step": step, "total_steps": status.get("total_steps", step)}


def is_finished(content: Mapping[str, Any] | None, status: Mapping[str, Any]) -> bool:
    """True if a run ended, and no extension has begun since."""
    extensions = (content or {}).get("extensions") or []
    # Killed after the extension was recorded, and before its first status.
    return status.get("status") == DONE and (not extensions or status["step"] > extensions[-1]["step"])


def extended(content: Mapping[str, Any], extension: Mapping[str, Any], duration: str) -> dict[str, Any]:
    """The content of config.json with the new duration and a record of the one before."""
    history = [*(content.get("extensions") or []), extension]
    return {**content, "config": {**content["config"], "duration": duration}, "extensions": history}


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
