"""A finished run that is trained for longer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.runs.run_directory import DONE
from tfbigbatch.schedules import durations


@dataclasses.dataclass(frozen=True)
class Extension:
    """A finished run that is to be trained for longer.

    Attributes:
      duration: the config's field, before.
      step: at which the run ended.
      total_steps: of that duration; more than `step` where the run ended at its target.
    """

    duration: str
    step: int
    total_steps: int


def requested(
    content: Mapping[str, Any] | None, status: Mapping[str, Any], config: Mapping[str, Any], directory: str
) -> Extension | None:
    """The extension that `--extend` asks for; None where it was begun before, and is resumed.

    Args:
      content: of config.json.
      status: of status.json.
      config: with the longer duration.
      directory: of the run, for errors.

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
    if durations.canonical(before) == durations.canonical(config["duration"]):
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
    return Extension(before, status["step"], status.get("total_steps", status["step"]))


def is_finished(content: Mapping[str, Any] | None, status: Mapping[str, Any]) -> bool:
    """True if a run ended, and no extension has begun since."""
    extensions = (content or {}).get("extensions") or []
    # Killed after the extension was recorded, and before its first status.
    return status.get("status") == DONE and (not extensions or status["step"] > extensions[-1]["step"])


def extended(content: Mapping[str, Any], extension: Extension, duration: str) -> dict[str, Any]:
    """The content of config.json with the new duration and a record of the one before."""
    history = [*(content.get("extensions") or []), dataclasses.asdict(extension)]
    return {**content, "config": {**content["config"], "duration": duration}, "extensions": history}
